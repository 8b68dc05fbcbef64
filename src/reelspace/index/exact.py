"""Exact search over a mapped matrix: a cache beside the catalogue that can be deleted and comes back.

The folder holds `head.json`, which names the two files that count and how many rows of them do, so renaming it into
place is what makes a change happen. Rows are appended; removed ones get the id −1 until a rewrite drops them.
Processes that read keep what they have mapped: nothing they look at is changed but for such ids. As the folder may go
at any time, also while it is written, the lock lies outside, and no two rewrites ever use the same names.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import LibraryError
from reelspace.index.base import Found, Ids, Vectors
from reelspace.index.lock import exclusive

_VERSION = 1
_HEAD = ("version", "dim", "generation", "rows", "removed")  # `removed` tells a reader that ids have become −1
_ROUNDING = 1e-6  # float32 products of equal rows differ by less, depending on where the rows lie
_SCORES = 1 << 24  # most scores held at once: 64 MiB
_ROWS = 1 << 13  # rows copied at once


class _Rows(NamedTuple):
    """What is mapped; replaced as a whole, so that a search sees one state."""

    vectors: Vectors  # [n, d]
    ids: Ids  # [n]; −1: removed
    order: NDArray[np.intp]  # sorts ids
    dead: NDArray[np.intp]  # rows with the id −1

    def of(self, ids: Ids) -> NDArray[np.intp]:
        """The rows of these ids, ascending; unknown ids are ignored."""
        if not len(self.ids):
            return np.empty(0, np.intp)
        wanted = np.unique(ids)
        wanted = wanted[wanted >= 0]
        places = np.minimum(np.searchsorted(self.ids, wanted, sorter=self.order), len(self.ids) - 1)
        rows = self.order[places]
        return np.sort(rows[self.ids[rows] == wanted])


class UnwritableError(LibraryError):
    """The cache cannot be written; `ReadOnlyStore` does without."""


class MatrixStore:
    """A `Store` on disk, searched exhaustively."""

    def __init__(self, folder: Path, dim: int, lock: Path | None = None) -> None:
        """Opens the store in `folder`, or makes an empty one. What cannot be read as one is replaced by an empty one.

        Args:
            folder: may be deleted at any time.
            dim: of the vectors.
            lock: a file that whoever deletes the folder leaves alone; left out, one beside the folder.

        Raises:
            UnwritableError: the folder or the lock cannot be written.
        """
        self.folder, self.dim = folder, dim
        self._lock_file = lock or folder.with_name(f"{folder.name}.lock")
        self._head: dict[str, int] = {}
        self._files: tuple[tuple[int, int], ...] = ()  # which ones are mapped: device and inode
        self._thread_lock = threading.RLock()
        self._held = 0
        with self.changing():
            pass

    def __len__(self) -> int:
        return len(self._rows.ids) - len(self._rows.dead)

    @property
    def ids(self) -> Ids:
        """The ids it holds, ascending."""
        return self._rows.ids[self._rows.order[len(self._rows.dead) :]]

    def frozen(self) -> Self:
        """The store as it is now, to read from while others, in this process too, bring the store itself on."""
        return copy(self)  # `_rows` is replaced as a whole, and what it maps is never written to

    @property
    def state(self) -> object:
        """Equal as long as the same rows are in it."""
        return self._rows.ids

    def known(self, ids: Ids) -> Ids:
        """Those of these ids that it holds, ascending."""
        rows = self._rows
        return np.sort(rows.ids[rows.of(ids)])

    def vectors(self, ids: Ids) -> Vectors:
        """The vectors of these ids, in this order; they must be known."""
        rows = self._rows
        return np.asarray(rows.vectors[rows.order[np.searchsorted(rows.ids, ids, sorter=rows.order)]])

    def sample(self, most: int) -> Vectors:
        """Up to `most` vectors, evenly spread over the rows."""
        step = -(-len(self._rows.ids) // most) or 1
        some, alive = self._rows.vectors[::step], self._rows.ids[::step] >= 0
        return some if alive.all() else np.asarray(some[alive])

    def sample_ids(self, most: int) -> Ids:
        """The ids of what `sample` gives, in its order."""
        some = self._rows.ids[:: -(-len(self._rows.ids) // most) or 1]
        return np.asarray(some[some >= 0])

    def search(self, queries: Vectors, k: int, among: Ids | None = None) -> list[Found]:
        rows = self._rows
        if among is None:
            return self._search(queries, k, rows.vectors, rows.ids, rows.dead)
        chosen = rows.of(among)
        if 4 * len(chosen) > len(rows.ids):  # reading everything in order is faster than gathering
            others = np.ones(len(rows.ids), bool)
            others[chosen] = False
            return self._search(queries, k, rows.vectors, rows.ids, np.flatnonzero(others))
        return self._search(queries, k, _Gathered(rows.vectors, chosen), rows.ids[chosen], np.empty(0, np.intp))

    def _search(
        self, queries: Vectors, k: int, vectors: Vectors | _Gathered, ids: Ids, left_out: NDArray[np.intp]
    ) -> list[Found]:
        if len(ids) == len(left_out):
            return [Found(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in queries]
        found = []
        step = max(1, _SCORES // len(ids))
        for first in range(0, len(queries), step):
            block = np.asarray(queries[first : first + step], dtype=np.float32)
            scores = block @ vectors.T if isinstance(vectors, np.ndarray) else vectors.scores(block)
            scores[:, left_out] = -np.inf
            k_here = min(k, len(ids) - len(left_out))
            found += [_best(row, query, k_here, vectors, ids) for row, query in zip(scores, block, strict=True)]
        return found

    def add(self, ids: Sequence[int] | Ids, vectors: Vectors) -> None:
        new = np.asarray(ids, dtype=np.int64)
        if vectors.shape != (len(new), self.dim):
            raise ValueError(f"{len(new)} ids need vectors {(len(new), self.dim)}, not {vectors.shape}")
        if not len(new):
            return
        with self.changing():
            self.remove(new)
            rows = self._head["rows"]
            _write_at(self._file("f32"), rows * 4 * self.dim, np.ascontiguousarray(vectors, dtype="<f4"))
            _write_at(self._file("i64"), rows * 8, new.astype("<i8"))
            self._commit(self._head | {"rows": rows + len(new)})

    def remove(self, ids: Sequence[int] | Ids) -> None:
        with self.changing():
            rows = self._rows.of(np.asarray(ids, dtype=np.int64))
            if not len(rows):
                return
            writable = np.memmap(self._file("i64"), "<i8", "r+", shape=(self._head["rows"],))
            writable[rows] = -1
            writable.flush()
            self._commit(self._head | {"removed": self._head["removed"] + len(rows)})
            if len(self._rows.dead) > 1000 and 4 * len(self._rows.dead) > len(self._rows.ids):
                self._rewrite(np.flatnonzero(self._rows.ids >= 0))

    def clear(self) -> None:
        """Forgets every row."""
        with self.changing():
            self._rewrite(np.empty(0, np.intp))

    @contextmanager
    def changing(self) -> Iterator[None]:
        """The store as it is now, and nobody else changes it meanwhile, in any thread or process."""
        with self._thread_lock:
            self._held += 1
            try:
                if self._held > 1:
                    yield
                    return
                try:
                    self.folder.mkdir(parents=True, exist_ok=True)
                    with exclusive(self._lock_file):
                        self._load()
                        yield
                except OSError as error:
                    raise UnwritableError(f"{self.folder}: the cache of vectors cannot be written: {error}.") from error
            finally:
                self._held -= 1

    def _file(self, kind: str) -> Path:
        return self.folder / f"{self._head['generation']}.{kind}"

    def _on_disk(self) -> tuple[tuple[int, int], ...]:
        stats = [self._file(kind).stat() for kind in ("f32", "i64")]
        return tuple((stat.st_dev, stat.st_ino) for stat in stats)

    def _load(self) -> None:
        """Maps what `head.json` names, if that has changed; starts anew where it makes no sense."""
        try:
            head = json.loads((self.folder / "head.json").read_text("utf-8"))
            if head == self._head and self._files == self._on_disk():
                return
            if head["version"] != _VERSION or head["dim"] != self.dim:
                raise ValueError
            self._head = {name: int(head[name]) for name in _HEAD}
            self._map()
        except (OSError, ValueError, KeyError, TypeError):
            self._head = dict(zip(_HEAD, (_VERSION, self.dim, 0, 0, 0), strict=True))
            self._start_anew()

    def _start_anew(self) -> None:
        self._rewrite(np.empty(0, np.intp))

    def _map(self) -> None:
        rows = self._head["rows"]
        self._files = self._on_disk()
        if rows:
            vectors: Vectors = np.memmap(self._file("f32"), "<f4", "r", shape=(rows, self.dim))
            ids: Ids = np.fromfile(self._file("i64"), "<i8", rows)
            if len(ids) != rows:
                raise ValueError("shorter than its head says")
        else:
            vectors, ids = np.empty((0, self.dim), np.float32), np.empty(0, np.int64)
        self._hold(np.asarray(vectors), ids)  # a plain array over the map: a subclass would slow every slice

    def _hold(self, vectors: Vectors, ids: Ids) -> None:
        self._rows = _Rows(vectors, ids, np.argsort(ids, kind="stable"), np.flatnonzero(ids < 0))

    def _rewrite(self, rows: NDArray[np.intp]) -> None:
        """Writes only these rows, into files of a generation of their own."""
        old = getattr(self, "_rows", None)
        generation = secrets.randbits(53)
        head = self._head | {"generation": generation, "rows": len(rows)}
        with open(self.folder / f"{generation}.f32", "wb") as file:
            for block in (rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS)):
                assert old is not None
                old.vectors[block].tofile(file)
            os.fsync(file.fileno())
        with open(self.folder / f"{generation}.i64", "wb") as file:
            (old.ids[rows] if old is not None else np.empty(0, "<i8")).tofile(file)
            os.fsync(file.fileno())
        self._commit(head)
        for path in self.folder.glob("*.[fi][36][24]"):
            if path.stem != str(generation):
                path.unlink()

    def _commit(self, head: dict[str, int]) -> None:
        aside = self.folder / "head.json.new"
        with open(aside, "w", encoding="utf-8") as file:
            json.dump(head, file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self.folder / "head.json")
        self._head = head
        self._map()


class ReadOnlyStore(MatrixStore):
    """A `MatrixStore` that is only read, without its lock. Changes to its rows are kept in memory, for this process."""

    @contextmanager
    def changing(self) -> Iterator[None]:
        """The store as it is now, with what this process has changed since it was written."""
        with self._thread_lock:
            self._held += 1
            try:
                if self._held == 1:
                    self._load()
                yield
            finally:
                self._held -= 1

    def add(self, ids: Sequence[int] | Ids, vectors: Vectors) -> None:
        new = np.asarray(ids, dtype=np.int64)
        with self.changing():
            kept = np.flatnonzero(~np.isin(self._rows.ids, new) & (self._rows.ids >= 0))
            together = np.concatenate([self._rows.vectors[kept], vectors.astype(np.float32)])
            self._hold(together, np.concatenate([self._rows.ids[kept], new]))

    def remove(self, ids: Sequence[int] | Ids) -> None:
        with self.changing():
            left = self._rows.ids.copy()
            left[self._rows.of(np.asarray(ids, dtype=np.int64))] = -1
            self._hold(self._rows.vectors, left)

    def clear(self) -> None:
        with self.changing():
            self._hold(np.empty((0, self.dim), np.float32), np.empty(0, np.int64))

    def _start_anew(self) -> None:
        if not hasattr(self, "_rows"):  # else what it holds is as good as before
            self.clear()


class _Gathered:
    """A few rows of a matrix, copied block by block while they are scored."""

    def __init__(self, vectors: Vectors, rows: NDArray[np.intp]) -> None:
        self._vectors, self._rows = vectors, rows

    def scores(self, queries: Vectors) -> Vectors:
        scores = np.empty((len(queries), len(self._rows)), np.float32)
        for start in range(0, len(self._rows), _ROWS):
            part = slice(start, start + _ROWS)
            scores[:, part] = queries @ self._vectors[self._rows[part]].T
        return scores

    def __getitem__(self, places: NDArray[np.intp]) -> Vectors:
        return np.asarray(self._vectors[self._rows[places]])


def _best(scores: Vectors, query: Vectors, k: int, vectors: Vectors | _Gathered, ids: Ids) -> Found:
    """The k best, equal rows getting equal scores: near ones are scored again in float64 and rounded."""
    cut = np.partition(scores, len(scores) - k)[len(scores) - k] if k < len(scores) else -np.inf
    near = np.flatnonzero((scores >= cut - _ROUNDING) & (scores > -np.inf))
    exact = np.empty(len(near), np.float32)
    for start in range(0, len(near), _ROWS):
        part = slice(start, start + _ROWS)
        exact[part] = vectors[near[part]].astype(np.float64) @ query.astype(np.float64)
    return ranked(ids[near], exact, k)


def ranked(ids: Ids, scores: Vectors, k: int) -> Found:
    """The k best of these: score descending, then id ascending."""
    order = np.lexsort((ids, -scores))[:k]
    return Found(ids[order], scores[order])


def _write_at(path: Path, offset: int, values: NDArray[np.generic]) -> None:
    """Writes and makes durable; what lies beyond `offset` was never committed."""
    with open(path, "r+b") as file:
        file.truncate(offset)
        file.seek(offset)
        values.tofile(file)
        file.flush()
        os.fsync(file.fileno())


class Source(Protocol):
    """Where a store's rows come from: a set of ids, none of which is ever used twice, each with its vector."""

    def state(self, until: int | None = None) -> tuple[int, int]:
        """How many ids there are, and the newest (0 if none); of those up to `until`, if given."""

    def ids(self, after: int = 0) -> Ids:
        """The ids greater than `after`, ascending int64."""

    def vectors(self, ids: Ids) -> Vectors:
        """Their vectors float32 `[n, d]`, in this order; the ids must be there."""


def follow(store: MatrixStore, source: Source) -> None:
    """Brings a store in step with its source, reading only what is new. What makes no sense is read anew."""
    with store.changing():
        held = len(store), _newest(store)
        # As ids are never used twice, the same number of them up to the newest held are the same ones.
        if source.state(held[1]) == held and _agrees(store, store.ids, source):
            new = source.ids(after=held[1])
        else:
            wanted = source.ids()
            if not _agrees(store, np.intersect1d(store.ids, wanted, assume_unique=True), source):
                store.clear()
            store.remove(np.setdiff1d(store.ids, wanted, assume_unique=True))
            new = np.setdiff1d(wanted, store.ids, assume_unique=True)
        for start in range(0, len(new), 4 * _ROWS):
            part = new[start : start + 4 * _ROWS]
            store.add(part, source.vectors(part))


def _newest(store: MatrixStore) -> int:
    return int(store.ids[-1]) if len(store) else 0


def _agrees(store: MatrixStore, common: Ids, source: Source, probes: int = 8) -> bool:
    """Whether a handful of rows that both have, the newest among them, are equal."""
    if not len(common):
        return True
    some = common[np.unique(np.linspace(0, len(common) - 1, probes).round().astype(int))]
    return np.array_equal(store.vectors(some), source.vectors(some))
