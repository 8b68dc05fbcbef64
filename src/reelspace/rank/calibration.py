"""“Nothing fits”, said from scores.

A cosine is a rank, not a probability, and what counts as high differs between models, between query forms, and from
one text to the next. So every form has its own threshold, fitted on queries that have an answer and queries that have
none. A form may be *relative*: its scores are then first put between what the query gets from a bank of background
candidates on average (0) and what it gets from the best of them (1). For a text this asks whether something was found
that fits it as well as anything the model knows could.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import Embedder, Vectors
from reelspace.item import Item

QueryForm = Literal["text", "image", "video", "composed"]
Scores = NDArray[np.float64]


def query_form(item: Item) -> QueryForm:
    """The form a query is calibrated under: words with a picture or clip are `composed`; a clip outweighs a picture."""
    if item.text is not None:
        return "composed" if len(item.parts) > 1 else "text"
    return "video" if item.video is not None else "image"


class Threshold(NamedTuple):
    """The least score of a match, and whether it is a score relative to the background."""

    least: float
    relative: bool = False


@dataclass(frozen=True)
class Calibration:
    """When the best score of a query is good enough to be called a match.

    Attributes:
        thresholds: query form → threshold. A form that is missing is uncalibrated.
        background: unit rows float32 `[m, d]`: candidates that, between them, cover what the model can tell. Needed
            by relative thresholds only.
    """

    thresholds: Mapping[str, Threshold]
    background: Vectors

    def match(self, form: str, query: Vectors, best_score: float) -> bool | None:
        """Whether the best candidate fits the query vector `[d]`; `None` if the form is uncalibrated."""
        threshold = self.thresholds.get(form)
        if threshold is None:
            return None
        return (self.relative(query, best_score) if threshold.relative else best_score) >= threshold.least

    def margins(self, form: str, query: Vectors, scores: Scores) -> Scores | None:
        """How far above the least score of a match candidates are (below: negative), in one unit for all queries: from
        the background's mean to its best.

        Args:
            form: of the query.
            query: its vector `[d]`.
            scores: float64 `[n]`.

        Returns:
            float64 `[n]`, or `None` if the form is uncalibrated, or there is no background to measure by.
        """
        threshold = self.thresholds.get(form)
        if threshold is None or not len(self.background):
            return None
        mean, reach = self._usual(query)
        least = threshold.least if threshold.relative else (threshold.least - mean) / reach
        return np.asarray((scores - mean) / reach - least)

    def relative(self, query: Vectors, score: float) -> float:
        """The score between the background's mean (0) and its best (1) for this query; it may be above 1."""
        mean, reach = self._usual(query)
        return (score - mean) / reach

    def _usual(self, query: Vectors) -> tuple[float, float]:
        """What the query gets from the background on average, and how much more it gets from the best of it."""
        usual = self.background @ query
        return float(usual.mean()), max(float(usual.max() - usual.mean()), 1e-6)


def calibration_of(embedder: Embedder) -> Calibration | None:
    """The calibration an embedder brings along; `None`: it has none.

    It brings one as two attributes: `thresholds` (query form → `[least, relative]`) and `background` (unit rows).
    """
    thresholds: Mapping[str, tuple[float, bool]] | None = getattr(embedder, "thresholds", None)
    if not thresholds:
        return None
    background: Vectors = getattr(embedder, "background", np.empty((0, embedder.dim), dtype=np.float32))
    return Calibration({form: Threshold(*pair) for form, pair in thresholds.items()}, background)


class Rates(NamedTuple):
    """How often a threshold errs: absent things said to be there, present ones said to be missing."""

    false_accept: float
    false_reject: float


def rates(least: float, present: Scores, absent: Scores) -> Rates:
    """The error rates of a threshold on best scores `[p]` of queries with an answer and `[a]` of those without."""
    return Rates(float((absent >= least).mean()), float((present < least).mean()))


def fit(present: Scores, absent: Scores) -> float:
    """The threshold with the least sum of both error rates; among equals the middle of the widest gap.

    Args:
        present: float `[p]`, best scores of queries that have an answer.
        absent: float `[a]`, those of queries that have none.
    """
    scores = np.unique(np.concatenate([present, absent]))
    edges = np.concatenate([[scores[0] - 1], scores, [scores[-1] + 1]])
    middles, gaps = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    errors = np.array([sum(rates(middle, present, absent)) for middle in middles])
    best = np.flatnonzero(np.isclose(errors, errors.min()))
    return float(middles[best[gaps[best].argmax()]])
