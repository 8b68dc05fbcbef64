"""Whether a file ends where its own structure says: the sign of a cut-off file that reading packets does not give.

Decoders take the end of a file for the end of the video. A file that was cut off between two frames then looks whole,
but for what its outermost structure declares.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_HEAD = 1 << 16  # bytes at either end that are looked at
_BOXES = (b"moov", b"mdat", b"moof", b"mfra", b"meta")  # what follows the last of them may be anything
_ASF_HEADER = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
_ASF_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")


def is_cut_off(path: Path, format: str) -> bool:
    """Whether the file ends too early by its own account; false where its container does not tell.

    Args:
        path: the file.
        format: FFmpeg's name of its container, as `InputContainer.format.name`.
    """
    for name, check in _CHECKS.items():
        if name in format.split(","):
            with path.open("rb") as file:
                size = file.seek(0, 2)
                try:
                    return check(file, size)
                except (struct.error, IndexError):  # the structure itself breaks off
                    return True
    return False


def _at(file: BinaryIO, offset: int, count: int) -> bytes:
    file.seek(max(0, offset))
    return file.read(count)


def _mp4(file: BinaryIO, size: int) -> bool:
    at = 0
    while at + 8 <= size:
        length, kind, wide = struct.unpack(">I4sQ", _at(file, at, 16).ljust(16, b"\0"))
        length = wide if length == 1 else length or size - at
        if kind in _BOXES and at + length > size:
            return True
        if length < 8:
            return False  # no boxes any more
        at += length
    return False


def _matroska(file: BinaryIO, size: int) -> bool:
    head = _at(file, 0, _HEAD)
    length, at = _vint(head, 4)
    at += length
    if head[at : at + 4] != b"\x18\x53\x80\x67":
        return False
    length, begin = _vint(head, at + 4)
    unknown = length == (1 << 7 * (begin - at - 4)) - 1  # a live recording
    return not unknown and begin + length > size


def _vint(data: bytes, at: int) -> tuple[int, int]:
    """An EBML size, and where what it measures begins."""
    length = 9 - data[at].bit_length()
    return int.from_bytes(data[at : at + length], "big") & ~(1 << 7 * length), at + length


def _avi(file: BinaryIO, size: int) -> bool:
    (length,) = struct.unpack_from("<I", _at(file, 0, 8), 4)
    return bool(length < 0xFFFF_0000 and 8 + length > size)


def _asf(file: BinaryIO, size: int) -> bool:
    head = _at(file, 0, _HEAD)
    at = head.find(_ASF_PROPERTIES)
    if not head.startswith(_ASF_HEADER) or at < 0:
        return False
    (declared,) = struct.unpack_from("<Q", head, at + 40)
    (flags,) = struct.unpack_from("<I", head, at + 88)
    live = flags & 1
    return bool(not live and declared > size)


def _flv(file: BinaryIO, size: int) -> bool:
    """Every tag is followed by its length."""
    (length,) = struct.unpack(">I", _at(file, size - 4, 4))
    tag = _at(file, size - 4 - length, 4)
    return not (11 <= length <= size and tag[0] & 0x1F in (8, 9, 18) and int.from_bytes(tag[1:], "big") == length - 11)


def _ogg(file: BinaryIO, size: int) -> bool:
    """The last page says that it is the last, and is all there. A page takes at most 64 KiB."""
    tail = _at(file, size - _HEAD, _HEAD)
    at = tail.rfind(b"OggS")
    if at < 0:
        return True
    segments = tail[at + 27 : at + 27 + tail[at + 26]]
    return not tail[at + 5] & 4 or at + 27 + len(segments) + sum(segments) > len(tail)


def _mpegts(file: BinaryIO, size: int) -> bool:
    """Packets of one length, each beginning with `G`."""
    head = _at(file, 0, 4 * 204)
    for length in (188, 192, 204):
        for first in range(length):
            if head[first::length][:3] == b"GGG":
                return (size - first) % length not in (0, 188)
    return False


def _gif(file: BinaryIO, size: int) -> bool:
    """Walks the blocks up to the trailer."""
    data = _at(file, 0, size)
    at = 13 + _colours(data[10])
    while data[at] != 0x3B:
        if data[at] == 0x2C:
            at += 10 + _colours(data[at + 9]) + 1
        elif data[at] == 0x21:
            at += 2
        else:
            return True
        while data[at]:
            at += 1 + data[at]
        at += 1
    return False


def _colours(flags: int) -> int:
    """Bytes of a table of colours."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


_CHECKS: dict[str, Callable[[BinaryIO, int], bool]] = {
    "mp4": _mp4,
    "matroska": _matroska,
    "avi": _avi,
    "asf": _asf,
    "flv": _flv,
    "ogg": _ogg,
    "mpegts": _mpegts,
    "gif": _gif,
}
