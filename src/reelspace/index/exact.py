"""Exact search over a mapped matrix: a cache beside the catalogue that can be deleted and comes back.

The folder holds `head.json`, which names the files that count and how many rows of them do, so renaming it into
place is what makes a change happen. Rows are appended; removed ones get the id −1 until a rewrite drops them. The
rows may be kept in groups of near ones, in which `index/ann.py` searches.
Processes that read keep what they have mapped: nothing they look at is changed but for such ids. As the folder may go
at any time, also while it is written, the lock lies outside, and no two rewrites ever use the same names.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import NamedTuple, Protocol, Self
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import LibraryError
from reelspace.index.base import Found, Ids, Vectors
from reelspace.index.lock import exclusive

_VERSION = 3
_HEAD = ("version", "dim", "generation", "rows", "removed")  # `removed` tells a reader that ids have become −1
_ROUNDING = 1e-6  # float32 products of equal rows differ by less, depending on where the rows lie
_SCORES = 1 << 24  # most scores held at once: 64 MiB
_ROWS = 1 << 13  # rows copied at once
_KINDS = ("f32", "ids", "origins")  # the files of a generation; `groups.npz` where it has groups


class Groups(NamedTuple):
    """Rows that lie together in the matrix because they are near each other: those of group g are
    `starts[g]` to `starts[g + 1]`. Rows that came later lie behind the last group.
    """

    centroids: Vectors  # [g, d]
    starts: NDArray[np.int64]  # [g + 1]
    built: int  # how many rows there were
    probes: int  # groups that a search looks into at least

    def only(self, rows: NDArray[np.intp]) -> Groups:
        """The groups when only these rows, ascending, are left."""
        return self._replace(starts=np.searchsorted(rows, self.starts))

    def write(self, path: Path) -> None:
        """Makes the file, durably."""
        with open(path, "wb") as file:
            np.savez(file, **self._asdict())
            os.fsync(file.fileno())

    @classmethod
    def read(cls, path: Path, rows: int, dim: int) -> Groups | None:
        """What a file holds; `None` if there is none, or it fits no matrix of that size."""
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as kept:
                groups = cls(kept["centroids"], kept["starts"], int(kept["built"]), int(kept["probes"]))
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None
        fits = groups.centroids.shape == (len(groups.starts) - 1, dim) and groups.starts[0] == 0
        return groups if fits and (np.diff(groups.starts) >= 0).all() and groups.starts[-1] <= rows else None


class Rows(NamedTuple):
    """What is mapped; replaced as a whole, so that a search sees one state."""

    vectors: Vectors  # [n, d]
    ids: Ids  # [n]; −1: removed
    origins: Ids  # [n, 2]: the content and the window it is of
    order: NDArray[np.intp]  # sorts ids
    dead: NDArray[np.intp]  # rows with the id −1
    groups: Groups | None

    def of(self, ids: Ids) -> NDArray[np.intp]:
        """The rows of these ids, ascending; unknown ids are ignored."""
        wanted = ids[ids >= 0]
        if 16 * len(wanted) > len(self.ids):  # looking at every row is faster than looking each up
            return np.flatnonzero(np.isin(self.ids, wanted))
        rows = self.places(np.unique(wanted))
        return np.sort(rows[rows >= 0])

    def places(self, ids: Ids) -> NDArray[np.intp]:
        """The row of each id; −1 for unknown ones."""
        if not len(self.ids):
            return np.full(len(ids), -1, np.intp)
        rows = self.order[np.minimum(np.searchsorted(self.ids, ids, sorter=self.order), len(self.ids) - 1)]
        return np.where((self.ids[rows] == ids) & (ids >= 0), rows, -1)

    def column(self, kind: str) -> NDArray[np.generic]:
        """What the file of this kind holds."""
        columns: dict[str, NDArray[np.generic]] = {"f32": self.vectors, "ids": self.ids, "origins": self.origins}
        return columns[kind]


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
        self._as_written: tuple[int, int] | None = None
        self._thread_lock = threading.RLock()
        self._held = 0
        self._hold(np.empty((0, dim), np.float32), np.empty(0, np.int64), np.empty((0, 2), np.int64))
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
    def rows(self) -> Rows:
        """What it holds now, for a search that looks into some of it."""
        return self._rows

    def of_videos(self, videos: Ids) -> Ids:
        """The ids of the vectors of these contents, in no order."""
        ids = self._rows.ids[np.isin(self._rows.origins[:, 0], videos)]
        return ids[ids >= 0]

    @property
    def outdated(self) -> bool:
        """Whether another store has written to the folder since, or it has been deleted."""
        return self._written() != self._as_written

    def known(self, ids: Ids) -> Ids:
        """Those of these ids that it holds, ascending."""
        rows = self._rows
        return np.sort(rows.ids[rows.of(ids)])

    def vectors(self, ids: Ids) -> Vectors:
        """The vectors of these ids, in this order; they must be known."""
        rows = self._rows
        return np.asarray(rows.vectors[rows.places(ids)])

    def origins(self, ids: Ids) -> Ids:
        """The content and the window that each vector is of, `[n, 2]`, in the order of these ids: known ones."""
        rows = self._rows
        return np.asarray(rows.origins[rows.places(ids)])

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
        return [scan.best(k) for scan in self._scans(queries, among)]

    def scan(self, query: Vectors, among: Ids | None = None) -> Scan:
        """What `search` with one query `[d]` ranks, for whoever does not know yet how many are wanted."""
        return next(self._scans(query[None], among))

    def _scans(self, queries: Vectors, among: Ids | None) -> Iterator[Scan]:
        rows = self._rows
        if among is None:
            return _scans(queries, rows, rows.dead)
        chosen = rows.of(among)
        if 6 * len(chosen) > len(rows.ids):  # reading everything in order is faster than gathering
            others = np.ones(len(rows.ids), bool)
            others[chosen] = False
            return _scans(queries, rows, np.flatnonzero(others))
        block = np.asarray(queries, dtype=np.float32)
        return (Scan(query, _gathered(query, rows.vectors, chosen), rows, chosen) for query in block)

    def add(self, ids: Sequence[int] | Ids, vectors: Vectors, origins: Ids | None = None) -> None:
        """As the contract says; `origins` `[n, 2]` are the contents and the windows that the vectors are of."""
        new = np.asarray(ids, dtype=np.int64)
        of = np.zeros((len(new), 2), np.int64) if origins is None else origins
        if vectors.shape != (len(new), self.dim):
            raise ValueError(f"{len(new)} ids need vectors {(len(new), self.dim)}, not {vectors.shape}")
        if not len(new):
            return
        with self.changing():
            self.remove(new)
            rows = self._head["rows"]
            _write_at(self._file("f32"), rows * 4 * self.dim, np.ascontiguousarray(vectors, dtype="<f4"))
            _write_at(self._file("ids"), rows * 8, new.astype("<i8"))
            _write_at(self._file("origins"), rows * 16, of.astype("<i8"))
            self._commit(self._head | {"rows": rows + len(new)})

    def remove(self, ids: Sequence[int] | Ids) -> None:
        with self.changing():
            rows = self._rows.of(np.asarray(ids, dtype=np.int64))
            if not len(rows):
                return
            writable = np.memmap(self._file("ids"), "<i8", "r+", shape=(self._head["rows"],))
            writable[rows] = -1
            writable.flush()
            self._commit(self._head | {"removed": self._head["removed"] + len(rows)})
            if len(self._rows.dead) > 1000 and 4 * len(self._rows.dead) > len(self._rows.ids):
                kept = np.flatnonzero(self._rows.ids >= 0)
                self._rewrite(kept, self._rows.groups and self._rows.groups.only(kept))

    def clear(self) -> None:
        """Forgets every row."""
        with self.changing():
            self._rewrite(np.empty(0, np.intp))

    def arrange(self, ids: Ids, groups: Groups) -> None:
        """Puts the rows in this order, and in groups. Rows that are not named follow; ids that are gone are skipped."""
        with self.changing():
            rows = self._rows
            named = rows.places(ids)
            there = named >= 0
            kept = np.concatenate([named[there], np.setdiff1d(rows.order[len(rows.dead) :], named)])
            self._rewrite(kept, groups.only(np.flatnonzero(there)))

    def ungroup(self) -> None:
        """Forgets the groups; the rows stay where they are."""
        with self.changing():
            if self._rows.groups is not None:
                self._file("groups.npz").unlink(missing_ok=True)
                self._commit(self._head)

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
        stats = [self._file(kind).stat() for kind in _KINDS]
        with suppress(FileNotFoundError):
            stats.append(self._file("groups.npz").stat())
        return tuple((stat.st_dev, stat.st_ino) for stat in stats)

    def _written(self) -> tuple[int, int] | None:
        """Which state of the folder this is: every change makes a new `head.json`."""
        try:
            stat = os.stat(self.folder / "head.json")
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns

    def _load(self) -> None:
        """Maps what `head.json` names, if that has changed; starts anew where it makes no sense."""
        self._as_written = self._written()
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
        if any(self._file(kind).stat().st_size < size * rows for kind, size in zip(_KINDS, self._sizes, strict=True)):
            raise ValueError("shorter than its head says")
        if rows:
            vectors: Vectors = np.memmap(self._file("f32"), "<f4", "r", shape=(rows, self.dim))
            origins: Ids = np.memmap(self._file("origins"), "<i8", "r", shape=(rows, 2))
            ids: Ids = np.fromfile(self._file("ids"), "<i8", rows)
        else:
            vectors, ids = np.empty((0, self.dim), np.float32), np.empty(0, np.int64)
            origins = np.empty((0, 2), np.int64)
        groups = Groups.read(self._file("groups.npz"), rows, self.dim)
        # Plain arrays over the maps: a subclass would slow every slice.
        self._hold(np.asarray(vectors), ids, np.asarray(origins), groups)

    @property
    def _sizes(self) -> tuple[int, ...]:
        """Bytes a row, for each of `_KINDS`."""
        return 4 * self.dim, 8, 16

    def _hold(self, vectors: Vectors, ids: Ids, origins: Ids, groups: Groups | None = None) -> None:
        self._rows = Rows(vectors, ids, origins, np.argsort(ids), np.flatnonzero(ids < 0), groups)

    def _rewrite(self, rows: NDArray[np.intp], groups: Groups | None = None) -> None:
        """Writes only these rows, in this order, into files of a generation of their own."""
        generation = secrets.randbits(53)
        for kind in _KINDS:
            with open(self.folder / f"{generation}.{kind}", "wb") as file:
                for block in (rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS)):
                    self._rows.column(kind)[block].tofile(file)
                os.fsync(file.fileno())
        if groups is not None:
            groups.write(self.folder / f"{generation}.groups.npz")
        self._commit(self._head | {"generation": generation, "rows": len(rows)})
        for path in self.folder.iterdir():
            if path.is_file() and not path.name.startswith((f"{generation}.", "head.json")):
                path.unlink()

    def _commit(self, head: dict[str, int]) -> None:
        aside = self.folder / "head.json.new"
        with open(aside, "w", encoding="utf-8") as file:
            json.dump(head, file)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self.folder / "head.json")
        self._head, self._as_written = head, self._written()
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

    def add(self, ids: Sequence[int] | Ids, vectors: Vectors, origins: Ids | None = None) -> None:
        new = np.asarray(ids, dtype=np.int64)
        of = np.zeros((len(new), 2), np.int64) if origins is None else origins
        with self.changing():
            rows = self._rows
            kept = np.flatnonzero(~np.isin(rows.ids, new) & (rows.ids >= 0))
            self._hold(
                np.concatenate([rows.vectors[kept], vectors.astype(np.float32)]),
                np.concatenate([rows.ids[kept], new]),
                np.concatenate([rows.origins[kept], of]),
                rows.groups and rows.groups.only(kept),
            )

    def remove(self, ids: Sequence[int] | Ids) -> None:
        with self.changing():
            rows = self._rows
            left = rows.ids.copy()
            left[rows.of(np.asarray(ids, dtype=np.int64))] = -1
            self._hold(rows.vectors, left, rows.origins, rows.groups)

    def arrange(self, ids: Ids, groups: Groups) -> None:
        """Not here.

        Raises:
            UnwritableError: always.
        """
        raise UnwritableError(f"{self.folder} cannot be written: no approximate index can be made there.")

    def ungroup(self) -> None:
        with self.changing():
            rows = self._rows
            self._hold(rows.vectors, rows.ids, rows.origins)

    def clear(self) -> None:
        with self.changing():
            self._hold(np.empty((0, self.dim), np.float32), np.empty(0, np.int64), np.empty((0, 2), np.int64))

    def _start_anew(self) -> None:
        """What it holds is as good as before."""


class Scan(NamedTuple):
    """One query's scores of rows: a pass over the vectors, from which any number of the best can be taken."""

    query: Vectors  # [d]
    scores: Vectors  # [n]; −inf: not to be found
    rows: Rows
    chosen: NDArray[np.intp] | None  # [n], which rows were scored; None: all

    def best(self, k: int) -> Found:
        """The ids of the k best."""
        rows, scores = self.best_rows(k)
        return Found(self.rows.ids[rows], scores)

    def best_rows(self, k: int) -> tuple[NDArray[np.intp], Vectors]:
        """The k best rows, and their scores: those of equal rows are equal, as near ones are scored again in float64
        and rounded.
        """
        scores = self.scores
        cut = np.partition(scores, len(scores) - k)[len(scores) - k] if k < len(scores) else -np.inf
        near = np.flatnonzero(scores >= max(cut - _ROUNDING, np.finfo(np.float32).min))
        rows = near if self.chosen is None else self.chosen[near]
        query, exact = self.query.astype(np.float64), np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _ROWS):
            part = slice(start, start + _ROWS)
            exact[part] = self.rows.vectors[rows[part]].astype(np.float64) @ query
        order = np.lexsort((self.rows.ids[rows], -exact))[:k]
        return rows[order], exact[order]


def _scans(queries: Vectors, rows: Rows, left_out: NDArray[np.intp]) -> Iterator[Scan]:
    step = max(1, _SCORES // max(1, len(rows.ids)))
    for first in range(0, len(queries), step):
        block = np.asarray(queries[first : first + step], dtype=np.float32)
        scores = block @ rows.vectors.T
        scores[:, left_out] = -np.inf
        yield from (Scan(query, of_one, rows, None) for query, of_one in zip(block, scores, strict=True))


def _gathered(query: Vectors, vectors: Vectors, rows: NDArray[np.intp]) -> Vectors:
    """A query's scores of a few rows, which are copied block by block."""
    blocks = [rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS)]
    return np.concatenate([np.empty(0, np.float32), *(vectors[block] @ query for block in blocks)])


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
    """Where a store's rows come from: a set of ids, none of which is ever used twice, with vectors and origins."""

    def state(self, until: int | None = None) -> tuple[int, int]:
        """How many ids there are, and the newest (0 if none); of those up to `until`, if given."""

    def ids(self, after: int = 0) -> Ids:
        """The ids greater than `after`, ascending int64."""

    def vectors(self, ids: Ids) -> Vectors:
        """Their vectors float32 `[n, d]`, in this order; the ids must be there."""

    def origins(self, ids: Ids) -> Ids:
        """The content and the window (0: none) each is of, int64 `[n, 2]`, in this order; the ids must be there."""


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
            store.add(part, source.vectors(part), source.origins(part))


def _newest(store: MatrixStore) -> int:
    return int(store.ids[-1]) if len(store) else 0


def _agrees(store: MatrixStore, common: Ids, source: Source, probes: int = 8) -> bool:
    """Whether a handful of rows that both have, the newest among them, are equal."""
    if not len(common):
        return True
    some = common[np.unique(np.linspace(0, len(common) - 1, probes).round().astype(int))]
    vectors, origins = store.vectors(some), store.origins(some)
    return np.array_equal(vectors, source.vectors(some)) and np.array_equal(origins, source.origins(some))
