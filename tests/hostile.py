"""Damaged and hostile files, made anew for each run, each with its verdict written beside it.

A verdict is a letter of `VERDICTS`: how `Library.index` must end for the file, and what its reason must say. Where
damage is done systematically (cut at many points, a bit of every structure flipped), a row of letters stands for a
row of files. Everything is small, and the same bytes every time.
"""

from __future__ import annotations

import os
import socket
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from clips import write_clip

SIZE = (96, 64)


class Verdict(NamedTuple):
    """How a file must end in the catalogue; `None` where no row may tell of it."""

    state: str | None
    reason: str  # a pattern of the reason, empty where there must be none


VERDICTS = {
    "I": Verdict("indexed", ""),
    "S": Verdict("partial", r"declares \d+\.\d s, but can be read up to \d+\.\d s only"),
    "D": Verdict("partial", r"damaged: can be read up to \d+\.\d s"),
    "L": Verdict("partial", r"damaged: frames cannot be decoded, the first at \d+\.\d s"),
    "h": Verdict("failed", r"not a video, or damaged where it must not be \(its header cannot be read\)"),
    "p": Verdict("failed", r"not a video format that can be read \(playlists and image sequences are not opened\)"),
    "v": Verdict("failed", r"holds (nothing|sound)( and a cover picture)?, but no video"),
    "e": Verdict("failed", r"the file is empty \(0 bytes\)"),
    "f": Verdict("failed", r"its video has no frames"),
    "0": Verdict("failed", r"no frame can be decoded at 0\.000 s"),
    "w": Verdict("failed", r"claims to last \d+ days"),
    "s": Verdict("failed", r"none of its frames is displayed"),
    "x": Verdict("failed", r"claims frames of \d+×\d+ pixels"),
    "n": Verdict("failed", r"claims [\d,]+ frames in [\d,]+ bytes"),
    "b": Verdict("failed", r"its frames claim far more bytes than the file has"),
    "c": Verdict("failed", r"its video codec is not known, or no decoder for it is installed"),
    "m": Verdict("failed", r"needs more than the \d+ MiB of memory that reading may use"),
    "q": Verdict("failed", r"made no progress for \d+ s and was stopped"),
    "r": Verdict("failed", r"cannot be read: Permission denied"),
    "o": Verdict("excluded", r"not a regular file"),
    "l": Verdict("excluded", r"a link that leads nowhere"),
    "y": Verdict("excluded", r"a text by its first bytes, not an MPEG transport stream"),
    "-": Verdict(None, ""),  # no row: folders
}


class Case(NamedTuple):
    """A file of the corpus: its name, the letters of the verdicts it may have, and its bytes or what makes it."""

    name: str
    verdict: str
    content: bytes | Callable[[Path], object]


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
                name,
                slice(start, start + 4),
                slice(start + 4, start + 8),
                slice(start + 8 + len(inner), start + 8 + size),
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


# -- damage ----------------------------------------------------------------------------------------------------------

POINTS = (1, 32, 0.1, 0.25, 0.5, 0.75, 0.9, -1)  # bytes kept, or a share of them; −1: the last byte is lost
# A letter a point.
_CUT: Mapping[str, str] = {
    "plain.mp4": "hhhhhhhD",
    "faststart.mp4": "hh0SSSDD",
    "fragmented.mp4": "hh0DDDDD",
    "sound.mov": "hhhhhhhh",
    "clip.mkv": "hhSSSSDD",
    "vp8.webm": "hhSSSDDD",
    "clip.ts": "yhIIIIID",
    "clip.mpg": "hhDDLLLI",
    "clip.avi": "hhhhhSDD",
    "clip.flv": "hh0SSDDD",
    "clip.wmv": "hhDDDDDD",
    "vp8.ogv": "hhDDDDDD",
    "clip.gif": "h0DDDDDD",
    "clip.nut": "hhLLLLLI",
    "mjpeg.mov": "hvSSSSDD",
}
# Three letters a structure: its type, its size, its content.
# fmt: off
_FLIPPED: Mapping[str, Mapping[str, str]] = {
    "plain.mp4": {
        "ftyp": "IhI", "free": "Ihh", "mdat": "IhI", "moov": "hDf", "moov.mvhd": "fvI", "moov.trak": "vIh",
        "moov.trak.tkhd": "IvI", "moov.trak.edts": "III", "moov.trak.edts.elst": "III", "moov.trak.mdia": "vII",
        "moov.trak.mdia.mdhd": "IvI", "moov.trak.mdia.hdlr": "IcI", "moov.trak.mdia.minf": "cII",
        "moov.trak.mdia.minf.vmhd": "IcI", "moov.trak.mdia.minf.dinf": "IIh", "moov.trak.mdia.minf.dinf.dref": "IIc",
        "moov.trak.mdia.minf.dinf.dref.url ": "III", "moov.trak.mdia.minf.stbl": "cII",
        "moov.trak.mdia.minf.stbl.stsd": "cfI", "moov.trak.mdia.minf.stbl.stsd.avc1": "chI",
        "moov.trak.mdia.minf.stbl.stsd.avc1.avcC": "hI0", "moov.trak.mdia.minf.stbl.stsd.avc1.btrt": "III",
        "moov.trak.mdia.minf.stbl.stts": "ffn", "moov.trak.mdia.minf.stbl.stss": "IfI",
        "moov.trak.mdia.minf.stbl.ctts": "IfI", "moov.trak.mdia.minf.stbl.stsc": "fhh",
        "moov.trak.mdia.minf.stbl.stsz": "ffS", "moov.trak.mdia.minf.stbl.stco": "fII", "moov.udta": "III",
        "moov.udta.meta": "III", "moov.udta.meta.hdlr": "III", "moov.udta.meta.ilst": "III",
    },
    "fragmented.mp4": {
        "ftyp": "IhI", "moov": "hDI", "moov.mvhd": "IhI", "moov.trak": "vII", "moov.trak.tkhd": "fvI",
        "moov.trak.mdia": "vII", "moov.trak.mdia.mdhd": "IvI", "moov.trak.mdia.hdlr": "IcI",
        "moov.trak.mdia.minf": "cII", "moov.trak.mdia.minf.vmhd": "IcI", "moov.trak.mdia.minf.dinf": "IIh",
        "moov.trak.mdia.minf.dinf.dref": "IIc", "moov.trak.mdia.minf.dinf.dref.url ": "III",
        "moov.trak.mdia.minf.stbl": "cIh", "moov.trak.mdia.minf.stbl.stsd": "cII",
        "moov.trak.mdia.minf.stbl.stsd.avc1": "cII", "moov.trak.mdia.minf.stbl.stsd.avc1.avcC": "hI0",
        "moov.trak.mdia.minf.stbl.stts": "IIm", "moov.trak.mdia.minf.stbl.stsc": "IIh",
        "moov.trak.mdia.minf.stbl.stsz": "III", "moov.trak.mdia.minf.stbl.stco": "III", "moov.mvex": "hIf",
        "moov.mvex.trex": "hII", "moov.udta": "III", "moov.udta.meta": "III", "moov.udta.meta.hdlr": "III",
        "moov.udta.meta.ilst": "III", "moof": "IDh", "moof.mfhd": "III", "moof.traf": "IIS", "moof.traf.tfhd": "hIf",
        "moof.traf.tfdt": "IIS", "moof.traf.trun": "III", "mdat": "IDL", "mfra": "IDI", "mfra.tfra": "III",
        "mfra.mfro": "III",
    },
    "clip.mkv": {
        "EBML": "hhI", "Segment": "IDI", "Segment.SeekHead": "III", "Segment.SeekHead.Seek": "III",
        "Segment.Info": "III", "Segment.Info.TimestampScale": "III", "Segment.Info.Duration": "III",
        "Segment.Tracks": "vII", "Segment.Tracks.TrackEntry": "vhh", "Segment.Tracks.TrackEntry.TrackNumber": "fvf",
        "Segment.Tracks.TrackEntry.CodecID": "vvc", "Segment.Tracks.TrackEntry.TrackType": "vvv",
        "Segment.Tracks.TrackEntry.Video": "IhI", "Segment.Tracks.TrackEntry.Video.PixelWidth": "hhI",
        "Segment.Tracks.TrackEntry.CodecPrivate": "hh0", "Segment.Cluster": "III", "Segment.Cluster.Timestamp": "III",
        "Segment.Cluster.SimpleBlock": "ILL", "Segment.Cues": "III", "Segment.Cues.CuePoint": "III",
    },
    "clip.avi": {
        "AVI": "IDI", "AVI.hdrl": "vII", "AVI.hdrl.avih": "IvI", "AVI.hdrl.strl": "vII", "AVI.hdrl.strl.strh": "vvI",
        "AVI.hdrl.strl.strf": "vII", "AVI.hdrl.strl.JUNK": "III", "AVI.hdrl.JUNK": "ISI", "AVI.INFO": "III",
        "AVI.INFO.ISFT": "III", "AVI.JUNK": "IhI", "AVI.movi": "hII", "AVI.movi.00dc": "IIL", "AVI.idx1": "LLI",
    },
    "clip.ts": {
        "SDT": "III", "PAT": "III", "PMT": "III", "video": "III", "sound": "III", "sound-later": "III",
        "video-later": "DDI", "PAT-later": "III", "PMT-later": "III",
    },
}
# fmt: on
_WALKS: Mapping[str, Callable[[bytes], Iterator[Part]]] = {
    "plain.mp4": mp4_boxes,
    "fragmented.mp4": mp4_boxes,
    "clip.mkv": ebml_elements,
    "clip.avi": riff_chunks,
    "clip.ts": ts_packets,
}


def cut_off(sources: Sources) -> Iterator[Case]:
    """Every kind of file, cut off at every point."""
    for name in _SOURCES:
        data = sources[name]
        for point, verdict in zip(POINTS, _CUT[name], strict=True):
            kept = int(len(data) * point) if isinstance(point, float) else point % len(data)
            yield Case(f"cut/{point} of {name}", verdict, data[:kept])


def flipped(sources: Sources) -> Iterator[Case]:
    """Every structure of a file with one bit flipped: in its type, in its size, in the middle of its content."""
    for name, walk in _WALKS.items():
        data, seen = sources[name], set()
        for part in walk(data):
            if part.name in seen:
                continue
            seen.add(part.name)
            letters = _FLIPPED[name][part.name]
            for what, verdict in zip(("type", "size", "content"), letters, strict=True):
                yield Case(f"flipped/{part.name} {what} of {name}", verdict, _flip(data, part, what))


def _flip(data: bytes, part: Part, what: str) -> bytes:
    place: slice = getattr(part, what)
    damaged = bytearray(data)
    match what:
        case "type":
            damaged[(place.start + place.stop) // 2] ^= 0x04
        case "size":
            damaged[max(place.start, place.stop - 3 if place.stop - place.start == 4 else place.stop - 1)] ^= 0x10
        case _:
            damaged[(place.start + place.stop) // 2] ^= 0x80
    return bytes(damaged)


# -- absurd claims ---------------------------------------------------------------------------------------------------

_TABLES = "moov.trak.mdia.minf.stbl."
_MOST = 0xFFFF_FFFF


def _u32(*values: int) -> bytes:
    return struct.pack(f">{len(values)}I", *values)


def _patched(data: bytes, *patches: tuple[str, int, bytes]) -> bytes:
    """An MP4 with bytes of its boxes replaced: (box, offset in its content, bytes)."""
    parts, patched = {part.name: part for part in mp4_boxes(data)}, bytearray(data)
    for name, offset, raw in patches:
        at = parts[name].content.start + offset
        patched[at : at + len(raw)] = raw
    return bytes(patched)


def _box(kind: bytes, *content: bytes) -> bytes:
    body = b"".join(content)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def _grown(data: bytes, name: str, box: bytes) -> bytes:
    """An MP4 with its index at the end, one box of it replaced by another of any length."""
    parts = {part.name: part for part in mp4_boxes(data)}
    old = parts[name]
    more = len(box) - (old.content.stop - old.size.start)
    grown = bytearray(data)
    grown[old.size.start : old.content.stop] = box
    while "." in name:
        name = name.rpartition(".")[0]
        at = parts[name].size.start
        grown[at : at + 4] = _u32(parts[name].content.stop - at + more)
    return bytes(grown)


def absurd(sources: Sources) -> Iterator[Case]:
    """MP4 files whose tables claim what cannot be."""
    plain = sources["plain.mp4"]
    header, frames = "moov.trak.mdia.mdhd", _TABLES + "stts"
    sizes, chunks, sample = _TABLES + "stsz", _TABLES + "stsc", _TABLES + "stsd.avc1"

    def samples(count: int, length: int) -> bytes:
        tables = ((frames, _u32(1, count, 1)), (sizes, _u32(length, count)), (chunks, _u32(1, 1, count, 1)))
        return _patched(plain, *((name, 4, raw) for name, raw in tables))

    claims: dict[str, tuple[str, bytes]] = {
        "timescale 0": ("I", _patched(plain, (header, 12, _u32(0)))),
        "timescale 2^32-1": ("I", _patched(plain, (header, 12, _u32(_MOST)))),
        "timescale 0 of the film": ("I", _patched(plain, ("moov.mvhd", 12, _u32(0)))),
        "duration 2^32-1": ("I", _patched(plain, (header, 16, _u32(_MOST)), ("moov.mvhd", 16, _u32(_MOST)))),
        "steps of 2^31-1": ("I", _patched(plain, (frames, 4, _u32(1, 40, 0x7FFF_FFFF)))),
        "sixteen days": (
            "w",
            _patched(plain, ("moov.trak.edts", -4, b"free"), (frames, 4, _u32(1, 40, 0x7FFF_FFFF))),
        ),
        "steps of 2^32-1": ("I", _patched(plain, (frames, 4, _u32(1, 40, _MOST)))),
        "steps of 0": ("I", _patched(plain, (frames, 4, _u32(1, 40, 0)))),
        "no steps": ("f", _patched(plain, (frames, 4, _u32(0)))),
        "2^32-1 kinds of step": ("m", _patched(plain, (frames, 4, _u32(_MOST)))),
        "2^32-1 samples": ("n", samples(_MOST, 1)),
        "2^31-1 samples of no bytes each": ("h", samples(0x7FFF_FFFF, 0)),
        "a million samples": ("n", samples(1_000_000, 10)),
        "samples of a few bytes": ("0", samples(3_000, 5)),
        "2^32-1 sizes": ("h", _patched(plain, (sizes, 8, _u32(_MOST)))),
        "a sample of 2 GiB": ("f", _patched(plain, (sizes, 12, _u32(0x7FFF_FFFF)))),
        "samples beyond the end": ("f", _patched(plain, (_TABLES + "stco", 8, _u32(0x7FFF_FFFF)))),
        "frames of 65535 x 65535": ("I", _patched(plain, (sample, 24, b"\xff" * 4))),
        "frames of 0 x 0": ("I", _patched(plain, (sample, 24, b"\0" * 4))),
        "shown as 65535 x 65535": ("I", _patched(plain, ("moov.trak.tkhd", 76, _u32(0xFFFF_0000, 0xFFFF_0000)))),
        "shown as 0 x 0": ("I", _patched(plain, ("moov.trak.tkhd", 76, _u32(0, 0)))),
        "a turn that is none": ("I", _patched(plain, ("moov.trak.tkhd", 40, bytes(36)))),
        "a codec nobody knows": ("c", _patched(plain, (_TABLES + "stsd", 12, b"zzzz"))),
        "an edit that begins after the end": (
            "s",
            _patched(plain, ("moov.trak.edts.elst", 8, _u32(4000, 0x7FFF_FFFF))),
        ),
        "forty thousand edits": (
            "b",
            _grown(
                plain,
                "moov.trak.edts",
                _box(b"edts", _box(b"elst", _u32(0, 40_000), _u32(1, 0, 0x10000) * 40_000)),
            ),
        ),
        "edits that overlap": (
            "I",
            _grown(plain, "moov.trak.edts", _box(b"edts", _box(b"elst", _u32(0, 50), _u32(4000, 0, 0x10000) * 50))),
        ),
        "the same chunk a million times": (
            "b",
            _grown(
                _grown(
                    _patched(plain, (frames, 4, _u32(1, 20_000, 6000)), (chunks, 4, _u32(1, 1, 1, 1))),
                    sizes,
                    _box(b"stsz", _u32(0, 16_000, 20_000)),
                ),
                _TABLES + "stco",
                _box(b"stco", _u32(0, 20_000), _u32(48) * 20_000),
            ),
        ),
        "boxes in boxes in boxes": ("v", _box(b"ftyp", b"isom", bytes(4)) + _nested(b"moov", b"trak", 10_000)),
        "a compressed index that is a bomb": (
            "v",
            _box(
                b"moov",
                _box(
                    b"cmov",
                    _box(b"dcom", b"zlib"),
                    _box(b"cmvd", _u32(0x7FFF_FFFF), zlib.compress(bytes(1 << 22))),
                ),
            ),
        ),
    }
    for name, (verdict, data) in claims.items():
        yield Case(f"absurd/{name}.mp4", verdict, data)


def _nested(outer: bytes, inner: bytes, depth: int) -> bytes:
    levels = [struct.pack(">I4s", 8 * (depth - level), inner if level else outer) for level in range(depth)]
    return b"".join(levels)


def _ebml(id: int, *content: bytes) -> bytes:
    body = b"".join(content)
    return id.to_bytes((id.bit_length() + 7) // 8, "big") + struct.pack(">Q", len(body) | 1 << 56) + body


def _number(id: int, value: int) -> bytes:
    return _ebml(id, value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big"))


def _matroska(
    frame: bytes,
    codec: bytes = b"V_MJPEG",
    size: tuple[int, int] = SIZE,
    scale: int = 1_000_000,
    duration: float = 1000.0,
    extra: bytes = b"",
    times: tuple[int, ...] = (0, 40, 80),
) -> bytes:
    """A Matroska file written by hand, one block a time; `extra` goes into its track."""
    video = _ebml(0xE0, _number(0xB0, size[0]), _number(0xBA, size[1]))
    track = _ebml(0xAE, _number(0xD7, 1), _number(0x73C5, 1), _number(0x83, 1), _ebml(0x86, codec), video, extra)
    blocks = [_ebml(0xA3, b"\x81", struct.pack(">h", time), b"\x80", frame) for time in times]
    return _ebml(0x1A45DFA3, _ebml(0x4282, b"matroska")) + _ebml(
        0x18538067,
        _ebml(0x1549A966, _number(0x2AD7B1, scale), _ebml(0x4489, struct.pack(">d", duration))),
        _ebml(0x1654AE6B, track),
        _ebml(0x1F43B675, _number(0xE7, 0), *blocks),
    )


def _picture(form: str, size: tuple[int, int] = SIZE, **options: object) -> bytes:
    import io

    import PIL.Image

    out = io.BytesIO()
    PIL.Image.new("RGB", size, (200, 90, 40)).save(out, form, **options)
    return out.getvalue()


def _png(width: int, height: int, bits: int = 8, rows: int | None = None) -> bytes:
    """A grey PNG; its pixels are zeros of which a thousand take one byte."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return _u32(len(data)) + kind + data + _u32(zlib.crc32(kind + data))

    squeeze, row = zlib.compressobj(9), b"\0" + b"\x7f" * (width * bits // 8)
    pixels = b"".join(squeeze.compress(row) for _ in range(height if rows is None else rows)) + squeeze.flush()
    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _as_png() -> bytes:
    """What makes a Matroska track hold PNG pictures."""
    return _ebml(0x63A2, struct.pack("<IiiHH4sIiiII", 40, *SIZE, 1, 24, b"MPNG", 0, 0, 0, 0, 0))


def _gif(screen: tuple[int, int], frames: int, size: tuple[int, int] = (16, 16)) -> bytes:
    """An animation of `frames` frames, of one colour each, some 40 bytes long."""
    image = _picture("GIF", size)
    table = 3 << (image[10] & 7) + 1
    body = image[13 + table : -1]
    body = body[body.index(b"\x2c") :]
    control = b"\x21\xf9\x04\x00\x0a\x00\x00\x00"
    return image[:6] + struct.pack("<HH", *screen) + image[10 : 13 + table] + (control + body) * frames + b"\x3b"


def bombs(sources: Sources) -> Iterator[Case]:
    """Small files that would be large, long or deep."""
    jpeg, vfw = _picture("JPEG"), b"V_MS/VFW/FOURCC"
    inflating = _ebml(0x6D80, _ebml(0x6240, _ebml(0x5034, _number(0x4254, 0))))
    flat = zlib.compress(bytes(64 << 20), 9)
    made: dict[str, tuple[str, bytes]] = {
        "whole.mkv": ("I", _matroska(jpeg)),
        "65535 x 65535.mkv": ("I", _matroska(jpeg, size=(65535, 65535))),
        "1 x 65535.mkv": ("L", _matroska(jpeg, size=(1, 65535))),
        "0 x 0.mkv": ("I", _matroska(jpeg, size=(0, 0))),
        "a scale of 0.mkv": ("I", _matroska(jpeg, scale=0)),
        "a scale of 2^63.mkv": ("h", _matroska(jpeg, scale=1 << 63)),
        "lasts for ever.mkv": ("I", _matroska(jpeg, duration=1e300)),
        "lasts no number.mkv": ("I", _matroska(jpeg, duration=float("nan"))),
        "a day in three frames.mkv": ("I", _matroska(jpeg, scale=4 * 10**9, times=(0, 10_000, 21_600))),
        "time runs backwards.mkv": ("D", _matroska(jpeg, times=(80, 40, 0, -40))),
        "no frames.mkv": ("f", _matroska(jpeg, times=())),
        "empty frames.mkv": ("f", _matroska(b"")),
        "frames of junk.mkv": ("0", _matroska(b"no picture" * 50)),
        "no such codec.mkv": ("c", _matroska(jpeg, codec=b"V_NONE")),
        "compressed frames.mkv": ("I", _matroska(zlib.compress(jpeg), extra=inflating)),
        "compressed frames of 64 MiB.mkv": ("f", _matroska(flat, extra=inflating)),
        "many compressed frames.mkv": (
            "b",
            _matroska(zlib.compress(bytes(8 << 20), 9), extra=inflating, times=tuple(range(100))),
        ),
        "compressed junk.mkv": ("f", _matroska(b"junk" * 20, extra=inflating)),
        "pictures of 25 megapixels.mkv": ("I", _matroska(_png(5000, 5000), vfw, (5000, 5000), extra=_as_png())),
        "pictures of 200 megapixels.mkv": ("x", _matroska(_png(20_000, 10_000, 1), vfw, extra=_as_png())),
        "pictures larger than said.mkv": ("0", _matroska(_png(40_000, 40_000, 1, 100), vfw, extra=_as_png())),
        "pictures of 2^31.mkv": ("0", _matroska(_png(0x7FFF_FFFF, 0x7FFF_FFFF, 1, 0), vfw, extra=_as_png())),
        "screen of 65535 x 65535.gif": ("0x", _gif((65535, 65535), 1)),
        "screen of 0 x 0.gif": ("h", _gif((0, 0), 1)),
        "picture beyond the screen.gif": ("I", _gif((8, 8), 2)),
        "a thousand frames.gif": ("I", _gif((16, 16), 1000)),
        "one pixel.gif": ("I", _gif((1, 1), 3, (1, 1))),
        "a picture.png": ("p", _png(96, 64)),
        "a picture of 900 megapixels.png": ("p", _png(30_000, 30_000, 1)),
        "a picture.jpg": ("p", jpeg),
        "a picture.webp": ("p", _picture("WEBP")),
        "zlib.mp4": ("h", flat),
    }
    for name, (verdict, data) in made.items():
        yield Case(f"bombs/{name}", verdict, data)


# -- files that are none, and files that name others -----------------------------------------------------------------


@dataclass(frozen=True)
class Bait:
    """What hostile files point to: private files, and servers that must hear nothing."""

    folder: Path  # holds private.mp4 and private.ts
    tcp: int
    udp: int

    def urls(self) -> dict[str, str]:
        """What a file may name, by a word for it."""
        web, clip = f"127.0.0.1:{self.tcp}", self.folder / "private.ts"
        return {
            "a file": str(clip),
            "a file's URL": f"file://{clip}",
            "a web page": f"http://{web}/x.ts",
            "a stream": f"rtsp://{web}/x",
            "a socket": f"tcp://{web}",
            "packets": f"udp://127.0.0.1:{self.udp}",
            "a part of a file": f"subfile,,start,0,end,0,,:{clip}",
            "files one after another": f"concat:{clip}|{clip}",
        }


_HLS = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n{more}#EXTINF:10,\n{url}\n#EXT-X-ENDLIST\n"
_LISTS: Mapping[str, str] = {
    "list.m3u8": _HLS,
    "key.m3u8": _HLS.replace("{more}", '#EXT-X-KEY:METHOD=AES-128,URI="{url}"\n'),
    "map.m3u8": _HLS.replace("{more}", '#EXT-X-MAP:URI="{url}"\n'),
    "master.m3u8": "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{url}\n",
    "list.m3u": "#EXTM3U\n{url}\n",
    "list.ffconcat": "ffconcat version 1.0\nfile '{url}'\n",
    "list.mpd": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period><AdaptationSet>'
    "<Representation><BaseURL>{url}</BaseURL></Representation></AdaptationSet></Period></MPD>",
    "external.mpd": '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY y SYSTEM "{url}">]><MPD>&y;</MPD>',
    "list.ism": '<?xml version="1.0"?><smil><body><switch><video src="{url}"/></switch></body></smil>',
    "list.pls": "[playlist]\nNumberOfEntries=1\nFile1={url}\n",
    "list.xspf": "<playlist><trackList><track><location>{url}</location></track></trackList></playlist>",
    "list.asx": '<asx version="3.0"><entry><ref href="{url}"/></entry></asx>',
    "list.wmv": "[Reference]\nRef1={url}\n",
    "list.qtl": '<?xml version="1.0"?><?quicktime type="application/x-quicktime-media-link"?><embed src="{url}"/>',
    "text.mov": "RTSPtext\r{url}\r",
    "list.ram": "{url}\n",
    "list.cue": 'FILE "{url}" WAVE\n  TRACK 01 AUDIO\n    INDEX 01 00:00:00\n',
    "list.srt": "1\n00:00:00,000 --> 00:00:09,000\n{url}\n",
    "list.idx": "# VobSub index file, v7 (do not modify this line!)\nid: en, index: 0\n"
    "timestamp: 00:00:00:000, filepos: 0\n",
    "list.avs": 'AVISource("{url}")\n',
    "list.url": "[InternetShortcut]\nURL={url}\n",
    "list.html": '<html><video src="{url}" autoplay></video></html>',
    "list.svg": '<svg xmlns="http://www.w3.org/2000/svg"><image href="{url}"/></svg>',
}


def _reference_movie(url: str) -> bytes:
    """A QuickTime film that only says where the film is."""
    data = url.encode() + b"\0"
    where = _box(b"rdrf", _u32(0), b"url ", _u32(len(data)), data)
    return _box(b"ftyp", b"qt  ", bytes(4), b"qt  ") + _box(b"moov", _box(b"rmra", _box(b"rmda", where)))


def _alias(path: str) -> bytes:
    """The content of an `alis` reference that names a file by its absolute path."""
    name = path.rpartition("/")[2].encode()[:63]
    head = bytearray(150)
    head[4:8] = struct.pack(">HH", 150, 2)
    head[8 + 42] = len(name)
    head[8 + 43 : 8 + 43 + len(name)] = name
    entry = path.encode()
    return (
        bytes(head) + struct.pack(">HH", 18, len(entry)) + entry + bytes(len(entry) % 2) + struct.pack(">HH", 0xFFFF, 0)
    )


def playlists(sources: Sources, bait: Bait) -> Iterator[Case]:
    """Files that name other files, hosts and devices: none may be followed."""
    for word, url in bait.urls().items():
        for name, text in _LISTS.items():
            if word in ("a file", "a web page") or name in ("list.m3u8", "list.ffconcat"):
                content = text.replace("{more}", "").replace("{url}", url).encode()
                yield Case(f"playlists/{word} by {name}", "ph", content)
                if name in ("list.m3u8", "list.ffconcat", "list.mpd"):
                    yield Case(f"playlists/{word} by {name}.mp4", "ph", content)
        yield Case(f"playlists/{word} by reference.mov", "v", _reference_movie(url))
    sdp = (
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\n"
        f"m=video {bait.udp} RTP/AVP 96\na=rtpmap:96 H264/90000\n"
    )
    for name in ("packets.sdp", "packets by sdp.mp4"):
        yield Case(f"playlists/{name}", "ph", sdp.encode())
    plain, dref = sources["plain.mp4"], "moov.trak.mdia.minf.dinf"
    for word, path in (("absolute", str(bait.folder / "private.mp4")), ("relative", "../../private/private.mp4")):
        # Its samples are said to lie in another file: they are looked for in this one.
        elsewhere = _box(b"dinf", _box(b"dref", _u32(0, 1), _box(b"alis", _u32(0), _alias(path))))
        yield Case(f"playlists/{word} alias.mov", "I", _grown(plain, dref, elsewhere))
    for name in ("frame%03d.png", "frame001.png", "frame002.png"):
        yield Case(f"playlists/{name}", "p", _png(96, 64))
    yield Case("playlists/frame%03d.mp4", "p", _png(96, 64))
    yield Case("playlists/glob*.mp4", "I", sources["vp8.webm"])


def no_videos(sources: Sources) -> Iterator[Case]:
    """Other things under the name of a video, and videos under other names."""
    noise = b"".join(_u32(zlib.crc32(_u32(number))) for number in range(4096))
    things: dict[str, tuple[str, bytes]] = {
        "empty.mp4": ("e", b""),
        "one zero.mp4": ("h", b"\0"),
        "zeros.mp4": ("h", bytes(1 << 20)),
        "ones.mkv": ("h", b"\xff" * 100_000),
        "noise.mp4": ("h", noise),
        "noise.avi": ("h", noise[::-1]),
        "text.mp4": ("h", b"This is no video.\n" * 500),
        "text of 16 bits.mkv": ("h", "\ufeffkein Video, 不是视频\n".encode("utf-16-le") * 200),
        "program.ts": ("y", b"export const video: string = 'none';\n" * 50),
        "page.mp4": ("h", b"<!DOCTYPE html><html><title>404 Not Found</title></html>"),
        "archive.mkv": ("h", b"PK\x03\x04" + noise[:2000]),
        "program.avi": ("h", b"\x7fELF\x02\x01\x01" + noise[:2000]),
        "document.mov": ("h", b"%PDF-1.7\n" + noise[:2000]),
        "pointer.mp4": ("h", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
        "only its type.mp4": ("h", _box(b"ftyp", b"isom", bytes(4), b"isom")),
        "a huge box.mp4": ("h", _u32(1) + b"mdat" + b"\xff" * 8 + bytes(100)),
        "sound.mp4": ("v", sound(sources.folder / "sound.m4a")),
        "a bare stream.h264": ("I", bare_stream(sources)),
        "a bare stream.mp4": ("I", bare_stream(sources)),
        "matroska.mp4": ("I", sources["clip.mkv"]),
        "mp4.avi": ("I", sources["faststart.mp4"]),
        "transport.mkv": ("I", sources["clip.ts"]),
        "animation.mp4": ("I", sources["clip.gif"]),
        "windows.webm": ("I", sources["clip.wmv"]),
        "video.txt": ("I", sources["clip.avi"]),
        "video.jpg": ("I", sources["vp8.webm"]),
        "no ending": ("I", sources["mjpeg.mov"]),
        "two films in one file.mp4": ("I", sources["plain.mp4"] * 2),
        "a film and junk.mp4": ("I", sources["plain.mp4"] + noise),
        "junk and a film.ts": ("I", noise[: 5 * 188] + sources["clip.ts"]),
        "a film in an archive.mp4": ("h", b"PK\x03\x04" + sources["plain.mp4"]),
    }
    for name, (verdict, data) in things.items():
        yield Case(f"no videos/{name}", verdict, data)


def sound(path: Path) -> bytes:
    """A file with sound and a cover picture only."""
    import av

    if not path.exists():
        with av.open(str(path), "w", format="mp4") as container:
            stream = container.add_stream("aac", rate=48_000, layout="mono")
            frame = av.AudioFrame(format="fltp", layout="mono", samples=1024)
            for plane in frame.planes:
                plane.update(bytes(plane.buffer_size))
            frame.sample_rate = 48_000
            for number in range(40):
                frame.pts = number * 1024
                container.mux(stream.encode(frame))
            container.mux(stream.encode())
    return path.read_bytes()


def bare_stream(sources: Sources) -> bytes:
    """The H.264 packets of a clip without any container: nothing says when they are shown."""
    import av

    sources["plain.mp4"]
    target = sources.folder / "bare.h264"
    if not target.exists():
        with av.open(str(sources.folder / "plain.mp4")) as source, av.open(str(target), "w", format="h264") as bare:
            stream = bare.add_stream_from_template(source.streams.video[0])
            for packet in source.demux(source.streams.video[0]):
                if packet.size:
                    packet.stream = stream
                    bare.mux(packet)
    return target.read_bytes()


# -- names, and what is no file ---------------------------------------------------------------------------------------

_NAMES: tuple[str | bytes, ...] = (
    "-rf.mp4", "--help.mp4", "new\nline.mp4", "tab\t.mp4", "bell\a.mp4", "colour\x1b[31m.mp4",
    b"latin-\xe9.mp4", b"\xff\xfe\xfd.mp4", "🎬 film 影片.mp4", "e\u0301 decomposed.mp4",
    "right to left \u202egpj.mp4", "zero\u200bwidth.mp4", " leading blank.mp4", "trailing dot..mp4",
    "%s%n%d.mp4", "$(touch harm).mp4", "`touch harm`.mp4", "; touch harm ;.mp4", "& | < > harm.mp4",
    "'single' \"double\".mp4", "back\\slash.mp4", "*.mp4", "[a-z]?.mp4", "~.mp4", "#hash.mp4", "a@1-2.mp4",
    "@.mp4", "a@1-2", "http:.mp4", "file:x.mp4", "pipe:0.mp4", "concat:a|b.mp4", "data:,x.mp4", "C:.mp4",
    "CON.mp4", "n" * 251 + ".mp4", "\u00fc" * 125 + ".mp4", ".hidden.mp4", "...mp4", "UPPER.MP4",
)  # fmt: skip


def names(sources: Sources) -> Iterator[Case]:
    """A good video under every kind of name."""
    for name in _NAMES:
        yield Case(f"names/{os.fsdecode(name)}", "I", sources["plain.mp4"])
    yield Case("/".join(["names", *["deep"] * 100, "deep.mp4"]), "I", sources["plain.mp4"])


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        # A socket's address is short: its folder is gone to by another way.
        here = os.open(path.parent, os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{here}/{path.name}")
        finally:
            os.close(here)


def _locked(path: Path) -> None:
    path.write_bytes(b"nobody may read this")
    path.chmod(0)


def no_files(sources: Sources) -> Iterator[Case]:
    """Pipes, sockets, devices, links and folders, and files that must not be read."""
    film = sources["plain.mp4"]
    yield Case("no files/pipe.mp4", "o", os.mkfifo)
    yield Case("no files/socket.mp4", "o", _socket)
    for device in ("zero", "null", "random", "tty", "stdin"):
        yield Case(f"no files/{device}.mp4", "ol", lambda path, device=device: path.symlink_to(f"/dev/{device}"))
    yield Case("no files/itself.mp4", "l", lambda path: path.symlink_to(path.name))
    yield Case("no files/nowhere.mp4", "l", lambda path: path.symlink_to("not there"))
    yield Case("no files/round", "-", lambda path: path.symlink_to(".."))
    yield Case("no files/process.mp4", "e", lambda path: path.symlink_to("/proc/version"))
    yield Case("no files/folder.mp4", "-", Path.mkdir)
    yield Case("no files/folder.mp4/film.mp4", "I", film)
    yield Case("no files/locked.mp4", "r", _locked)
    yield Case("no files/a link.mp4", "I", lambda path: path.symlink_to("folder.mp4/film.mp4"))


def corpus(sources: Sources, bait: Bait) -> list[Case]:
    """All of them."""
    groups = (cut_off, flipped, absurd, bombs, no_videos, names, no_files)
    return [case for group in groups for case in group(sources)] + list(playlists(sources, bait))


def write(cases: list[Case], folder: Path) -> None:
    """Makes the files of the corpus in a folder."""
    for case in cases:
        path = folder / case.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(case.content, bytes):
            path.write_bytes(case.content)
        else:
            case.content(path)
