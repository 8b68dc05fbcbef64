"""Moment retrieval: how well predicted spans of a video agree with the true ones, as QVHighlights defines it.

R@1 at IoU t is the share of queries whose first span reaches t with the true span that it overlaps best. For mAP each
query is a detection task of its own: its first ten predictions, the best score first; at a threshold t each takes
the true span it overlaps best among those not taken yet, if that reaches t, and else is wrong. Average precision is
the area under the precision, interpolated so that it never rises with recall; mAP is its mean over queries, and
without a threshold also over t = 0.5, 0.55, …, 0.95. By length, a query keeps its true spans of that length, and is
left out if it has none; its predictions stay as they are. Short is up to 10 s, middle up to 30 s, long up to 150 s.

(Lei, Berg and Bansal 2021, arXiv 2107.09609. The figures here are shares, theirs percent.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import ReelspaceError
from reelspace.moments import iou
from reelspace.uvrb.statistics import Interval, mean_interval, random

Floats = NDArray[np.float64]

THRESHOLDS = tuple(round(0.5 + 0.05 * k, 2) for k in range(10))
"""Of IoU, for mAP."""

LENGTHS: dict[str, tuple[float, float]] = {"short": (0, 10), "middle": (10, 30), "long": (30, 150)}
"""Name → above how many seconds, and up to how many."""

DEPTH = 10  # predictions of a query that count


class Predicted(NamedTuple):
    """A predicted span, in seconds; higher scores come first, equal ones in the order given."""

    start: float
    end: float
    score: float = 0.0


@dataclass(frozen=True)
class Asked:
    """A query with its true spans, in seconds of one video.

    Attributes:
        qid: its name among the queries.
        text: what is asked.
        video: the name of the video it is asked of.
        spans: at least one (start, end).
        duration: the video's, where the file tells it.
    """

    qid: str
    text: str
    video: str
    spans: tuple[tuple[float, float], ...]
    duration: float | None = None


class Measured(NamedTuple):
    """A figure: its mean over queries, how sure it is, and over how many."""

    value: float
    interval: Interval
    n: int


def first_first(predictions: Iterable[Predicted]) -> list[Predicted]:
    """The ten best predictions, the best first.

    QVHighlights takes the first ten of the file as the file orders them, and sorts these: so they are cut here too.
    """
    return sorted(list(predictions)[:DEPTH], key=lambda one: -one.score)


def best_overlap(predictions: Sequence[Predicted], spans: Sequence[tuple[float, float]]) -> float:
    """IoU of the first prediction, as given, with the true span it overlaps best; 0 without predictions."""
    if not predictions:
        return 0.0
    return float(iou(predictions[0][:2], spans).max())


def average_precision(
    predictions: Sequence[Predicted],
    spans: Sequence[tuple[float, float]],
    thresholds: Sequence[float] = THRESHOLDS,
) -> Floats:
    """Interpolated average precision of one query's first ten predictions, at each threshold: `[t]`."""
    ranked = first_first(predictions)
    if not ranked:
        return np.zeros(len(thresholds))
    overlaps = iou(np.array([one[:2] for one in ranked])[:, None], np.array(spans, dtype=np.float64)[None])
    return np.array([_area(_right(overlaps, threshold), len(spans)) for threshold in thresholds])


def _right(overlaps: Floats, threshold: float) -> NDArray[np.bool_]:
    """Which predictions `[p]` are right, of overlaps `[p, spans]`: each takes the best span left that reaches t."""
    free = np.ones(overlaps.shape[1], dtype=bool)
    right = np.zeros(len(overlaps), dtype=bool)
    for place, row in enumerate(overlaps):
        left = np.where(free & (row >= threshold), row, -1.0)
        # Of equal overlaps the later span, as in the definition's own program: which is taken decides who gets one.
        best = len(left) - 1 - int(left[::-1].argmax())
        if left[best] >= 0:
            right[place], free[best] = True, False
    return right


def _area(right: NDArray[np.bool_], truths: int) -> float:
    """The area under the precision, made to never rise with recall."""
    found = np.cumsum(right)
    precision = found / np.arange(1, len(right) + 1)
    ceiling = np.maximum.accumulate(precision[::-1])[::-1]
    return float(ceiling[right].sum() / truths)


def of_length(asked: Iterable[Asked], least: float, most: float) -> list[Asked]:
    """Queries with true spans longer than `least` and up to `most` seconds, these alone."""
    kept = []
    for query in asked:
        spans = tuple(span for span in query.spans if least < span[1] - span[0] <= most)
        if spans:
            kept.append(Asked(query.qid, query.text, query.video, spans, query.duration))
    return kept


def measure(
    asked: Sequence[Asked],
    predictions: Mapping[str, Sequence[Predicted]],
    recall_at: Sequence[float] = (0.3, 0.5, 0.7),
) -> dict[str, Measured]:
    """Every figure: `R1@0.5`, `mIoU`, `mAP@0.5`, `mAP@0.75`, `mAP`; and `mAP` and `R1` by length, `mAP short`.

    `R1` without a threshold is the mean over those of mAP. A query without predictions is wrong, not left out.

    Args:
        asked: queries with their true spans.
        predictions: query id → spans.
        recall_at: thresholds of R@1.

    Raises:
        ReelspaceError: there are no queries, or predictions for one that nobody asked.
    """
    if not asked:
        raise ReelspaceError("There are no queries with spans to measure.")
    unknown = sorted(predictions.keys() - {query.qid for query in asked})
    if unknown:
        raise ReelspaceError(f"There are predictions for queries that were not asked: {', '.join(unknown[:5])}.")
    overlaps, precision = _each(asked, predictions)
    found = {f"R1@{threshold:g}": _measured(overlaps >= threshold, f"R1@{threshold:g}") for threshold in recall_at}
    found["mIoU"] = _measured(overlaps, "mIoU")
    for threshold in (0.5, 0.75):
        found[f"mAP@{threshold:g}"] = _measured(precision[:, THRESHOLDS.index(threshold)], f"mAP@{threshold:g}")
    found["mAP"] = _measured(precision.mean(axis=1), "mAP")
    for name, (least, most) in LENGTHS.items():
        part = of_length(asked, least, most)
        if part:
            overlaps, precision = _each(part, predictions)
            reached = (overlaps[:, None] >= np.array(THRESHOLDS)).mean(axis=1)
            found[f"mAP {name}"] = _measured(precision.mean(axis=1), f"mAP {name}")
            found[f"R1 {name}"] = _measured(reached, f"R1 {name}")
    return found


def _each(asked: Sequence[Asked], predictions: Mapping[str, Sequence[Predicted]]) -> tuple[Floats, Floats]:
    """Of each query: IoU of its first span `[n]`, and average precision `[n, thresholds]`."""
    given = [predictions.get(query.qid, ()) for query in asked]
    overlaps = np.array([best_overlap(spans, query.spans) for query, spans in zip(asked, given, strict=True)])
    precision = np.array([average_precision(spans, query.spans) for query, spans in zip(asked, given, strict=True)])
    return overlaps, precision


def _measured(values: NDArray[np.bool_] | Floats, name: str) -> Measured:
    numbers = np.asarray(values, dtype=np.float64)
    return Measured(float(numbers.mean()), mean_interval(numbers, random("moments", name)), len(numbers))
