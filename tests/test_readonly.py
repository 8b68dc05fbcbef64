"""A library where nothing can be written is searched all the same."""

import os
import shutil
import subprocess
from contextlib import closing, contextmanager

import pytest

import sketch
from reelspace import Library
from reelspace.errors import LibraryError
from reelspace.index.catalogue import Catalogue

NOBODY = 65534


@contextmanager
def read_only_mount(disk):
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    yield


@contextmanager
def no_permission(disk):
    subprocess.run(["chmod", "-R", "a=rX", disk], check=True)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@contextmanager
def full(disk):
    with (disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while filler.write(bytes(4096)):
            pass
    yield


def whole(library):
    pass


def without_cache(library):
    shutil.rmtree(library / "cache")


def with_an_old_cache(library):
    with Library.open(library, model="sketch") as opened:
        opened.search("red")
        opened.remove(next(path for path in opened._catalogue.files() if path.endswith("red-green.mp4")))


@pytest.fixture
def indexed(disk, colour_clips, monkeypatch):
    monkeypatch.syspath_prepend(str(sketch.install(disk / "plugin")))
    shutil.copytree(colour_clips, disk / "videos")
    with Library.open(disk / "library", model="sketch") as opened:
        opened.index(disk / "videos")
        opened.search("red")
    return disk / "library"


def answers(library):
    with Library.open(library, create=False, model="sketch") as opened:
        found = [opened.search(words, k=20) for words in ("red", "yellow")]
        return found, opened.status().model_copy(update={"library": ""}), opened.models()


@pytest.mark.parametrize("state", [whole, without_cache, with_an_old_cache])
@pytest.mark.parametrize("unwritable", [read_only_mount, no_permission, full])
def test_it_answers_as_if_it_could_be_written(disk, indexed, tmp_path, unwritable, state):
    state(indexed)
    shutil.copytree(indexed, tmp_path / "copy")
    expected = answers(tmp_path / "copy")
    before = sorted(indexed.rglob("*.*"))
    with unwritable(disk):
        assert answers(indexed) == expected
    if unwritable is not full:
        assert sorted(indexed.rglob("*.*")) == before


@pytest.mark.parametrize("unwritable", [read_only_mount, no_permission])
def test_writing_to_it_is_a_clear_error(disk, indexed, unwritable):
    with unwritable(disk), Library.open(indexed, create=False, model="sketch") as opened:
        hit = opened.search("red").hits[0]
        for write in (opened.index, lambda: opened.remove(hit.path), lambda: opened.use("sketch")):
            with pytest.raises(LibraryError, match="cannot be"):
                write()


def test_a_thumbnail_that_cannot_be_kept_is_shown(disk, indexed):
    for thumbnail in (indexed / "cache").rglob("*.jpg"):
        thumbnail.unlink()
    with read_only_mount(disk), Library.open(indexed, create=False, model="sketch") as opened:
        assert opened.thumbnail(opened.search("red").hits[0]).startswith(b"\xff\xd8")


@pytest.mark.parametrize("unwritable", [read_only_mount, no_permission])
def test_what_others_have_not_finished_writing_is_not_passed_over(disk, indexed, unwritable):
    """What lies in the log of a catalogue is a part of it."""
    with closing(Catalogue(indexed / "catalogue.sqlite")) as writer:
        with writer.transaction():
            writer.set("note", "new")
        shutil.copytree(indexed, disk / "copy")
        (disk / "copy" / "catalogue.sqlite-shm").unlink()
    with unwritable(disk), pytest.raises(LibraryError, match="cannot be used"):
        Library.open(disk / "copy", create=False)
