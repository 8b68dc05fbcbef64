"""Frame policies: which displayed frames of a stretch of video a model sees.

A policy works on the presentation times of the N displayed frames, never on a container's frame count or rate.
A stretch with fewer frames than asked for repeats its nearest frames in order: time never runs backwards and
every part is covered. Choosing again from what was chosen gives the same frames, so frames that were sampled by
the indexer and frames that an embedder samples itself lead to the same vector.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import ItemError

# Seconds. Times closer than this are the same moment: rounding must not choose the frame before.
SAME = 1e-6


class FramePolicy(ABC):
    """Chooses frames. `str(policy)` is its declared form, as `parse_policy` reads it."""

    @abstractmethod
    def choose(self, times: NDArray[np.float64], start: float, end: float) -> NDArray[np.int64]:
        """Indices of the frames to take, not decreasing.

        Args:
            times: float64 `[N]`, seconds, ascending: presentation times of the displayed frames of the stretch,
                the one shown at `start` first. N ≥ 1.
            start, end: the stretch `[start, end)` in seconds.
        """


def _spread(frames: int, n: int) -> NDArray[np.int64]:
    """`round(linspace(0, frames − 1, n))` in exact integer arithmetic, halves to even."""
    if n == 1:
        return np.zeros(1, dtype=np.int64)
    quotient, remainder = np.divmod(np.arange(n, dtype=np.int64) * (frames - 1), n - 1)
    twice = 2 * remainder
    up = (twice > n - 1) | ((twice == n - 1) & (quotient % 2 == 1))
    return np.asarray(quotient + up, dtype=np.int64)


def _positive(policy: FramePolicy, **values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ItemError(f"{type(policy).__name__.lower()}: {name} must be positive, not {value}.")


@dataclass(frozen=True)
class Uniform(FramePolicy):
    """n frames at indices `round(linspace(0, N − 1, n))`: first and last included (GVE's benchmark: n = 8)."""

    n: int

    def __post_init__(self) -> None:
        _positive(self, n=self.n)

    def __str__(self) -> str:
        return f"uniform({self.n})"

    def choose(self, times: NDArray[np.float64], start: float, end: float) -> NDArray[np.int64]:
        return _spread(len(times), self.n)


@dataclass(frozen=True)
class Centres(FramePolicy):
    """The frames shown at the middles of n equal parts of the stretch."""

    n: int

    def __post_init__(self) -> None:
        _positive(self, n=self.n)

    def __str__(self) -> str:
        return f"centres({self.n})"

    def choose(self, times: NDArray[np.float64], start: float, end: float) -> NDArray[np.int64]:
        middles = start + (np.arange(self.n) + 0.5) / self.n * (end - start)
        return np.maximum(np.searchsorted(times, middles + SAME, side="right") - 1, 0).astype(np.int64)


@dataclass(frozen=True)
class Fps(FramePolicy):
    """`rate` frames a second, an even count between 4 and `max`, spread uniformly (qwen-vl-utils' rule).

    k is the even number ≤ min(max(duration·rate, 4), max, N), and at least 2; then `Uniform(k)`.
    """

    rate: float
    max: int

    def __post_init__(self) -> None:
        _positive(self, rate=self.rate, max=self.max)

    def __str__(self) -> str:
        return f"fps({self.rate:g}, max={self.max})"

    def choose(self, times: NDArray[np.float64], start: float, end: float) -> NDArray[np.int64]:
        wanted = min(max((end - start) * self.rate, 4), self.max, len(times))
        return _spread(len(times), max(2, int(wanted) // 2 * 2))


@dataclass(frozen=True)
class Sampling:
    """How a model takes frames from a video: which ones, and how large.

    Attributes:
        policy: which displayed frames.
        edge: frames are scaled down while decoding so that their shorter side is this many pixels (aspect
            kept, never enlarged); `None` keeps the displayed size.
    """

    policy: FramePolicy
    edge: int | None = None

    def __str__(self) -> str:
        return f"{self.policy}" + ("" if self.edge is None else f" @ {self.edge} px")


_FORMS: tuple[tuple[re.Pattern[str], Callable[..., FramePolicy]], ...] = (
    (re.compile(r"uniform\((\d+)\)"), lambda n: Uniform(int(n))),
    (re.compile(r"centres\((\d+)\)"), lambda n: Centres(int(n))),
    (re.compile(r"fps\((\d+(?:\.\d+)?),max=(\d+)\)"), lambda rate, most: Fps(float(rate), int(most))),
)


def parse_policy(text: str) -> FramePolicy:
    """A policy from its declared form: `uniform(8)`, `centres(4)`, `fps(1, max=8)`.

    Raises:
        ItemError: it is none of these, or a number is zero.
    """
    for form, make in _FORMS:
        if match := form.fullmatch(text.replace(" ", "")):
            return make(*match.groups())
    raise ItemError(f"“{text}” is no frame policy; write uniform(8), centres(4) or fps(1, max=8).")
