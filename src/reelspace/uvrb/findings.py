"""The paper's four findings, asked of any set of models.

A finding is a few correlations between columns over models. Each is given by both methods with its interval and the
rows it is over. A verdict is drawn from intervals alone: *holds* where they say so, *does not hold* where they say the
opposite, and *cannot be told* where they allow both, as they mostly must with a handful of models. An average contains
the abilities it is correlated with; so the correlation with the average of all other datasets is given too.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import log10, sqrt
from typing import Literal

from reelspace.uvrb.abilities import weights
from reelspace.uvrb.board import Entry, correlation
from reelspace.uvrb.statistics import Correlation, Interval, correlate, correlation_gap, random

Verdict = Literal["holds", "does not hold", "cannot be told"]


@dataclass(frozen=True)
class Quantity:
    """A number of a finding.

    Attributes:
        says: what is measured.
        over: which rows.
        n: how many.
        pearson, spearman: the value, or `None`, and its interval. For a difference between two correlations both are
            differences.
        stated: what the paper states of its models, where it does.
    """

    says: str
    over: str
    n: int
    pearson: tuple[float | None, Interval | None]
    spearman: tuple[float | None, Interval | None]
    stated: str = ""


@dataclass(frozen=True)
class Part:
    """A question of a finding, answered."""

    question: str
    verdict: Verdict
    quantities: tuple[Quantity, ...]


@dataclass(frozen=True)
class Restated:
    """A finding of the paper, restated for the models at hand."""

    title: str
    parts: tuple[Part, ...]


def findings(rows: Sequence[Entry]) -> list[Restated]:
    """All four, for rows of a suite that has the abilities."""
    return [_proxy(rows), _space_and_time(rows), _architectures(rows), _scale(rows)]


def _proxy(rows: Sequence[Entry]) -> Restated:
    apart = [_with_rest(rows, name) for name in ("PR", "MSRVTT")]
    gap = _gap(rows, "PR", "MSRVTT", "AVG-A", "how much better PR goes with AVG-A than MSRVTT does")
    best = _apart_gap(rows)
    mutual = [_pair(rows, x, y, stated="≥ 0.90") for x, y in (("FG", "PR"), ("FG", "LC"), ("PR", "LC"))]
    return Restated(
        "1. Partially relevant retrieval tells more of a model than a traditional benchmark",
        (
            Part(
                "Does PR go better with overall performance than MSRVTT?",
                _sign(gap, best),
                (
                    _pair(rows, "PR", "AVG-A", stated="0.97"),
                    _pair(rows, "MSRVTT", "AVG-A", stated="0.58"),
                    gap,
                    *apart,
                    best,
                ),
            ),
            Part("Do FG, PR and LC go together?", _sign(*mutual), tuple(mutual)),
        ),
    )


def _space_and_time(rows: Sequence[Entry]) -> Restated:
    both = _pair(rows, "S", "T", stated="0.12")
    gap = _gap(rows, "T", "S", "FG", "how much better T goes with FG than S does")
    return Restated(
        "2. Space and time are separate skills",
        (
            Part("Are S and T unrelated?", _unrelated(both), (both,)),
            Part(
                "Does T tell more of FG than S?",
                _sign(gap),
                (_pair(rows, "T", "FG", stated="0.98"), _pair(rows, "S", "FG", stated="0.39"), gap),
            ),
        ),
    )


def _architectures(rows: Sequence[Entry]) -> Restated:
    clip = [row for row in rows if row.architecture == "CLIP"]
    mllm = [row for row in rows if row.architecture == "MLLM"]
    spatial = _gap(clip, "S", "T", "CG", "how much better S goes with CG than T does", "CLIP-based")
    trade = _pair(clip, "CMP", "VIS", "CLIP-based", "-0.71")
    semantic = _contrast(_pair(mllm, "PR", "CG", "MLLM-based", "0.98"), _pair(clip, "PR", "CG", "CLIP-based", "0.70"))
    temporal = _contrast(_pair(mllm, "LC", "T", "MLLM-based", "0.64"), _pair(clip, "LC", "T", "CLIP-based", "-0.14"))
    return Restated(
        "3. CLIP-based and MLLM-based models fail differently",
        (
            Part(
                "Are CLIP-based models carried by space rather than time?",
                _sign(spatial),
                (
                    _pair(clip, "S", "CG", "CLIP-based", "0.99"),
                    _pair(clip, "T", "CG", "CLIP-based", "0.46"),
                    spatial,
                ),
            ),
            Part("Do CLIP-based models trade composition for vision?", _negative(trade), (trade,)),
            Part(
                "Does PR go better with CG among MLLM-based models?",
                _sign(semantic[2]),
                semantic,
            ),
            Part(
                "Does T go better with LC among MLLM-based models?",
                _sign(temporal[2]),
                temporal,
            ),
        ),
    )


def _scale(rows: Sequence[Entry]) -> Restated:
    sized = [row for row in rows if row.parameters]
    size = [log10(row.parameters or 1) for row in sized]
    seen = _sized(sized, size, "VIS")
    overall = _sized(sized, size, "AVG-A")
    triples = [_triple(row.value("AVG-A"), row.value("VIS"), of) for of, row in zip(size, sized, strict=True)]
    gap = _of_triples(triples, "how much better AVG-A goes with size than VIS does", "models of known size")
    weak = _pair(rows, "AVG-A", "VIS", stated="0.26")
    rest = _with_rest(rows, "VIS")
    return Restated(
        "4. Size does little for vision",
        (
            Part("Does VIS not grow with size?", _unrelated(seen), (seen,)),
            Part("Does size help overall performance more than VIS?", _sign(gap), (overall, gap)),
            Part("Does VIS tell little of overall performance?", _unrelated(weak, rest), (weak, rest)),
        ),
    )


# Quantities

_METHODS = ("pearson", "spearman")
_Triple = tuple[float, float, float]


def _pair(rows: Sequence[Entry], x: str, y: str, over: str = "all models", stated: str = "") -> Quantity:
    pearson, spearman = (correlation(rows, x, y, method) for method in _METHODS)
    return _quantity(f"ρ({x}, {y})", over, pearson, spearman, stated)


def _quantity(says: str, over: str, pearson: Correlation, spearman: Correlation, stated: str = "") -> Quantity:
    return Quantity(
        says, over, pearson.n, (pearson.value, pearson.interval), (spearman.value, spearman.interval), stated
    )


def _of_pairs(pairs: Sequence[tuple[float, float]], says: str, over: str) -> Quantity:
    x, y = [a for a, _ in pairs], [b for _, b in pairs]
    return _quantity(says, over, correlate(x, y, "pearson"), correlate(x, y, "spearman"))


def _mean_of_others(row: Entry, own: Container[str]) -> float | None:
    """The average of all datasets but some."""
    others = [row.scores.get(task) for task in weights("AVG-D", row.suite) if task not in own]
    known = [score for score in others if score is not None]
    return sum(known) / len(known) if known and len(known) == len(others) else None


def _with_rest(rows: Sequence[Entry], column: str) -> Quantity:
    """A column against the average of all others: what it says of the rest, not of itself."""
    pairs = []
    for row in rows:
        value, rest = row.value(column), _mean_of_others(row, weights(column, row.suite) or (column,))
        if value is not None and rest is not None:
            pairs.append((value, rest))
    return _of_pairs(pairs, f"ρ({column}, average of the other datasets)", "all models")


def _gap(rows: Sequence[Entry], x: str, other: str, y: str, says: str, over: str = "all models") -> Quantity:
    """By how much ρ(x, y) is above ρ(other, y)."""
    return _of_triples([_triple(row.value(x), row.value(other), row.value(y)) for row in rows], says, over)


def _apart_gap(rows: Sequence[Entry]) -> Quantity:
    """PR against MSRVTT as tellers of the datasets that are in neither."""
    own = {*weights("PR"), "MSRVTT"}
    triples = [_triple(row.value("PR"), row.value("MSRVTT"), _mean_of_others(row, own)) for row in rows]
    return _of_triples(triples, "the same with the average of the datasets that are in neither", "all models")


def _triple(a: float | None, b: float | None, c: float | None) -> _Triple | None:
    return None if a is None or b is None or c is None else (a, b, c)


def _of_triples(triples: Sequence[_Triple | None], says: str, over: str) -> Quantity:
    """By how much the first goes better with the third than the second does, over the rows that have all three."""
    known = [one for one in triples if one is not None]
    x, other, y = ([one[place] for one in known] for place in range(3))
    pearson, spearman = (
        correlation_gap(x, other, y, random(says, over), method) or (None, None) for method in _METHODS
    )
    return Quantity(says, over, len(known), pearson, spearman)


def _contrast(first: Quantity, second: Quantity) -> tuple[Quantity, Quantity, Quantity]:
    """Correlations over two separate sets of rows, and their difference by Zou's method (2007)."""
    between = Quantity(
        f"how much better among the {first.over} models",
        f"{first.over} and {second.over}",
        first.n + second.n,
        _zou(first.pearson, second.pearson),
        _zou(first.spearman, second.spearman),
    )
    return first, second, between


def _zou(
    first: tuple[float | None, Interval | None], second: tuple[float | None, Interval | None]
) -> tuple[float | None, Interval | None]:
    (a, ours), (b, theirs) = first, second
    if a is None or b is None:
        return None, None
    if ours is None or theirs is None:
        return a - b, None
    low = a - b - sqrt((a - ours.low) ** 2 + (theirs.high - b) ** 2)
    high = a - b + sqrt((ours.high - a) ** 2 + (b - theirs.low) ** 2)
    return a - b, Interval(low, high)


def _sized(rows: Sequence[Entry], size: Sequence[float], column: str) -> Quantity:
    pairs = [(of, value) for of, row in zip(size, rows, strict=True) if (value := row.value(column)) is not None]
    return _of_pairs(pairs, f"ρ({column}, logarithm of the size)", "models of known size")


# Verdicts: by Pearson's interval, the paper's method, and only where Spearman's does not say the opposite


def _sides(quantity: Quantity) -> set[int]:
    """On which sides of 0 the intervals lie: 1, −1, or 0 for both; empty where there is none."""
    intervals = [interval for _, interval in (quantity.pearson, quantity.spearman) if interval is not None]
    return {1 if one.low > 0 else -1 if one.high < 0 else 0 for one in intervals}


def _sign(*quantities: Quantity) -> Verdict:
    """Whether all are above 0."""
    sides = set().union(*map(_sides, quantities))
    return "holds" if sides == {1} else "does not hold" if sides == {-1} else "cannot be told"


def _negative(quantity: Quantity) -> Verdict:
    sides = _sides(quantity)
    return "holds" if sides == {-1} else "does not hold" if sides == {1} else "cannot be told"


_WEAK = 0.5  # correlations below are taken as “little”


def _unrelated(*quantities: Quantity) -> Verdict:
    """Whether correlations are below 0.5 in size; an interval above 0 throughout says that they are related."""
    intervals = [interval for one in quantities for _, interval in (one.pearson, one.spearman) if interval is not None]
    if intervals and all(one.low > -_WEAK and one.high < _WEAK for one in intervals):
        return "holds"
    if intervals and all(one.low > 0 for one in intervals):
        return "does not hold"
    return "cannot be told"
