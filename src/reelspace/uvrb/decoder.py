"""What torchcodec's `VideoDecoder` can be asked, answered by our own decoder: no torchcodec is needed.

Frames are those of `reelspace.media`: upright, counted from the packets and not from what the container claims.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelspace.item import Frames, Item, Span
from reelspace.media.decode import Video
from reelspace.media.policy import SAME

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Metadata:
    """Facts about a video, by torchcodec's names. Times are in seconds from the first displayed frame."""

    num_frames: int
    duration_seconds: float
    width: int
    height: int
    codec: str
    begin_stream_seconds: float = 0.0

    @property
    def end_stream_seconds(self) -> float:
        """Where the last frame ends."""
        return self.duration_seconds

    @property
    def average_fps(self) -> float:
        """Frames over duration; the frames of a file may be spread unevenly."""
        return self.num_frames / self.duration_seconds if self.duration_seconds > 0 else 0.0


@dataclass(frozen=True)
class Frame:
    """One frame: `data` uint8 `[C, H, W]`, when it is shown and for how long, in seconds."""

    data: torch.Tensor
    pts_seconds: float
    duration_seconds: float


@dataclass(frozen=True)
class FrameBatch:
    """Frames: `data` uint8 `[N, C, H, W]`, `pts_seconds` and `duration_seconds` float64 `[N]`."""

    data: torch.Tensor
    pts_seconds: torch.Tensor
    duration_seconds: torch.Tensor

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Frame]:
        rows = zip(self.data, self.pts_seconds.tolist(), self.duration_seconds.tolist(), strict=True)
        return (Frame(data, start, length) for data, start, length in rows)


class VideoDecoder:
    """Frames of a video, by number and by time.

    Args:
        source: a file, a stretch of one, the bytes of one, or frames that are decoded already.
        dimension_order: `NCHW` or `NHWC`.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Span | bytes | Frames,
        *,
        dimension_order: str = "NCHW",
    ) -> None:
        self._order = dimension_order
        self._frames = source if isinstance(source, Frames) else None
        self._span: Span | None = None
        if isinstance(source, bytes):
            self._span = Span(_file_of(source, self))
        elif isinstance(source, Span):
            self._span = source
        elif not isinstance(source, Frames):
            self._span = Span(Path(source))
        self._video: Video | None = None

    @property
    def item(self) -> Item:
        """The video as an item to embed."""
        return Item(video=self._frames or self._span)

    # What it is.

    @property
    def metadata(self) -> Metadata:
        """Facts about it."""
        times, end = self._times, self._end
        if self._frames is not None:
            height, width = self._frames.pixels.shape[1:3]
            return Metadata(len(times), end, width, height, "rawvideo")
        video = self._opened
        return Metadata(len(times), end, video.width, video.height, video.codec)

    def __len__(self) -> int:
        return len(self._times)

    # Frames by number.

    def __getitem__(self, key: int | slice) -> torch.Tensor:
        if isinstance(key, slice):
            return self.get_frames_at(list(range(len(self))[key])).data
        return self.get_frame_at(key).data

    def get_frame_at(self, index: int) -> Frame:
        """One frame; a negative number counts from the end."""
        return next(iter(self.get_frames_at([index])))

    def get_frames_at(self, indices: Sequence[int]) -> FrameBatch:
        """Frames in the order given.

        Raises:
            IndexError: there are not so many frames.
        """
        count = len(self)
        wanted = np.asarray(indices, dtype=np.int64).reshape(-1)
        wanted = np.where(wanted < 0, wanted + count, wanted)
        if len(wanted) and (wanted.min() < 0 or wanted.max() >= count):
            raise IndexError(f"there are {count} frames; {list(indices)} are not all among them")
        return self._batch(wanted)

    def get_frames_in_range(self, start: int, stop: int, step: int = 1) -> FrameBatch:
        """Frames from `start` up to `stop`."""
        return self.get_frames_at(list(range(*slice(start, stop, step).indices(len(self)))))

    def get_all_frames(self) -> FrameBatch:
        """Every frame: all of them are in memory then."""
        return self.get_frames_in_range(0, len(self))

    # Frames by time.

    def get_frame_played_at(self, seconds: float) -> Frame:
        """The frame shown at a time."""
        return next(iter(self.get_frames_played_at([seconds])))

    def get_frames_played_at(self, seconds: Sequence[float]) -> FrameBatch:
        """The frames shown at times.

        Raises:
            IndexError: a time lies outside the video.
        """
        times = np.asarray(seconds, dtype=np.float64).reshape(-1)
        if len(times) and (times.min() < 0 or times.max() >= self._end):
            raise IndexError(f"the video lasts {self._end:.3f} s; {list(seconds)} are not all within it")
        return self._batch(np.maximum(np.searchsorted(self._times, times + SAME, side="right") - 1, 0))

    def get_frames_played_in_range(self, start_seconds: float, stop_seconds: float) -> FrameBatch:
        """The frames shown during `[start, stop)`."""
        times = self._times
        first = max(0, int(np.searchsorted(times, start_seconds + SAME, side="right")) - 1)
        last = int(np.searchsorted(times, stop_seconds - SAME, side="left"))
        return self.get_frames_in_range(first, last)

    # Within.

    @property
    def _opened(self) -> Video:
        if self._video is None:
            assert self._span is not None
            self._video = Video(self._span.path)
            weakref.finalize(self, self._video.close)
        return self._video

    @property
    def _range(self) -> tuple[int, int]:
        """Of the frames of the file, the first of ours and the one after the last."""
        assert self._span is not None
        end = self._opened.duration if self._span.end is None else min(self._span.end, self._opened.duration)
        return self._opened.displayed(self._span.start, end)

    @property
    def _times(self) -> NDArray[np.float64]:
        if self._frames is not None:
            return self._frames.times - self._frames.start
        assert self._span is not None
        first, after = self._range
        return np.maximum(self._opened.times[first:after] - self._span.start, 0.0)

    @property
    def _end(self) -> float:
        if self._frames is not None:
            return self._frames.end - self._frames.start
        assert self._span is not None
        end = self._opened.duration if self._span.end is None else min(self._span.end, self._opened.duration)
        return end - self._span.start

    def _batch(self, indices: NDArray[np.int64]) -> FrameBatch:
        import torch

        times = self._times
        ends = np.append(times[1:], self._end)
        if len(indices) == 0:
            facts = self.metadata
            pixels = np.empty((0, facts.height, facts.width, 3), dtype=np.uint8)
        elif self._frames is not None:
            pixels = self._frames.pixels[indices]
        else:
            pixels = self._opened.frames(indices + self._range[0])
        data = torch.from_numpy(np.ascontiguousarray(pixels))
        if self._order == "NCHW":
            data = data.permute(0, 3, 1, 2)
        shown = torch.from_numpy(times[indices]), torch.from_numpy((ends - times)[indices])
        return FrameBatch(data, *shown)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_video": None}


def _file_of(data: bytes, owner: object) -> Path:
    """A file with these bytes that lasts as long as its owner."""
    with tempfile.NamedTemporaryFile(suffix=".video", delete=False) as file:
        file.write(data)

    def remove(name: str = file.name) -> None:
        with suppress(FileNotFoundError):
            Path(name).unlink()

    weakref.finalize(owner, remove)
    return Path(file.name)
