"""What is noted about a collection as a whole."""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np

from reelspace.index.base import Ids
from reelspace.index.remote.base import RemoteStore, StoreError

VERSION = 1
_HEAD, _SAMPLE = "head", "sample"


class Head(NamedTuple):
    """Whose windows a collection holds."""

    library: str
    """The identity of the catalogue: ids of different ones have nothing to do with each other."""
    model: str
    fingerprint: str
    dim: int
    complete: bool = False
    """Whether a push has reached its end."""
    approximate: bool = False
    """Whether searches without filters use the server's index."""
    revision: str = ""
    """Differs when anything else does, once a push has reached its end."""


def read_head(store: RemoteStore) -> Head | None:
    """The head; `None` where there is no collection, or nothing in it.

    Raises:
        StoreError: it is of a newer version, or makes no sense.
    """
    text = store.note(_HEAD)
    if text is None:
        return None
    try:
        values = json.loads(text)
        version = values.pop("version")
        if version > VERSION:
            raise StoreError(
                f"{store.name} was filled by a newer Reelspace (format {version}; this one knows {VERSION}): "
                "upgrade Reelspace here."
            )
        return Head(**values)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{store.name}: what is noted about it makes no sense: push to another collection.") from error


def write_head(store: RemoteStore, head: Head) -> None:
    """Notes the head."""
    store.set_note(_HEAD, json.dumps({"version": VERSION, **head._asdict()}))


def read_sample(store: RemoteStore) -> Ids:
    """The ids of windows that stand for all: their scores tell what is usual for a query."""
    return np.array(json.loads(store.note(_SAMPLE) or "[]"), np.int64)


def write_sample(store: RemoteStore, ids: Ids) -> None:
    """Notes them, if they are others than before."""
    text = json.dumps(ids.tolist())
    if store.note(_SAMPLE) != text:
        store.set_note(_SAMPLE, text)
