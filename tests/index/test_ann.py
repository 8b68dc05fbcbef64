import sys
from itertools import count

import numpy as np
import pytest

from reelspace.errors import LibraryError
from reelspace.index.ann import AnnStore
from reelspace.index.base import Store
from reelspace.index.conformance import violations
from reelspace.index.exact import MatrixStore, ReadOnlyStore


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
    groups = store.exact.rows.groups
    assert groups.probes < len(groups.centroids) / 4
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
    store.add(np.arange(30_001, 30_401), clustered(400, seed=2))
    assert not store.stale
    store.remove(np.arange(1, 101))
    assert not store.stale
    store.remove(np.arange(101, 301))
    assert store.stale
    store.build(QUERIES)
    assert not store.stale
    store.add(np.arange(40_001, 41_001), clustered(1_000, seed=3))
    assert store.stale


def groups_file(folder):
    (path,) = folder.rglob("*.groups.npz")
    return path


def test_the_groups_are_found_again_and_can_be_deleted_or_damaged(store, tmp_path):
    store.build(QUERIES)
    again = AnnStore(MatrixStore(tmp_path / "vectors", 32))
    assert again.built
    assert [f.ids.tolist() for f in again.search(QUERIES, 5)] == [f.ids.tolist() for f in store.search(QUERIES, 5)]
    path = groups_file(tmp_path)
    whole = bytearray(path.read_bytes())
    for damaged in (whole[:1000], bytes(1000), whole[:5000] + b"damage" + whole[5006:]):
        path.write_bytes(damaged)
        assert not AnnStore(MatrixStore(tmp_path / "vectors", 32)).built
    again.drop()
    assert not again.built
    assert not path.exists()
    assert not AnnStore(MatrixStore(tmp_path / "vectors", 32)).built


def test_vectors_are_stored_once(store, tmp_path):
    before = sum(path.stat().st_size for path in tmp_path.rglob("*"))
    store.build(QUERIES)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*")) < 1.2 * before


def test_where_nothing_can_be_written_the_groups_are_used_but_not_made(store, tmp_path):
    readonly = AnnStore(ReadOnlyStore(tmp_path / "vectors", 32))
    with pytest.raises(LibraryError, match="cannot be written"):
        readonly.build(QUERIES)
    store.build(QUERIES)
    readonly = AnnStore(ReadOnlyStore(tmp_path / "vectors", 32))
    assert readonly.recall(QUERIES) > 0.9
    readonly.add([40_001], QUERIES[:1])
    assert readonly.search(QUERIES[:1], 1)[0].ids.tolist() == [40_001]
    assert readonly.built
    readonly.drop()
    assert not readonly.built
    assert groups_file(tmp_path).exists()


def test_searching_needs_no_faiss(store, monkeypatch):
    store.build(QUERIES)
    monkeypatch.setitem(sys.modules, "faiss", None)
    assert store.recall(QUERIES) > 0.9


def test_the_groups_outlive_the_dropping_of_removed_rows(store, tmp_path):
    store.build(QUERIES)
    before = groups_file(tmp_path)
    store.remove(np.arange(1, 2_001))
    assert groups_file(tmp_path) != before  # rewritten
    assert store.built
    assert store.exact.rows.groups.starts[-1] == len(store) == 4_000
    assert store.recall(QUERIES) > 0.9


def test_rows_that_change_during_a_build_are_kept(store, monkeypatch):
    """Others may add and remove until the groups are known."""
    new = clustered(10, seed=4)
    arrange = MatrixStore.arrange

    def late(self, ids, groups):
        store.remove([5, 6])
        store.add(np.arange(20_001, 20_011), new)
        arrange(self, ids, groups)

    monkeypatch.setattr(MatrixStore, "arrange", late)
    store.build(QUERIES)
    assert store.built
    assert store.exact.ids.tolist() == [1, 2, 3, 4, *range(7, 6_001), *range(20_001, 20_011)]
    assert store.exact.rows.groups.starts[-1] == 5_998
    assert [int(answer.ids[0]) for answer in store.search(new, 1)] == list(range(20_001, 20_011))
    assert store.recall(QUERIES) > 0.9


@pytest.fixture
def looking(store, monkeypatch):
    """The store when it looks into as few rows as it does in a library of very many."""
    monkeypatch.setattr("reelspace.index.ann._ENOUGH", 100)
    monkeypatch.setattr("reelspace.index.ann._FEW", 200)
    monkeypatch.setattr("reelspace.index.ann._DEPTH", 100)
    store.build(QUERIES)
    return store


def test_a_smaller_k_is_the_beginning_of_a_greater_one(looking):
    among = np.arange(1, 6_001, 3)
    for filtered in (None, among):
        deep = looking.search(QUERIES, looking.depth, filtered)
        for k in (1, 10, 50):
            for found, whole in zip(looking.search(QUERIES, k, filtered), deep, strict=True):
                assert found.ids.tolist() == whole.ids[:k].tolist()


@pytest.mark.parametrize("share", [0.001, 0.02, 0.05, 0.2, 0.9])
@pytest.mark.parametrize("near", [False, True])
def test_a_filter_loses_no_rows_and_little_recall(looking, share, near):
    """Whether what passes is spread evenly or lies far from the query."""
    wanted = int(share * 6_000)
    if near:
        passing = looking.exact.search(-QUERIES[:1], wanted)[0].ids
    else:
        passing = np.random.default_rng(0).permutation(np.arange(1, 6_001))[:wanted]
    found = 0
    truths = looking.exact.search(QUERIES, 10, passing)
    for answer, truth in zip(looking.search(QUERIES, 10, passing), truths, strict=True):
        assert len(answer.ids) == min(10, wanted)
        assert set(answer.ids) <= set(passing)
        found += len(np.intersect1d(answer.ids, truth.ids)) / len(truth.ids)
    assert found / len(QUERIES) > 0.95


def test_two_builds_of_the_same_rows_are_the_same_bytes(store, tmp_path):
    def written():
        return {path.name.partition(".")[2]: path.read_bytes() for path in (tmp_path / "vectors").glob("[0-9]*")}

    store.build(QUERIES)
    first = written()
    assert set(first) == {"f32", "ids", "origins", "groups.npz"}
    store.build(QUERIES)
    assert written() == first


def test_an_empty_store_can_be_built(tmp_path):
    store = AnnStore(MatrixStore(tmp_path, 8))
    store.build(np.empty((0, 8), np.float32))
    assert store.search(np.eye(8, dtype=np.float32), 3)[0].ids.size == 0
