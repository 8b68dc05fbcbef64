"""What is heard in a video: mono samples at 16 kHz whose clock is that of the displayed frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelspace.media.about import language_of
from reelspace.media.container import open_video
from reelspace.media.decode import Video

if TYPE_CHECKING:
    from av.audio.stream import AudioStream

RATE = 16_000  # samples a second
BLOCK = 30 * RATE  # samples given at once
SLIP = 0.04  # seconds by which stamps may differ from what has been heard: coarse stamps jitter by less
RATES = (4_000, 768_000)  # samples a second that a stream may claim

Samples = NDArray[np.int16]


class Sound:
    """The sound of an open video: of the stream that a player chooses.

    Attributes:
        present: whether there is any that can be decoded.
        language: as the file says, or None.
        damaged: parts could not be decoded; known when all has been read.
    """

    def __init__(self, video: Video, tick: Callable[[], None]) -> None:
        """Opens the file once more; `read` closes it."""
        self._video, self._tick = video, tick
        self.damaged = False
        self._container, _ = open_video(video.path)
        self._stream = _chosen(self._container)
        self.present = self._stream is not None
        self.language = language_of(self._stream.metadata) if self._stream is not None else None

    def read(self) -> Iterator[Samples]:
        """Samples int16 in blocks of 30 s, the last shorter: sample n is heard n / 16000 s after the first displayed
        frame appears. What is heard before that is left out, gaps are silent, and it ends with the video at the latest.
        """
        with self._container:
            if self._stream is None:
                return
            most = round(self._video.duration * RATE)
            line = _Line(most)
            for at, samples in self._pieces():
                yield from line.put(at, samples)
                if line.full:
                    break
            yield from line.rest()

    def _pieces(self) -> Iterator[tuple[float | None, Samples]]:
        """Stretches of sound: seconds at which one begins (None: right after the one before), and its samples."""
        resampler: Any = None
        form, heard = None, 0.0
        for frame in self._frames():
            now = (frame.format.name, frame.layout.name, frame.sample_rate)
            at = None if frame.pts is None else float(frame.pts * frame.time_base) - self._video.origin
            if form != now or (at is not None and abs(at - heard) > SLIP):
                if resampler is not None:
                    yield from ((None, rest) for rest in _drained(resampler))
                resampler, form = _resampler(), now
                heard = heard if at is None else at
                yield heard, np.empty(0, np.int16)
            heard += frame.samples / frame.sample_rate
            frame.pts = None  # the resampler would fill gaps in its own way
            yield from ((None, _array(one)) for one in resampler.resample(frame))
        if resampler is not None:
            yield from ((None, rest) for rest in _drained(resampler))

    def _frames(self) -> Iterator[Any]:
        from av.error import FFmpegError
        from av.stream import Discard

        assert self._stream is not None
        for other in self._container.streams:
            if other is not self._stream:
                other.discard = Discard.all
        try:
            for packet in self._container.demux(self._stream):
                self._tick()
                if packet.size or packet.dts is None:  # an empty sample would read as the end of the stream
                    yield from self._decoded(packet)
        except MemoryError:
            raise
        except FFmpegError:  # the file breaks off here; what was heard stands
            self.damaged = True

    def _decoded(self, packet: Any) -> list[Any]:
        from av.error import FFmpegError

        try:
            frames = packet.decode()
        except MemoryError:
            raise
        except FFmpegError:
            self.damaged = True
            return []
        sane = [frame for frame in frames if RATES[0] <= frame.sample_rate <= RATES[1] and frame.samples]
        self.damaged |= len(sane) < len(frames)
        return sane


class _Line:
    """Puts pieces on one line of time, and cuts it into blocks."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._at = 0  # where the next sample goes
        self._skip = 0  # samples of the next piece that are too early
        self._waiting: list[Samples] = []
        self._size = 0

    @property
    def full(self) -> bool:
        """Whether the end of the video is reached."""
        return self._left <= 0

    def put(self, seconds: float | None, samples: Samples) -> Iterator[Samples]:
        """Adds a piece: at a time, or behind the last one."""
        if seconds is not None:
            gap = round(seconds * RATE) - self._at
            self._skip = max(0, -gap)
            while gap > 0 and not self.full:
                silence = np.zeros(min(gap, BLOCK), np.int16)
                gap -= len(silence)
                yield from self._add(silence)
        if self._skip:
            early = min(self._skip, len(samples))
            self._skip -= early
            samples = samples[early:]
        yield from self._add(samples)

    def _add(self, samples: Samples) -> Iterator[Samples]:
        samples = samples[: max(0, self._left)]
        self._left -= len(samples)
        self._at += len(samples)
        self._waiting.append(samples)
        self._size += len(samples)
        if self._size >= BLOCK:
            joined = np.concatenate(self._waiting)
            whole = len(joined) // BLOCK * BLOCK
            self._waiting, self._size = [joined[whole:]], len(joined) - whole
            yield from np.split(joined[:whole], whole // BLOCK)

    def rest(self) -> Iterator[Samples]:
        """What is left of a block."""
        if self._size:
            yield np.concatenate(self._waiting)


def _chosen(container: Any) -> AudioStream | None:
    from av.stream import Disposition

    known = [s for s in container.streams.audio if s.codec_context is not None and s.codec_context.is_decoder]
    chosen: AudioStream | None = next(
        (s for s in known if s.disposition & Disposition.default), next(iter(known), None)
    )
    return chosen


def _resampler() -> Any:
    from av.audio.resampler import AudioResampler

    return AudioResampler(format="s16", layout="mono", rate=RATE)


def _drained(resampler: Any) -> list[Samples]:
    return [_array(frame) for frame in resampler.resample(None)]


def _array(frame: Any) -> Samples:
    return np.asarray(frame.to_ndarray(), dtype=np.int16).reshape(-1)
