"""Approximate search: an inverted file (faiss IVF-Flat) beside the exact store, for libraries of very many windows.

The vectors are grouped around centroids and a query looks into the few nearest groups. Nothing is quantised: packed
vectors lose too much on close embeddings. The file is a cache: it can be deleted, and rows that are newer than it are
searched exactly, so adding some does not rebuild it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np

from reelspace.embed.base import Embedder, checked
from reelspace.errors import LibraryError
from reelspace.index.base import Found, Ids, Vectors
from reelspace.index.exact import MatrixStore, ranked
from reelspace.item import Item

RECALL = 0.99  # at 10, what a build must reach on its own probe queries
STALE = 0.2  # the share of rows added or removed since, from which on building anew pays
WORTHWHILE = 300_000  # rows from which on it is built unasked; exact search takes some 20 ms there
_SPARE = 32  # more rows fetched than asked for, as some may have been removed since
_BLOCK = 1 << 15
_FEWEST = 100  # rows
_TRAINING = 64  # rows a group that training looks at

# What people ask, for measuring recall: texts lie elsewhere in a space than the windows do.
_EVERYDAY = (
    "a dog running on the beach", "a child blows out candles", "two people talking in a kitchen", "a red car",
    "sunset over the sea", "a crowd at a concert", "someone cooking pasta", "a cat sleeping", "city street at night",
    "snow falling in a forest", "a man giving a talk", "close-up of a flower", "people dancing at a wedding",
    "a train arrives at a station", "birds on a lake", "a football match", "hands typing on a keyboard",
    "a woman with a hat", "waves", "mountains", "an aeroplane takes off", "a boat on a river", "a cartoon",
    "a screen with text", "children playing in a garden", "a horse", "driving through rain", "fireworks",
    "an empty room", "a baby laughing", "food on a table", "a person riding a bicycle",
)  # fmt: skip


def probes(embedder: Embedder, store: MatrixStore, seed: int = 0) -> Vectors:
    """Queries to measure recall with, float32 `[q, d]`: everyday texts, and windows of the library itself."""
    windows = store.sample(1000)
    some = windows[np.random.default_rng(seed).permutation(len(windows))[:100]]
    if "text" not in embedder.modalities:
        return some
    return np.concatenate([some, checked(embedder, embedder.encode_query, [Item(text) for text in _EVERYDAY])])


def available() -> bool:
    """Whether faiss is installed (the extra `ann`)."""
    from importlib.util import find_spec

    return find_spec("faiss") is not None


def need() -> None:
    """Raises LibraryError, which says what to install, if faiss is not."""
    _faiss()


class AnnStore:
    """A `Store` that answers from an inverted file where it can, and from the exact store where it must.

    Searches are exact with a filter, for a large share of all rows, and wherever too few rows come back. Scores are
    always exact.
    """

    def __init__(self, exact: MatrixStore) -> None:
        """Opens the file beside `exact`, if there is one; without one every search is exact."""
        self.exact = exact
        self._path = exact.folder / "ivf.faiss"
        self._index: Any = None
        self._covered: Ids = np.empty(0, np.int64)
        self._compared: object = None
        self._outside: Ids = np.empty(0, np.int64)
        self._open()

    def __len__(self) -> int:
        return len(self.exact)

    def frozen(self) -> Self:
        """As `MatrixStore.frozen`."""
        self._newer()  # once for all that are frozen
        now = copy(self)
        now.exact = self.exact.frozen()
        return now

    @property
    def built(self) -> bool:
        """Whether there is an inverted file."""
        return self._index is not None

    @property
    def stale(self) -> bool:
        """Whether so many rows came or went since the build that it should be built anew."""
        came = len(self._newer())
        gone = len(self._covered) - (len(self.exact) - came)
        return self.built and came + gone > STALE * len(self._covered)

    def add(self, ids: Sequence[int] | Ids, vectors: Vectors) -> None:
        """As `MatrixStore.add`. An id that is used again counts as newer than the file."""
        self._covered = np.setdiff1d(self._covered, np.asarray(ids, np.int64), assume_unique=True)
        self.exact.add(ids, vectors)

    def remove(self, ids: Sequence[int] | Ids) -> None:
        self.exact.remove(ids)

    def search(self, queries: Vectors, k: int, among: Ids | None = None) -> list[Found]:
        if among is not None or not self.built or 4 * k > len(self._covered):
            return self.exact.search(queries, k, among)
        _, near = self._index.search(np.ascontiguousarray(queries, np.float32), k + _SPARE)
        newer = self._newer()
        answers = []
        for query, ids in zip(queries, near, strict=True):
            known = self.exact.known(ids)
            if len(known) < k:  # too many of them are gone, or the groups looked into are too small
                answers += self.exact.search(query[None], k)
                continue
            candidates = np.union1d(known, newer)
            scores = self.exact.vectors(candidates).astype(np.float64) @ query.astype(np.float64)
            answers.append(ranked(candidates, scores.astype(np.float32), k))
        return answers

    def _newer(self) -> Ids:
        """The rows the file does not know."""
        if self._compared is not self.exact.state:
            self._compared = self.exact.state
            self._outside = np.setdiff1d(self.exact.ids, self._covered, assume_unique=True)
        return self._outside

    def build(self, queries: Vectors, seed: int = 0) -> float:
        """Writes the file anew and returns its recall@10 on `queries`.

        It looks into as few groups as reach `RECALL` on these queries, float32 `[q, d]`: the more like those that
        people ask, the better. At the worst it looks into all groups, which is exact. A handful of rows get no file.

        Raises:
            LibraryError: faiss is not installed, or the file cannot be written.
        """
        faiss = _faiss()
        ids = self.exact.ids
        if len(ids) < _FEWEST:
            self.drop()
            return 1.0
        groups = max(1, 2 ** round(np.log2(2 * np.sqrt(len(ids) + 1))))
        index = faiss.index_factory(self.exact.dim, f"IVF{groups},Flat", faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = seed
        index.cp.min_points_per_centroid = 1  # spare users a warning about small libraries
        index.train(self.exact.sample(_TRAINING * groups))
        for start in range(0, len(ids), _BLOCK):
            part = ids[start : start + _BLOCK]
            index.add_with_ids(self.exact.vectors(part), part)
        truth = self.exact.search(queries, 10)
        while (recall := _recall(index.search(queries, 10)[1], truth)) < RECALL and index.nprobe < groups:
            index.nprobe *= 2
        self._write(faiss, index, ids, recall)
        self._open()
        return recall

    def recall(self, queries: Vectors, k: int = 10) -> float | None:
        """Share of the exact k best that a search finds, over `queries`; `None` where nothing is approximate."""
        if not self.built:
            return None
        found = self.search(queries, k)
        return _recall([answer.ids for answer in found], self.exact.search(queries, k))

    def drop(self) -> None:
        """Deletes the file: every search is exact again."""
        for path in (self._path, self._head):
            path.unlink(missing_ok=True)
        self._forget()

    def vectors(self, ids: Ids) -> Vectors:
        """As `MatrixStore.vectors`."""
        return self.exact.vectors(ids)

    def sample(self, most: int) -> Vectors:
        """As `MatrixStore.sample`."""
        return self.exact.sample(most)

    @property
    def _head(self) -> Path:
        return self._path.with_suffix(".json")

    def _open(self) -> None:
        """Maps the file; one that is missing, of another build, or not readable is as good as none."""
        self._forget()
        if not self._path.exists() or not available():
            return
        faiss = _faiss()
        try:
            head = json.loads(self._head.read_text("utf-8"))
            if head["dim"] != self.exact.dim or head["bytes"] != self._path.stat().st_size:
                return  # reading a map beyond its file's end would end the process
            index = faiss.read_index(str(self._path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        except (OSError, ValueError, KeyError, RuntimeError):
            return
        ids = self.exact.ids
        self._index = index
        self._covered = ids[: np.searchsorted(ids, head["newest"], side="right")]

    def _forget(self) -> None:
        self._index, self._covered, self._compared = None, np.empty(0, np.int64), None

    def _write(self, faiss: Any, index: Any, ids: Ids, recall: float) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)  # it may have been deleted meanwhile
            self._head.unlink(missing_ok=True)  # without a head the file does not count
            aside = self._path.with_suffix(".new")
            faiss.write_index(index, str(aside))
            with open(aside, "rb") as file:
                os.fsync(file.fileno())
            head = {"dim": self.exact.dim, "bytes": aside.stat().st_size, "newest": int(ids[-1]), "recall": recall}
            aside.replace(self._path)
            self._head.write_text(json.dumps(head) + "\n", encoding="utf-8")
        except (OSError, RuntimeError) as error:
            raise LibraryError(f"{self._path}: the approximate index cannot be written: {error}.") from error


def _recall(found: Any, truth: Sequence[Found]) -> float:
    wanted = sum(len(answer.ids) for answer in truth)
    hits = sum(len(np.intersect1d(ids, answer.ids)) for ids, answer in zip(found, truth, strict=True))
    return hits / wanted if wanted else 1.0


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise LibraryError("An approximate index needs faiss: pip install 'reelspace[ann]'.") from None
    return faiss
