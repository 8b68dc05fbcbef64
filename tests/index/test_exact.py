import json
import shutil
import threading
from itertools import count

import numpy as np
import pytest

from reelspace.errors import LibraryError
from reelspace.index.base import Store
from reelspace.index.conformance import expected, violations
from reelspace.index.exact import MatrixStore, ReadOnlyStore, follow


def unit(n, dim=16, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def origins(ids):
    return np.stack([ids // 10, ids + 1000], axis=1)


class Truth:
    """What a catalogue holds, and how many of its vectors were read."""

    def __init__(self, ids, vectors):
        self.rows, self.read = dict(zip(map(int, ids), vectors, strict=True)), 0

    def add(self, ids, vectors):
        self.rows |= dict(zip(map(int, ids), vectors, strict=True))

    def remove(self, ids):
        for id in ids:
            del self.rows[int(id)]

    def state(self, until=None):
        ids = [id for id in self.rows if until is None or id <= until]
        return len(ids), max(ids, default=0)

    def ids(self, after=0):
        return np.array(sorted(id for id in self.rows if id > after), np.int64)

    def vectors(self, ids):
        self.read += len(ids)
        return np.array([self.rows[int(id)] for id in ids], np.float32)

    def origins(self, ids):
        return origins(ids)

    def followed_by(self, store):
        self.read = 0
        follow(store, self)
        read = self.read
        assert np.array_equal(store.ids, self.ids())
        if len(store):
            assert np.array_equal(store.vectors(store.ids), self.vectors(self.ids()))
            assert np.array_equal(store.origins(store.ids), origins(self.ids()))
            some = store.ids[store.ids // 10 % 3 == 0]
            assert np.array_equal(np.sort(store.of_videos(np.unique(some // 10))), some)
        return read


def test_it_holds_to_the_contract(tmp_path):
    number = count()
    make = lambda dim: MatrixStore(tmp_path / str(next(number)), dim)  # noqa: E731
    assert isinstance(make(3), Store)
    assert violations(make) == []


def test_equal_vectors_tie_wherever_they_lie(tmp_path):
    """Blocked products round equal rows differently; ranks must not show it."""
    store = MatrixStore(tmp_path, 387)
    vectors = unit(1003, 387)
    vectors[[0, 17, 500, 999, 1002]] = vectors[3]
    ids = np.arange(1003)[::-1].copy()
    store.add(ids, vectors)
    for k in (2, 6, 50):
        answer, truth = store.search(vectors[3:4], k)[0], expected(ids, vectors, vectors[3], k)
        assert answer.ids[: min(k, 6)].tolist() == sorted(ids[[0, 3, 17, 500, 999, 1002]])[:k]
        assert np.allclose(answer.scores, truth.scores, atol=1e-6)


@pytest.mark.parametrize("share", [0.01, 0.5, 1.0])
def test_a_filter_is_exact_however_many_it_lets_pass(tmp_path, share):
    store, ids, vectors = MatrixStore(tmp_path, 16), np.arange(5000) * 3, unit(5000)
    store.add(ids, vectors)
    among = np.random.default_rng(1).permutation(ids)[: int(share * 5000)]
    kept = np.isin(ids, among)
    for query, answer in zip(vectors[:5], store.search(vectors[:5], 10, among), strict=True):
        truth = expected(ids[kept], vectors[kept], query, 10)
        assert answer.ids.tolist() == truth.ids.tolist()


def test_it_is_there_again_when_opened_again(tmp_path):
    ids, vectors = np.array([5, 2, 9]), unit(3)
    MatrixStore(tmp_path, 16).add(ids, vectors)
    store = MatrixStore(tmp_path, 16)
    store.remove([2])
    assert len(store) == 2
    assert np.array_equal(MatrixStore(tmp_path, 16).search(vectors[:1], 1)[0].ids, [5])
    assert MatrixStore(tmp_path, 16).ids.tolist() == [5, 9]


def test_removed_rows_are_dropped_in_the_end(tmp_path):
    store = MatrixStore(tmp_path, 16)
    store.add(np.arange(4000), unit(4000))
    store.remove(np.arange(2000))
    assert len(store) == 2000
    assert sum(path.stat().st_size for path in tmp_path.glob("*.f32")) == 2000 * 16 * 4
    assert len(list(tmp_path.glob("*.f32"))) == 1


def test_following_appends_removes_and_reads_only_what_is_new(tmp_path):
    truth, store = Truth(range(1, 501), unit(500)), MatrixStore(tmp_path, 16)
    truth.followed_by(store)
    truth.add(range(501, 511), unit(10, seed=1))
    assert truth.followed_by(store) <= 10 + 8
    truth.remove([3, 500])
    truth.add(range(511, 514), unit(3, seed=2))
    assert truth.followed_by(store) <= 3 + 8
    truth.remove(truth.ids())
    assert truth.followed_by(store) == 0


def test_what_is_unchanged_is_not_read(tmp_path):
    truth = Truth(range(1, 100), unit(99))
    truth.followed_by(MatrixStore(tmp_path, 16))
    assert truth.followed_by(MatrixStore(tmp_path, 16)) <= 8


def test_a_catalogue_put_back_from_a_copy_is_followed_although_its_ids_repeat(tmp_path):
    store, vectors = MatrixStore(tmp_path, 16), unit(100)
    Truth(range(1, 101), vectors).followed_by(store)
    again = Truth(range(1, 51), vectors[:50])
    again.add(range(51, 102), unit(51, seed=7))
    again.followed_by(store)


DAMAGE = {
    "deleted": shutil.rmtree,
    "head deleted": lambda folder: (folder / "head.json").unlink(),
    "head is junk": lambda folder: (folder / "head.json").write_bytes(b"\xff{"),
    "head is another thing": lambda folder: (folder / "head.json").write_text('["a"]'),
    "head promises more": lambda folder: _edit(folder, rows=10**6),
    "of another version": lambda folder: _edit(folder, version=99),
    "of another length": lambda folder: _edit(folder, dim=8),
    "vectors deleted": lambda folder: next(folder.glob("*.f32")).unlink(),
    "vectors cut off": lambda folder: _cut(next(folder.glob("*.f32"))),
    "ids cut off": lambda folder: _cut(next(folder.glob("*.ids"))),
    "vectors zeroed": lambda folder: next(folder.glob("*.f32")).write_bytes(bytes(300 * 16 * 4)),
}


def _edit(folder, **values):
    head = json.loads((folder / "head.json").read_text())
    (folder / "head.json").write_text(json.dumps(head | values))


def _cut(path):
    path.write_bytes(path.read_bytes()[:100])


@pytest.mark.parametrize("more", [0, 1], ids=["unchanged", "changed"])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_cache_comes_back(tmp_path, damage, more):
    folder = tmp_path / "cache"
    truth = Truth(range(1, 301), unit(300))
    truth.followed_by(MatrixStore(folder, 16))
    DAMAGE[damage](folder)
    truth.add(range(301, 301 + more), unit(more, seed=2))
    truth.followed_by(MatrixStore(folder, 16))


def test_rows_written_but_never_committed_are_overwritten(tmp_path):
    truth, store = Truth(range(1, 11), unit(10)), MatrixStore(tmp_path, 16)
    truth.followed_by(store)
    for path in (*tmp_path.glob("*.f32"), *tmp_path.glob("*.ids")):
        with path.open("ab") as file:
            file.write(b"\x7f" * 1000)  # a kill between the data and the head
    truth.add([11], unit(1, seed=3))
    truth.followed_by(MatrixStore(tmp_path, 16))


def test_two_stores_on_one_folder_follow_at_once(tmp_path):
    truth = Truth(range(1, 20_001), unit(20_000))
    stores = [MatrixStore(tmp_path, 16) for _ in range(4)]
    threads = [threading.Thread(target=follow, args=(store, truth)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        truth.followed_by(store)


def test_a_reader_sees_rows_that_another_removed(tmp_path):
    truth, first = Truth(range(1, 11), unit(10)), MatrixStore(tmp_path, 16)
    truth.followed_by(first)
    second = MatrixStore(tmp_path, 16)
    truth.remove([10])
    truth.followed_by(second)
    truth.followed_by(first)


def test_what_another_store_does_is_noticed(tmp_path):
    folder, lock = tmp_path / "cache", tmp_path / "lock"
    first, second = MatrixStore(folder, 16, lock), MatrixStore(folder, 16, lock)
    assert not first.outdated
    second.add([1, 2], unit(2))
    assert first.outdated
    assert not second.outdated
    with first.changing():
        assert first.ids.tolist() == [1, 2]
    assert not first.outdated
    shutil.rmtree(folder)
    assert first.outdated
    assert not ReadOnlyStore(tmp_path / "none", 16).outdated


def test_searching_goes_on_while_rows_change(tmp_path):
    store, vectors = MatrixStore(tmp_path, 16), unit(4000)
    store.add(np.arange(4000), vectors)
    wrong = []

    def search():
        for _ in range(200):
            answer = store.search(vectors[3999:], 1)[0]
            if answer.ids.tolist() != [3999]:
                wrong.append(answer)

    thread = threading.Thread(target=search)
    thread.start()
    for start in range(0, 3000, 100):
        store.remove(np.arange(start, start + 100))
    thread.join()
    assert not wrong


def test_a_folder_deleted_while_it_is_written_never_mixes_up_vectors(tmp_path):
    folder, vectors = tmp_path / "cache", unit(300, 8)
    truth = Truth(range(1, 101), vectors[:100])
    first = MatrixStore(folder, 8)
    truth.followed_by(first)
    others = []

    def another():
        others.append(MatrixStore(folder, 8))
        others[0].add(np.arange(101, 251), vectors[100:250], origins(np.arange(101, 251)))

    thread = threading.Thread(target=another)
    with pytest.raises(LibraryError), first.changing():
        shutil.rmtree(folder)
        thread.start()
        thread.join(0.5)
        assert not others  # it waits, although the folder is gone
        first.add(np.arange(251, 271), vectors[250:270], origins(np.arange(251, 271)))
    thread.join()
    for store in (first, *others):
        held = store.ids
        assert np.array_equal(store.vectors(held), vectors[held - 1])
    truth.add(range(101, 271), vectors[100:270])
    for store in (first, *others):
        truth.followed_by(store)


def test_a_folder_deleted_and_made_again_is_noticed(tmp_path):
    """The new files have other names, so a reader that still maps the old ones is never written to."""
    folder, vectors = tmp_path / "cache", unit(200, 8)
    reader = MatrixStore(folder, 8)
    reader.add(np.arange(1, 101), vectors[:100])
    names = {path.name for path in folder.glob("*.f32")}
    shutil.rmtree(folder)
    MatrixStore(folder, 8).add(np.arange(101, 201), vectors[100:])
    assert not names & {path.name for path in folder.glob("*.f32")}
    with reader.changing():
        assert np.array_equal(reader.ids, np.arange(101, 201))
        assert np.array_equal(reader.vectors(reader.ids), vectors[100:])


def test_a_folder_put_back_from_a_copy_is_noticed(tmp_path):
    """Both have one history, and heads that are equal again."""
    folder, vectors = tmp_path / "cache", unit(30, 8)
    first = MatrixStore(folder, 8)
    first.add(np.arange(1, 11), vectors[:10])
    shutil.copytree(folder, tmp_path / "copy")
    first.add(np.arange(11, 21), vectors[10:20])
    shutil.rmtree(folder)
    (tmp_path / "copy").rename(folder)
    MatrixStore(folder, 8).add(np.arange(21, 31), vectors[20:])
    with first.changing():
        assert first.ids.tolist() == [*range(1, 11), *range(21, 31)]


class TestReadOnly:
    def test_it_holds_to_the_contract(self, tmp_path):
        assert violations(lambda dim: ReadOnlyStore(tmp_path / "none", dim)) == []
        assert not list(tmp_path.iterdir())

    def test_what_is_in_step_is_mapped_and_the_rest_is_kept_in_memory(self, tmp_path):
        folder, truth = tmp_path / "cache", Truth(range(1, 101), unit(100))
        truth.followed_by(MatrixStore(folder, 16))
        before = {path: path.read_bytes() for path in folder.iterdir()}
        store = ReadOnlyStore(folder, 16)
        assert truth.followed_by(store) <= 8
        truth.remove([3])
        truth.add([101, 102], unit(2, seed=1))
        assert truth.followed_by(store) <= 8 + 2
        truth.add([103], unit(1, seed=2))
        assert truth.followed_by(store) <= 8 + 1
        assert {path: path.read_bytes() for path in folder.iterdir()} == before

    def test_without_a_cache_nothing_is_read_twice(self, tmp_path):
        truth, store = Truth(range(1, 101), unit(100)), ReadOnlyStore(tmp_path / "none", 16)
        assert truth.followed_by(store) == 100
        assert truth.followed_by(store) <= 8

    def test_what_somebody_else_writes_is_mapped(self, tmp_path):
        truth, store = Truth(range(1, 101), unit(100)), ReadOnlyStore(tmp_path / "cache", 16)
        truth.followed_by(store)
        truth.add(range(101, 201), unit(100, seed=1))
        truth.followed_by(MatrixStore(tmp_path / "cache", 16))
        assert truth.followed_by(store) <= 8

    @pytest.mark.parametrize("damage", DAMAGE)
    def test_a_damaged_cache_is_done_without(self, tmp_path, damage):
        folder, truth = tmp_path / "cache", Truth(range(1, 301), unit(300))
        truth.followed_by(MatrixStore(folder, 16))
        DAMAGE[damage](folder)
        truth.followed_by(ReadOnlyStore(folder, 16))
