"""Where one shot of a video ends and the next begins.

Hard cuts, found on frames that are decoded roughly, and fades through black. A cut is where the picture changes all
at once: far more than in the frames around it (so fast motion is none), and not back again within a moment (so a
flash is none). Dissolves and wipes are not looked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelspace.media.decode import Seen, Video
from reelspace.media.foresight import Foresight

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

CELLS = (18, 32)  # rows, columns of the grid a frame is averaged over, 3 × 3 samples a cell
LEVELS = (8, 6, 6)  # bins of brightness and of the two colour differences
CHANGE = 0.15  # the least difference at a cut
SURGE = 3.0  # and how many times the differences around it
AROUND = 3  # steps looked at on either side, if they are
NEAR = 1.0  # seconds from it: what is further away tells nothing of how things move
KEY_CHANGE = 0.25  # the least difference, where much was left out between two frames
FLASH = 0.25  # seconds within which a flash is over
BLACK = 0.12  # brightness under which a frame is black; black of video is 16/255


class _Look(NamedTuple):
    """What is remembered of a frame."""

    time: float
    cells: NDArray[np.float32]  # [3, rows, columns]: averages, 0…1
    colours: NDArray[np.float32]  # histogram, sums to 1

    @property
    def brightness(self) -> float:
        """Of the brightest hundredth: a black frame has none, a night sky has a moon."""
        return float(np.partition(self.cells[0], -6, axis=None)[-6])


def shot_cuts(video: Video) -> list[float]:
    """Times at which the first frame of a new shot is shown, ascending, each inside `(0, duration)`."""
    return list(found_cuts(video, video.skim()))


def found_cuts(video: Video, frames: Iterable[Seen], foresight: Foresight | None = None) -> Iterator[float]:
    """The same of frames that are already being decoded, each cut as soon as none before it can come any more.

    Args:
        video: the video.
        frames: as `video.skim` gives them.
        foresight: told where shots seem to begin, long before it is sure.
    """
    hard, fades = _Changes(KEY_CHANGE if video.keys else CHANGE), _Fades()
    beside: dict[float, _Look] = {}  # frames of the last moment that only tell where a change is, by their times
    sudden: list[float] = []  # the last hard cuts: a fade right beside one is no cut of its own
    waiting: list[tuple[float, float, bool]] = []  # when the new shot begins, when that is sure, whether it is a fade
    last, look_at = 0.0, _Looker()
    for seen in chain(frames, [None]):
        look = None if seen is None else look_at(seen.time, seen.frame)
        if look is not None and seen is not None and seen.beside:
            beside = {time: one for time, one in beside.items() if time > look.time - 2 * NEAR} | {look.time: look}
            continue
        for before, after in hard.add(look):
            sudden.append(cut := _first_frame(video, before, after, beside))
            waiting.append((cut, cut, False))
        if look is not None:
            if foresight is not None:
                if hard.changed is not None:
                    foresight.begins(_first_frame(video, *hard.changed, beside, at_once=True))
                foresight.passes(look.time)
            if (middle := fades.add(look)) is not None:
                waiting.append((float(video.times[video.index_at(middle)]), middle, True))
        settled = min(hard.settled - FLASH, fades.settled)
        for one in sorted(one for one in waiting if one[1] <= settled):
            waiting.remove(one)
            cut, sure, soft = one
            near = soft and any(abs(sure - other) < FLASH for other in sudden)
            if last < cut < video.duration and not near:
                last = cut
                yield cut
        sudden = [cut for cut in sudden if cut > settled - 2 * FLASH]


class _Looker:
    """Looks at frames. Every frame of a film passes here, so a look takes a fraction of a millisecond."""

    def __init__(self) -> None:
        from av.video.reformatter import VideoReformatter

        self._scaler = VideoReformatter()

    def __call__(self, time: float, frame: VideoFrame) -> _Look:
        rows, columns = CELLS
        scaled = self._scaler.reformat(frame, columns * 3, rows * 3, "yuv444p", interpolation="POINT", threads=1)
        wide = np.empty((3, rows * 3, columns * 3), dtype=np.uint16)
        for samples, plane in zip(wide, scaled.planes, strict=True):
            samples[:] = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)[
                : rows * 3, : columns * 3
            ]
        tall = wide.reshape(3, rows, 3, columns * 3)
        lines = (tall[:, :, 0] + tall[:, :, 1] + tall[:, :, 2]).reshape(3, rows, columns, 3)
        cells = (lines[..., 0] + lines[..., 1] + lines[..., 2]).astype(np.float32) / np.float32(9 * 255)
        levels = wide * np.array(LEVELS, dtype=np.uint16)[:, None, None] >> 8
        bins = ((levels[0] * LEVELS[1] + levels[1]) * LEVELS[2] + levels[2]).ravel()
        colours = np.bincount(bins, minlength=math.prod(LEVELS)).astype(np.float32) / bins.size
        return _Look(time, cells, colours)


def _difference(one: _Look, other: _Look) -> float:
    """How much two pictures differ: 0 for the same, above `CHANGE` for two shots.

    What is where, and which colours there are. The colours count no more than the places: in a fade or a plain picture
    a small step of brightness moves every sample to another bin.
    """
    planes = np.abs(one.cells - other.cells)
    largest = np.maximum(np.maximum(planes[0], planes[1]), planes[2]).ravel()
    # The methods for mean and sum take longer than all of this.
    places: float = float(np.add.reduce(largest)) / largest.size
    colours: float = float(np.add.reduce(np.abs(one.colours - other.colours))) / 2
    return places + min(places, colours / 2)


class _Changes:
    """Told every look in order and None at the end, says where hard cuts are: a moment later.

    Attributes:
        settled: seconds: what comes will be found after this time.
        changed: the last two frames, if they differ as much as at a cut.
    """

    def __init__(self, least: float) -> None:
        self._least = least
        self._near: list[_Look] = []  # a moment before and after the step that is judged
        self._steps: list[float] = []  # difference of each to the one before
        self._at = 1
        self.settled = 0.0
        self.changed: tuple[_Look, _Look] | None = None

    def add(self, look: _Look | None) -> list[tuple[_Look, _Look]]:
        """The frames before and after every hard cut that is sure now."""
        near, found = self._near, []
        if look is not None:
            self._steps.append(_difference(near[-1], look) if near else 0.0)
            near.append(look)
            self.changed = (near[-2], look) if self._steps[-1] >= self._least else None
        while self._at < len(near) and (look is None or self._is_due(look)):
            if _is_cut(near, self._steps, self._at, self._least):
                found.append((near[self._at - 1], near[self._at]))
            self._at += 1
        self.settled = math.inf if look is None else near[self._at - 1].time
        old = 0
        while old + AROUND + 1 < self._at and near[old].time < near[self._at - 1].time - FLASH:
            old += 1
        del near[:old], self._steps[:old]
        self._at -= old
        return found

    def _is_due(self, look: _Look) -> bool:
        return self._at + AROUND < len(self._near) and look.time >= self._near[self._at].time + FLASH


def _is_cut(near: Sequence[_Look], steps: Sequence[float], at: int, least: float) -> bool:
    places = [*range(max(1, at - AROUND), at), *range(at + 1, min(len(near), at + 1 + AROUND))]
    around = [steps[place] for place in places if abs(near[place].time - near[at].time) < NEAR]
    usual = sum(around) / len(around) if around else 0.0
    if steps[at] < max(least, SURGE * usual):
        return False
    before = [look for look in near[:at] if look.time >= near[at - 1].time - FLASH]
    after = [look for look in near[at:] if look.time <= near[at].time + FLASH]
    return min(_difference(a, b) for a in before for b in after) >= CHANGE / 2


def _first_frame(
    video: Video, before: _Look, after: _Look, known: Mapping[float, _Look], at_once: bool = False
) -> float:
    """When the new shot's first frame is shown, be it one of those that were left out between the two.

    Args:
        video: the video.
        before, after: the two frames.
        known: frames that were left out and are known nevertheless, by their times.
        at_once: decode none for it.
    """
    first, last = video.index_at(before.time), video.index_at(after.time)
    looks = [before, *(known[time] for time in video.times[first + 1 : last].tolist() if time in known), after]
    if len(looks) <= last - first:
        if at_once:
            return after.time
        look_at = _Looker()
        looks = [look_at(0.0, frame) for frame in video.raw(range(first, last + 1))]
    return float(video.times[first + 1 + int(np.argmax([_difference(a, b) for a, b in pairwise(looks)]))])


class _Fades:
    """Told every look in order, says the middle of every black stretch that has a picture before and after it.

    Attributes:
        settled: seconds: what comes will be found after this time.
    """

    def __init__(self) -> None:
        self._before: float | None = None
        self._start: float | None = None
        self.settled = math.inf

    def add(self, look: _Look) -> float | None:
        """The middle, where a stretch has just ended."""
        middle, brightness, before = None, look.brightness, self._before
        if before is not None and brightness < BLACK <= before:
            self._start = look.time
        elif before is not None and before < BLACK <= brightness and self._start is not None:
            middle = (self._start + look.time) / 2
            self._start = None
        self._before = brightness
        self.settled = math.inf if self._start is None else self._start
        return middle
