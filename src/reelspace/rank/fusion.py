"""Several rankings of the same things → one: reciprocal rank fusion (Cormack, Clarke, Büttcher; SIGIR 2009).

Scores of different models, views or signals are never compared; only the places they give. `fuse` takes rankings of the
same ids; `fuse_spans` takes rankings of spans of videos, which are the same where they agree in time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import ReelspaceError
from reelspace.moments import Scored

DAMPING = 60.0
"""How little the first places outweigh the next; the value of the paper."""


class Sortable(Hashable, Protocol):
    """An id: what ties are ordered by."""

    def __lt__(self, other: Any, /) -> bool: ...


Id = TypeVar("Id", bound=Sortable)


def fuse(
    rankings: Sequence[Sequence[Id]], weights: Sequence[float] | None = None, damping: float = DAMPING
) -> list[tuple[Id, float]]:
    """Ids with their fused scores, best first; ties by id ascending.

    Each ranking gives an id `weight / (damping + place)`, places counted from 1; one that does not hold it gives
    nothing, so a ranking may be cut off anywhere.

    Args:
        rankings: ids, best first, each at most once in a ranking.
        weights: one for each ranking; all 1 by default.

    Raises:
        ReelspaceError: an id stands twice in one ranking, or there are not as many weights as rankings.
    """
    weights = [1.0] * len(rankings) if weights is None else weights
    if len(weights) != len(rankings):
        raise ReelspaceError(
            f"{len(rankings)} rankings cannot be fused with {len(weights)} weights; give one for each."
        )
    scores: dict[Id, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        if len(set(ranking)) != len(ranking):
            raise ReelspaceError("A ranking names something twice; give every id one place in it.")
        for place, key in enumerate(ranking, start=1):
            scores[key] = scores.get(key, 0.0) + weight / (damping + place)
    return sorted(scores.items(), key=lambda row: (-row[1], row[0]))


AGREE = 0.5
"""The share of the shorter of two spans that must lie in the other for them to be one finding."""


class Place(NamedTuple):
    """A span in a ranking.

    Attributes:
        span: where it is.
        fits: whether it is good enough to be an answer (see `reelspace.rank.calibration`).
        weight: what its place counts: 1 where it is surely right.
    """

    span: Scored
    fits: bool = True
    weight: float = 1.0


class Fused(NamedTuple):
    """A span with its fused score, and the places (index into the ranking) that it has by each ranking's name."""

    span: Scored
    score: float
    places: dict[str, int]


def fuse_spans(rankings: Mapping[str, Sequence[Place]], damping: float = DAMPING) -> list[Fused]:
    """Rankings of spans of videos → one: a span gets, in every ranking, what the best place of those that it lies in by
    `AGREE` or more is worth: `weight / (damping + place)`, places counted from 1.

    So a moment that several rankings find rises above those that one finds, and a long span does not gather what lies
    at different times in it. What does not fit gets nothing from what does. Of spans that agree (one lies in the other)
    only one is returned: the better, of equal ones one that fits, then the shorter, which says more exactly when it is.

    Args:
        rankings: by name, each best first.
        damping: how little the first places outweigh the next.
    """
    by_video: dict[str, list[tuple[int, int, Place]]] = {}
    for number, ranking in enumerate(rankings.values()):
        for index, place in enumerate(ranking):
            by_video.setdefault(place.span.video, []).append((number, index, place))
    names = list(rankings)
    found: list[tuple[tuple[float, ...], Fused]] = []
    for rows in by_video.values():
        found += _fused_in_one(rows, names, damping)
    found.sort(key=lambda row: (*row[0], row[1].span.video, row[1].span.start, row[1].span.end))
    kept: list[Fused] = []
    spans: dict[str, list[tuple[float, float]]] = {}
    for _, fused in found:
        there = spans.setdefault(fused.span.video, [])
        span = fused.span.start, fused.span.end
        if not there or not agreeing(np.array([span]), np.array(there)).any():
            there.append(span)
            kept.append(fused)
    return kept


def _fused_in_one(
    rows: Sequence[tuple[int, int, Place]], names: Sequence[str], damping: float
) -> Iterator[tuple[tuple[float, ...], Fused]]:
    """Every span of one video: what it is sorted by, and its fused score."""
    spans = np.array([(place.span.start, place.span.end) for _, _, place in rows])
    ranking = np.array([number for number, _, _ in rows])
    worth = np.array([place.weight / (damping + index + 1) for _, index, place in rows])
    fits = np.array([place.fits for _, _, place in rows])
    one = covering(spans) & (fits[:, None] | ~fits[None])
    np.fill_diagonal(one, True)
    scores, best = np.zeros(len(rows)), np.full((len(names), len(rows)), -1)
    for number in range(len(names)):
        of_this = np.flatnonzero(ranking == number)
        if len(of_this):
            given = np.where(one[:, of_this], worth[of_this], 0.0)
            column = given.argmax(axis=1)
            scores += given[np.arange(len(rows)), column]
            best[number] = np.where(given.max(axis=1) > 0, of_this[column], -1)
    for row, (number, _, place) in enumerate(rows):
        places = {names[n]: rows[best[n, row]][1] for n in range(len(names)) if best[n, row] >= 0}
        length = place.span.end - place.span.start
        key = (-scores[row], -float(place.fits), length, float(number))
        yield key, Fused(place.span, float(scores[row]), places)


def covering(spans: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which of the spans `[n, 2]` (columns) hold `AGREE` of which (rows) or more: bool `[n, n]`."""
    starts, ends = spans[:, 0], spans[:, 1]
    both = np.minimum(ends[:, None], ends[None]) - np.maximum(starts[:, None], starts[None])
    return np.asarray((both > 0) & (both >= AGREE * (ends - starts)[:, None]))


def agreeing(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which spans `[n, 2]` and `[m, 2]` of one video are one finding: bool `[n, m]`."""
    a, b = first[:, None], second[None]
    both = np.minimum(a[..., 1], b[..., 1]) - np.maximum(a[..., 0], b[..., 0])
    shorter = np.minimum(a[..., 1] - a[..., 0], b[..., 1] - b[..., 0])
    return np.asarray((both > 0) & (both >= AGREE * shorter))
