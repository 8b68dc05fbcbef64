"""Windows: the stretches of a video that are embedded, searched and answered with."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby, pairwise, starmap
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import ItemError

MOMENT = 1.0  # seconds


class Window(NamedTuple):
    """A candidate span `[start, end)` of one video, in seconds from its first displayed frame."""

    start: float
    end: float


@dataclass(frozen=True)
class Windowing(ABC):
    """Divides a video into windows. `str(windowing)` is its declared form, as `parse_windowing` reads it.

    Attributes:
        fast: look at the first frame and the key frames of a video alone; windows begin and end where they do.
    """

    fast: bool = field(default=False, kw_only=True)

    def __str__(self) -> str:
        return f"fast {self.form}" if self.fast else self.form

    @property
    @abstractmethod
    def form(self) -> str:
        """The declared form, without `fast`."""

    def windows(self, duration: float, cuts: Sequence[float] = ()) -> list[Window]:
        """Windows in order of time; together they cover `[0, duration)`.

        Args:
            duration: of the video, in seconds, > 0.
            cuts: where a new shot begins, ascending, each inside `(0, duration)`.
        """
        return list(self.divide(duration, cuts))

    @abstractmethod
    def divide(self, duration: float, cuts: Iterable[float]) -> Iterator[Window]:
        """The same, one by one: how many there are is up to the file and to what was asked. A window comes as soon as
        the cuts drawn tell it.
        """

    @property
    @abstractmethod
    def needs_cuts(self) -> bool:
        """Whether `windows` looks at `cuts` at all: finding them costs a decoding pass."""


@dataclass(frozen=True)
class Shots(Windowing):
    """One window a shot. A shot under `shortest` seconds joins the one after it (the last: the one before);
    what is over `longest` is split into the fewest equal parts that are not.
    """

    shortest: float = 2.0
    longest: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.shortest <= self.longest < math.inf or self.longest == 0:
            raise ItemError(f"shots: 0 ≤ shortest ≤ longest is needed, not {self.shortest:g} and {self.longest:g}.")

    @property
    def form(self) -> str:
        return f"shots({self.shortest:g}, {self.longest:g})"

    @property
    def needs_cuts(self) -> bool:
        return True

    def divide(self, duration: float, cuts: Iterable[float]) -> Iterator[Window]:
        begun = 0.0
        for cut in cuts:
            if cut - begun >= self.shortest and duration - cut >= self.shortest:
                yield from self.split(begun, cut)
                begun = cut
        yield from self.split(begun, duration)

    def split(self, start: float, end: float) -> Iterator[Window]:
        """The windows of one shot."""
        parts = max(1, math.ceil((end - start) / self.longest - 1e-9))
        inner = (start + (end - start) * part / parts for part in range(1, parts))
        return starmap(Window, pairwise(chain([start], inner, [end])))


@dataclass(frozen=True)
class Fixed(Windowing):
    """Windows of `length` seconds, one every `stride`; the last ends with the video."""

    length: float
    stride: float

    def __post_init__(self) -> None:
        if not 0 < self.stride <= self.length < math.inf:
            raise ItemError(f"fixed: 0 < stride ≤ length is needed, not {self.length:g} and {self.stride:g}.")

    @property
    def form(self) -> str:
        return f"fixed({self.length:g}, {self.stride:g})"

    @property
    def needs_cuts(self) -> bool:
        return False

    def divide(self, duration: float, cuts: Iterable[float] = ()) -> Iterator[Window]:
        more = max(0, math.ceil((duration - self.length) / self.stride - 1e-9))
        for number in range(more + 1):
            start = number * self.stride
            yield Window(start, min(start + self.length, duration))


def stills_joined(windows: Iterable[Window], displayed: Callable[[float, float], tuple[int, int]]) -> Iterator[Window]:
    """Makes one window of successive ones throughout which one and the same frame is on show.

    A still is one moment, however long: parts of it could only be told apart by their times. So a video has no more
    windows than its frames call for, whatever duration it claims.

    Args:
        windows: in order of time.
        displayed: the frames shown during `[start, end)`, as a range of indices; `Video.displayed`.
    """

    def shown(window: Window) -> int | Window:
        first, after = displayed(window.start, window.end)
        return first if after - first == 1 else window

    for _, run in groupby(windows, shown):
        same = list(run)
        yield Window(same[0].start, same[-1].end)


def at_frames(windows: Iterable[Window], times: NDArray[np.float64], duration: float) -> Iterator[Window]:
    """Windows with their edges moved to the nearest time at which a frame appears, or to the end; none twice or empty.

    A frame of the last moment of a video begins no window of its own.

    Args:
        windows: in order of time.
        times: float64 `[N]`, seconds, ascending: when frames appear.
        duration: of the video, in seconds.
    """
    edges = np.append(times[(times == 0) | (times <= duration - MOMENT)], duration)
    between = (edges[1:] + edges[:-1]) / 2

    def moved(window: Window) -> Window:
        return Window(*edges[np.searchsorted(between, window, side="right")].tolist())

    for window, _ in groupby(map(moved, windows)):
        if window.start < window.end:
            yield window


_NUMBER = r"(\d+(?:\.\d+)?)"
_FORMS: tuple[tuple[re.Pattern[str], Callable[..., Windowing]], ...] = (
    (re.compile(r"shots"), Shots),
    (re.compile(rf"shots\({_NUMBER},{_NUMBER}\)"), lambda *numbers: Shots(*map(float, numbers))),
    (re.compile(rf"fixed\({_NUMBER},{_NUMBER}\)"), lambda *numbers: Fixed(*map(float, numbers))),
)


def is_fast(form: str) -> bool:
    """Whether a declared form is that of a windowing that looks at key frames alone."""
    return form.startswith("fast")


def parse_windowing(text: str) -> Windowing:
    """A windowing from its declared form: `shots`, `shots(2, 10)`, `fixed(10, 5)`; `fast shots` for key frames alone.

    Raises:
        ItemError: it is none of these, or its numbers make no sense.
    """
    plain = text.replace(" ", "")
    for form, make in _FORMS:
        if match := form.fullmatch(plain.removeprefix("fast")):
            return replace(make(*match.groups()), fast=is_fast(plain))
    raise ItemError(f"“{text}” is no windowing; write shots, shots(2, 10) or fixed(10, 5).")
