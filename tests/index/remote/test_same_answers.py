"""A store answers as the library that was pushed to it."""

import numpy as np

from crowd import assert_same
from reelspace import Item, RemoteLibrary
from reelspace.index.conformance import violations
from reelspace.index.remote import open_store
from reelspace.index.remote.base import Row

QUERIES = ["red", "a green thing", ["blue", "yellow"], Item(image=np.full((8, 8, 3), (200, 30, 90), np.uint8))]
WAYS = [
    {},
    {"k": 3, "page": 4},
    {"k": 40},
    {"per_video": 1},
    {"without": "magenta"},
    {"without": ["cyan", "grey"], "per_video": 2, "page": 2},
    {"within": "year 2003"},
    {"within": ["*copy 1*", "/nowhere"]},
    {"within": "year 200[12]/1*"},
    {"within": "no such folder"},
    {"duration": (20, None)},
    {"duration": (12, 16), "without": "red"},
    {"dated": (1.1e9 + 100_000, None)},
    {"dated": (1e9 + 50_000, 1e9 + 90_000), "k": 50},
    {"within": "*copy 1*", "dated": (1.1e9 + 50_000.5, None), "duration": (None, 30)},
]


def test_it_keeps_the_contract_of_stores(store_url):
    made = []

    def make(dim):
        made.append(open_store(store_url))
        made[-1].prepare(dim)
        return made[-1]

    try:
        assert violations(make) == []
    finally:
        made[-1].close()


def test_answers_are_the_same_as_locally(crowd, store_url):
    crowd.push(store_url)
    answered = 0
    with RemoteLibrary.open(store_url) as remote:
        assert remote.model == "sketch"
        for query, way in [(query, WAYS[0]) for query in QUERIES] + [("red", way) for way in WAYS[1:]]:
            local = crowd.search(query, **way)
            assert_same(local, remote.search(query, **way))
            answered += bool(local.hits)
    assert answered > 0.8 * len(WAYS)  # nothing is the same where nothing is found


def test_through_an_approximate_index_too(crowd, store_url):
    assert crowd.push(store_url, approximate=True).approximate
    with RemoteLibrary.open(store_url) as remote:
        for way in ({}, {"k": 40}, {"without": "magenta"}, {"within": "year 2003"}):
            assert_same(crowd.search("red", **way), remote.search("red", **way))
    assert crowd.push(store_url).approximate  # it stays so until told otherwise
    assert not crowd.push(store_url, approximate=False).approximate


def test_real_clips_too(library, folder, store_url):
    library.index(folder)
    library.push(store_url)
    with RemoteLibrary.open(store_url) as remote:
        for query in ("red", Item(video=folder / "blue.mp4"), ["green", "yellow"]):
            assert_same(library.search(query), remote.search(query))
        assert remote.search("red").hits[0].path == str(folder / "red.mp4")


def test_file_names_of_any_bytes_come_back(crowd, editing, store_url):
    from reelspace.index.catalogue import FileRow
    from reelspace.index.identity import Stamp

    catalogue, _ = editing
    odd = str(crowd.path.parent / "caf\udce9.mp4")
    open(odd, "w").close()
    hash = f"{3:040x}"
    with catalogue.transaction():
        for file in catalogue.files_of(catalogue.video(hash)):
            catalogue.forget_file(file.path)
        catalogue.put_file(FileRow(odd, "indexed", None, catalogue.video(hash), Stamp(0, 0, 0)))
    crowd.push(store_url)
    with RemoteLibrary.open(store_url) as remote:
        for way in ({"k": 1}, {"k": 1, "within": "caf?.mp4"}):
            local, there = crowd.search("red", **way), remote.search("red", **way)
            assert_same(local, there)
        assert there.hits[0].path == odd


def test_what_no_file_has_any_more_is_not_found_but_counts_as_usual(crowd, editing, store_url):
    catalogue, _ = editing
    with catalogue.transaction():
        for path, file in catalogue.files().items():
            if "year 2001" in path:
                catalogue.put_file(file._replace(state="missing"))
    crowd.push(store_url)
    with RemoteLibrary.open(store_url) as remote:
        local = crowd.search("red", k=50)
        assert_same(local, remote.search("red", k=50))
    assert not any("year 2001" in hit.path for hit in local.hits)


def test_rows_come_back_as_they_were_put(store_url):
    store = open_store(store_url)
    try:
        store.prepare(3)
        vector = np.array([[0.1, -1 / 3, 2**-30]], np.float32)
        row = Row(2**40, "ab", 0.1 + 0.2, 1e6 / 3, 1e9 / 7, ())
        store.put([row], vector)
        from reelspace.index.remote.base import Where

        rows, vectors = store.nearest(vector[0], 5, Where(), approximate=False)
        assert rows == [row] and np.array_equal(vectors, vector)
        assert store.block(row.id // 4096) == {row.id: row.digest}
    finally:
        store.close()
