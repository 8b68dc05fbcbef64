"""Model names → embedders: presets, folders, hub ids, other people's entry points."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelspace.embed.base import Embedder
from reelspace.errors import ModelError

if TYPE_CHECKING:
    from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder

ENTRY_POINTS = "reelspace.embedders"

_RUNNING = ("device", "dtype", "budget", "padding_side")
"""Options of a torch model that are no part of its readout."""
_ABOUT = ("loader", "about", "base", "source", "revision", "dim")
"""Keys of a preset that are no part of its readout."""


@cache
def presets() -> Mapping[str, Mapping[str, Any]]:
    """Every preset, what it takes over from its base filled in."""
    text = files("reelspace.embed").joinpath("presets.toml").read_text("utf-8")
    made: dict[str, dict[str, Any]] = {}
    for name, entry in tomllib.loads(text).items():
        made[name] = {**made.get(entry.get("base", ""), {}), **entry}
    return made


def names() -> list[str]:
    """Every name `load` knows, those of installed third parties included."""
    return sorted({*presets(), *(point.name for point in entry_points(group=ENTRY_POINTS))})


def load(name: str, **options: Any) -> Embedder:
    """The embedder of that name.

    Args:
        name: a preset, an entry point of the group `reelspace.embedders`, or a folder with weights and `readout.json`.
        options: of models that run on torch: `device`, `dtype`, `budget` (tokens of a batch), `padding_side`, and any
            key of the readout (`layer`, `frames`, `max_length`, …), which makes another space of it.

    Raises:
        ModelError: no such model, it cannot be loaded here, or it has no such option.
    """
    if name in presets():
        preset = presets()[name]
        return _qwen_vl(name, preset, options) if preset["loader"] == "qwen_vl" else _called(name, preset, options)
    for point in entry_points(group=ENTRY_POINTS, name=name):
        _none(name, options)
        embedder: Embedder = point.load()()
        return embedder
    if Path(name).is_dir():
        return _folder(Path(name).resolve(), options)
    raise ModelError(f"There is no model “{name}”; `reelspace models` lists those there are: {', '.join(names())}.")


def _none(name: str, options: Mapping[str, Any]) -> None:
    if options:
        raise ModelError(f"{name} has no options; it was given {', '.join(sorted(options))}.")


def _called(name: str, preset: Mapping[str, Any], options: Mapping[str, Any]) -> Embedder:
    _none(name, options)
    module, _, function = str(preset["loader"]).partition(":")
    embedder: Embedder = getattr(import_module(module), function)()
    return embedder


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of running, and those of the readout."""
    running = {key: value for key, value in options.items() if key in _RUNNING}
    return running, {key: value for key, value in options.items() if key not in _RUNNING}


def _qwen_vl(name: str, preset: Mapping[str, Any], options: Mapping[str, Any]) -> QwenVLEmbedder:
    from reelspace.embed.hub import fetched
    from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder
    from reelspace.embed.qwen_vl.readout import Readout

    running, changes = _split({"dtype": preset["dtype"], **options})
    declared = {key: value for key, value in preset.items() if key not in (*_ABOUT, *_RUNNING)}
    source, revision = preset["source"], preset["revision"]
    return QwenVLEmbedder(
        name,
        lambda: fetched(source, revision),
        Readout.of({**declared, **changes}),
        dim=preset["dim"],
        source=source,
        revision=revision,
        **running,
    )


def _folder(folder: Path, options: Mapping[str, Any]) -> QwenVLEmbedder:
    from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder
    from reelspace.embed.qwen_vl.readout import Readout

    running, changes = _split(options)
    readout = Readout.of({**Readout.read(folder).declared(), **changes})
    return QwenVLEmbedder(str(folder), lambda: folder, readout, **running)
