"""The store's contract: vectors kept under integer ids, the nearest found. Stores follow the catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Vectors = NDArray[np.float32]


class Found(NamedTuple):
    """The answer to one query: ids int64 `[m]` and scores float32 `[m]`, score descending, then id ascending."""

    ids: Ids
    scores: NDArray[np.float32]


@runtime_checkable
class Store(Protocol):
    """Unit vectors of one space under integer ids."""

    def add(self, ids: Sequence[int] | Ids, vectors: Vectors) -> None:
        """Adds or replaces rows: ids `[n]`, unique, and float32 `[n, d]`."""

    def remove(self, ids: Sequence[int] | Ids) -> None:
        """Forgets rows; an unknown id is no error."""

    def search(self, queries: Vectors, k: int, among: Ids | None = None) -> list[Found]:
        """The k best rows by inner product for each query float32 `[q, d]`; fewer only when there are fewer.

        Args:
            among: search only these ids (unknown ones are ignored); `None` means all.
        """

    def __len__(self) -> int:
        """How many rows it holds."""
