"""A library that was pushed to a server, searched from anywhere: it needs the store and the model, and no catalogue."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

import numpy as np

from reelspace.embed.base import Embedder
from reelspace.index.base import Vectors
from reelspace.index.catalogue import WindowRow
from reelspace.index.globs import matcher
from reelspace.index.remote import open_store
from reelspace.index.remote.base import RemoteStore, Row, StoreError, Where
from reelspace.index.remote.head import Head, read_head, read_sample
from reelspace.index.searchable import Searchable
from reelspace.index.searcher import SAMPLE, Corpus, Filters, Near, Ranking, passing_first, within

_DEPTH = 256  # windows that are taken from an approximate answer; beyond, searches are exact
_ROUNDING = 1e-5  # servers compute scores in float32, each in its own way


class _Known(NamedTuple):
    """What is kept of a store as long as its revision is the same."""

    revision: str
    sample: Vectors
    paths: list[str] | None


class RemoteLibrary(Searchable):
    """A library in a store. Open one with `RemoteLibrary.open`; it is a context manager."""

    @classmethod
    def open(cls, store: str) -> RemoteLibrary:
        """Opens what `Library.push` has put into a store.

        The answers are those the library itself gives, as of the last push. Files are not looked for: those named may
        lie on another machine.

        Args:
            store: `qdrant://[:KEY@]HOST[:PORT]/COLLECTION[?tls=true]` or a PostgreSQL URL as libpq takes it, with
                `collection=NAME` among its parameters if that is not `reelspace`. Secrets may come from the
                environment instead: `$QDRANT_API_KEY`; `$PGPASSWORD` and the like.

        Raises:
            LibraryError: it is no such URL, the package for it is not installed, the server cannot be reached, or
                there is no whole library there.
        """
        opened = cls(open_store(store))
        try:
            opened._head()
        except BaseException:
            opened.close()
            raise
        return opened

    def __init__(self, store: RemoteStore) -> None:
        """Use `RemoteLibrary.open`."""
        super().__init__()
        self._store = store
        self._known: _Known | None = None

    @property
    def model(self) -> str:
        """The model whose vectors are there."""
        return self._head().model

    def close(self) -> None:
        """Ends the decoding processes and the connection."""
        super().close()
        self._store.close()

    def _head(self) -> Head:
        head = read_head(self._store)
        if head is None:
            raise StoreError(f"{self._store.name}: there is no such collection; `reelspace push` makes it.")
        if not head.complete:
            raise StoreError(
                f"{self._store.name} holds only a part of the library yet: its first push is under way, or was ended. "
                "`reelspace push` goes on."
            )
        return head

    def _open(self, filters: Filters, model: str | None = None) -> tuple[Embedder, Corpus]:
        head = self._head()
        if model not in (None, head.model):
            raise StoreError(f"{self._store.name} holds vectors of {head.model} only, none of {model}.")
        embedder = self._embedder(head.model)
        if embedder.fingerprint != head.fingerprint:
            raise StoreError(
                f"{self._store.name} holds vectors of another version of {head.model} ({head.fingerprint}; installed "
                f"is {embedder.fingerprint}): install that one, or push from a library that is indexed with this."
            )
        known = self._known
        if known is None or known.revision != head.revision:
            sample = self._store.vectors(read_sample(self._store)).reshape(-1, head.dim)
            known = _Known(head.revision, sample, None)
        if filters.within and known.paths is None:
            known = known._replace(paths=self._store.paths())
        self._known = known
        return embedder, RemoteCorpus(self._store, known.sample, known.paths or [], head.approximate, filters)


class RemoteCorpus:
    """A `Corpus` in a store. Filters are applied by the server, but for globs: the paths they match are sent."""

    def __init__(
        self, store: RemoteStore, sample: Vectors, paths: list[str], approximate: bool, filters: Filters
    ) -> None:
        self._store, self._sample, self._filters = store, sample, filters
        self._paths: Container[str] | None = None
        self._approximate = approximate and filters.none
        chosen = None
        if filters.within:
            chosen = list(filter(matcher(filters.within), paths))
            self._paths = frozenset(chosen)
        self._where = Where(None, not self._approximate, chosen, filters.duration, filters.dated)
        self._rows: dict[str, Row] = {}

    def sample(self, most: int) -> Vectors:
        assert most <= SAMPLE
        return self._sample

    @property
    def depth(self) -> int | None:
        return _DEPTH if self._approximate else None

    def ranking(self, query: Vectors, exact: bool = False) -> Ranking:
        return RemoteRanking(self, query, approximate=self._approximate and not exact)

    def ask(self, query: Vectors, k: int, approximate: bool) -> tuple[list[Row], Vectors]:
        """The rows nearest to a query, whose files are known from then on."""
        rows, vectors = self._store.nearest(query, k, self._where, approximate)
        self._rows |= {row.video: row for row in rows}
        return rows, vectors

    def files(self, window: WindowRow) -> list[str]:
        row = self._rows[window.hash]
        paths = [file.path for file in row.files]
        if self._filters.none:
            return paths
        if not within(row.duration, self._filters.duration):
            return []
        passing = {
            file.path
            for file in row.files
            if within(file.date, self._filters.dated) and (self._paths is None or file.path in self._paths)
        }
        return passing_first(paths, passing)


class RemoteRanking:
    """Asks the server anew for every depth; but for one answer only where that is approximate, so that what is nearer
    begins what reaches further.
    """

    def __init__(self, corpus: RemoteCorpus, query: Vectors, approximate: bool) -> None:
        self._corpus, self._query = corpus, query
        self._known = self._roughly() if approximate else None

    def best(self, k: int, least: float = -np.inf) -> Near:
        rows, vectors = self._known or self._corpus.ask(self._query, k, approximate=False)
        rows, vectors = rows[:k], vectors[:k]
        scores = vectors.astype(np.float64) @ self._query.astype(np.float64)
        floor = -np.inf if len(rows) < k else float(scores.min()) + _ROUNDING
        return Near([WindowRow(row.id, 0, row.video, row.start, row.end) for row in rows], vectors, floor)

    def _roughly(self) -> tuple[list[Row], Vectors]:
        rows, vectors = self._corpus.ask(self._query, _DEPTH, approximate=True)
        if len(rows) < _DEPTH:  # an index may give up early: it does not mean that there are no more
            return self._corpus.ask(self._query, _DEPTH, approximate=False)
        return rows, vectors
