"""Folders → the files to try, in one order whatever the file system, each with the reason why it is left out."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from reelspace.index.globs import matcher
from reelspace.index.identity import open_regular

# fmt: off
EXTENSIONS = frozenset((
    ".3g2", ".3gp", ".asf", ".avi", ".divx", ".dv", ".f4v", ".flv", ".h264", ".h265", ".hevc", ".ivf", ".m1v", ".m2t",
    ".m2ts", ".m2v", ".m4v", ".mjpeg", ".mkv", ".mov", ".mp4", ".mpe", ".mpeg", ".mpg", ".mpv", ".mts", ".mxf", ".nut",
    ".obu", ".ogm", ".ogv", ".qt", ".rm", ".rmvb", ".ts", ".vob", ".webm", ".wmv", ".y4m",
))
# fmt: on
# Names that program texts have too: the first bytes tell.
_AMBIGUOUS = frozenset([".ts", ".mts"])


class Found(NamedTuple):
    """What the walk came upon."""

    path: str
    """Absolute; undecodable bytes as surrogates (`os.fsdecode`)."""
    stat: os.stat_result | None
    """Of the file itself, links followed; `None` where it was not or could not be asked."""
    reason: str | None = None
    """Why it is left out; `None`: to be tried."""
    unreadable: bool = False
    """A folder that could not be read: what is in it is unknown, not gone."""


@dataclass(frozen=True)
class Root:
    """A folder to look through, or a single file, and what is wanted of it.

    Attributes:
        path: absolute.
        include, exclude: globs relative to the folder; see `index/globs.py`.
        hidden: also what begins with a dot.
    """

    path: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    hidden: bool = False

    def covers(self, path: str) -> bool:
        """Whether `path` is this root or lies beneath it."""
        return path == self.path or path.startswith(self.path.rstrip("/") + "/")

    def wants(self, path: str) -> bool:
        """Whether a file at `path`, by its name alone, is to be tried. A root that is a file always is."""
        if path == self.path:
            return True
        if not self.covers(path):
            return False
        names = path[len(self.path.rstrip("/")) + 1 :].split("/")
        folders = ("/".join(names[:count]) for count in range(1, len(names)))
        return not any(map(self._leave_out, folders)) and self._verdict("/".join(names)) is None

    def includes(self, other: Root) -> bool:
        """Whether all that `other` wants is wanted here already."""
        if self.path == other.path:
            return self == other
        plain = (self.include, self.exclude) == (other.include, other.exclude) == ((), ())
        inside = other.path if os.path.isfile(other.path) else os.path.join(other.path, "a.mp4")
        return plain and self.hidden == other.hidden and self.wants(inside)

    @cached_property
    def _included(self) -> Callable[[str], bool]:
        return matcher(self.include)

    @cached_property
    def _excluded(self) -> Callable[[str], bool]:
        return matcher(self.exclude)

    def _leave_out(self, relative: str) -> str | None:
        """Why a file or folder is left out whatever it holds."""
        if not self.hidden and os.path.basename(relative).startswith("."):
            return "hidden: its name begins with a dot"
        return "matches an exclude pattern" if self._excluded(relative) else None

    def _verdict(self, relative: str) -> str | None:
        """Why a file is left out by its name."""
        if reason := self._leave_out(relative):
            return reason
        if self.include:
            return None if self._included(relative) else "matches no include pattern"
        extension = _extension(relative)
        return None if extension in EXTENSIONS else f"no video by its name ({extension or 'no extension'})"

    def walk(self) -> Iterator[Found]:
        """Every file of the root, and every folder that is left out or cannot be read.

        Links are followed; a folder reached twice, as by a link that loops, is walked once, under its own name
        rather than a link's. Folders that are links come last, everything in order of the names' bytes.
        """
        try:
            status = os.stat(self.path)
        except OSError as error:
            yield Found(self.path, None, _unreadable(error), unreadable=True)
            return
        if not stat.S_ISDIR(status.st_mode):
            yield _regular(self.path, status)
            return
        seen: set[tuple[int, int]] = set()
        links = [self.path]
        while links:
            later: list[str] = []
            for path in links:
                yield from self._folder(path, seen, later)
            links = later

    def _folder(self, top: str, seen: set[tuple[int, int]], links: list[str]) -> Iterator[Found]:
        """Depth first without recursion; links to folders are put aside into `links`."""
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            try:
                status = os.stat(folder)
                if (status.st_dev, status.st_ino) in seen:
                    continue
                seen.add((status.st_dev, status.st_ino))
                with os.scandir(folder) as entries:
                    ordered = sorted(entries, key=lambda entry: os.fsencode(entry.name))
                if any(entry.name == "CACHEDIR.TAG" for entry in ordered) and folder != self.path:
                    yield Found(folder, None, "folder of a cache (it holds a CACHEDIR.TAG)")
                    continue
            except OSError as error:
                yield Found(folder, None, _unreadable(error), unreadable=True)
                continue
            folders: list[str] = []
            for entry in ordered:
                if not _is_folder(entry):
                    yield self._file(entry)
                elif reason := self._leave_out(self._relative(entry.path)):
                    yield Found(entry.path, None, f"folder {reason}")
                else:
                    (links if entry.is_symlink() else folders).append(entry.path)
            waiting.extend(reversed(folders))

    def _file(self, entry: os.DirEntry[str]) -> Found:
        if reason := self._verdict(self._relative(entry.path)):
            return Found(entry.path, None, reason)
        try:
            status = entry.stat()
        except OSError as error:
            return Found(entry.path, None, "a link that leads nowhere" if entry.is_symlink() else _unreadable(error))
        found = _regular(entry.path, status)
        if found.reason is None and _extension(entry.name) in _AMBIGUOUS and _is_text(entry.path):
            return found._replace(reason="a text by its first bytes, not an MPEG transport stream")
        return found

    def _relative(self, path: str) -> str:
        return path[len(self.path.rstrip("/")) + 1 :]


def absolute(path: str | os.PathLike[str]) -> str:
    """The path from the root, `..` resolved by name, links kept."""
    return os.path.abspath(os.fspath(path))


def _regular(path: str, status: os.stat_result) -> Found:
    return Found(path, status, None if stat.S_ISREG(status.st_mode) else "not a regular file")


def _extension(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that loops
        return False


def _is_text(path: str) -> bool:
    """No NUL among the first bytes, which a transport stream's tables are full of."""
    try:
        with open_regular(path) as file:
            head = file.read(512)
    except OSError:
        return False
    return bool(head) and b"\0" not in head


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"
