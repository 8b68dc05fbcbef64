"""Item → unit vector. `load` is the way to a model; a new model is one file in this folder or a few lines of data."""

from __future__ import annotations

from typing import Any

from reelspace.embed.base import Embedder as Embedder
from reelspace.embed.presets import ENTRY_POINTS as ENTRY_POINTS
from reelspace.embed.presets import known as known
from reelspace.embed.presets import names as names

DEFAULT_MODEL = "lite"


def load(name: str = DEFAULT_MODEL, **options: Any) -> Embedder:
    """The embedder of that name; see `reelspace.embed.presets.load`.

    Raises:
        ModelError: no such model, it cannot be loaded here, or it has no such option.
    """
    from reelspace.embed import presets

    return presets.load(name, **options)
