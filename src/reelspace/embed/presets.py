"""Model names → embedders: presets, folders, hub ids, other people's entry points."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelspace.embed import served
from reelspace.embed.base import Embedder
from reelspace.embed.served.address import is_address
from reelspace.errors import ModelError

if TYPE_CHECKING:
    from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder

ENTRY_POINTS = "reelspace.embedders"

_RUNNING = ("device", "dtype", "budget", "padding_side")
"""Options of a torch model that are no part of its contract."""
_TINY = Path("tests", "data", "tiny-mllm")


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


def known(name: str) -> bool:
    """Whether `load` can make anything of a name: it is one of `names()`, a folder, or may be on the hub."""
    return name in names() or Path(name).is_dir() or _on_hub(name)


def load(name: str, **options: Any) -> Embedder:
    """The embedder of that name. Weights are fetched and loaded when they are first needed.

    Args:
        name: a preset, an entry point of the group `reelspace.embedders`, a folder, `owner/name` on the hub, or a
            served model (`http://HOST/v1#MODEL`, `served:MODEL`; docs/serving.md). A folder or repository has a
            `readout.json`, or is a model of sentence-transformers, or two towers of the kind of CLIP; of any other
            model the contract must be given: `contract=`, or the readout's keys.
        options: of models that run on torch: `device`, `dtype`, `budget` (tokens of a batch), `padding_side`;
            `contract`, a preset whose readout a folder or repository is read by, and `revision` of the latter; and any
            key of the contract (`layer`, `frames`, `max_length`, …), which makes another space of it.

    Raises:
        ModelError: no such model, it cannot be loaded here, or it has no such option.
    """
    if name in presets():
        return _preset(name, presets()[name], options)
    for point in entry_points(group=ENTRY_POINTS, name=name):
        _none(name, options)
        embedder: Embedder = point.load()()
        return embedder
    if is_address(name):
        _none(name, options)
        return served.load(name)
    if Path(name).is_dir():
        return _found(str(Path(name).resolve()), None, options)
    if _on_hub(name):
        return _found(name, str(options.pop("revision", "main")), options)
    raise ModelError(f"There is no model “{name}”; `reelspace models` lists those there are: {', '.join(names())}.")


def tiny(**options: Any) -> Embedder:
    """The tiny model of the repository, for tests and the documentation's examples.

    Raises:
        ModelError: this is no checkout.
    """
    import reelspace

    folder = Path(reelspace.__file__).resolve().parents[2] / _TINY
    if not folder.is_dir():
        raise ModelError(
            f"The tiny model lies in the repository ({_TINY}), not in the package; train one with `reelspace worlds "
            "train`, and give its folder."
        )
    return _qwen_vl("tiny", {"dtype": "float32"}, folder, options)


def contract(name: str) -> Mapping[str, Any]:
    """What a preset says of a model, before any of it is loaded.

    Raises:
        ModelError: there is no such preset.
    """
    if name not in presets():
        raise ModelError(f"There is no preset “{name}”; there are {', '.join(presets())}.")
    return presets()[name]


def _on_hub(name: str) -> bool:
    owner, _, rest = name.partition("/")
    return bool(owner and rest and "/" not in rest and not name.startswith((".", "~")))


def _none(name: str, options: Mapping[str, Any]) -> None:
    if options:
        raise ModelError(f"{name} has no options; it was given {', '.join(sorted(options))}.")


def _preset(name: str, preset: Mapping[str, Any], options: Mapping[str, Any]) -> Embedder:
    match preset["loader"]:
        case "qwen_vl":
            return _qwen_vl(name, preset, None, options)
        case "dual":
            return _dual(name, preset, options)
        case "tiny":
            return tiny(**options)
        case loader:
            _none(name, options)
            module, _, function = str(loader).partition(":")
            embedder: Embedder = getattr(import_module(module), function)()
            return embedder


def _qwen_vl(name: str, preset: Mapping[str, Any], folder: Path | None, options: Mapping[str, Any]) -> QwenVLEmbedder:
    """A Qwen-VL model: of a preset, or in a folder."""
    from reelspace.embed.hub import described, fetched
    from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder
    from reelspace.embed.qwen_vl.readout import Readout

    running = {key: value for key, value in {**preset, **options}.items() if key in _RUNNING}
    changes = {key: value for key, value in options.items() if key not in _RUNNING}
    keys = {entry.name for entry in fields(Readout)}
    declared = {key: value for key, value in preset.items() if key in keys}
    if folder is not None and not declared and "template" not in changes:
        declared = Readout.read(folder).declared()
    readout = Readout.of({**declared, **changes})
    if folder is not None:
        from reelspace.embed.qwen_vl.module import adapted

        there = folder
        if (base := adapted(folder)) is not None:
            return QwenVLEmbedder(name, lambda: base, readout, adapter=lambda: there, **running)
        return QwenVLEmbedder(name, lambda: there, readout, **running)
    source, revision, adapter = preset["source"], preset["revision"], preset.get("adapter")
    pinned = preset.get("adapter_revision", "")
    return QwenVLEmbedder(
        name,
        lambda: fetched(source, revision),
        readout,
        describe=lambda: described(source, revision),
        adapter=(lambda: fetched(adapter, pinned)) if adapter else None,
        dim=preset["dim"],
        source=f"{source}+{adapter}@{pinned}" if adapter else source,
        revision=None if revision == "main" else revision,
        **running,
    )


def _dual(name: str, preset: Mapping[str, Any], options: Mapping[str, Any], folder: Path | None = None) -> Embedder:
    """Two towers: of a preset, or in a folder."""
    from reelspace.embed.dual import DualEncoder, Towers
    from reelspace.embed.hub import described, fetched

    running = {key: options[key] for key in ("device", "dtype") if key in options}
    changes = {key: value for key, value in options.items() if key not in ("device", "dtype")}
    keys = {entry.name for entry in fields(Towers)}
    if unknown := sorted(set(changes) - keys):
        raise ModelError(f"{name} has no {', '.join(unknown)}; it has {', '.join(sorted(keys))}.")
    towers = Towers(**{key: value for key, value in {**preset, **changes}.items() if key in keys})
    if folder is not None:
        there = folder
        return DualEncoder(name, lambda: there, towers, **running)
    source, revision = preset["source"], preset["revision"]
    return DualEncoder(
        name,
        lambda: fetched(source, revision),
        towers,
        describe=lambda: described(source, revision),
        dim=preset["dim"],
        source=source,
        revision=None if revision == "main" else revision,
        **running,
    )


def _found(name: str, revision: str | None, options: Mapping[str, Any]) -> Embedder:
    """The embedder of a folder, or of a repository at a revision: what kind it is, its own files tell."""
    from reelspace.embed import hub
    from reelspace.embed.qwen_vl.inputs import KINDS
    from reelspace.embed.qwen_vl.readout import FILE

    options = dict(options)
    lent = contract(options.pop("contract")) if "contract" in options else {}
    folder = Path(name) if revision is None else hub.described(name, revision)
    config = folder / "config.json"
    kind = json.loads(config.read_text("utf-8")).get("model_type") if config.exists() else None
    ours = (folder / FILE).exists() or lent or "template" in options
    if ours and (kind is None or kind in KINDS):
        whole = folder if revision is None else hub.fetched(name, revision)
        return _qwen_vl(name, {key: value for key, value in lent.items() if key != "dtype"}, whole, options)
    if (folder / "modules.json").exists():
        from reelspace.embed.st import SentenceTransformerEmbedder

        whole = folder if revision is None else hub.fetched(name, revision)
        return SentenceTransformerEmbedder(name, whole, **options)
    if kind in ("clip", "siglip", "siglip2"):
        from reelspace.embed.dual import Towers

        whole = folder if revision is None else hub.fetched(name, revision)
        return _dual(name, Towers.read(folder), options, whole)
    raise ModelError(
        f"{name} (of type {kind}) has no {FILE}, is no model of sentence-transformers, nor two towers of the kind of "
        "CLIP: nobody knows where its vector is read. Give its contract: load(…, contract=PRESET), or a readout's keys."
    )
