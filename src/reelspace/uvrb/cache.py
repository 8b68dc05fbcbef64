"""Vectors once made are kept, by what they were made of: an item's content, the model, how it is asked, the protocol.

No name is part of a key, so nothing stale is ever returned: another file under the same name, other frames, another
checkpoint have other keys. A store is a folder; each process appends to a file of its own and reads those of all, so
that shards need no lock and no server. A record carries a checksum: what a killed process wrote in part is not read.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
import zlib
from collections.abc import Iterable, Mapping
from io import BufferedWriter
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import Vectors
from reelspace.index.identity import content_hash
from reelspace.item import Frames, Item, Span
from reelspace.uvrb.results import write_text

KEY = 20  # bytes


def default_folder() -> Path:
    """Where vectors and drawn worlds are kept unless told otherwise: `$REELSPACE_CACHE`, else the user's cache."""
    from platformdirs import user_cache_path

    named = os.environ.get("REELSPACE_CACHE")
    return Path(named) if named else user_cache_path("reelspace")


class Contents:
    """Content of items as digests. Files are hashed once; size, times and inode tell whether they are the same still.

    The time of the last change of the inode is among them: it cannot be set back, as that of the content can.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._path = None if folder is None else folder / "files.jsonl"
        self._known: dict[str, tuple[list[int], str]] = {}
        self._file: Any = None
        if self._path is not None and self._path.exists():
            for line in self._path.read_text("utf-8", "surrogateescape").splitlines():
                try:
                    path, stamp, found = json.loads(line)
                except ValueError:
                    continue  # the last line of a process that was killed
                self._known[path] = (stamp, found)

    def close(self) -> None:
        """Closes the file it writes to."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def of(self, item: Item) -> bytes:
        """A digest of all of an item that an embedder sees.

        Raises:
            OSError: its file cannot be read.
        """
        made = hashlib.blake2b(digest_size=KEY)
        for part in item.parts:
            content = getattr(item, part)
            made.update(f"{part}:".encode())
            made.update(self._part(content))
        return made.digest()

    def _part(self, content: object) -> bytes:
        if isinstance(content, str):
            return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=KEY).digest()
        if isinstance(content, Path):
            return self._hash(content).encode()
        if isinstance(content, Span):
            return f"{self._hash(content.path)}@{content.start!r}-{content.end!r}".encode()
        if isinstance(content, Frames):
            stretch = np.array([content.start, content.end])
            return _array(content.pixels) + _array(content.times) + _array(stretch)
        return _array(np.asarray(content))

    def _hash(self, path: Path) -> str:
        name, status = str(path.absolute()), path.stat()
        stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        known = self._known.get(name)
        if known is not None and known[0] == stamp:
            return known[1]
        found, _ = content_hash(name)
        self._known[name] = (stamp, found)
        if self._path is not None:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("a", encoding="utf-8", errors="surrogateescape")
            # One write a line: lines of processes that append to the file at the same time do not mix.
            self._file.write(json.dumps([name, stamp, found]) + "\n")
            self._file.flush()
        return found


def _array(array: NDArray[Any]) -> bytes:
    made = hashlib.blake2b(f"{array.dtype}{array.shape}".encode(), digest_size=KEY)
    made.update(np.ascontiguousarray(array).data)
    return made.digest()


def key(side: str, instruction: str | None, content: bytes) -> bytes:
    """The key of an item as it is asked: `side` is `query` or `candidate`."""
    told = b"" if instruction is None else b"+" + instruction.encode()
    return hashlib.blake2b(side.encode() + b"|" + content + told, digest_size=KEY).digest()


class _Record(NamedTuple):
    file: int
    row: int


class VectorCache:
    """The vectors of one space: a model (by fingerprint) under a protocol. A context manager.

    Args:
        folder: of all spaces; None keeps nothing.
        dim: length of a vector.
        space: what tells this space from others; all of it is part of the folder's name, as a digest.
    """

    def __init__(self, folder: Path | None, dim: int, space: Mapping[str, object]) -> None:
        self.dim = dim
        self._type = np.dtype([("key", f"V{KEY}"), ("vector", "<f4", (dim,)), ("sum", "<u4")])
        self._files: list[Any] = []
        self._where: dict[bytes, _Record] = {}
        self._own: BufferedWriter | None = None
        told = json.dumps({"dim": dim, **space}, sort_keys=True, default=str, ensure_ascii=False)
        self.name = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
        self._folder = None if folder is None else folder / "vectors" / self.name
        self._fresh: dict[bytes, NDArray[np.float32]] = {}
        if self._folder is None:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        write_text(self._folder / "space.json", told + "\n")
        self.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file it writes to."""
        if self._own is not None:
            self._own.close()
            self._own = None

    def refresh(self) -> None:
        """Reads what other processes have added, and lets go of what is in memory."""
        if self._folder is None:
            return
        self._files, self._where, self._fresh = [], {}, {}
        for path in sorted(self._folder.glob("*.vectors")):
            count = path.stat().st_size // self._type.itemsize
            if count:
                records = np.memmap(path, self._type, "r", shape=(count,))
                number = len(self._files)
                self._files.append(records)
                for row, name in enumerate(records["key"]):
                    self._where.setdefault(name.tobytes(), _Record(number, row))

    def __contains__(self, name: bytes) -> bool:
        return name in self._fresh or name in self._where

    def get(self, name: bytes) -> NDArray[np.float32] | None:
        """The vector of a key, float32 `[d]`, or None if there is none that is whole."""
        if (fresh := self._fresh.get(name)) is not None:
            return fresh
        where = self._where.get(name)
        if where is None:
            return None
        record = self._files[where.file][where.row]
        vector = np.array(record["vector"], dtype=np.float32)
        if _sum(name, vector) != int(record["sum"]):
            del self._where[name]
            return None
        return vector

    def add(self, names: Iterable[bytes], vectors: Vectors) -> None:
        """Keeps vectors; they are safe from the end of this process, however it ends, once this returns."""
        made = [(name, np.asarray(vector, dtype="<f4")) for name, vector in zip(names, vectors, strict=True)]
        self._fresh.update(made)
        if self._folder is None or not made:
            return
        records = np.empty(len(made), dtype=self._type)
        for row, (name, vector) in enumerate(made):
            records[row] = (np.void(name), vector, _sum(name, vector))
        if self._own is None:
            self._own = (self._folder / f"{uuid.uuid4().hex}.vectors").open("wb")
        self._own.write(records.tobytes())
        self._own.flush()


def _sum(name: bytes, vector: NDArray[np.float32]) -> int:
    return zlib.crc32(vector.tobytes(), zlib.crc32(name))
