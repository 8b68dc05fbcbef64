"""Where the right answers stand, and what that is worth: trec_eval's definitions, at the speed of a matrix product.

A ranking is by score descending, then id descending (byte order), on float32 scores: what pytrec_eval does. No
ranking is ever made: the place of an answer is counted, one look at a row of scores, so that similarity and metrics of
thousands of queries and candidates cost little more than the product, in bounded memory.

Candidates with equal vectors have equal scores, which a bare product does not promise: its last bit hangs on where in
the matrix a vector stands. Other scores that are equal but for rounding are told apart by it. So every place comes
with the best and the worst that it could be if candidates within `TIED` of each other stood in another order.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import Vectors

TIED = 1e-6
"""Cosines closer than this are one: float32 vectors and their product say no more."""

BLOCK = 64 << 20
"""Bytes of scores held at once."""

Places = NDArray[np.int64]


class Placed(NamedTuple):
    """Where the right answers of one query stand, from 1, ascending.

    Attributes:
        at: the places; answers that are not among the candidates have none.
        best, worst: of the first, the second, … answer, if ties were broken for or against them.
        right: how many right answers there are, those without a place included.
    """

    at: Places
    best: Places
    worst: Places
    right: int


def placed(
    queries: Vectors,
    candidates: Vectors,
    right: Sequence[NDArray[np.int64]],
    ids: Sequence[str],
    pools: Sequence[NDArray[np.int64]] | None = None,
    missing: Sequence[int] | None = None,
) -> Iterator[Placed]:
    """The places of every query's right answers, in the order of the queries.

    Args:
        queries: float32 `[q, d]`, unit rows.
        candidates: float32 `[c, d]`, unit rows.
        right: for each query, rows of `candidates` that answer it.
        ids: of the candidates; they decide ties.
        pools: for each query, rows of `candidates` that it is asked among; None: all.
        missing: for each query, how many more right answers there are that are no candidates; None: none.
    """
    order = descending(ids)
    rows = max(1, BLOCK // (4 * max(1, len(candidates))))
    again, first = _repeated(candidates)
    for start in range(0, len(queries), rows):
        scores = queries[start : start + rows] @ candidates.T
        scores[:, again] = scores[:, first]
        for offset, row in enumerate(scores):
            query = start + offset
            more = 0 if missing is None else missing[query]
            pool = None if pools is None else pools[query]
            yield place(row, right[query], order, pool, more)


def _repeated(vectors: Vectors) -> tuple[list[int], list[int]]:
    """Rows that are equal to one before them, and the first such."""
    known: dict[bytes, int] = {}
    again, first = [], []
    for row, vector in enumerate(np.ascontiguousarray(vectors)):
        one = known.setdefault(hashlib.blake2b(vector.data, digest_size=16).digest(), row)
        if one != row:
            again.append(row)
            first.append(one)
    return again, first


def descending(ids: Sequence[str]) -> NDArray[np.int64]:
    """For each id its rank when ids are sorted by their bytes, last first: what decides between equal scores."""
    order = np.empty(len(ids), dtype=np.int64)
    last_first = sorted(range(len(ids)), key=lambda k: ids[k].encode("utf-8", "surrogatepass"), reverse=True)
    order[last_first] = np.arange(len(ids))
    return order


def place(
    scores: NDArray[np.float32],
    right: NDArray[np.int64],
    order: NDArray[np.int64],
    pool: NDArray[np.int64] | None = None,
    missing: int = 0,
) -> Placed:
    """The places of one query's right answers.

    Args:
        scores: float32 `[c]`.
        right: which of them are right.
        order: of the candidates, from `descending`.
        pool: which of them are candidates at all; None: all. Right ones outside it have no place.
        missing: right answers that have no score.
    """
    total = len(right) + missing
    if pool is not None:
        right = np.flatnonzero(np.isin(pool, right))
        scores, order = scores[pool], order[pool]
    at = np.empty(len(right), dtype=np.int64)
    above, within = np.empty_like(at), np.empty_like(at)
    own = scores[right]
    for k, answer in enumerate(right.tolist()):
        score = scores[answer]
        at[k] = np.count_nonzero(scores > score)
        same = scores == score
        if np.count_nonzero(same) > 1:
            at[k] += np.count_nonzero(order[same] < order[answer])
        # Answers stand in each other's way in no order that is best or worst for all of them together.
        more, less = score + np.float32(TIED), score - np.float32(TIED)
        above[k] = np.count_nonzero(scores > more) - np.count_nonzero(own > more)
        within[k] = np.count_nonzero(scores >= less) - np.count_nonzero(own >= less)
    ranked = np.argsort(at)
    ahead = np.arange(len(right)) + 1
    return Placed(at[ranked] + 1, above[ranked] + ahead, within[ranked] + ahead, total)


def recall(at: Places, right: int, k: int) -> float:
    """Share of the right answers that stand at k or before. Not whether there is one: that is `success`."""
    return int(np.count_nonzero(at <= k)) / right if right else 0.0


def precision(at: Places, right: int, k: int) -> float:
    """Right answers at k or before, over k: also where there are fewer than k candidates."""
    return int(np.count_nonzero(at <= k)) / k


def success(at: Places, right: int, k: int) -> float:
    """Whether there is a right answer at k or before."""
    return float(len(at) > 0 and bool(at[0] <= k))


def ndcg(at: Places, right: int, k: int) -> float:
    """Discounted gain up to k, over that of the best ranking; a right answer gains 1."""
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(right, k) + 1))
    gain = sum(1 / math.log2(place + 1) for place in at.tolist() if place <= k)
    return gain / ideal if ideal else 0.0


def reciprocal(at: Places, right: int, k: int) -> float:
    """One over the place of the first right answer, 0 beyond k."""
    return 1 / int(at[0]) if len(at) and at[0] <= k else 0.0


def average_precision(at: Places, right: int, k: int) -> float:
    """Mean over the right answers of the precision where each stands, 0 beyond k."""
    total = sum((number + 1) / place for number, place in enumerate(at.tolist()) if place <= k)
    return total / right if right else 0.0


MEASURES = {
    "recall": recall,
    "precision": precision,
    "success": success,
    "ndcg": ndcg,
    "mrr": reciprocal,
    "map": average_precision,
}
"""Each takes the places of the right answers (ascending, from 1), how many right answers there are, and k."""


def measure(name: str, at: Places, right: int) -> float:
    """A metric by its name, such as `recall@10`."""
    kind, _, depth = name.partition("@")
    return MEASURES[kind](at, right, int(depth))


def scored(name: str, placed: Placed) -> tuple[float, float, float]:
    """What a metric gives for one query, and the least and the most it could be if ties were broken otherwise."""
    value, least, most = (measure(name, at, placed.right) for at in (placed.at, placed.worst, placed.best))
    return value, least, most


SHOWN = ("recall@1", "recall@5", "recall@10", "precision@1", "ndcg@10", "mrr@10", "map@10")
"""What a `TaskResult` tells beside the main score."""


def means(every: Sequence[Placed]) -> Mapping[str, float]:
    """Metrics as mteb names them (`recall_at_1`, …) → means over the queries."""
    return {
        name.replace("@", "_at_"): sum(measure(name, one.at, one.right) for one in every) / max(1, len(every))
        for name in SHOWN
    }
