import os
import sqlite3

import numpy as np
import pytest

from reelspace.errors import LibraryError
from reelspace.index.catalogue import VERSION, Catalogue, FileRow
from reelspace.index.identity import ChangedWhileRead, Stamp, check_unchanged, content_hash
from reelspace.index.walk import Root
from reelspace.media.probe import VideoInfo

INFO = VideoInfo(20.0, 640, 360, 500, "h264", created=1e9)
STAMP = Stamp(1, 2, 3)
ODD = os.fsdecode(b"/videos/caf\xff.mp4")


@pytest.fixture
def catalogue(tmp_path):
    opened = Catalogue(tmp_path / "catalogue.sqlite")
    yield opened
    opened.close()


def fill(catalogue, hash="a", path="/videos/a.mp4", windows=((0.0, 5.0), (5.0, 20.0)), space=None):
    if space is None:
        space = catalogue.put_space("m", "f", 4, [])
        catalogue.activate(space)
    video = catalogue.put_video(hash, INFO, None, "shots(2, 10)")
    ids = catalogue.put_windows(video, list(windows))
    catalogue.put_vectors(space, video, ids, np.eye(len(ids), 4, dtype=np.float32), None)
    catalogue.put_file(FileRow(path, "indexed", None, video, STAMP))
    return space, video, ids


def vectors(catalogue, space):
    return catalogue.vectors(next(row for row in catalogue.spaces() if row.id == space))


def state(catalogue, space):
    return vectors(catalogue, space).state()


def test_a_transaction_is_all_or_nothing(catalogue):
    with pytest.raises(KeyboardInterrupt), catalogue.transaction():
        fill(catalogue)
        raise KeyboardInterrupt
    assert catalogue.files() == {}
    assert catalogue.spaces() == []


def test_what_it_cannot_write_is_said_and_what_was_there_is_intact(catalogue):
    with catalogue.transaction():
        space, _, _ = fill(catalogue)
    pages = catalogue._db.execute("PRAGMA page_count").fetchone()[0]
    catalogue._db.execute(f"PRAGMA max_page_count = {pages}")  # a full disk
    with pytest.raises(LibraryError, match="intact"), catalogue.transaction():
        for number in range(1000):
            fill(catalogue, hash=str(number), path=f"/videos/{number}.mp4", space=space)
    assert list(catalogue.files()) == ["/videos/a.mp4"]


def test_paths_of_any_bytes_come_back_and_text_stays_text(catalogue):
    with catalogue.transaction():
        for path in (ODD, "/videos/é.mp4", "/videos/e\u0301.mp4"):
            catalogue.put_file(FileRow(path, "failed", "why", None, STAMP))
            catalogue.put_root(Root(path, ("*.mp4",), ("a", "b"), True))
    assert set(catalogue.files()) == {ODD, "/videos/é.mp4", "/videos/e\u0301.mp4"}
    assert catalogue.files()[ODD] == FileRow(ODD, "failed", "why", None, STAMP)
    assert Root(ODD, ("*.mp4",), ("a", "b"), True) in catalogue.roots()
    types = catalogue._db.execute("SELECT typeof(path) FROM files ORDER BY 1").fetchall()
    assert types == [("blob",), ("text",), ("text",)]
    catalogue.forget_file(ODD)
    assert ODD not in catalogue.files()


def test_an_inode_of_64_bits_can_be_kept(catalogue):
    status = os.stat_result((0o100644, 2**64 - 1, 1, 1, 0, 0, 5, 0, 0, 0), {"st_mtime_ns": 0})
    catalogue.put_file(FileRow("/a", "failed", "why", None, Stamp.of(status)))
    assert catalogue.files()["/a"].stamp == Stamp.of(status)


def test_vector_ids_are_never_used_twice(catalogue):
    with catalogue.transaction():
        space, _video, _windows = fill(catalogue)
    first = state(catalogue, space)
    with catalogue.transaction():
        catalogue.forget_file("/videos/a.mp4")
        catalogue.prune()
    assert state(catalogue, space) == (0, 0)
    with catalogue.transaction():
        fill(catalogue, space=space)
    count, newest = state(catalogue, space)
    assert (count, newest > first[1]) == (first[0], True)


def test_writing_the_same_again_changes_nothing(catalogue):
    with catalogue.transaction():
        space, video, windows = fill(catalogue)
    before, ids = state(catalogue, space), vectors(catalogue, space).ids()
    with catalogue.transaction():
        assert fill(catalogue, space=space) == (space, video, windows)
    assert state(catalogue, space) == before
    assert np.array_equal(vectors(catalogue, space).ids(), ids)


def test_other_windows_replace_the_old_ones_in_every_space_and_keep_the_common(catalogue):
    with catalogue.transaction():
        space, video, windows = fill(catalogue)
        other = catalogue.put_space("n", "g", 4, [])
        catalogue.put_vectors(other, video, windows, np.eye(2, 4, dtype=np.float32), None)
        new = catalogue.put_windows(video, [(0.0, 5.0), (5.0, 9.0)])
    assert new[0] == windows[0]
    assert catalogue.windows_of(video) == [(0.0, 5.0), (5.0, 9.0)]
    assert [state(catalogue, one)[0] for one in (space, other)] == [1, 1]
    assert catalogue.done(space, ["shots(2, 10)"]) == {}
    assert not catalogue.coverage(space)[2]


def test_windows_are_found_by_their_vectors_and_by_themselves(catalogue):
    with catalogue.transaction():
        space, video, windows = fill(catalogue)
        other = catalogue.put_space("n", "g", 4, [])
        catalogue.put_vectors(other, video, windows, np.eye(2, 4, dtype=np.float32), None)
    for one in (space, other):
        ids = vectors(catalogue, one).ids()[::-1]
        origins = vectors(catalogue, one).origins(ids)
        assert origins.tolist() == [[video, window] for window in windows[::-1]]
        rows = catalogue.windows(ids)
        assert [(row.id, row.video, row.start, row.end) for row in rows] == [
            (id, video, *span) for id, span in zip(ids, catalogue.windows_of(video)[::-1], strict=True)
        ]
        assert catalogue.windows(ids, origins[:, 1]) == rows
    with catalogue.transaction():
        catalogue.put_windows(video, [(5.0, 9.0)])
        catalogue.put_windows(video, [(5.0, 9.0), (1.0, 2.0)])  # whatever id this gets, it is not what was asked for
    assert catalogue.windows(ids, origins[:, 1]) == catalogue.windows(ids)
    assert {(row.start, row.end) for row in catalogue.windows(ids)} <= {(5.0, 9.0)}


def test_only_one_space_is_active(catalogue):
    with catalogue.transaction():
        first, _, _ = fill(catalogue)
        second = catalogue.put_space("n", "g", 4, [])
        catalogue.activate(second)
    assert [space.active for space in catalogue.spaces()] == [False, True]
    with pytest.raises(LibraryError, match="UNIQUE"), catalogue.transaction():
        catalogue._db.execute("UPDATE spaces SET active = 1 WHERE id = ?", (first,))


def test_the_overview_reads_well(catalogue):
    with catalogue.transaction():
        fill(catalogue)
    rows = catalogue._db.execute("SELECT * FROM overview").fetchall()
    assert rows == [("/videos/a.mp4", "indexed", None, 20.0, 640, 360, "h264", "2001-09-09 01:46:40", 2)]


def test_two_may_make_it_at_once(tmp_path):
    first, second = (Catalogue(tmp_path / "catalogue.sqlite") for _ in range(2))
    with first.transaction():
        fill(first)
    assert list(second.files()) == ["/videos/a.mp4"]
    version = second.data_version
    with first.transaction():
        first.set("x", "y")
    assert second.data_version != version
    assert second.setting("x") == "y"
    first.close()
    second.close()


def test_its_header_says_what_it_is(catalogue, tmp_path):
    with sqlite3.connect(tmp_path / "catalogue.sqlite") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (VERSION,)
        assert db.execute("PRAGMA application_id").fetchone() == (0x5265656C,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_content_is_known_by_its_bytes(tmp_path):
    for name, data in {"a": b"x" * 10**6, "b": b"x" * 10**6, "c": b"x" * (10**6 - 1) + b"y"}.items():
        (tmp_path / name).write_bytes(data)
    (a, stamp), (b, _), (c, _) = (content_hash(str(tmp_path / name)) for name in "abc")
    assert a == b != c
    assert (len(a), stamp) == (40, Stamp.of((tmp_path / "a").stat()))
    check_unchanged(str(tmp_path / "a"), stamp)
    os.utime(tmp_path / "a", (1, 1))
    with pytest.raises(ChangedWhileRead):
        check_unchanged(str(tmp_path / "a"), stamp)
