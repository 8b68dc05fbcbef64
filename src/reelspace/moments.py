"""Scored windows → moments, and how well spans agree.

Windows of one video that overlap by more than IoU 0.4 are one finding: only the best is kept. Then a moment grows:
from its best window over touching ones that score within a quarter of the query's spread of that best.
The spread is the standard deviation of the query's scores over the library, so “alike” means alike for this query:
without it everything in a small library would touch and merge into whole videos.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

OVERLAP = 0.4
ALIKE = 0.25  # of the spread
TOUCH = 0.05  # seconds: less than two frames


class Scored(NamedTuple):
    """A window with its score."""

    video: str
    start: float
    end: float
    score: float


class Moment(NamedTuple):
    """A stretch of one video that answers; its score is that of `best`, the window it grew from."""

    video: str
    start: float
    end: float
    score: float
    best: Scored


def iou(first: ArrayLike, second: ArrayLike) -> NDArray[np.float64]:
    """Temporal intersection over union of spans `[…, 2]` (start, end in seconds), broadcast; 0 for empty spans."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    both = np.minimum(a[..., 1], b[..., 1]) - np.maximum(a[..., 0], b[..., 0])
    either = np.maximum(a[..., 1], b[..., 1]) - np.minimum(a[..., 0], b[..., 0])
    # Where spans are apart `both` is negative; where they meet, `either` is their union.
    return np.asarray(np.maximum(both, 0) / np.where(either > 0, either, 1))


def recall_at_1(predicted: ArrayLike, truth: ArrayLike, threshold: float = 0.5) -> float:
    """R@1 at IoU `threshold`: the share of queries whose first span reaches it. Both `[n, 2]`, in seconds."""
    return float((iou(predicted, truth) >= threshold).mean())


def mean_iou(predicted: ArrayLike, truth: ArrayLike) -> float:
    """Mean IoU of the first spans with the true ones. Both `[n, 2]`, in seconds."""
    return float(iou(predicted, truth).mean())


def rank(windows: Iterable[Scored]) -> list[Scored]:
    """Score descending, then by video and start: the order does not depend on how they were stored."""
    return sorted(windows, key=lambda window: (-window.score, window.video, window.start, window.end))


def nms(windows: Sequence[Scored], overlap: float = OVERLAP) -> list[Scored]:
    """Temporal non-maximum suppression of ranked windows: who overlaps a better one of its video by more is dropped."""
    kept: list[Scored] = []
    spans: dict[str, list[tuple[float, float]]] = {}
    for window in windows:
        better = spans.setdefault(window.video, [])
        if not better or float(iou(better, (window.start, window.end)).max()) <= overlap:
            better.append((window.start, window.end))
            kept.append(window)
    return kept


def moments(windows: Sequence[Scored], spread: float) -> Iterator[Moment]:
    """Ranked windows → ranked moments, each made when it is asked for.

    Of a ranking cut off at some score, every moment that scores better than it by at least `ALIKE * spread` is the
    same as in the whole ranking.

    Args:
        windows: as `rank` gives them.
        spread: standard deviation of the query's scores.
    """
    kept = nms(windows)
    by_video: dict[str, list[Scored]] = {}
    for window in kept:
        by_video.setdefault(window.video, []).append(window)
    growing: dict[str, _Growing] = {}
    for best in kept:
        if best.video not in growing:
            growing[best.video] = _Growing(by_video[best.video])
        if moment := growing[best.video].around(best, best.score - ALIKE * spread):
            yield moment


class _Growing:
    """The moments of one video."""

    def __init__(self, windows: list[Scored]) -> None:
        self._by_start = sorted(windows, key=lambda w: (w.start, w.end))
        self._by_end = sorted(self._by_start, key=lambda w: (-w.end, -w.start))
        self._taken: set[Scored] = set()
        self._found: list[Moment] = []

    def around(self, best: Scored, least: float) -> Moment | None:
        """The moment around `best`, of windows that score at least `least`; `None` if a better one has told of it."""
        if best in self._taken or any(lies_in(best, moment) for moment in self._found):
            return None
        start, end = best.start, best.end
        self._taken.add(best)
        for window in self._by_start[self._by_start.index(best) + 1 :]:
            if window.start > end + TOUCH:
                break
            if window.score >= least and window not in self._taken:
                end = max(end, window.end)
                self._taken.add(window)
        for window in self._by_end[self._by_end.index(best) + 1 :]:
            if window.end < start - TOUCH:
                break
            if window.score >= least and window not in self._taken:
                start = min(start, window.start)
                self._taken.add(window)
        self._found.append(Moment(best.video, start, end, best.score, best))
        return self._found[-1]


def lies_in(window: Scored, moment: Moment) -> bool:
    """Whether more of a window than `OVERLAP` lies in a better moment of its video: then it says nothing new."""
    both = min(window.end, moment.end) - max(window.start, moment.start)
    return both > OVERLAP * (window.end - window.start)
