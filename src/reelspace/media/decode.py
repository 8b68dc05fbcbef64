"""The right frame for every time: an open video, its table of displayed frames, and exact access to them.

A frame is named by its presentation time in seconds from the first displayed frame. The times come from the packets
of the file (one pass without decoding), never from a frame rate or a frame count: those are estimates. A frame is
fetched by seeking to a key frame before it, and what comes back is checked against the table: where a seek lands too
late or a frame has lost its references, decoding starts one key frame earlier, and at last from the beginning.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from reelspace.item import Frames, Span
from reelspace.media.animation import remade
from reelspace.media.container import ignore_all_but, open_video
from reelspace.media.fields import Slices
from reelspace.media.files import failure, regular
from reelspace.media.foresight import surges
from reelspace.media.kept import Kept
from reelspace.media.pixels import Rendering
from reelspace.media.policy import SAME, Sampling
from reelspace.media.table import MPEG, Table, last_length, mark, read_table
from reelspace.media.windows import Window

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

LONGEST = 7 * 24 * 3600.0  # seconds
# Frames left in a group of pictures from which on seeking to the next one is cheaper than decoding through: where
# frames are decoded one by one; where several are at once, which stops at a seek, or a seek may miss, or frames that
# are not needed are not decoded anyway.
WORTH_A_SEEK = 2, 8
# Frames from one key frame to the next, on average, from which on it pays to decode several at once.
LONG_GROUP = 24
SMALL = 1 << 17  # pixels up to which a picture is decoded without threads
# After a seek in the file Ogg guesses the times of its packets, and is often wrong.
WITHOUT_SEEKING = ("ogg",)
# They tell when packets are decoded, not when frames are shown: what is made of that is wrong where the two differ.
# And many AVI files pack two MPEG-4 frames into one packet.
WITH_LYING_LABELS = ("avi", "asf", "mxf")
PLAUSIBLE = (1, 240)  # frames a second
TOGETHER = 32  # windows whose frames must be decoded again are read in one go


def nothing() -> None:
    """The heartbeat of those who need none."""


class _Start(NamedTuple):
    """Where decoding begins.

    Attributes:
        key: the key frame; None: the beginning of the file.
        clean: the key frame itself must come out.
        settle: where a frame does not come out, the one then on show will do: nothing better is to be had.
    """

    key: int | None
    clean: bool = False
    settle: bool = False


class Seen(NamedTuple):
    """A frame as it is decoded to be looked at.

    Attributes:
        time: when it is first shown, in seconds.
        frame: the decoder's own, neither scaled nor turned.
        beside: given beside those that are looked at, which are the same whatever is kept.
    """

    time: float
    frame: VideoFrame
    beside: bool = False


class Coded(NamedTuple):
    """The displayed frames in the order of the file.

    Attributes:
        indices: int64 `[N]` into `Video.times`.
        sizes: int64 `[N]`: bytes of their packets.
        keys: bool `[N]`: whether decoding can begin with it.
    """

    indices: NDArray[np.int64]
    sizes: NDArray[np.int64]
    keys: NDArray[np.bool_]


class Video:
    """An open video file. A context manager.

    Args:
        path: the file.
        tick: called again and again while work goes on, so that a watchdog can tell work from a hang.
        through: much of the file will be read, in order; else a few frames here and there. Only a matter of speed.
        keys: take it as a video that shows its first frame and its key frames only, each up to the next.

    Attributes:
        times: float64 `[N]`, seconds: when each displayed frame is first shown; `times[0]` is 0.
        duration: seconds from the first displayed frame to the end of the last one.
        width, height: displayed size in pixels: upright, pixels square.
        rotation: degrees counter-clockwise by which the stored picture is turned to be upright: 0, 90, 180 or 270.
        keys: whether its key frames alone are looked at.

    Raises:
        MediaError: the file is missing, no video, damaged beyond reading, or absurd in size or length.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        tick: Callable[[], None] = nothing,
        through: bool = False,
        keys: bool = False,
    ) -> None:
        self.path = regular(Path(path))
        self._tick, self.keys = tick, keys
        self._damaged = False
        self._complaints = 0  # of the decoder
        self._lost: set[int] = set()  # indices of frames that are damaged, or that another had to stand for
        self._side_by_side = through
        self._animation = remade(self.path, tick)
        self._container, self._stream = self._open()
        try:
            self._table = read_table(self.path, self._container, self._stream, tick, self._animation)
            ignore_all_but(self._stream)
            self._alone = self._stream.codec.intra_only or bool(np.isin(self._table.pts, self._table.keys).all())
            long = len(self._table.pts) >= LONG_GROUP * len(self._table.keys)
            self._side_by_side = through or (long and not keys)
            self._thread(self._stream)
            self._seekable = bool(self._table.packets) or self._container.format.name not in WITHOUT_SEEKING
            self._counted = self._table.untimed or self._labels_lie()
            if self._counted:
                self._table = self._count()
            self._pts = _keys_alone(self._table) if keys else self._table.pts
            self.times: NDArray[np.float64] = self._seconds(self._pts)
            self.duration = float(self._seconds(np.array(self._table.end)))
            if self.duration > LONGEST:
                raise failure(self.path, f"claims to last {self.duration / 86400:.0f} days")
            self._look_at_first_frame()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._container.close()

    @property
    def partial(self) -> str | None:
        """Why only a part of the file can be read, or None. Damage inside is known when it has been come upon."""
        if self._table.partial or not self._lost:
            return self._table.partial
        return f"damaged: frames cannot be decoded, the first at {self.times[min(self._lost)]:.1f} s"

    @property
    def codec(self) -> str:
        """FFmpeg's name of the codec: `h264`, `hevc`, `vp9`, `av1`, …"""
        return "webp" if self._animation else self._stream.codec.canonical_name

    @property
    def count(self) -> int:
        """How many frames are displayed, be they looked at or not."""
        return len(self._table.pts)

    @property
    def format(self) -> str:
        """FFmpeg's names of the container, with commas: `mov,mp4,m4a,3gp,3g2,mj2`, `matroska,webm`, `avi`, …"""
        return "webp" if self._animation else self._container.format.name

    @property
    def metadata(self) -> dict[str, str]:
        """Tags of the file."""
        return dict(self._container.metadata)

    # -- times ---------------------------------------------------------------------------------------------------

    @property
    def origin(self) -> float:
        """When the first displayed frame appears, in seconds of the container's own clock, which sound goes by too."""
        return float(self._table.pts[0] * (self._stream.time_base or Fraction(1)))

    @property
    def counted(self) -> list[int] | None:
        """The stamps of all frames in order, where those that frames carry (if any) are not theirs; else None."""
        return self._table.pts.tolist() if self._counted else None

    def _seconds(self, pts: NDArray[np.int64]) -> NDArray[np.float64]:
        base = self._stream.time_base or Fraction(1)
        return np.asarray((pts - self._table.pts[0]) * base.numerator / base.denominator, dtype=np.float64)

    def index_at(self, time: float) -> int:
        """Index of the frame on show at `time`."""
        return max(0, int(np.searchsorted(self.times, time + SAME, side="right")) - 1)

    def displayed(self, start: float, end: float) -> tuple[int, int]:
        """The frames shown during `[start, end)` as a range of indices: the one on show at `start`, and all later ones
        that appear before `end`.
        """
        first = self.index_at(start)
        return first, max(first + 1, int(np.searchsorted(self.times, end - SAME, side="left")))

    # -- pixels --------------------------------------------------------------------------------------------------

    def frames(self, indices: Sequence[int] | NDArray[np.int64], edge: int | None = None) -> NDArray[np.uint8]:
        """The frames at `indices` (any order, repeats welcome): uint8 `[T, H, W, 3]`, RGB, upright.

        Args:
            indices: into `times`.
            edge: scale down so that the shorter side is this many pixels.

        Raises:
            MediaError: no frame can be decoded there.
        """
        wanted = np.asarray(indices, dtype=np.int64)
        got = dict(self._read(np.unique(wanted), edge))
        return np.stack([got[index] for index in wanted.tolist()])

    def sample(self, start: float, end: float | None, sampling: Sampling) -> Frames:
        """The frames that `sampling` chooses from `[start, end)`; what lies after the end of the video is left out.

        Raises:
            MediaError: `start` is not before the end of the video, or no frame can be decoded there.
        """
        end = self.duration if end is None else min(end, self.duration)
        if start >= end:
            raise failure(self.path, f"lasts {self.duration:.3f} s; a span from {start:g} s on has nothing in it")
        return next(self.samples([Window(start, end)], sampling))

    def samples(self, windows: Iterable[Window], sampling: Sampling, kept: Kept | None = None) -> Iterator[Frames]:
        """The frames that `sampling` chooses from each window, in one pass; windows in order of time, inside the video.

        A frame is held only as long as a window to come needs it.

        Args:
            windows: drawn from as needed where frames are `kept`.
            sampling: which frames, and how large.
            kept: pictures of frames of the same sampling, taken while the windows were found; they spare decoding.
        """
        held = kept or self.keeping(sampling)
        waiting: list[tuple[Window, NDArray[np.int64]]] = []
        for window in windows:
            waiting.append((window, self.choose(window, sampling)))
            all_there = len(waiting) == 1 and all(index in held for index in waiting[0][1].tolist())
            if all_there or (kept is not None and len(waiting) == TOGETHER):
                yield from self._sampled(waiting, sampling, held)
                waiting = []
        yield from self._sampled(waiting, sampling, held)

    def _sampled(
        self, chosen: Sequence[tuple[Window, NDArray[np.int64]]], sampling: Sampling, held: Kept
    ) -> Iterator[Frames]:
        needed = np.unique([index for _, indices in chosen for index in indices.tolist()]).astype(np.int64)
        source = self._read(needed[[index not in held for index in needed.tolist()]], sampling.edge)
        for window, indices in chosen:
            held.forget(int(indices[0]))
            while any(index not in held for index in indices.tolist()):
                held.put(*next(source))
            pixels = np.stack([held.picture(index) for index in indices.tolist()])
            yield Frames(pixels, self.times[indices], window.start, window.end)

    def keeping(self, sampling: Sampling, wanted: Iterable[int] = ()) -> Kept:
        """Where frames for `sampling` can be kept, these at first."""
        return Kept(lambda frame: self._rendering(frame, sampling.edge), wanted)

    def raw(self, indices: Sequence[int]) -> Iterator[VideoFrame]:
        """The decoder's own frames at ascending, unique indices: not scaled, not turned."""
        for run in self._runs(np.asarray(indices, dtype=np.int64)):
            for _, frame in self._fetch(deque(run.tolist())):
                yield frame

    def choose(self, window: Window, sampling: Sampling) -> NDArray[np.int64]:
        """Indices of the frames that `sampling` chooses from a window."""
        first, last = self.displayed(window.start, window.end)
        return first + sampling.policy.choose(self.times[first:last], window.start, window.end)

    def _read(self, indices: NDArray[np.int64], edge: int | None) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        """Ascending, unique indices with their pixels, in that order."""
        for run in self._runs(indices):
            for index, frame in self._fetch(deque(run.tolist())):
                yield index, self._rendering(frame, edge)

    def _runs(self, indices: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Cuts the indices where seeking ahead spares decoding."""
        if not len(indices):
            return []
        if self._counted or not self._seekable:
            return [indices]
        table, wanted = self._table, self._pts[indices]
        group = np.searchsorted(table.keys, wanted, side="right") - 1
        to_next_key = np.searchsorted(table.pts, table.keys[group[1:]]) - np.searchsorted(table.pts, wanted[:-1])
        soon = self._one_by_one and not self._alone and self._container.format.name not in MPEG
        seek = (np.diff(group) > 0) & (self.keys | (to_next_key > WORTH_A_SEEK[0 if soon else 1]))
        return np.split(indices, np.flatnonzero(seek) + 1)

    def _fetch(self, wanted: deque[int]) -> Iterator[tuple[int, VideoFrame]]:
        """Decodes the wanted frames, ascending; goes further back whenever one does not come out as the table says."""
        if self._first is not None and wanted[0] == 0 and (len(wanted) == 1 or self._alone):  # known from the opening
            yield wanted.popleft(), self._first
        while wanted:
            for start in self._starts(wanted[0]):
                before = len(wanted)
                yield from self._pass(start, wanted)
                if len(wanted) < before:
                    break
            else:
                raise failure(self.path, f"no frame can be decoded at {self.times[wanted[0]]:.3f} s")

    def _starts(self, index: int) -> Iterator[_Start]:
        """Where to decode from, one after the other until the frame comes out as it should."""
        group = int(np.searchsorted(self._table.keys, self._pts[index], side="right")) - 1
        if self._seekable and not self._counted:
            yield _Start(group, clean=True)
            if group > 0:
                yield _Start(group - 1, settle=self._damaged)
        yield _Start(None, settle=True)

    def _pass(self, start: _Start, wanted: deque[int]) -> Iterator[tuple[int, VideoFrame]]:
        """Takes from `wanted` what decoding from `start` on yields, up to the first that is not as it should be."""
        pts, on_show = self._pts, None
        for frame in self._relabelled(self._decode(start, {int(pts[index]) for index in wanted})):
            if start.clean and on_show is None and frame.pts > max(self._table.keys[start.key or 0], pts[0]):
                return  # no picture for the key frame itself: what follows may still be mending (intra refresh)
            while wanted and pts[wanted[0]] <= frame.pts:
                exact = bool(pts[wanted[0]] == frame.pts)
                if not (start.settle or (exact and not frame.is_corrupt)):
                    return
                if frame.is_corrupt or (not exact and self._complaints):
                    self._lost.add(wanted[0])
                self._damaged = self._damaged or not exact
                yield wanted.popleft(), frame if exact or on_show is None else on_show
            if not wanted:
                return
            on_show = frame
        while start.settle and on_show is not None and wanted:
            if self._complaints:
                self._lost.add(wanted[0])
            self._damaged = True
            yield wanted.popleft(), on_show

    def _decode(self, start: _Start, needed: set[int]) -> Iterator[VideoFrame]:
        """Frames in order of display; none if the seek lands after the key frame.

        From a clean start what is not needed is left out: of H.264 the frames that no other depends on, which the
        bitstream marks strictly, so that the others come out the same to the bit; where no frame depends on another,
        all but what is needed; and what the decoder would still ask for before it gives the last.
        """
        sparing = start.clean and not self._table.fields
        strict, skipping = self.codec == "h264", False
        self._stream.codec_context.skip_frame = "DEFAULT"
        for packet in self._packets_from(start.key):
            spared = sparing and packet.pts is not None and packet.pts not in needed
            if spared and self._alone:
                continue
            if skipping != (spared and strict):
                skipping = not skipping
                self._stream.codec_context.skip_frame = "NONREF" if skipping else "DEFAULT"
            yield from self._decoded(partial(self._stream.decode, packet))
            if sparing and packet.pts is not None:
                needed.discard(packet.pts)
                if not needed:
                    yield from self._decoded(self._stream.decode)
                    return

    def _labels_lie(self) -> bool:
        """Whether frames come with times that are not theirs; then they are known by their place in the order only."""
        self._counted = False
        if self._container.format.name not in WITH_LYING_LABELS or self._stream.codec.intra_only:
            return False
        labels = [frame.pts for frame in islice(self._decode(_Start(None), set()), 32)]
        return bool(labels != self._table.pts[: len(labels)].tolist())

    def _count(self) -> Table:
        """A table for frames that are known by their place only, one after another at even steps.

        Where packets say when they are decoded, frames are shown as far apart; else the steps are those of the rate
        that the stream declares, or 25 a second.
        """
        table = self._table
        if not table.untimed:
            pts = np.unique(table.decoded) - table.decoded.min() + table.pts[0]
            last = last_length(pts, self._stream, broken=table.partial is not None)
            return table._replace(pts=pts, end=int(pts[-1]) + last)
        rate, base = self._stream.codec_context.framerate, self._stream.time_base or Fraction(1)
        if rate is None or not PLAUSIBLE[0] <= rate <= PLAUSIBLE[1]:
            rate = self._stream.average_rate or Fraction(25)
        count = sum(1 for _ in self._decode(_Start(None), set()))
        step = 1 / rate / base
        pts = np.array([round(number * step) for number in range(count + 1)], dtype=np.int64)
        return table._replace(pts=pts[:-1], end=int(pts[-1]))

    def _relabelled(self, frames: Iterator[VideoFrame]) -> Iterator[VideoFrame]:
        """All frames from the beginning, with the times of the table where their own lie."""
        if not self._counted:
            yield from (frame for frame in frames if frame.pts is not None)
            return
        for frame, pts in zip(frames, self._table.pts.tolist(), strict=False):
            frame.pts = pts
            yield frame

    def _decoded(self, decode: Callable[[], list[VideoFrame]]) -> list[VideoFrame]:
        """What the decoder gives for a packet, or at the end."""
        from av.error import FFmpegError

        self._tick()
        try:
            return decode()
        except MemoryError:  # PyAV's is an FFmpegError as well
            raise
        except FFmpegError:
            self._damaged = True
            self._complaints += 1
            return []

    def _packets_from(self, key: int | None) -> Iterator[Packet[VideoStream]]:
        from av.error import FFmpegError

        if self._table.packets:
            self._stream.codec_context.flush_buffers()
            yield from self._table.packets_from(key)
            return
        landed = key is None
        try:
            if key is None:
                self._reopen()
            else:
                # MPEG streams are searched by decoding stamps, the others by presentation.
                by_decoding = self._container.format.name in MPEG
                table = self._table
                self._container.seek(int((table.seeks if by_decoding else table.keys)[key]), stream=self._stream)
            for packet in self._container.demux(self._stream):
                if packet.size == 0 and packet.dts is not None:
                    continue  # an empty sample would read as the end of the stream
                if not landed:
                    if not packet.is_keyframe:
                        continue
                    landed = packet.pts is not None and packet.pts <= int(self._table.keys[key]) and self._known(packet)
                    if not landed:
                        return
                yield packet
        except MemoryError:
            raise
        except FFmpegError:  # the file ends or breaks here; what was decoded stands
            self._damaged = True
            self._complaints += 1

    def _known(self, packet: Packet[VideoStream]) -> bool:
        """Whether a key frame after a seek is the one that it says to be."""
        marks = self._table.marks
        return not marks or marks.get(packet.pts or 0) == mark(packet)

    # -- opening -------------------------------------------------------------------------------------------------

    @property
    def coded(self) -> Coded:
        """The displayed frames in the order of the file; empty where their places are all that is known of them."""
        table = self._table
        if self._counted:
            nothing = np.empty(0, dtype=np.int64)
            return Coded(nothing, nothing, nothing.astype(bool))
        return Coded(np.searchsorted(table.pts, table.coded), table.sizes, np.isin(table.coded, table.keys))

    @property
    def can_keep(self) -> bool:
        """Whether frames that are decoded to be looked at may be as good as those that `frames` gives: where all are
        decoded, or what is left out is strictly what no other depends on.
        """
        codec = self._stream.codec
        sure = self.keys or self._counted or codec.intra_only or codec.canonical_name == "h264"
        return sure and not self._table.fields

    def skim(self, every: bool = False, kept: Kept | None = None) -> Iterator[Seen]:
        """Frames in order of display, decoded roughly and fast: frames that no other depends on are left out unless
        `every` one is wanted, edges of blocks are smoothed only where frames can be kept (whether any are or not: what
        happens is not to hang on it), nothing is turned. Good for seeing what happens, not for pixels.

        Args:
            every: leave no frame out.
            kept: where `can_keep`: takes the frames that it wants. Then some frames that would be left out are given
                `beside` the others: what is kept, and what stands where the picture may change.
        """
        container, stream = self._open()
        with container:
            ignore_all_but(stream)
            self._thread(stream, all_of_it=True)
            if not (every or self._counted):
                stream.codec_context.skip_frame = "NONREF"
            if every or not self.can_keep:
                stream.codec_context.options = {"skip_loop_filter": "all"}
            packets: Iterator[Packet[VideoStream]]
            packets = (packet for packet in container.demux(stream) if packet.size or packet.dts is None)
            beside: set[int] = set()
            place = {} if kept is None else {stamp: index for index, stamp in enumerate(self._pts.tolist())}
            if self.keys and not self._counted:
                packets = (packet for packet in packets if packet.is_keyframe or not packet.size)
            elif kept is not None and stream.codec.canonical_name == "h264" and not self._counted:
                packets = self._sparing(packets, stream, place, kept, beside)
            zero, (step, parts) = int(self._table.pts[0]), (stream.time_base or Fraction(1)).as_integer_ratio()
            for frame in self._relabelled(self._judged(packets)):
                stamp = frame.pts or 0
                index = place.get(stamp, -1)
                if kept is not None and index in kept.wanted and self._is_good(frame):
                    kept.take(index, frame)
                yield Seen((stamp - zero) * step / parts, frame, stamp in beside)
                beside.discard(stamp)

    def _sparing(
        self,
        packets: Iterable[Packet[VideoStream]],
        stream: VideoStream,
        place: Mapping[int, int],
        kept: Kept,
        beside: set[int],
    ) -> Iterator[Packet[VideoStream]]:
        """Has a decoder of H.264 give, beside what is looked at anyway, frames that are to be kept and those among
        which a large packet's picture may begin. The stamps of such as would have been left out go into `beside`.
        """
        slices, coded, changing = Slices(stream), self.coded, -1
        surging = {index for index, surge in zip(coded.indices.tolist(), surges(coded), strict=True) if surge}
        for packet in packets:
            stamp = -1 if packet.pts is None else packet.pts
            index = -1 if packet.pts is None else place.get(stamp, -1)
            needed = False
            if packet.size and slices.is_spare(packet):
                needed = index in kept.wanted or 0 <= index < changing
                if needed:
                    beside.add(stamp)
            elif index in surging:
                changing = index
            stream.codec_context.skip_frame = "DEFAULT" if needed else "NONREF"
            yield packet

    def _is_good(self, frame: VideoFrame) -> bool:
        """Whether a frame, decoded with those before it, is as seeking to it would give it."""
        if frame.is_corrupt or self._complaints or self._damaged:
            return False
        from av.video.frame import PictureType

        return not self.keys or self._counted or frame.pict_type == PictureType.I

    def _judged(self, packets: Iterable[Packet[VideoStream]]) -> Iterator[VideoFrame]:
        """The frames of all packets in order; what is damaged among those displayed is noted."""
        pts, stamps, given = self._pts, self._table.pts, 0
        for packet in packets:
            before = self._complaints
            frames = self._decoded(packet.decode)
            labels = stamps[given : given + len(frames)] if self._counted else [frame.pts for frame in frames]
            bad = [label for label, frame in zip(labels, frames, strict=False) if frame.is_corrupt]
            given += len(frames)
            if self._complaints > before:
                bad.append(stamps[min(given, len(stamps) - 1)] if self._counted else packet.pts)
            self._lost.update(
                int(np.searchsorted(pts, stamp, side="right")) - 1
                for stamp in bad
                if stamp is not None and stamp >= pts[0]
            )
            yield from frames

    def _open(self) -> tuple[InputContainer, VideoStream]:
        container, stream = open_video(self.path, self._animation)
        self._thread(stream)
        return container, stream

    def _thread(self, stream: VideoStream, all_of_it: bool = False) -> None:
        """Has a decoder that is not in use yet work on several frames at once, but where it would mostly wait for them.

        Measured: a few frames after a seek H.264 comes faster one frame after another, the others side by side; small
        pictures are decoded sooner than threads are started and told of them.
        """
        h264, small = stream.codec.canonical_name == "h264", stream.width * stream.height <= SMALL
        one_by_one = h264 and not (all_of_it or self._side_by_side)
        stream.thread_type = "SLICE" if one_by_one else "AUTO"
        if small:
            stream.codec_context.thread_count = 1
        self._one_by_one = one_by_one or small

    def _reopen(self) -> None:
        self._container.close()
        self._container, self._stream = self._open()
        ignore_all_but(self._stream)

    # -- geometry ------------------------------------------------------------------------------------------------

    def _look_at_first_frame(self) -> None:
        """Reads how the picture is to be turned; proves that the file can be decoded at all."""
        self._first: VideoFrame | None = None
        _, self._first = next(self._fetch(deque([0])))
        self._rendering = Rendering(self._stream, self._first)
        self.rotation = self._rendering.turn.degrees
        self.width, self.height = self._rendering.width, self._rendering.height


def _keys_alone(table: Table) -> NDArray[np.int64]:
    """Stamps of the first frame and of the key frames that are displayed."""
    return np.union1d(table.pts[:1], np.intersect1d(table.keys, table.pts))


def sample(span: Span, sampling: Sampling) -> Frames:
    """The frames that `sampling` chooses from a span; `Frames.start` and `.end` are the span's, ending with the video.

    Raises:
        MediaError: the file cannot be read, or the span lies beyond its end.
    """
    with Video(span.path) as video:
        return video.sample(span.start, span.end, sampling)
