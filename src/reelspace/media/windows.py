"""Windows: the stretches of a video that are embedded, searched and answered with."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise, starmap
from typing import NamedTuple

from reelspace.errors import ItemError


class Window(NamedTuple):
    """A candidate span `[start, end)` of one video, in seconds from its first displayed frame."""

    start: float
    end: float


class Windowing(ABC):
    """Divides a video into windows. `str(windowing)` is its declared form, as `parse_windowing` reads it."""

    def windows(self, duration: float, cuts: Sequence[float] = ()) -> list[Window]:
        """Windows in order of time; together they cover `[0, duration)`.

        Args:
            duration: of the video, in seconds, > 0.
            cuts: where a new shot begins, ascending, each inside `(0, duration)`.
        """
        return list(self.divide(duration, cuts))

    @abstractmethod
    def divide(self, duration: float, cuts: Sequence[float]) -> Iterator[Window]:
        """The same, one by one: how many there are is up to the file and to what was asked."""

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

    def __str__(self) -> str:
        return f"shots({self.shortest:g}, {self.longest:g})"

    @property
    def needs_cuts(self) -> bool:
        return True

    def divide(self, duration: float, cuts: Sequence[float]) -> Iterator[Window]:
        edges = [0.0]
        for cut in cuts:
            if cut - edges[-1] >= self.shortest:
                edges.append(cut)
        if len(edges) > 1 and duration - edges[-1] < self.shortest:
            edges.pop()
        edges.append(duration)
        for start, end in pairwise(edges):
            yield from self._split(start, end)

    def _split(self, start: float, end: float) -> Iterator[Window]:
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

    def __str__(self) -> str:
        return f"fixed({self.length:g}, {self.stride:g})"

    @property
    def needs_cuts(self) -> bool:
        return False

    def divide(self, duration: float, cuts: Sequence[float] = ()) -> Iterator[Window]:
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


_NUMBER = r"(\d+(?:\.\d+)?)"
_FORMS: tuple[tuple[re.Pattern[str], Callable[..., Windowing]], ...] = (
    (re.compile(r"shots"), Shots),
    (re.compile(rf"shots\({_NUMBER},{_NUMBER}\)"), lambda *numbers: Shots(*map(float, numbers))),
    (re.compile(rf"fixed\({_NUMBER},{_NUMBER}\)"), lambda *numbers: Fixed(*map(float, numbers))),
)


def parse_windowing(text: str) -> Windowing:
    """A windowing from its declared form: `shots`, `shots(2, 10)` or `fixed(10, 5)`.

    Raises:
        ItemError: it is none of these, or its numbers make no sense.
    """
    for form, make in _FORMS:
        if match := form.fullmatch(text.replace(" ", "")):
            return make(*match.groups())
    raise ItemError(f"“{text}” is no windowing; write shots, shots(2, 10) or fixed(10, 5).")
