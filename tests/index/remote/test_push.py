"""What travels, what survives, and what is refused."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext

import numpy as np
import pytest

from crowd import assert_same, content
from reelspace import Library, RemoteLibrary
from reelspace.errors import LibraryError
from reelspace.index.remote import open_store, push
from reelspace.index.remote.base import BLOCK, Row, read_path, stored_path
from reelspace.index.remote.head import read_head


def counts(report):
    return report.added, report.updated, report.removed, report.unchanged


def held(url):
    """All that a store holds: id → digest."""
    store = open_store(url)
    try:
        rows = {id: digest for number in range(3) for id, digest in store.block(number).items()}
        assert len(store) == len(rows)
        return rows
    finally:
        store.close()


def wanted(library):
    """What it should hold, by a way of its own."""
    catalogue = library._catalogue
    files = {}
    for path, video, _, date in catalogue.dated_files():
        files.setdefault(video, []).append((path, date))
    rows = catalogue._db.execute(
        'SELECT vectors.id, videos.id, hash, start, "end", duration FROM vectors JOIN windows ON windows.id = window '
        "JOIN videos ON videos.id = video"
    )
    return {
        id: Row(id, hash, start, end, duration, tuple(sorted(files.get(video, [])))).digest
        for id, video, hash, start, end, duration in rows
    }


def total(library):
    return library.status().spaces[0].windows


def test_only_what_has_changed_travels(crowd, editing, store_url, monkeypatch):
    monkeypatch.setattr(push, "BATCH", 100)
    catalogue, space = editing
    number = total(crowd)
    states = []
    first = crowd.push(store_url, progress=states.append)
    assert counts(first) == (number, 0, 0, 0) and first.windows == number
    assert [state.done for state in states] == [*range(100, number, 100), number]
    assert held(store_url) == wanted(crowd)
    assert counts(crowd.push(store_url)) == (0, 0, 0, number)

    with catalogue.transaction():
        content(catalogue, space, 1000, windows=5)  # new
        moved = catalogue.files_of(catalogue.video(f"{7:040x}"))[0]
        catalogue.forget_file(moved.path)
        catalogue.put_file(moved._replace(path=moved.path + ".renamed.mp4"))
        windows = len(catalogue.windows_of(moved.video))
        gone = catalogue.video(f"{8:040x}")
        deleted = len(catalogue.windows_of(gone))
        for file in catalogue.files_of(gone):
            catalogue.forget_file(file.path)
        catalogue.prune_contents()
    second = crowd.push(store_url)
    assert counts(second) == (5, windows, deleted, number - windows - deleted)
    assert held(store_url) == wanted(crowd)
    assert second.windows == len(held(store_url)) == number + 5 - deleted


def test_an_unchanged_library_costs_a_handful_of_small_requests(crowd, qdrant):
    crowd.push(qdrant.url())
    sent = sum(size for *_, size in qdrant.log)
    assert sent > total(crowd) * 65 * 4  # the vectors
    qdrant.log.clear()
    crowd.push(qdrant.url())
    assert len(qdrant.log) < 20 and sum(size for *_, size in qdrant.log) < 10_000


def test_blocks_far_apart_are_told_apart(crowd, editing, store_url):
    catalogue, space = editing
    crowd.push(store_url)
    with catalogue.transaction():
        catalogue._db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'vectors'", (2 * BLOCK + 10,))
        content(catalogue, space, 1000, windows=5)
    assert crowd.push(store_url).added == 5
    assert held(store_url) == wanted(crowd)
    with catalogue.transaction():  # a block that is empty again
        for file in catalogue.files_of(catalogue.video(f"{1000:040x}")):
            catalogue.forget_file(file.path)
        catalogue.prune_contents()
    assert counts(crowd.push(store_url))[:3] == (0, 0, 5)
    assert counts(crowd.push(store_url))[:3] == (0, 0, 0)
    assert held(store_url) == wanted(crowd)


def test_what_others_did_to_the_rows_is_mended(crowd, store_url):
    crowd.push(store_url)
    store = open_store(store_url)
    store.remove([1, 2, 3])
    assert crowd.push(store_url).added == 3  # their number tells
    store.remove([4])
    store.put([Row(10**4, "ff")], np.eye(1, 65, dtype=np.float32))
    assert counts(crowd.push(store_url))[:3] == (0, 0, 0)  # it does not
    report = crowd.push(store_url, recheck=True)
    assert (report.added, report.updated) == (1, 0)
    store.remove([10**4])
    store.close()
    assert held(store_url) == wanted(crowd)


def test_ended_anywhere_it_goes_on_and_nothing_travels_twice(crowd, store_url, monkeypatch):
    """An exception out of every fifth change, as when the process ends there."""
    monkeypatch.setattr(push, "BATCH", 300)
    adapter = type(open_store(store_url))
    arrived, calls = [], 0

    class Ended(BaseException):
        pass

    def failing(name):
        method = getattr(adapter, name)

        def called(self, *arguments):
            nonlocal calls
            calls += 1
            if calls % 5 == 0:
                raise Ended
            if name == "put" and arguments[1] is not None:
                arrived.extend(row.id for row in arguments[0])
            return method(self, *arguments)

        monkeypatch.setattr(adapter, name, called)

    for name in ("put", "remove", "set_note"):
        failing(name)
    for _ in range(40):
        try:
            crowd.push(store_url)
            break
        except Ended:
            with pytest.raises(LibraryError, match="only a part"):
                RemoteLibrary.open(store_url)
    monkeypatch.undo()
    assert sorted(arrived) == sorted(wanted(crowd))
    assert held(store_url) == wanted(crowd)
    crowd.push(store_url)
    RemoteLibrary.open(store_url).close()


PUSH = """
import sys, time
from reelspace import Library
from reelspace.index.remote import push
push.BATCH = 50
with Library.open(sys.argv[1], create=False) as library:
    library.push(sys.argv[2], progress=lambda _: time.sleep(0.03))
"""


def test_killed_anywhere_it_goes_on(crowd, store_url, plugin):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(plugin), *sys.path])}
    chance = random.Random(0)
    for _ in range(1):
        process = subprocess.Popen([sys.executable, "-c", PUSH, str(crowd.path), store_url], env=environment)
        store = open_store(store_url)
        before, deadline = len(store) if read_head(store) else 0, time.monotonic() + 30
        aim = before + chance.randrange(200, 600)
        while process.poll() is None and (not read_head(store) or len(store) < aim):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        store.close()
    done = len(held(store_url))
    assert 100 <= done < total(crowd)
    assert crowd.push(store_url).added <= total(crowd) - done
    assert held(store_url) == wanted(crowd)
    with RemoteLibrary.open(store_url) as remote:
        assert_same(crowd.search("red"), remote.search("red"))


def test_a_server_that_misbehaves_is_asked_again(crowd, qdrant, monkeypatch):
    monkeypatch.setattr(push, "BATCH", 200)
    monkeypatch.setattr("reelspace.library.PATIENCE", (0.0, 0.01, 0.02))
    chance = random.Random(1)
    faults = [500, 502, 503, 429, "cut", "late cut", 0.05]
    qdrant.faults.extend(fault for _ in range(40) for fault in (chance.choice(faults), None))
    assert crowd.push(qdrant.url()).added == total(crowd)
    assert len(qdrant.faults) < 70
    qdrant.faults.clear()
    assert held(qdrant.url()) == wanted(crowd)
    with RemoteLibrary.open(qdrant.url()) as remote:
        qdrant.faults.extend([None, 503, 503, "cut"])
        assert_same(crowd.search("red"), remote.search("red"))
    qdrant.faults.clear()
    qdrant.faults.extend([500] * 4)
    with pytest.raises(LibraryError, match=r"127\.0\.0\.1:\d+/films fails: 500 told to fail"):
        crowd.push(qdrant.url())


def test_a_database_that_restarts_is_waited_for(crowd, postgres, monkeypatch):
    from servers import Postgres

    monkeypatch.setattr(push, "BATCH", 50)
    server = Postgres()
    try:
        url, restarts = server.url("postgres"), []

        def restart():
            server.stop()
            time.sleep(0.3)
            server.start()

        def progress(state):
            if state.done >= 500 and not restarts:
                restarts.append(threading.Thread(target=restart))
                restarts[0].start()
                time.sleep(0.1)

        assert crowd.push(url, progress=progress).added == total(crowd)
        restarts[0].join()
        assert held(url) == wanted(crowd)
    finally:
        server.close()


def test_two_pushes_at_once_are_not_possible(crowd, store_url):
    def meanwhile(_):
        with Library.open(crowd.path) as other, pytest.raises(LibraryError, match="is being pushed by process"):
            other.push(store_url)

    crowd.push(store_url, progress=meanwhile)


def test_indexing_goes_on_during_a_push(crowd, editing, store_url):
    catalogue, space = editing
    number, added = total(crowd), []

    def meanwhile(_):
        if not added:
            with catalogue.transaction():
                added.append(content(catalogue, space, 1000, windows=5))

    assert crowd.push(store_url, progress=meanwhile).windows == number  # the state when it began
    assert crowd.push(store_url).added == 5


def test_what_holds_something_else_is_refused(crowd, library, folder, store_url, qdrant):
    store = open_store(store_url)
    with pytest.raises(LibraryError, match="there is no such collection"):
        RemoteLibrary.open(store_url)
    store.prepare(65)
    store.put([Row(1, "ff")], np.eye(1, 65, dtype=np.float32))
    with pytest.raises(LibraryError, match="holds something else already"):
        crowd.push(store_url)
    store.remove([1])
    crowd.push(store_url)
    with pytest.raises(LibraryError, match="vectors of 65 numbers, the library's have 66"):
        store.prepare(66)
    store.close()
    library.index(folder / "red.mp4")
    with pytest.raises(LibraryError, match="windows of another library"):
        library.push(store_url)
    library.index(model="sketch2")
    with Library.open(library.path, model="sketch2") as other:
        library.push(qdrant.url("third"))
        with pytest.raises(LibraryError, match=r"holds vectors of sketch .* searches with sketch2"):
            other.push(qdrant.url("third"))


def test_another_version_of_the_model_does_not_search(crowd, store_url, monkeypatch):
    import sketch

    crowd.push(store_url)
    monkeypatch.setattr(sketch.Sketch, "version", 2)
    with RemoteLibrary.open(store_url) as remote, pytest.raises(LibraryError, match="another version of sketch"):
        remote.search("red")


def test_errors_say_what_where_and_what_to_do_and_no_secret(crowd, postgres, qdrant, monkeypatch):
    monkeypatch.setattr("reelspace.library.PATIENCE", ())
    qdrant.key = "s3cret"
    cases = {
        "ftp://host/x": "named qdrant://",
        "qdrant://host": "is named qdrant://HOST",
        "qdrant://:s3cret@127.0.0.1:1/films": "cannot be reached: .*refused",
        f"qdrant://:wr0ng@127.0.0.1:{qdrant.port}/films": "refuses: Must provide an API key.*QDRANT_API_KEY",
        "postgresql://me:s3cret@127.0.0.1:1/video": "cannot be reached: .*refused",
        postgres.url("nowhere", password="s3cret"): '“?"?nowhere"?”? does not exist.*createdb',
    }
    for url, said in cases.items():
        insecure = pytest.warns(UserWarning, match="insecure") if "@" in url and "qdrant" in url else nullcontext()
        with insecure, pytest.raises(LibraryError, match=said) as error:
            crowd.push(url)
        assert not {"s3cret", "wr0ng"} & set(re.findall(r"\w+", str(error.value)))
    monkeypatch.setenv("QDRANT_API_KEY", "s3cret")
    with pytest.warns(UserWarning, match="insecure"):
        assert "s3cret" not in crowd.push(qdrant.url()).model_dump_json()


@pytest.mark.parametrize("package", ["qdrant_client", "psycopg"])
def test_a_missing_package_is_named_with_its_extra(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, "pgvector.psycopg", None)
    scheme, extra = {"qdrant_client": ("qdrant", "qdrant"), "psycopg": ("postgresql", "postgres")}[package]
    with pytest.raises(LibraryError, match=rf"pip install 'reelspace\[{extra}\]'"):
        open_store(f"{scheme}://host/name")


@pytest.mark.parametrize("path", ["/a b/ü.mp4", "/caf\udce9.mp4", "/bytes:2f", "/日本.mp4"])
def test_paths_are_stored_as_text_and_read_back(path):
    stored = stored_path(path)
    stored.encode("utf-8")
    assert read_path(stored) == path
