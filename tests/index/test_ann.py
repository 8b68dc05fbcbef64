from itertools import count

import numpy as np
import pytest

from reelspace.index.ann import AnnStore
from reelspace.index.base import Store
from reelspace.index.conformance import violations
from reelspace.index.exact import MatrixStore


def clustered(n, dim=32, clusters=50, seed=0):
    random = np.random.default_rng(seed)
    centres = random.standard_normal((clusters, dim))
    vectors = centres[random.integers(0, clusters, n)] + 0.4 * random.standard_normal((n, dim))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def store(tmp_path):
    store = AnnStore(MatrixStore(tmp_path / "vectors", 32))
    store.add(np.arange(1, 6_001), clustered(6_000))
    return store


QUERIES = clustered(64, seed=1)


class Rebuilding(AnnStore):
    """Builds after every addition, so that the conformance suite meets the file and not the exact store."""

    def add(self, ids, vectors):
        super().add(ids, vectors)
        self.build(vectors[:50])


@pytest.mark.parametrize("kind", [AnnStore, Rebuilding])
def test_it_holds_to_the_contract(tmp_path, kind):
    number = count()
    assert isinstance(kind(MatrixStore(tmp_path / "isinstance", 3)), Store)
    assert violations(lambda dim: kind(MatrixStore(tmp_path / str(next(number)), dim)), exact=False) == []


def test_without_a_file_every_search_is_exact(store):
    assert not store.built
    assert store.recall(QUERIES) is None
    assert store.search(QUERIES, 5)[0].ids.tolist() == store.exact.search(QUERIES, 5)[0].ids.tolist()


def test_a_build_reaches_its_recall_without_looking_everywhere(store):
    assert store.build(QUERIES[:32]) >= 0.99
    assert store._index.nprobe < store._index.nlist / 4
    assert store.recall(QUERIES[32:]) > 0.9
    for found, truth in zip(store.search(QUERIES, 10), store.exact.search(QUERIES, 10), strict=True):
        _, ours, theirs = np.intersect1d(found.ids, truth.ids, return_indices=True)
        assert np.array_equal(found.scores[ours], truth.scores[theirs])  # scores are never approximate


def test_rows_that_came_later_are_found_and_gone_ones_are_not(store):
    store.build(QUERIES)
    new = clustered(100, seed=2)
    store.add(np.arange(30_001, 30_101), new)
    store.remove(np.arange(1, 2_001))
    found = store.search(new, 1)
    assert [int(answer.ids[0]) for answer in found] == list(range(30_001, 30_101))
    assert min(answer.ids.min() for answer in store.search(QUERIES, 50)) > 2_000


def test_a_replaced_row_is_found_by_what_it_is_now(store):
    store.build(QUERIES)
    new = clustered(1, seed=3)
    store.add([7], new)
    assert store.search(new, 1)[0].ids.tolist() == [7]


def test_it_says_when_building_anew_pays(store):
    store.build(QUERIES)
    assert not store.stale
    store.add(np.arange(30_001, 31_001), clustered(1_000, seed=2))
    assert not store.stale
    store.remove(np.arange(1, 2_001))
    assert store.stale


def test_the_file_is_found_again_and_can_be_deleted_or_damaged(store, tmp_path):
    store.build(QUERIES)
    again = AnnStore(MatrixStore(tmp_path / "vectors", 32))
    assert again.built
    assert [f.ids.tolist() for f in again.search(QUERIES, 5)] == [f.ids.tolist() for f in store.search(QUERIES, 5)]
    path = tmp_path / "vectors" / "ivf.faiss"
    part = path.read_bytes()[:1000]
    path.unlink()  # a mapped file must not shrink under its readers
    path.write_bytes(part)
    assert not AnnStore(MatrixStore(tmp_path / "vectors", 32)).built
    again.drop()
    assert not again.built
    assert not AnnStore(MatrixStore(tmp_path / "vectors", 32)).built


def test_two_builds_of_the_same_rows_are_the_same_bytes(store, tmp_path):
    path = tmp_path / "vectors" / "ivf.faiss"
    store.build(QUERIES)
    first = path.read_bytes()
    store.build(QUERIES)
    assert path.read_bytes() == first


def test_an_empty_store_can_be_built(tmp_path):
    store = AnnStore(MatrixStore(tmp_path, 8))
    store.build(np.empty((0, 8), np.float32))
    assert store.search(np.eye(8, dtype=np.float32), 3)[0].ids.size == 0
