"""Scorers that know the truth, and what a ranking is worth when ties are broken by lot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from reelspace.worlds.facts import Facts, evidence, unordered
from reelspace.worlds.scene import Scene

Scores = NDArray[np.float32]


class Asked(Protocol):
    """A query: what it states."""

    @property
    def facts(self) -> Facts:
        """The facts that the right answer has."""


class Judged(Protocol):
    """A task as scenes: `tasks.Task`."""

    @property
    def queries(self) -> Mapping[str, Asked]:
        """Query id → query."""

    @property
    def corpus(self) -> Mapping[str, Scene]:
        """Candidate id → scene."""


@dataclass(frozen=True)
class Ranking:
    """What it takes to judge scores `[queries, candidates]`.

    Attributes:
        asked: for each query the columns it is asked among.
        right: for each query the columns that answer it.
        depth: how many of the best are looked at.
    """

    asked: Sequence[NDArray[np.int64]]
    right: Sequence[NDArray[np.int64]]
    depth: int


def oracle(task: Judged) -> Scores:
    """Share of each query's facts that each candidate has: float32 `[queries, candidates]`."""
    return _scores(task, lambda known: known)


def blind_oracle(task: Judged) -> Scores:
    """The same for someone who sees every frame but not their order."""
    return _scores(task, unordered)


def _scores(task: Judged, seen: Callable[[Facts], Facts]) -> Scores:
    known = [seen(evidence(scene)) for scene in task.corpus.values()]
    rows = []
    for query in task.queries.values():
        asked = seen(query.facts)
        rows.append([len(asked & truth) / max(len(asked), 1) for truth in known])
    return np.asarray(rows, dtype=np.float32)


def expected(ranking: Ranking, scores: Scores) -> float:
    """The mean recall (of precision, with one answer and depth 1, it is the same) over all ways to break ties.

    Args:
        scores: float32 `[queries, candidates]`, higher is better.
    """
    total = 0.0
    for row, asked, right in zip(scores, ranking.asked, ranking.right, strict=True):
        pool = row[asked]
        for score in row[right]:
            above, level = int((pool > score).sum()), int((pool == score).sum())
            total += min(max((ranking.depth - above) / level, 0.0), 1.0) / len(right)
    return total / len(ranking.asked)
