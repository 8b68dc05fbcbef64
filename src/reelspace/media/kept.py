"""Decoded frames that are kept because they will probably be wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

ROOM = 96 << 20  # bytes of decoded frames, and as many of pictures, that are kept

Picture = NDArray[np.uint8]


class Kept:
    """Frames that will probably be wanted, taken while all frames pass, so that none is decoded twice.

    Attributes:
        wanted: indices of the frames to take.
    """

    def __init__(self, render: Callable[[VideoFrame], Picture], wanted: Iterable[int] = (), room: int = ROOM) -> None:
        self.wanted = set(wanted)
        self._render, self._room = render, room
        self._frames: dict[int, VideoFrame] = {}  # as decoded: most of them will never be looked at
        self._pictures: dict[int, Picture] = {}
        self._size = 0  # of the pictures

    def __contains__(self, index: int) -> bool:
        return index in self._frames or index in self._pictures

    def take(self, index: int, frame: VideoFrame) -> None:
        """Keeps a decoded frame, if there is room."""
        self._frames[index] = frame
        while len(self._frames) * _size(frame) > self._room:
            oldest = next(iter(self._frames))
            picture = self._render(self._frames.pop(oldest))
            if self._size + picture.nbytes <= self._room:
                self.put(oldest, picture)

    def put(self, index: int, picture: Picture) -> None:
        """Keeps a picture that is wanted for sure."""
        self._pictures[index] = picture
        self._size += picture.nbytes

    def picture(self, index: int) -> Picture:
        """A picture of a frame that is kept."""
        if index not in self._pictures:
            self.put(index, self._render(self._frames.pop(index)))
        return self._pictures[index]

    def forget(self, before: int) -> None:
        """Lets go of all frames before this one."""
        for index in [index for index in self._frames if index < before]:
            del self._frames[index]
        for index in [index for index in self._pictures if index < before]:
            self._size -= self._pictures.pop(index).nbytes


def _size(frame: VideoFrame) -> int:
    return sum(plane.buffer_size for plane in frame.planes)
