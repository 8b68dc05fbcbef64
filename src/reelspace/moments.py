"""Scored windows → moments, and how well spans agree.

Windows of one video that overlap by more than IoU 0.4 are one finding: only the best is kept. Then a moment grows:
from its best window over touching ones that score within a quarter of the query's spread of that best.
The spread is the standard deviation of the query's scores over the library, so “alike” means alike for this query:
without it everything in a small library would touch and merge into whole videos.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def moments(windows: Sequence[Scored], spread: float) -> list[Moment]:
    """Ranked windows → ranked moments.

    Of a ranking cut off at some score, every moment that scores better than it by at least `ALIKE * spread` is the
    same as in the whole ranking.

    Args:
        windows: as `rank` gives them.
        spread: standard deviation of the query's scores.
    """
    kept = nms(windows)
    by_start: dict[str, list[Scored]] = {}
    for window in sorted(kept, key=lambda window: (window.start, window.end)):
        by_start.setdefault(window.video, []).append(window)
    by_end = {video: sorted(of_one, key=lambda w: (-w.end, -w.start)) for video, of_one in by_start.items()}
    taken: set[Scored] = set()
    found: list[Moment] = []
    grown: dict[str, list[Moment]] = {}
    for best in kept:
        better = grown.setdefault(best.video, [])
        if best not in taken and not any(lies_in(best, moment) for moment in better):
            least = best.score - ALIKE * spread
            better.append(_grow(best, by_start[best.video], by_end[best.video], taken, least))
            found.append(better[-1])
    return found


def lies_in(window: Scored, moment: Moment) -> bool:
    """Whether more of a window than `OVERLAP` lies in a better moment of its video: then it says nothing new."""
    both = min(window.end, moment.end) - max(window.start, moment.start)
    return both > OVERLAP * (window.end - window.start)


def _grow(best: Scored, by_start: list[Scored], by_end: list[Scored], taken: set[Scored], least: float) -> Moment:
    """The moment around `best`; its windows are added to `taken`."""
    start, end = best.start, best.end
    taken.add(best)
    for window in by_start[by_start.index(best) + 1 :]:
        if window.start > end + TOUCH:
            break
        if window.score >= least and window not in taken:
            end = max(end, window.end)
            taken.add(window)
    for window in by_end[by_end.index(best) + 1 :]:
        if window.end < start - TOUCH:
            break
        if window.score >= least and window not in taken:
            start = min(start, window.start)
            taken.add(window)
    return Moment(best.video, start, end, best.score, best)
