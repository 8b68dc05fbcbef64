"""Where one shot of a video ends and the next begins.

Hard cuts, found on frames that are decoded roughly, and fades through black. A cut is where the picture changes all
at once: far more than in the frames around it (so fast motion is none), and not back again within a moment (so a
flash is none). Dissolves and wipes are not looked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelspace.media.decode import Video

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
    light: list[tuple[float, float]] = []
    looks = _noting(_looks(video.skim()), light)
    hard = [_first_frame(video, *change) for change in _changes(looks, KEY_CHANGE if video.keys else CHANGE)]
    soft = [cut for cut in _fades(light) if not any(abs(cut - other) < FLASH for other in hard)]
    snapped = [float(video.times[video.index_at(cut)]) for cut in soft]
    return sorted({cut for cut in hard + snapped if 0 < cut < video.duration})


def _looks(frames: Iterable[tuple[float, VideoFrame]]) -> Iterator[_Look]:
    """A look at each frame. Every frame of a film passes here, so a look takes a fraction of a millisecond."""
    from av.video.reformatter import VideoReformatter

    scaler, (rows, columns) = VideoReformatter(), CELLS
    for time, frame in frames:
        scaled = scaler.reformat(frame, columns * 3, rows * 3, "yuv444p", interpolation="POINT", threads=1)
        small = scaled.to_ndarray()
        lines = _three(small.reshape(3, rows, 3, columns * 3), 2)
        cells: NDArray[np.float32] = _three(lines.reshape(3, rows, columns, 3), 3).astype(np.float32) / np.float32(
            9 * 255
        )
        bins = sum(bins[plane] for bins, plane in zip(_BINS, small, strict=True)).ravel()
        colours = np.bincount(bins, minlength=LEVELS[0] * LEVELS[1] * LEVELS[2]).astype(np.float32) / bins.size
        yield _Look(time, cells, colours)


def _three(values: NDArray[Any], axis: int) -> NDArray[np.uint16]:
    """Sums over an axis of length three; NumPy's own are slow for so few."""
    first, second, third = (values.take(at, axis).astype(np.uint16) for at in range(3))
    return np.asarray(first + second + third)


# What each byte of a plane adds to the number of the histogram's bin.
_BINS = [(np.arange(256) * levels >> 8) * math.prod(LEVELS[plane + 1 :]) for plane, levels in enumerate(LEVELS)]


def _difference(one: _Look, other: _Look) -> float:
    """How much two pictures differ: 0 for the same, above `CHANGE` for two shots.

    What is where, and which colours there are. The colours count no more than the places: in a fade or a plain picture
    a small step of brightness moves every sample to another bin.
    """
    places = float(np.abs(one.cells - other.cells).max(axis=0).mean())
    colours = float(np.abs(one.colours - other.colours).sum()) / 2
    return places + min(places, colours / 2)


def _changes(looks: Iterable[_Look], least: float) -> Iterator[tuple[float, float]]:
    """The times of the frames before and after every hard cut, among the frames looked at."""
    near: list[_Look] = []  # a moment before and after the step that is judged
    steps: list[float] = []  # difference of each to the one before
    at = 1
    for look in looks:
        steps.append(_difference(near[-1], look) if near else 0.0)
        near.append(look)
        while at + AROUND < len(near) and look.time >= near[at].time + FLASH:
            if _is_cut(near, steps, at, least):
                yield near[at - 1].time, near[at].time
            at += 1
        old = 0
        while old + AROUND + 1 < at and near[old].time < near[at - 1].time - FLASH:
            old += 1
        del near[:old], steps[:old]
        at -= old
    for last in range(at, len(near)):
        if _is_cut(near, steps, last, least):
            yield near[last - 1].time, near[last].time


def _is_cut(near: Sequence[_Look], steps: Sequence[float], at: int, least: float) -> bool:
    places = [*range(max(1, at - AROUND), at), *range(at + 1, min(len(near), at + 1 + AROUND))]
    around = [steps[place] for place in places if abs(near[place].time - near[at].time) < NEAR]
    usual = sum(around) / len(around) if around else 0.0
    if steps[at] < max(least, SURGE * usual):
        return False
    before = [look for look in near[:at] if look.time >= near[at - 1].time - FLASH]
    after = [look for look in near[at:] if look.time <= near[at].time + FLASH]
    return min(_difference(a, b) for a in before for b in after) >= CHANGE / 2


def _first_frame(video: Video, before: float, after: float) -> float:
    """When the new shot's first frame is shown: frames that were left out between the two are looked at as well."""
    first, last = video.index_at(before), video.index_at(after)
    if last - first > 1:
        looks = _looks((0.0, frame) for frame in video.raw(range(first, last + 1)))
        first += int(np.argmax([_difference(a, b) for a, b in pairwise(looks)]))
        last = first + 1
    return float(video.times[last])


def _noting(looks: Iterable[_Look], light: list[tuple[float, float]]) -> Iterator[_Look]:
    for look in looks:
        light.append((look.time, look.brightness))
        yield look


def _fades(light: Sequence[tuple[float, float]]) -> Iterator[float]:
    """The middle of every black stretch that has a picture before and after it."""
    start = None
    for (time, brightness), (_, before) in zip(light[1:], light, strict=False):
        if brightness < BLACK <= before:
            start = time
        elif before < BLACK <= brightness and start is not None:
            yield (start + time) / 2
            start = None
