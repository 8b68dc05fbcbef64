"""What a server of vectors must offer. There are two adapters: Qdrant, and PostgreSQL with pgvector.

A store holds the windows of one space of one library, under the ids the catalogue gave their vectors: as these are
never used twice, a vector under an id never changes. What does change is the rest of a row (files move), so each row
carries a digest of it. Beside the rows there are notes, small named texts, by which `push` knows what it has done.
"""

from __future__ import annotations

import hashlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from reelspace.errors import LibraryError
from reelspace.index.base import Found, Ids, Vectors
from reelspace.index.exact import ranked
from reelspace.index.searcher import Range

BLOCK = 4096  # ids a block: the unit that is compared

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Owner = TypeVar("Owner", bound="RemoteStore")


class StoreError(LibraryError):
    """A store that cannot be used."""


class TransientError(StoreError):
    """It may work in a moment: the server cannot be reached, is overloaded, or broke off."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        """`after`: seconds the server asks to wait."""
        super().__init__(message)
        self.after = after


class PlacedFile(NamedTuple):
    """A file that a content is in."""

    path: str
    date: float  # when it was recorded, else the file's; unix seconds


class Row(NamedTuple):
    """A window: the stretch `[start, end)` in seconds of a content, and where to find that."""

    id: int
    video: str = ""  # the hash of the bytes
    start: float = 0.0
    end: float = 0.0
    duration: float = 0.0  # of the whole video, in seconds
    files: tuple[PlacedFile, ...] = ()  # none: it is known, but not to be found

    @property
    def digest(self) -> str:
        """Equal as long as everything in the row is."""
        return digest(repr((*self[:-1], [tuple(file) for file in self.files])))


class Where(NamedTuple):
    """Which rows to search; the default is all. Rows without files pass neither `present`, `paths` nor `dated`."""

    ids: Ids | None = None
    present: bool = False
    paths: Sequence[str] | None = None
    """One and the same file must have one of these paths and be `dated` so."""
    duration: Range = (None, None)
    dated: Range = (None, None)


def digest(text: str) -> str:
    """16 hex digits."""
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def stored_path(path: str) -> str:
    """A path as a server can keep it. Absolute paths begin with a slash; those that are no UTF-8 are kept as hex."""
    raw = os.fsencode(path)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return f"bytes:{raw.hex()}"


def read_path(stored: str) -> str:
    """The path that was stored."""
    return stored if stored.startswith("/") else os.fsdecode(bytes.fromhex(stored.removeprefix("bytes:")))


def patiently(
    method: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """Has a method of a store tried again after a `TransientError`; all of them may be: none adds up."""

    @wraps(method)
    def tried(self: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        for wait in self.patience:
            try:
                return method(self, *args, **kwargs)
            except TransientError as error:
                time.sleep(max(wait, error.after))
        return method(self, *args, **kwargs)

    return tried


class RemoteStore(ABC):
    """A `Store` on a server, with the windows its vectors stand for. Its methods may be called from any thread.

    Attributes:
        name: its URL without secrets.
        patience: seconds between attempts.
    """

    name: str
    patience: tuple[float, ...]

    @abstractmethod
    def prepare(self, dim: int) -> None:
        """Makes the collection, for vectors of `dim` numbers, if it is not there.

        Raises:
            StoreError: it is there, for other vectors; or it may not be made.
        """

    @abstractmethod
    def note(self, name: str) -> str | None:
        """What is noted under `name`; `None` also where there is no collection."""

    @abstractmethod
    def notes(self) -> dict[str, str]:
        """All notes."""

    @abstractmethod
    def set_note(self, name: str, value: str | None) -> None:
        """Notes something, or takes a note away."""

    @abstractmethod
    def put(self, rows: Sequence[Row], vectors: Vectors | None) -> None:
        """Adds or replaces rows, float32 `[n, d]` beside them; `None`: they are there, and their vectors stay."""

    @abstractmethod
    def remove(self, ids: Sequence[int] | Ids) -> None:
        """Forgets rows; an unknown id is no error."""

    @abstractmethod
    def block(self, number: int) -> dict[int, str]:
        """The rows whose ids are in `[number · BLOCK, (number + 1) · BLOCK)`: id → digest."""

    @abstractmethod
    def nearest(self, query: Vectors, k: int, where: Where, approximate: bool) -> tuple[list[Row], Vectors]:
        """The k best rows by inner product with `query` `[d]`, and their vectors, in the server's order.

        Args:
            approximate: the server may use its index, and return fewer.
        """

    @abstractmethod
    def vectors(self, ids: Ids) -> Vectors:
        """The vectors of these ids in this order; unknown ones are left out."""

    @abstractmethod
    def paths(self) -> list[str]:
        """The paths of all files, each once."""

    @abstractmethod
    def approximate(self, wanted: bool) -> None:
        """Has the server make, or drop, an index for approximate search."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows it holds."""

    @abstractmethod
    def close(self) -> None:
        """Ends the connection."""

    # As a `Store`

    def add(self, ids: Sequence[int] | Ids, vectors: Vectors) -> None:
        """Adds or replaces vectors of which nothing more is known."""
        self.put([Row(int(id)) for id in ids], vectors)

    def search(self, queries: Vectors, k: int, among: Ids | None = None) -> list[Found]:
        """As `Store.search`. Scores are computed here: servers round differently."""
        found = []
        for query in queries:
            rows, vectors = self.nearest(query, k, Where(ids=among), approximate=False)
            scores = (vectors.astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
            found.append(ranked(np.array([row.id for row in rows], np.int64), scores, k))
        return found
