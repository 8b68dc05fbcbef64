"""Which frames of a video will probably be wanted, told while its shots are still being found.

Finding the shots takes decoding everything. The frames that a model sees are known only when a shot is over, and by
then they are gone; to decode them again costs nearly as much as the first time. So they are foreseen: where a shot will
end is guessed from the sizes of packets, as a new picture takes an encoder many more bits than one more of the same.
A guess that fails costs time and nothing else.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from reelspace.media.policy import Sampling
from reelspace.media.windows import Shots

if TYPE_CHECKING:
    from reelspace.media.decode import Coded, Video
    from reelspace.media.kept import Kept

SURGE = 2.5  # how many times the size of those before it a packet has, that begins a new picture,
SHARE = 0.33  # and what part of a key frame's
BEFORE = 16  # packets looked at
HYPOTHESES = 2  # ends of a shot that are reckoned with
AROUND = 8  # frames among which a large packet's new picture may begin
AHEAD = 15.0  # seconds


class Foresight:
    """Told how far a video has been looked at and where shots begin, has the frames kept that windows will need."""

    def __init__(self, video: Video, windowing: Shots, sampling: Sampling, kept: Kept) -> None:
        self._video, self._windowing, self._sampling, self._kept = video, windowing, sampling, kept
        self._ends = deque(_likely_ends(video))
        self._plan(0.0)

    def begins(self, time: float) -> None:
        """A shot seems to begin here."""
        if time - self._begun >= self._windowing.shortest:
            self._plan(time)

    def passes(self, time: float) -> None:
        """All before this time has been looked at."""
        while self._plans and self._planned < time + AHEAD:
            self._planned += AHEAD
            for plan in list(self._plans):
                for window in plan:
                    self._kept.wanted.update(self._video.choose(window, self._sampling).tolist())
                    if window.end > self._planned:
                        break
                else:
                    self._plans.remove(plan)

    def _plan(self, begun: float) -> None:
        self._begun = self._planned = begun
        video, shortest = self._video, self._windowing.shortest
        while self._ends and self._ends[0][-1] <= begun:
            self._ends.popleft()
        least, most = begun + shortest, video.duration - shortest
        groups = ([end for end in group if least <= end <= most] for group in self._ends)
        likely = [*islice(filter(None, groups), HYPOTHESES), [video.duration]][:HYPOTHESES]
        self._plans = [self._windowing.split(begun, end) for group in likely for end in group]
        self.passes(begun)


def _likely_ends(video: Video) -> list[list[float]]:
    """Where shots may end, in order: the times at which the next one may begin, a few for each.

    A large packet begins a new picture, or ends a stretch of frames that were decoded out of order, one of which does.
    """
    coded = video.coded
    reached = np.maximum.accumulate(np.append(0, coded.indices))
    ends = []
    for place in np.flatnonzero(surges(coded)).tolist():
        last = int(coded.indices[place])
        first = max(int(reached[place]) + 1, last + 1 - AROUND)
        ends.append(video.times[first : last + 1].tolist())
    return sorted(times for times in ends if times)


def surges(coded: Coded) -> NDArray[np.bool_]:
    """Which packets are far larger than those before them; of key frames, which come sooner than they had to."""
    sizes, large = coded.sizes, np.zeros(len(coded.sizes), dtype=bool)
    others, keys = np.flatnonzero(~coded.keys), np.flatnonzero(coded.keys)
    if len(others) > BEFORE and len(keys):
        before = np.lib.stride_tricks.sliding_window_view(sizes[others], BEFORE)[:-1]
        usual = np.sort(before, axis=1)[:, BEFORE * 3 // 4]
        large[others[BEFORE:]] = sizes[others[BEFORE:]] > np.maximum(SURGE * usual, SHARE * np.median(sizes[keys]))
    if len(keys) > 1:
        gaps = np.diff(keys)
        large[keys[1:]] = gaps < gaps.max()
    return large
