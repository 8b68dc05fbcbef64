"""Dual softmax: a candidate that every query likes is worth less to each of them (VidVec, step 7).

It looks at all queries of a test at once. Results with it are *transductive*: they hold for that set of queries and
are reported apart from results without it, never in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import ReelspaceError

Scores = NDArray[np.float32]
TEMPERATURES = tuple(float(value) for value in np.geomspace(0.005, 1.0, 24))
"""What is tried when one is fitted; cosines differ by a few hundredths to a few tenths."""


@dataclass(frozen=True)
class DualSoftmax:
    """A temperature for each direction, fitted on a validation split.

    Attributes:
        forward: for queries that look for candidates; `None`: the scores are better left as they are.
        backward: for candidates that look for queries.
    """

    forward: float | None
    backward: float | None

    def __call__(self, scores: Scores) -> tuple[Scores, Scores]:
        """Scores `[queries, candidates]` → those to rank candidates by, and, transposed, those to rank queries by."""
        return _weighed(scores, self.forward), _weighed(scores.T, self.backward)


def weighed(scores: Scores, temperature: float) -> Scores:
    """Each score times the share its query has, by softmax, of all that the candidate gets.

    Args:
        scores: float32 `[queries, candidates]`, cosines or the like.
        temperature: of the softmax over queries.
    """
    rest = (scores - scores.max(axis=0, keepdims=True)) / temperature
    share = np.exp(rest)
    share /= share.sum(axis=0, keepdims=True)
    return np.asarray(scores * share, dtype=np.float32)


def fit(scores: Scores, right: Sequence[int], temperatures: Sequence[float] = TEMPERATURES) -> DualSoftmax:
    """The temperatures that give the highest mean reciprocal rank on a validation split; the largest among equals.

    Args:
        scores: float32 `[queries, candidates]` of the validation split.
        right: the column of the right candidate of each query; no two queries share one.

    Raises:
        ReelspaceError: `right` does not pair the queries with candidates.
    """
    columns = np.asarray(right, dtype=np.int64)
    if len(columns) != len(scores) or len(set(right)) != len(columns):
        raise ReelspaceError("Dual softmax is fitted on pairs: give each validation query a candidate of its own.")
    paired = scores[:, columns]
    return DualSoftmax(_fitted(scores, columns, temperatures), _fitted(paired.T, np.arange(len(columns)), temperatures))


def _weighed(scores: Scores, temperature: float | None) -> Scores:
    return scores if temperature is None else weighed(scores, temperature)


def _fitted(scores: Scores, right: NDArray[np.int64], temperatures: Sequence[float]) -> float | None:
    best, reached = None, _reciprocal(scores, right)
    for temperature in sorted(temperatures, reverse=True):
        found = _reciprocal(weighed(scores, temperature), right)
        if found > reached:
            best, reached = temperature, found
    return best


def _reciprocal(scores: Scores, right: NDArray[np.int64]) -> float:
    own = scores[np.arange(len(right)), right][:, None]
    return float((1 / (scores >= own).sum(axis=1)).mean())
