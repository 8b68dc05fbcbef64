"""The disk fills up, permissions go, files change under the reader, two index at once: nothing lost, nothing twice."""

import ctypes
import json
import os
import re
import shutil
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing, contextmanager

import pytest

import sketch
from conftest import colour_clip
from reelspace import Library
from reelspace.errors import LibraryError
from reelspace.index import indexer


def content(library):
    """What a library holds, without its row numbers."""
    with closing(sqlite3.connect(library / "catalogue.sqlite")) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        files = "SELECT path, state, reason, hash FROM files LEFT JOIN videos ON videos.id = video ORDER BY path"
        vectors = (
            'SELECT hash, start, "end", vector FROM windows JOIN videos ON videos.id = video '
            "LEFT JOIN vectors ON vectors.window = windows.id ORDER BY 1, 2, 3"
        )
        return db.execute(files).fetchall(), db.execute(vectors).fetchall()


def true_counts(library):
    """The counts that `status` gives are those of the rows, and nothing is wrong."""
    with Library.open(library, create=False) as opened:
        status = opened.status()
        files, vectors = content(library)
        states = [state for _, state, _, _ in files]
        assert (status.indexed, status.failed) == (states.count("indexed"), states.count("failed"))
        assert status.windows == len(vectors)
        assert opened.verify(sample=2).findings == []


# The disk


@pytest.fixture
def on_disk(disk, colour_clips, monkeypatch):
    """A folder of videos beside a small file system, and a clean library of them."""
    monkeypatch.syspath_prepend(str(sketch.install(disk.parent / f"{disk.name}-plugin")))
    yield disk
    shutil.rmtree(disk.parent / f"{disk.name}-plugin")


def resize(disk, size):
    subprocess.run(["mount", "-o", f"remount,size={size}k", disk], check=True)


def test_a_disk_that_fills_up_loses_nothing(on_disk, colour_clips, tmp_path):
    """The space ends at many points of a run; with more space, the same run goes on to the same end."""
    with Library.open(tmp_path / "clean", model="sketch") as library:
        library.index(colour_clips)
        library.search("red")
    expected, failed = content(tmp_path / "clean"), 0
    where = on_disk / "library"
    for size in (16, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256, 320, 4096):
        resize(on_disk, size)
        try:
            with Library.open(where, model="sketch") as library:
                report = library.index(colour_clips)
                assert library.search("red").hits
        except LibraryError as error:
            failed += 1
            assert re.search(r"cannot be|could not be", str(error)), error
            assert size < 4096
        else:
            assert report.failed == 0
    assert failed >= 4
    assert content(where) == expected
    true_counts(where)


def test_a_full_disk_ends_a_command_with_one_line(on_disk, colour_clips):
    resize(on_disk, 96)
    command = [sys.executable, "-m", "reelspace", "index", colour_clips, "--library", on_disk / "library"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(r"^reelspace: .*(full|No space|cannot be|could not be)", done.stderr.splitlines()[-1])
    assert "Traceback" not in done.stderr


# Permissions


@contextmanager
def without_rights():
    """Root's rights to pass over permissions are laid down for a while; what others may do is tested."""
    libc, header, sets = (
        ctypes.CDLL(None, use_errno=True),
        struct.pack("Ii", 0x20080522, 0),
        ctypes.create_string_buffer(24),
    )
    assert libc.capget(header, sets) == 0
    before = sets.raw
    effective, *others = struct.unpack("6I", before)
    sets.raw = struct.pack("6I", effective & ~0b110, *others)  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    assert libc.capset(header, sets) == 0
    try:
        yield
    finally:
        sets.raw = before
        libc.capset(header, sets)


@pytest.fixture
def mine(library, folder, tmp_path):
    """A folder of videos and their library."""
    library.index(folder)
    library.close()
    return tmp_path


def test_files_whose_permission_is_taken_away_stay_known_and_come_back(mine):
    before = content(mine / "library")
    red, folder = mine / "videos" / "red.mp4", mine / "videos"
    with without_rights(), Library.open(mine / "library", model="sketch") as library:
        red.chmod(0)
        assert library.index().unchanged == 6  # what is known needs no reading
        assert library.index(rehash=True).failed == 1
        assert [(p.state, p.reason) for p in library.status().problems] == [
            ("failed", "cannot be read: Permission denied")
        ]
        red.chmod(0o600)
        report = library.index()
        assert (report.embedded, report.unchanged + report.reused, report.failed) == (0, 6, 0)
        folder.chmod(0)
        report = library.index(prune=True)
        assert (report.pruned, len(report.problems)) == (0, 1)
        folder.chmod(0o700)
        assert library.index().unchanged == 6
    assert content(mine / "library") == before
    true_counts(mine / "library")


@pytest.mark.parametrize("what", ["library", "library/catalogue.sqlite", "library/lock", "library/cache"])
def test_a_library_whose_permission_is_taken_away_loses_nothing(mine, what):
    before = content(mine / "library")
    colour_clip(mine / "videos" / "new.mp4", "cyan")
    mode = (mine / what).stat().st_mode & 0o777
    kept = False
    with without_rights():
        (mine / what).chmod(0o500 if (mine / what).is_dir() else 0o400)
        try:
            with Library.open(mine / "library", create=False, model="sketch") as library:
                library.index()
        except LibraryError as error:
            assert re.search("cannot be|could not be", str(error)), error
            kept = True
        (mine / what).chmod(mode)
        assert not kept or content(mine / "library") == before
        with Library.open(mine / "library", model="sketch") as library:
            library.index()
            assert library.status().indexed == 7
    true_counts(mine / "library")


# Files that change between being found and being decoded


def gone(path):
    path.unlink()


def replaced(path):
    colour_clip(path.with_suffix(".aside.mp4"), "cyan", seconds=1.0).replace(path)


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def a_folder(path):
    path.unlink()
    path.mkdir()


def a_device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def emptied(path):
    path.write_bytes(b"")


def cut_short(path):
    os.truncate(path, path.stat().st_size // 2)


def locked(path):
    path.chmod(0)


@pytest.mark.parametrize("mischief", [gone, replaced, a_pipe, a_folder, a_device, emptied, cut_short, locked])
@pytest.mark.parametrize("when", ["before it is hashed", "before it is decoded"])
def test_a_file_that_changes_under_the_reader(library, folder, monkeypatch, mischief, when):
    victim, hashing = folder / "green.mp4", indexer.content_hash

    def content_hash(path):
        if path == str(victim) and not done:
            done.append(path)
            if when == "before it is decoded":
                result = hashing(path)
                mischief(victim)
                return result
            mischief(victim)
        return hashing(path)

    done = []
    monkeypatch.setattr(indexer, "content_hash", content_hash)
    with without_rights():
        first = library.index(folder)
        assert done
        assert first.embedded in (5, 6)
        second = library.index()
        assert second.embedded == 0
    status = library.status()
    # The decoder is a process of its own, and root's again: it reads what is locked.
    good = mischief is replaced or (mischief is locked and when == "before it is decoded" and os.geteuid() == 0)
    assert status.indexed == (6 if good else 5)
    assert {hit.path for hit in library.search("green", k=50).hits} >= ({str(victim)} if good else set())
    if mischief is replaced:
        with Library.open(library.path.with_name("clean"), model="sketch") as clean:
            clean.index(folder)
            assert content(clean.path) == content(library.path)
    true_counts(library.path)


# Two at once

RACE = """
import sys
from reelspace import Library
from reelspace.errors import LibraryError
where, folder = sys.argv[1:]
sys.stdin.readline()
try:
    with Library.open(where, model="sketch") as library:
        print(library.index(folder).embedded)
except LibraryError as error:
    print(error)
"""


def test_of_many_that_index_at_once_each_finishes_or_is_refused_by_name(tmp_path, folder, plugin):
    where = tmp_path / "library"
    path = os.pathsep.join([*filter(None, sys.path)])
    command = [sys.executable, "-c", RACE, str(where), str(folder)]
    racers = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        for _ in range(4)
    ]
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    outputs = [racer.communicate(timeout=120) for racer in racers]
    assert [error for _, error in outputs] == [""] * 4
    pids = {str(racer.pid) for racer in racers}
    embedded = [int(out) for out, _ in outputs if out.strip().isdecimal()]
    refused = [out for out, _ in outputs if not out.strip().isdecimal()]
    assert sum(embedded) == 6
    assert len(embedded) + len(refused) == 4
    for line in refused:
        found = re.search(r"is being written by process (\d+|unknown): wait until it has finished, or stop it", line)
        assert found
        assert found[1] in pids | {"unknown"}
    true_counts(where)
    with Library.open(tmp_path / "clean", model="sketch") as clean:
        clean.index(folder)
        assert json.dumps(content(clean.path), default=bytes.hex) == json.dumps(content(where), default=bytes.hex)
