"""A file is known by its bytes; its size, time and inode only spare reading them again."""

from __future__ import annotations

import hashlib
import os
import stat
from io import BufferedReader
from typing import NamedTuple

_MOST = 0x7FFF_FFFF_FFFF_FFFF


class Stamp(NamedTuple):
    """What changes when a file does, without reading it."""

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """The stamp of a file's status (SQLite's integers have 64 bits with a sign, and some clocks run past 2262)."""
        time = max(-_MOST, min(status.st_mtime_ns, _MOST))
        return cls(status.st_size, time, status.st_ino & _MOST)


class ChangedWhileRead(OSError):  # noqa: N818 - an event rather than an error: the file is tried again
    """The file was written to, or replaced, while it was being read."""


def content_hash(path: str) -> tuple[str, Stamp]:
    """BLAKE2b-160 of the file's bytes, 40 hex digits, with the stamp they belong to.

    Raises:
        ChangedWhileRead: the file did not hold still.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        before = Stamp.of(os.fstat(file.fileno()))
        digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=20))
    check_unchanged(path, before)
    return digest.hexdigest(), before


def open_regular(path: str) -> BufferedReader:
    """Opens an ordinary file to read its bytes. A pipe put in its place does not make this wait for ever.

    Raises:
        OSError: it cannot be opened, or is something else by now.
    """
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError("not a regular file")
    return file


def check_unchanged(path: str, stamp: Stamp) -> None:
    """Raises `ChangedWhileRead` if the file at `path` is no longer the one of that stamp."""
    if Stamp.of(os.stat(path)) != stamp:
        raise ChangedWhileRead("changed while it was being read; it is tried again by the next run")
