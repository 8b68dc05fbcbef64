"""When each frame of a video is shown: one pass over its packets, without decoding."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelspace.media.ending import is_cut_off
from reelspace.media.fields import Slices
from reelspace.media.files import failure

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.packet import Packet
    from av.video.stream import VideoStream


MPEG = ("mpegts", "mpeg")  # streams without marks between frames
# Packets hold no more than the file does, save where a container compresses them; a bomb says otherwise.
INFLATION = 8
SLACK = 64 << 20  # bytes
# Packets of a video that are kept, if there are no more of them, nor more bytes in them: of a clip of a second or two
# reading them again takes as long as a quarter of the decoding.
FEW, LIGHT = 1 << 11, 8 << 20


class Table(NamedTuple):
    """What one pass over the packets tells.

    Attributes:
        pts: int64 `[N]`, ascending: presentation stamps of the displayed frames, in the stream's time base.
        end: the stamp at which the last frame ends.
        keys: int64 `[K]`, ascending: stamps of the key frames, hidden ones too: decoding can begin there.
        seeks: int64 `[K]`: decoding stamps of the same.
        partial: why the file ends early, or None.
        decoded: decoding stamps of the displayed frames, in the order of the file.
        coded: int64 `[N]`: their presentation stamps, in that order.
        sizes: int64 `[N]`: bytes of their packets, in that order.
        untimed: no frame has a stamp: all of the above mean nothing.
        fields: some frames are spread over two packets.
        marks: checksums of key frames by their stamps, where packets are cut out of a stream that does not mark them:
            there the first ones after a seek may be labelled with the times of others.
        packets: all of them in the order of the file, the one that ends the stream included, if they are few and whole.
    """

    pts: NDArray[np.int64]
    end: int
    keys: NDArray[np.int64]
    seeks: NDArray[np.int64]
    partial: str | None
    decoded: NDArray[np.int64]
    coded: NDArray[np.int64]
    sizes: NDArray[np.int64]
    untimed: bool = False
    fields: bool = False
    marks: Mapping[int, int] = MappingProxyType({})
    packets: Sequence[Packet[VideoStream]] = ()

    def packets_from(self, key: int | None) -> Sequence[Packet[VideoStream]]:
        """The kept packets from a key frame on; `None`: all."""
        if key is None:
            return self.packets
        stamp = int(self.keys[key])
        starts = (place for place, packet in enumerate(self.packets) if packet.is_keyframe and packet.pts == stamp)
        return self.packets[next(starts, len(self.packets)) :]


class _Packets(NamedTuple):
    """What the packets of the video say, in the order of the file: int64 `[n]` each, but for the last ones."""

    pts: NDArray[np.int64]
    dts: NDArray[np.int64]
    length: NDArray[np.int64]
    key: NDArray[np.int64]
    hidden: NDArray[np.int64]
    size: NDArray[np.int64]
    heard: float  # seconds: up to where there is anything, sound or picture
    broken: bool
    untimed: bool
    fields: bool
    marks: Mapping[int, int]
    kept: Sequence[Packet[VideoStream]]


def read_table(
    path: Path,
    container: InputContainer,
    stream: VideoStream,
    tick: Callable[[], None],
    content: bytes | None = None,
) -> Table:
    """Reads all packets of a container that has just been opened, from `content` if not from the file.

    Raises:
        MediaError: no frame is displayed.
    """
    packets = _read_packets(path, container, stream, tick, content)
    if packets.untimed:
        nothing = np.zeros(1, dtype=np.int64)
        return Table(nothing, 1, nothing, nothing, None, nothing, nothing, nothing, untimed=True, packets=packets.kept)
    pts, key = packets.pts, packets.key.astype(bool)
    if not key.any():
        key[0] = True  # nothing says where decoding can begin: at the beginning
    # What needs frames from before the file began (leading pictures of its first key frame) is never shown.
    first = int(np.argmax(key))
    is_shown = (np.arange(len(pts)) >= first) & (pts >= pts[first]) & (packets.hidden == 0)
    if not is_shown.any():
        raise failure(path, "none of its frames is displayed")
    displayed, order = np.unique(pts[is_shown], return_index=True)
    end = int(displayed[-1]) + last_length(displayed, stream, packets.length[is_shown][order], packets.broken)
    by_time = np.argsort(pts[key], kind="stable")
    partial = _partial(container, stream, end, packets)
    seeks, in_order = packets.dts[key][by_time], (packets.dts[is_shown], pts[is_shown], packets.size[is_shown])
    return Table(
        displayed, end, pts[key][by_time], seeks, partial, *in_order,
        fields=packets.fields, marks=packets.marks, packets=packets.kept,
    )  # fmt: skip


def _read_packets(
    path: Path, container: InputContainer, stream: VideoStream, tick: Callable[[], None], content: bytes | None
) -> _Packets:
    from av.error import FFmpegError

    rows, broken, heard = _Rows(container, stream), False, 0.0
    left = INFLATION * (path.stat().st_size if content is None else len(content)) + SLACK
    try:
        for packet in container.demux():
            tick()
            left -= packet.size
            if left < 0:
                raise failure(path, "its frames claim far more bytes than the file has")
            if packet.stream_index != stream.index:
                heard = max(heard, float((packet.pts or 0) * packet.time_base))
            else:
                rows.add(packet)
                broken |= packet.is_corrupt
    except MemoryError:
        raise
    except FFmpegError:
        broken = True
    if not rows.rows and not rows.untimed:
        raise failure(path, "its video has no frames")
    pts, dts, length, key, hidden, size = np.array(rows.rows, dtype=np.int64).reshape(-1, 6).T
    broken |= rows.untimed and bool(rows.rows)  # some without times beside others that have them: damaged
    broken = broken or (content is None and is_cut_off(path, container.format.name))
    kept = [] if broken else rows.kept
    return _Packets(pts, dts, length, key, hidden, size, heard, broken, not rows.rows, rows.fields, rows.marks, kept)


class _Rows:
    """Gathers what the packets of the video say."""

    def __init__(self, container: InputContainer, stream: VideoStream) -> None:
        self.rows: list[tuple[int, int, int, bool, bool, int]] = []
        self.untimed = self.fields = False
        self.marks: dict[int, int] = {}
        self.kept: list[Packet[VideoStream]] = []
        self._left = LIGHT
        self._marking = container.format.name in MPEG
        self._second_fields = Slices(stream)

    def add(self, packet: Packet[Any]) -> None:
        self._keep(packet)
        length = packet.duration or 0
        if packet.size and self._second_fields.is_second(packet):
            self.fields = True
            if self.rows:
                first = self.rows[-1]
                self.rows[-1] = (*first[:2], first[2] + length, *first[3:])
        elif packet.pts is not None:
            decoded = packet.pts if packet.dts is None else packet.dts
            self.rows.append((packet.pts, decoded, length, packet.is_keyframe, packet.is_discard, packet.size))
            if self._marking and packet.is_keyframe:
                self.marks[packet.pts] = mark(packet)
        elif packet.size:
            self.untimed = True

    def _keep(self, packet: Packet[Any]) -> None:
        self._left -= packet.size
        if self._left < 0 or len(self.kept) == FEW:
            self.kept, self._left = [], -1
        elif packet.size or packet.dts is None:  # an empty sample would read as the end of the stream
            self.kept.append(packet)


def mark(packet: Packet[Any]) -> int:
    """A checksum by which a packet is known again."""
    return zlib.crc32(memoryview(packet))


def last_length(
    pts: NDArray[np.int64], stream: VideoStream, lengths: NDArray[np.int64] | None = None, broken: bool = False
) -> int:
    """How long the last frame is shown: what its packet says, if packets of this file tell the truth elsewhere; else up
    to the declared end, unless the file is broken off before it; else one median step.
    """
    steps = np.diff(pts)
    if lengths is not None and lengths[-1] > 0:
        truthful = len(steps) == 0 or np.mean(np.abs(steps - lengths[:-1]) <= 2) > 0.9
        if truthful:
            return int(lengths[-1])
    if stream.duration is not None and not broken:
        left = int(pts[0]) + stream.duration - int(pts[-1])
        if left > 0:
            return left
    if len(steps):
        return max(1, int(np.median(steps)))
    return max(1, round(Fraction(1, 25) / (stream.time_base or Fraction(1))))


def _partial(container: InputContainer, stream: VideoStream, end: int, packets: _Packets) -> str | None:
    """Why the file is not whole, told from the length it declares: that of the video, or that of everything."""
    base = stream.time_base or Fraction(1)
    got = float((end - (stream.start_time or 0)) * base)
    if stream.duration is not None:
        declared, reached = float(stream.duration * base), got
    else:  # some containers count from zero, some from their first packet: in doubt for the file
        declared, reached = (container.duration or 0) / 1e6, max(float(end * base), packets.heard)
    if declared - reached > max(1.0, 0.02 * declared):
        return f"declares {declared:.1f} s, but can be read up to {got:.1f} s only"
    return f"damaged: can be read up to {got:.1f} s" if packets.broken else None
