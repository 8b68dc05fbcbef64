"""Item → unit vector. `load` is the way to a model; a new model is one file in this folder."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points

from reelspace.embed.base import Embedder as Embedder
from reelspace.errors import ModelError

DEFAULT_MODEL = "lite"
ENTRY_POINTS = "reelspace.embedders"

# Name → "module:function"; the function takes no argument and returns an Embedder.
_PRESETS = {"lite": "reelspace.embed.lite:load"}


def names() -> list[str]:
    """Every model name `load` knows, those of installed third parties included."""
    return sorted({*_PRESETS, *(point.name for point in entry_points(group=ENTRY_POINTS))})


def load(name: str = DEFAULT_MODEL) -> Embedder:
    """The embedder of that name: a preset, or an entry point of the group `reelspace.embedders`.

    Raises:
        ModelError: no such model, or it cannot be loaded here.
    """
    if name in _PRESETS:
        module, _, function = _PRESETS[name].partition(":")
        make: Callable[[], Embedder] = getattr(import_module(module), function)
        return make()
    for point in entry_points(group=ENTRY_POINTS, name=name):
        embedder: Embedder = point.load()()
        return embedder
    raise ModelError(f"There is no model “{name}”; `reelspace models` lists those there are: {', '.join(names())}.")
