"""The pair scorer's contract: query and candidate that must see each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from reelspace.item import Item
from reelspace.media.policy import Sampling


@runtime_checkable
class PairScorer(Protocol):
    """Scores candidates for one query: Yes/No, matching head, contextual and query-aware models."""

    @property
    def name(self) -> str:
        """The name it is loaded by."""

    @property
    def fingerprint(self) -> str:
        """Hash of what is declared: model, prompt, answer tokens, frame policy."""

    @property
    def budget(self) -> int:
        """Most candidates it will score in one call: a second look always has a stated cost."""

    @property
    def modalities(self) -> frozenset[str]:
        """The values of `Item.modality` that a query may have."""

    @property
    def sampling(self) -> Sampling:
        """How frames are taken from a video, of a query or a candidate. `Frames` are chosen from by the same policy."""

    def score(self, query: Item, candidates: Sequence[Item]) -> NDArray[np.float32]:
        """Scores float32 `[n]` in the order given, higher is better; they do not depend on the other candidates.

        Raises:
            ModelError: there are more candidates than `budget`.
            EncodeError: some candidates could not be read; it carries the others' scores as a `[n, 1]` array.
        """
