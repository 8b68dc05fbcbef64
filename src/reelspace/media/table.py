"""When each frame of a video is shown: one pass over its packets, without decoding."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelspace.media.ending import is_cut_off
from reelspace.media.files import failure

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream


# Packets hold no more than the file does, save where a container compresses them; a bomb says otherwise.
INFLATION = 8
SLACK = 64 << 20  # bytes


class Table(NamedTuple):
    """What one pass over the packets tells.

    Attributes:
        pts: int64 `[N]`, ascending: presentation stamps of the displayed frames, in the stream's time base.
        end: the stamp at which the last frame ends.
        keys: int64 `[K]`, ascending: stamps of the key frames, hidden ones too: decoding can begin there.
        seeks: int64 `[K]`: decoding stamps of the same.
        partial: why the file ends early, or None.
    """

    pts: NDArray[np.int64]
    end: int
    keys: NDArray[np.int64]
    seeks: NDArray[np.int64]
    partial: str | None


class _Packets(NamedTuple):
    """What the packets of the video say, in the order of the file: int64 `[n]` each, but for the last two."""

    pts: NDArray[np.int64]
    dts: NDArray[np.int64]
    length: NDArray[np.int64]
    key: NDArray[np.int64]
    hidden: NDArray[np.int64]
    heard: float  # seconds: up to where there is anything, sound or picture
    broken: bool


def read_table(path: Path, container: InputContainer, stream: VideoStream, tick: Callable[[], None]) -> Table:
    """Reads all packets of a container that has just been opened.

    Raises:
        MediaError: no frame is displayed, or frames carry no times.
    """
    packets = _read_packets(path, container, stream, tick)
    pts, key = packets.pts, packets.key.astype(bool)
    if not key.any():
        key[0] = True  # nothing says where decoding can begin: at the beginning
    # What needs frames from before the file began (leading pictures of its first key frame) is never shown.
    first = int(np.argmax(key))
    is_shown = (np.arange(len(pts)) >= first) & (pts >= pts[first]) & (packets.hidden == 0)
    if not is_shown.any():
        raise failure(path, "none of its frames is displayed")
    displayed, order = np.unique(pts[is_shown], return_index=True)
    end = int(displayed[-1]) + _last_length(displayed, packets.length[is_shown][order], stream, packets.broken)
    by_time = np.argsort(pts[key], kind="stable")
    partial = _partial(container, stream, end, packets)
    return Table(displayed, end, pts[key][by_time], packets.dts[key][by_time], partial)


def _read_packets(path: Path, container: InputContainer, stream: VideoStream, tick: Callable[[], None]) -> _Packets:
    from av.error import FFmpegError

    rows: list[tuple[int, int, int, bool, bool]] = []
    broken = untimed = False
    heard = 0.0
    left = INFLATION * path.stat().st_size + SLACK
    try:
        for packet in container.demux():
            tick()
            left -= packet.size
            if left < 0:
                raise failure(path, "its frames claim far more bytes than the file has")
            if packet.stream_index != stream.index:
                heard = max(heard, float((packet.pts or 0) * packet.time_base))
            elif packet.pts is not None:
                dts = packet.pts if packet.dts is None else packet.dts
                rows.append((packet.pts, dts, packet.duration or 0, packet.is_keyframe, packet.is_discard))
                broken |= packet.is_corrupt
            elif packet.size:  # damaged; or no packet has a time
                untimed = True
    except MemoryError:
        raise
    except FFmpegError:
        broken = True
    if not rows and untimed:
        raise failure(path, "its frames carry no times (a bare stream?); put it into a container: remux it to .mp4")
    if not rows:
        raise failure(path, "its video has no frames")
    pts, dts, length, key, hidden = np.array(rows, dtype=np.int64).T
    broken = broken or untimed or is_cut_off(path, container.format.name)
    return _Packets(pts, dts, length, key, hidden, heard, broken)


def _last_length(pts: NDArray[np.int64], lengths: NDArray[np.int64], stream: VideoStream, broken: bool) -> int:
    """How long the last frame is shown: what its packet says, if packets of this file tell the truth elsewhere; else up
    to the declared end, unless the file is broken off before it; else one median step.
    """
    steps = np.diff(pts)
    truthful = len(steps) == 0 or np.mean(np.abs(steps - lengths[:-1]) <= 2) > 0.9
    if truthful and lengths[-1] > 0:
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
