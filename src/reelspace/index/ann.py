"""Approximate search, for libraries of very many windows: the matrix is put in groups of near rows (an inverted file).

A query looks into the groups whose centroids are nearest. It is still the one matrix that exact search reads: nothing
is stored twice, and nothing is quantised, as packed vectors lose too much on close embeddings. faiss finds the
centroids; searching does not need it. Rows that came since the groups were made are looked at by every search, so
adding some rebuilds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from reelspace.embed.base import Embedder, checked
from reelspace.errors import LibraryError
from reelspace.index.base import Found, Ids, Vectors
from reelspace.index.exact import Groups, MatrixStore, Rows, Scan
from reelspace.item import Item

RECALL = 0.99  # at 10, what is promised
STALE = 0.1  # the share of rows added or removed since, from which on building anew pays
WORTHWHILE = 300_000  # rows from which on it is built unasked; exact search takes some 20 ms there
_AIM = 0.995  # recall on the queries of a build, so that others are found as well as promised
_DEPTH = 1024  # the greatest k that is answered approximately
_ENOUGH = 4 * _DEPTH  # rows that a search looks at, at least
_FEW = 1 << 15  # rows; where a filter lets no more pass, looking at all of them is as fast
_FEWEST = 100  # rows; fewer get no groups
_TRAINING = 64  # rows a group that training looks at
_BLOCK = 1 << 15

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
    """A `Store` that looks into a part of the rows where that is enough, and into all of them where it is not.

    Which rows it looks into depends on the query and the filter, never on k, so that the answer to a smaller k is the
    beginning of the answer to a greater one, as far as `depth` reaches. Deeper searches are exact, as are those with a
    filter that lets few rows pass. Scores are always exact.
    """

    def __init__(self, exact: MatrixStore) -> None:
        """Searches what `exact` holds; by its groups, if it has any."""
        self.exact = exact

    def __len__(self) -> int:
        return len(self.exact)

    def frozen(self) -> AnnStore:
        """As `MatrixStore.frozen`."""
        return AnnStore(self.exact.frozen())

    @property
    def built(self) -> bool:
        """Whether there are groups."""
        return self.exact.rows.groups is not None

    @property
    def depth(self) -> int | None:
        """The greatest k that is answered approximately; `None` where every search is exact."""
        return _DEPTH if self.built else None

    @property
    def stale(self) -> bool:
        """Whether so many rows came or went since the build that it should be built anew."""
        rows = self.exact.rows
        if rows.groups is None:
            return False
        came = len(rows.ids) - rows.groups.starts[-1]
        return bool(abs(len(self) - came - rows.groups.built) + came > STALE * rows.groups.built)

    def add(self, ids: Sequence[int] | Ids, vectors: Vectors) -> None:
        """As `MatrixStore.add`. New rows are of no group, and looked at by every search."""
        self.exact.add(ids, vectors)

    def remove(self, ids: Sequence[int] | Ids) -> None:
        self.exact.remove(ids)

    def search(self, queries: Vectors, k: int, among: Ids | None = None) -> list[Found]:
        if self.depth is None or k > self.depth:
            return self.exact.search(queries, k, among)
        return [self.scan(query, among).best(k) for query in np.asarray(queries, np.float32)]

    def scan(self, query: Vectors, among: Ids | None = None) -> Scan:
        """What `search` with one query `[d]` ranks when k is at most `depth`."""
        rows = self.exact.rows
        if rows.groups is None:
            return self.exact.scan(query, among)
        chosen = None if among is None else rows.of(among)
        if chosen is not None and len(chosen) <= _FEW:
            return self.exact.scan(query, among)
        return _scan(rows, rows.groups, query, chosen)

    def build(self, queries: Vectors, seed: int = 0) -> float:
        """Makes the groups anew and returns the recall@10 on `queries`.

        A search looks into as many groups as `RECALL` takes on these queries, float32 `[q, d]`: the more like those
        that people ask, the better. At the worst that is all groups, which is exact. A handful of rows get no groups.

        Raises:
            LibraryError: faiss is not installed, or the matrix cannot be written.
        """
        faiss = _faiss()
        now = self.exact.frozen()  # others may change the store until the groups are known
        ids = now.ids
        if len(ids) < _FEWEST:
            self.drop()
            return 1.0
        count = max(1, 2 ** round(np.log2(2 * np.sqrt(len(ids) + 1))))
        means = faiss.Kmeans(
            now.dim, count, niter=10, spherical=True, seed=seed,
            min_points_per_centroid=1, max_points_per_centroid=_TRAINING,
        )  # fmt: skip
        means.train(now.vectors(ids[:: -(-len(ids) // (_TRAINING * count))]))
        group = np.empty(len(ids), np.int64)
        for start in range(0, len(ids), _BLOCK):
            part = slice(start, start + _BLOCK)
            group[part] = means.assign(now.vectors(ids[part]))[1]
        truth = [group[np.searchsorted(ids, found.ids)] for found in now.search(queries, 10)]
        starts = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=count))])
        groups = Groups(means.centroids, starts, len(ids), _probes(means.centroids, queries, truth))
        self.exact.arrange(ids[np.lexsort((ids, group))], groups)
        recall = self.recall(queries)
        return 1.0 if recall is None else recall

    def recall(self, queries: Vectors, k: int = 10) -> float | None:
        """Share of the exact k best that a search finds, over `queries`; `None` where nothing is approximate."""
        if not self.built:
            return None
        found, truth = self.search(queries, k), self.exact.search(queries, k)
        wanted = sum(len(answer.ids) for answer in truth)
        hits = sum(len(np.intersect1d(ours.ids, all.ids)) for ours, all in zip(found, truth, strict=True))
        return hits / wanted if wanted else 1.0

    def drop(self) -> None:
        """Forgets the groups: every search is exact again."""
        self.exact.ungroup()

    def of_videos(self, videos: Ids) -> Ids:
        """As `MatrixStore.of_videos`."""
        return self.exact.of_videos(videos)

    def vectors(self, ids: Ids) -> Vectors:
        """As `MatrixStore.vectors`."""
        return self.exact.vectors(ids)

    def sample(self, most: int) -> Vectors:
        """As `MatrixStore.sample`."""
        return self.exact.sample(most)


def _scan(rows: Rows, groups: Groups, query: Vectors, chosen: Ids | None) -> Scan:
    """The rows `chosen` (ascending; `None`: all) in the nearest groups and behind the last one.

    With a filter it looks into so many groups that as many rows pass as without one.
    """
    starts = groups.starts
    passing = np.diff(starts)
    near = np.argsort(-(groups.centroids @ query), kind="stable")
    enough = max(_ENOUGH, int(passing[near[: groups.probes]].sum()))
    if chosen is not None:
        passing = np.diff(np.searchsorted(chosen, starts))
    count = max(groups.probes, int(np.searchsorted(np.cumsum(passing[near]), enough)) + 1)
    spans = [(int(starts[group]), int(starts[group + 1])) for group in near[:count]]
    spans.append((int(starts[-1]), len(rows.ids)))
    scores = np.concatenate([rows.vectors[first:end] @ query for first, end in spans])
    places = np.concatenate([np.arange(first, end) for first, end in spans])
    if chosen is None:
        kept = rows.ids[places] >= 0
    else:
        wanted = np.zeros(len(rows.ids), bool)
        wanted[chosen] = True
        kept = wanted[places]
    places = places[kept]
    return Scan(query, scores[kept], rows, places)


def _probes(centroids: Vectors, queries: Vectors, truth: Sequence[Ids]) -> int:
    """How many of the nearest groups hold `_AIM` of the best rows, given in which group each of these is."""
    needed = [
        np.argsort(np.argsort(-(centroids @ query), kind="stable"))[groups]
        for query, groups in zip(queries, truth, strict=True)
    ]
    ranks = np.sort(np.concatenate([*needed, [0]]))
    return int(ranks[int(np.ceil(_AIM * (len(ranks) - 1)))]) + 1


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise LibraryError("An approximate index needs faiss: pip install 'reelspace[ann]'.") from None
    return faiss
