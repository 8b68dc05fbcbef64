"""Damaged and hostile files, made anew for each run, each with its verdict written beside it.

A verdict is a letter of `VERDICTS`: how `Library.index` must end for the file, and what its reason must say. Where
damage is done systematically (cut at many points, a bit of every structure flipped), a row of letters stands for a
row of files. Everything is small, and the same bytes every time.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from clips import Scene, write_clip

SIZE = (96, 64)


class Verdict(NamedTuple):
    """How a file must end in the catalogue; `None` where no row may tell of it."""

    state: str | None
    reason: str  # a pattern of the reason, empty where there must be none


VERDICTS = {
    "I": Verdict("indexed", ""),
    "S": Verdict("partial", r"declares \d+\.\d s, but can be read up to \d+\.\d s only"),
    "D": Verdict("partial", r"damaged: can be read up to \d+\.\d s"),
    "h": Verdict("failed", r"not a video, or damaged where it must not be \(its header cannot be read\)"),
    "p": Verdict("failed", r"not a video format that can be read \(playlists and image sequences are not opened\)"),
    "v": Verdict("failed", r"holds (nothing|sound)( and a cover picture)?, but no video"),
    "e": Verdict("failed", r"the file is empty \(0 bytes\)"),
    "f": Verdict("failed", r"its video has no frames"),
    "d": Verdict("failed", r"no frame can be decoded at 0\.000 s"),
    "t": Verdict("failed", r"its frames carry no times"),
    "w": Verdict("failed", r"claims to last \d+ days"),
    "x": Verdict("failed", r"claims frames of \d+×\d+ pixels"),
    "c": Verdict("failed", r"no decoder for its video codec is installed"),
}


@dataclass(frozen=True)
class Case:
    """A file of the corpus: where it lies in its folder, what makes it, what must become of it."""

    name: str
    verdict: str
    make: Callable[[Path], object]
    kind: str = ""


# -- sources: whole files that are damaged ---------------------------------------------------------------------------

_SOURCES: Mapping[str, dict[str, object]] = {
    "plain.mp4": {},  # its index at the end
    "faststart.mp4": {"container_options": {"movflags": "+faststart"}},
    "fragmented.mp4": {"container_options": {"movflags": "+frag_keyframe+empty_moov"}},
    "sound.mov": {"audio": True},
    "clip.mkv": {"audio": True},
    "vp8.webm": {"codec": "libvpx", "options": {"deadline": "realtime", "cpu-used": "8", "b": "300k"}},
    "clip.ts": {"audio": True},
    "clip.mpg": {"codec": "mpeg2video", "fps": 25, "options": {"b": "400k"}},
    "clip.avi": {"codec": "mpeg4", "bframes": 0},
    "clip.flv": {"audio": False},
    "clip.wmv": {"codec": "wmv2", "bframes": 0, "options": {"b": "300k"}},
    "vp8.ogv": {"codec": "libvpx", "options": {"deadline": "realtime", "cpu-used": "8", "b": "300k"}},
    "clip.gif": {"codec": "gif", "pix_fmt": "rgb8", "bframes": 0},
    "clip.nut": {"codec": "mpeg4", "bframes": 0},
    "mjpeg.mov": {"codec": "mjpeg", "bframes": 0, "container_options": {"movflags": "+faststart"}},
}


class Sources:
    """Whole clips of 4 s by name, made when first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> bytes:
        path = self.folder / name
        if not path.exists():
            settings = {"seconds": 4, "fps": 10, "size": SIZE, "gop": 10, "barcode": False} | _SOURCES[name]
            write_clip(path, **settings)
        return path.read_bytes()


# -- structures: where the parts of a file lie -----------------------------------------------------------------------


class Part(NamedTuple):
    """A structure of a file: its name along the tree, where its type, its size field and its content lie."""

    name: str
    type: slice
    size: slice
    content: slice


_HOLDERS = ("moov", "trak", "edts", "mdia", "minf", "dinf", "stbl", "moof", "traf", "mvex", "mfra", "udta", "meta")


def mp4_boxes(data: bytes, start: int = 0, end: int | None = None, above: str = "") -> Iterator[Part]:
    """The boxes of an MP4, the tables and sample descriptions of its one track too."""
    end = len(data) if end is None else end
    while start + 8 <= end:
        size, kind = struct.unpack_from(">I4s", data, start)
        name = above + kind.decode("latin-1").strip("\0")
        yield Part(name, slice(start + 4, start + 8), slice(start, start + 4), slice(start + 8, start + size))
        skip = {"stsd": 8, "avc1": 78, "dref": 8, "meta": 4}.get(kind.decode("latin-1"), 0)
        if kind.decode("latin-1") in _HOLDERS or skip:
            yield from mp4_boxes(data, start + 8 + skip, start + size, f"{name}.")
        start += size


_EBML = {
    0x1A45DFA3: "EBML", 0x18538067: "Segment", 0x114D9B74: "SeekHead", 0x4DBB: "Seek", 0x1549A966: "Info",
    0x2AD7B1: "TimestampScale", 0x4489: "Duration", 0x1654AE6B: "Tracks", 0xAE: "TrackEntry", 0xD7: "TrackNumber",
    0x83: "TrackType", 0x86: "CodecID", 0x63A2: "CodecPrivate", 0xE0: "Video", 0xB0: "PixelWidth",
    0x1F43B675: "Cluster", 0xE7: "Timestamp", 0xA3: "SimpleBlock", 0x1C53BB6B: "Cues", 0xBB: "CuePoint",
}  # fmt: skip
_EBML_HOLDERS = ("EBML", "Segment", "SeekHead", "Info", "Tracks", "TrackEntry", "Video", "Cluster", "Cues")


def _vint(data: bytes, at: int) -> tuple[int, int]:
    """An EBML number and its length; its marker is left in, as in ids."""
    length = 9 - data[at].bit_length()
    return int.from_bytes(data[at : at + length], "big"), length


def ebml_elements(data: bytes, start: int = 0, end: int | None = None, above: str = "") -> Iterator[Part]:
    """The first of each kind of element of a Matroska file."""
    end, seen = len(data) if end is None else end, set()
    while start < end:
        id, length = _vint(data, start)
        raw, wide = _vint(data, start + length)
        size, content = raw & ~(1 << (7 * wide)), start + length + wide
        name = _EBML.get(id)
        if name and name not in seen:
            seen.add(name)
            yield Part(
                above + name,
                slice(start, start + length),
                slice(start + length, content),
                slice(content, content + size),
            )
            if name in _EBML_HOLDERS:
                yield from ebml_elements(data, content, content + size, f"{above}{name}.")
        start = content + size


def riff_chunks(data: bytes, start: int = 0, end: int | None = None, above: str = "") -> Iterator[Part]:
    """The chunks of an AVI; of its frames the first of each kind."""
    end, seen = len(data) if end is None else end, set()
    while start + 8 <= end:
        kind, size = struct.unpack_from("<4sI", data, start)
        inner = data[start + 8 : start + 12] if kind in (b"RIFF", b"LIST") else b""
        name = above + (inner or kind).decode("latin-1").strip()
        if name not in seen:
            seen.add(name)
            yield Part(
                name, slice(start, start + 4), slice(start + 4, start + 8), slice(start + 8 + len(inner), start + 8 + size)
            )
        if inner:
            yield from riff_chunks(data, start + 12, start + 8 + size, f"{name}.")
        start += 8 + size + size % 2


def ts_packets(data: bytes) -> Iterator[Part]:
    """Of a transport stream: the first packet of each stream, and one in the middle."""
    seen: dict[int, int] = {}
    names = {0: "PAT", 0x11: "SDT", 0x1000: "PMT", 0x100: "video", 0x101: "sound"}
    for start in range(0, len(data), 188):
        pid = int.from_bytes(data[start + 1 : start + 3], "big") & 0x1FFF
        seen[pid] = seen.get(pid, 0) + 1
        if seen[pid] == 1 or (seen[pid] == 40 and pid in names):
            name = names.get(pid, hex(pid)) + ("" if seen[pid] == 1 else "-later")
            yield Part(name, slice(start, start + 1), slice(start + 1, start + 3), slice(start + 4, start + 188))
