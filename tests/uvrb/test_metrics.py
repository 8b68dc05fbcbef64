"""The metrics are trec_eval's, to the last digit, ties included."""

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from reelspace.embed.base import normalise
from reelspace.uvrb import metrics
from reelspace.uvrb.metrics import descending, measure, place, placed, scored

KS = (1, 3, 5, 10, 100)


def trec(scores, ids, right):
    """pytrec_eval's own answers for one query."""
    names = {f"{kind}.{','.join(map(str, KS))}" for kind in ("recall", "P", "ndcg_cut", "success", "map_cut")}
    judged = {"q": {ids[k]: 1 for k in right}}
    run = {"q": {name: float(score) for name, score in zip(ids, scores, strict=True)}}
    return pytrec_eval.RelevanceEvaluator(judged, names | {"recip_rank"}).evaluate(run)["q"]


@given(
    data=st.data(),
    count=st.integers(1, 120),
    levels=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_metric_agrees_with_pytrec_eval_to_the_last_digit(data, count, levels, seed):
    random = np.random.default_rng(seed)
    alphabet = st.text("ab10é中_-", min_size=1, max_size=6)
    ids = data.draw(st.lists(alphabet, min_size=count, max_size=count, unique=True))
    scores = (random.integers(0, levels, count) / np.float32(7)).astype(np.float32)
    right = random.choice(count, random.integers(1, min(count, 12) + 1), replace=False)
    stands = place(scores, right, descending(ids))
    theirs = trec(scores, ids, right)
    for k in KS:
        assert measure(f"recall@{k}", stands.at, stands.right) == theirs[f"recall_{k}"]
        assert measure(f"precision@{k}", stands.at, stands.right) == theirs[f"P_{k}"]
        assert measure(f"success@{k}", stands.at, stands.right) == theirs[f"success_{k}"]
        assert measure(f"map@{k}", stands.at, stands.right) == theirs[f"map_cut_{k}"]
        assert measure(f"ndcg@{k}", stands.at, stands.right) == theirs[f"ndcg_cut_{k}"]
    assert measure(f"mrr@{count}", stands.at, stands.right) == theirs["recip_rank"]


def test_equal_vectors_have_equal_scores_wherever_they_stand():
    random = np.random.default_rng(5)
    queries = normalise(random.standard_normal((9, 700)).astype(np.float32))
    several = normalise(random.standard_normal((4, 700)).astype(np.float32))
    candidates = several[random.integers(0, 4, 203)]
    ids = [f"v{k:03}" for k in range(203)]
    right = [np.array([int(random.integers(203))]) for _ in queries]
    for query, one, stands in zip(queries, right, placed(queries, candidates, right, ids), strict=True):
        near = [float(query @ row) for row in several]
        mine = next(k for k, row in enumerate(several) if (row == candidates[one[0]]).all())
        before = {k for k in range(4) if near[k] > near[mine]}
        kinds = [next(k for k, row in enumerate(several) if (row == other).all()) for other in candidates]
        wanted = sum(kind in before or (kind == mine and row > one[0]) for row, kind in enumerate(kinds)) + 1
        assert stands.at.tolist() == [wanted]


@given(count=st.integers(2, 40), levels=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_the_best_and_the_worst_place_are_what_breaking_ties_can_do(count, levels, seed):
    random = np.random.default_rng(seed)
    scores = (random.integers(0, levels, count) / np.float32(7)).astype(np.float32)
    right = random.choice(count, random.integers(1, min(count, 4) + 1), replace=False)
    stands = place(scores, right, descending([f"{k:03}" for k in range(count)]))
    is_right = np.zeros(count, dtype=bool)
    is_right[right] = True
    for places, favour in ((stands.best, -1.0), (stands.worst, 1.0)):
        order = sorted(range(count), key=lambda k: (-scores[k], favour * is_right[k]))
        assert places.tolist() == [n + 1 for n, k in enumerate(order) if is_right[k]]
    value, low, high = scored("recall@1", stands)
    assert low <= value <= high


def test_scores_that_differ_by_rounding_alone_count_as_tied():
    scores = np.array([0.5, 0.5 + 3e-7, 0.2], dtype=np.float32)
    stands = place(scores, np.array([0]), descending(["a", "b", "c"]))
    assert (stands.at.tolist(), stands.best.tolist(), stands.worst.tolist()) == ([2], [1], [2])
    assert scored("recall@1", stands) == (0.0, 0.0, 1.0)


def test_recall_is_not_hit_rate():
    stands = place(np.array([0.9, 0.1, 0.8], dtype=np.float32), np.array([0, 1]), descending(["a", "b", "c"]))
    assert measure("recall@1", stands.at, stands.right) == 0.5
    assert measure("success@1", stands.at, stands.right) == 1.0
    assert measure("recall@10", stands.at, stands.right) == 1.0


def test_a_corpus_smaller_than_k_is_no_error():
    stands = place(np.array([0.9, 0.1], dtype=np.float32), np.array([1]), descending(["a", "b"]))
    assert measure("recall@10", stands.at, stands.right) == 1.0
    assert measure("precision@10", stands.at, stands.right) == 0.1
    assert measure("recall@1", stands.at, stands.right) == 0.0


def test_a_query_is_asked_among_its_pool_only():
    scores, order = np.array([0.9, 0.8, 0.7, 0.6], dtype=np.float32), descending(list("abcd"))
    assert place(scores, np.array([2]), order, np.array([2, 3])).at.tolist() == [1]
    outside = place(scores, np.array([2]), order, np.array([0, 1]))
    assert (outside.at.tolist(), outside.right) == ([], 1)
    assert measure("recall@10", outside.at, outside.right) == 0.0


def test_answers_that_are_no_candidates_count_as_missed():
    stands = place(np.array([0.9, 0.1], dtype=np.float32), np.array([0]), descending(["a", "b"]), missing=3)
    assert measure("recall@10", stands.at, stands.right) == 0.25


def test_no_candidates_at_all():
    none = np.empty(0, dtype=np.int64)
    found = list(placed(np.eye(2, 3, dtype=np.float32), np.empty((0, 3), np.float32), [none, none], [], missing=[1, 1]))
    assert [scored("recall@1", one) for one in found] == [(0.0, 0.0, 0.0)] * 2


@pytest.mark.parametrize("block", [1, 4 * 37 * 5, 1 << 30])
def test_blocks_do_not_matter(block, monkeypatch):
    random = np.random.default_rng(1)
    queries, candidates = (normalise(random.standard_normal((n, 16)).astype(np.float32)) for n in (23, 37))
    right = [random.choice(37, 2, replace=False) for _ in range(23)]
    ids = [f"{k}" for k in range(37)]
    monkeypatch.setattr(metrics, "BLOCK", block)
    scores = queries @ candidates.T
    expected = [place(row, one, descending(ids)).at.tolist() for row, one in zip(scores, right, strict=True)]
    assert [one.at.tolist() for one in placed(queries, candidates, right, ids)] == expected
