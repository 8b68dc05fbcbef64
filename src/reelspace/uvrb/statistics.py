"""How sure a score, a difference or a correlation is.

Intervals are of 95 %. A bootstrap draws queries again with replacement, 10,000 times, from a fixed seed: the same
scores give the same digits. Queries of different tasks are drawn apart from each other; in a comparison of two models
both are asked the same drawn queries. A model of which only the mean is known is drawn from the binomial
distribution of that mean over as many queries: its answers cannot be paired, which makes such a comparison cautious.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import atanh, sqrt, tanh
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

TRIALS = 10_000
SEED = 20251
_Z = 1.959963984540054  # of 95 %


class Interval(NamedTuple):
    """From the least to the greatest plausible value."""

    low: float
    high: float


def wilson(right: float, n: int) -> Interval:
    """Wilson's interval of a share: `right` of `n`, which must be at least 1."""
    share, z = right / n, _Z
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # Rounding must not put an interval beside its own share.
    return Interval(max(0.0, min(middle - half, share)), min(1.0, max(middle + half, share)))


def random(*key: int | str, seed: int = SEED) -> np.random.Generator:
    """A generator of its own for a key, so that what is drawn for one task does not hang on which others there are."""
    words = [seed, *(byte for part in key for byte in (*str(part).encode(), 256))]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(words)))


def resampled(values: ArrayLike, generator: np.random.Generator, trials: int = TRIALS) -> Floats:
    """Means of `values` `[n]` drawn again `trials` times: `[trials]`.

    How often each distinct value is drawn is multinomial, so the cost is that of the distinct values, not of n.
    """
    distinct, counts = np.unique(np.asarray(values, dtype=np.float64), return_counts=True)
    n = int(counts.sum())
    drawn = generator.multinomial(n, counts / n, size=trials)
    return np.asarray(drawn @ distinct / n, dtype=np.float64)


def binomial(mean: float, n: int, generator: np.random.Generator, trials: int = TRIALS) -> Floats:
    """Means of n answers of which each is right with probability `mean`: `[trials]`."""
    return np.asarray(generator.binomial(n, min(max(mean, 0.0), 1.0), size=trials) / n, dtype=np.float64)


def middle(drawn: Floats) -> Interval:
    """What 95 % of the drawn values lie in."""
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(float(low), float(high))


def mean_interval(values: ArrayLike, generator: np.random.Generator) -> Interval:
    """The interval of a mean of `values` `[n]`: Wilson's where all are 0 or 1, else a bootstrap's."""
    given = np.asarray(values, dtype=np.float64)
    if np.isin(given, (0.0, 1.0)).all():
        return wilson(float(given.sum()), len(given))
    return middle(resampled(given, generator))


def p_value(drawn: Floats) -> float:
    """Two-sided: how seldom drawn differences lie on the other side of 0, never below 2 / (trials + 1)."""
    below, above = int((drawn <= 0).sum()), int((drawn >= 0).sum())
    return min(1.0, 2 * (min(below, above) + 1) / (len(drawn) + 1))


def sign_test(differences: ArrayLike) -> float:
    """Two-sided exact p of as many differences above 0 and below; of 0/1 scores that is McNemar's exact test."""
    given = np.asarray(differences)
    above, below = int((given > 0).sum()), int((given < 0).sum())
    n, fewer = above + below, min(above, below)
    if n == 0:
        return 1.0
    tail = ways = 1
    for k in range(fewer):
        ways = ways * (n - k) // (k + 1)  # n choose k + 1
        tail += ways
    return min(1.0, 2 * tail / (1 << n))  # integers all the way: exact at any n


def holm(values: Sequence[float]) -> list[float]:
    """p-values as they count when all of them are looked at (Holm's step-down), in the order given."""
    order = sorted(range(len(values)), key=lambda place: values[place])
    adjusted, worst = [0.0] * len(values), 0.0
    for step, place in enumerate(order):
        worst = max(worst, min(1.0, values[place] * (len(values) - step)))
        adjusted[place] = worst
    return adjusted


# Correlations


class Correlation(NamedTuple):
    """How two columns go together over n rows.

    Attributes:
        value: −1 to 1; `None` where a column does not vary or there are fewer than 3 rows.
        interval: `None` below 4 rows, of a perfect correlation, and where there is no value.
    """

    method: str
    value: float | None
    interval: Interval | None
    n: int


METHODS = ("pearson", "spearman")


def correlate(x: ArrayLike, y: ArrayLike, method: str = "pearson") -> Correlation:
    """Pearson's or Spearman's correlation of `[n]` and `[n]`, with Fisher's interval.

    On the z scale the standard error is √(1 / (n − 3)) for Pearson and √((1 + ρ²/2) / (n − 3)) for Spearman (Bonett
    and Wright 2000). The rows are taken as if drawn independently; relatives among models make it too narrow.
    """
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if method == "spearman":
        a, b = ranks(a), ranks(b)
    n = len(a)
    value = _pearson(a, b) if n >= 3 else None
    if value is None or n < 4 or abs(value) == 1.0:  # Fisher's z knows no bounds there
        return Correlation(method, value, None, n)
    error = sqrt((1 + (value * value / 2 if method == "spearman" else 0)) / (n - 3))
    z = atanh(value)
    return Correlation(method, value, Interval(tanh(z - _Z * error), tanh(z + _Z * error)), n)


def _pearson(a: Floats, b: Floats) -> float | None:
    a, b = a - a.mean(), b - b.mean()
    scale = sqrt(float(a @ a) * float(b @ b))
    if scale < 1e-12:
        return None
    value = float(a @ b) / scale
    # A perfect correlation stays one, whatever rounding leaves of it.
    return float(np.sign(value)) if abs(value) > 1 - 1e-12 else value


def ranks(values: ArrayLike) -> Floats:
    """Ranks from 1; equal values share the mean of theirs."""
    given = np.asarray(values, dtype=np.float64)
    _, inverse, counts = np.unique(given, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse], dtype=np.float64)


def correlation_gap(
    x: ArrayLike, other: ArrayLike, y: ArrayLike, generator: np.random.Generator, method: str = "pearson"
) -> tuple[float, Interval] | None:
    """How much better `x` goes with `y` than `other` does: the difference of their correlations, and its interval.

    The two correlations share rows and `y`; so rows are drawn again together. `None` with fewer than 5 rows or where
    something does not vary.
    """
    columns = [np.asarray(column, dtype=np.float64) for column in (x, other, y)]
    n = len(columns[0])
    if n < 5:
        return None
    ours, theirs = (correlate(column, columns[2], method).value for column in columns[:2])
    if ours is None or theirs is None:
        return None
    rows = generator.integers(n, size=(2000, n))
    if method == "spearman":
        drawn = [_ranked(column[rows]) for column in columns]
    else:
        drawn = [column[rows] for column in columns]
    gaps = _rowwise(drawn[0], drawn[2]) - _rowwise(drawn[1], drawn[2])
    return ours - theirs, middle(gaps[np.isfinite(gaps)])


def _ranked(drawn: Floats) -> Floats:
    """Ranks within each row of `[trials, n]`, n being small."""
    mine, others = drawn[:, :, None], drawn[:, None, :]
    return np.asarray((mine > others).sum(2) + ((mine == others).sum(2) + 1) / 2, dtype=np.float64)


def _rowwise(a: Floats, b: Floats) -> Floats:
    """Pearson's correlation of each row of `[trials, n]` with its fellow; NaN where one does not vary."""
    a, b = a - a.mean(1, keepdims=True), b - b.mean(1, keepdims=True)
    scale = np.sqrt((a * a).sum(1) * (b * b).sum(1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(scale > 1e-12, (a * b).sum(1) / scale, np.nan))
