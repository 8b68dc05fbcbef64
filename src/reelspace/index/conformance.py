"""What every store must hold to, as checks that return the violations they find."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reelspace.index.base import Found, Ids, Store, Vectors


def violations(make: Callable[[int], Store], exact: bool = True, seed: int = 0) -> list[str]:
    """Every promise of the `Store` contract that the empty store `make(dim)` breaks on random data.

    Args:
        exact: ranks and scores must equal a plain sort; an approximate store must reach recall@10 ≥ .9, and must
            fill k rows under a filter all the same.
    """
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((500, 16)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors[100:110] = vectors[100]  # ties
    ids = random.permutation(2000)[:500].astype(np.int64)
    queries = vectors[[3, 77, 104]]
    store = make(16)
    found = [] if store.search(queries, 5)[0].ids.size == 0 else ["an empty store finds something"]
    store.add(ids[:250], vectors[:250])
    store.add(ids[250:], vectors[250:])
    found += _compare(store, ids, vectors, queries, None, exact)
    among = np.concatenate([ids[::50], np.array([10**6])])  # 10 rows and one unknown id
    found += [f"with a filter: {p}" for p in _compare(store, ids, vectors, queries, among, exact)]
    store.remove(np.concatenate([ids[:200], np.array([10**6])]))
    found += [f"after removal: {p}" for p in _compare(store, ids[200:], vectors[200:], queries, None, exact)]
    vectors[200:220] = vectors[480:]
    store.add(ids[200:220], vectors[200:220])
    found += [f"after replacing: {p}" for p in _compare(store, ids[200:], vectors[200:], queries, None, exact)]
    return found


def expected(ids: Ids, vectors: Vectors, query: Vectors, k: int) -> Found:
    """The answer by a plain sort: score descending, then id ascending."""
    scores = vectors @ query
    best = np.lexsort((ids, -scores))[:k]
    return Found(ids[best], scores[best])


def _compare(store: Store, ids: Ids, vectors: Vectors, queries: Vectors, among: Ids | None, exact: bool) -> list[str]:
    if len(store) != len(ids):
        return [f"it says it holds {len(store)} rows of {len(ids)}"]
    kept = np.ones(len(ids), bool) if among is None else np.isin(ids, among)
    for k in (1, 10, 10_000):
        answers = store.search(queries, k, among)
        for query, answer in zip(queries, answers, strict=True):
            truth = expected(ids[kept], vectors[kept], query, k)
            if answer.ids.dtype != np.int64 or answer.scores.dtype != np.float32:
                return [f"types are {answer.ids.dtype} and {answer.scores.dtype}, not int64 and float32"]
            if len(answer.ids) != len(truth.ids) or len(answer.ids) != len(answer.scores):
                return [f"{len(answer.ids)} rows came back for k={k} where {len(truth.ids)} match"]
            if exact and not _same(answer, truth):
                return [f"k={k}: ids {answer.ids[:5]}… where a sort gives {truth.ids[:5]}…"]
            if len(np.intersect1d(answer.ids, truth.ids)) < 0.9 * len(truth.ids) and k > 1:
                return [f"k={k}: recall below .9"]
    return []


def _same(answer: Found, truth: Found) -> bool:
    """Same scores to rounding, and equal scores in order of id."""
    if abs(answer.scores - truth.scores).max(initial=0) > 1e-5:
        return False
    order = np.lexsort((answer.ids, -answer.scores))
    return bool((order == np.arange(len(order))).all())
