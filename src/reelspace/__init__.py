"""Reelspace: one embedding space for every way of asking for a video.

`Library` is the engine, `Item` its one currency, `load` the way to a model.
Names are imported when first used, so that `import reelspace` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reelspace.answers import Hit as Hit
    from reelspace.embed import load as load
    from reelspace.errors import EncodeError as EncodeError
    from reelspace.errors import ReelspaceError as ReelspaceError
    from reelspace.index.remote.library import RemoteLibrary as RemoteLibrary
    from reelspace.item import Frames as Frames
    from reelspace.item import Item as Item
    from reelspace.item import Span as Span
    from reelspace.library import Library as Library

__version__ = "0.1.0"

_HOME = {
    "EncodeError": "errors",
    "Frames": "item",
    "Hit": "answers",
    "Item": "item",
    "Library": "library",
    "ReelspaceError": "errors",
    "RemoteLibrary": "index.remote.library",
    "Span": "item",
    "load": "embed",
}

__all__ = [
    "EncodeError",
    "Frames",
    "Hit",
    "Item",
    "Library",
    "ReelspaceError",
    "RemoteLibrary",
    "Span",
    "__version__",
    "load",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'reelspace' has no attribute {name!r}")
    return getattr(import_module(f"reelspace.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
