import os
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings

import sketch
from clips import Scene, write_clip

# Hundreds of processes are started, most of them to decode: each would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A busy machine is no failure, and a test says the same every time.
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

SIZE = {"size": (96, 64), "fps": 10, "barcode": False, "gop": 10}


def colour_clip(path, *names, seconds=2.0, **options):
    """A clip of one shot a colour."""
    scenes = [Scene(seconds, sketch.COLOURS.get(name, (0, 0, 0))) for name in names]
    return write_clip(path, scenes=scenes, **(SIZE | options))


def whole_content(library):
    """All that a library holds, without its row numbers; the file must be sound."""
    with closing(sqlite3.connect(library / "catalogue.sqlite")) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        questions = (
            "SELECT path, state, reason, hash, size FROM files LEFT JOIN videos ON videos.id = video ORDER BY path",
            "SELECT hash, duration, width, height, codec, partial, windowing FROM videos ORDER BY 1",
            'SELECT hash, start, "end", fingerprint, vector FROM windows JOIN videos ON videos.id = video '
            "LEFT JOIN vectors ON window = windows.id LEFT JOIN spaces ON spaces.id = space ORDER BY 1, 2, 3, 4",
            "SELECT hash, fingerprint, reason FROM embedded JOIN videos ON videos.id = video "
            "JOIN spaces ON spaces.id = space ORDER BY 1, 2",
            "SELECT model, fingerprint, active FROM spaces ORDER BY 2",
            "SELECT path, include, exclude, hidden FROM roots ORDER BY 1",
            "SELECT * FROM settings WHERE name = 'windowing'",
        )
        return [db.execute(question).fetchall() for question in questions]


@pytest.fixture(scope="session")
def colour_clips(tmp_path_factory):
    """Clips by name; the name tells the shots."""
    folder = tmp_path_factory.mktemp("clips")
    for name in ("red", "green", "blue", "red-green", "blue-yellow-magenta", "grey"):
        colour_clip(folder / f"{name}.mp4", *name.split("-"), seconds=3.0)
    return folder


@pytest.fixture
def folder(tmp_path, colour_clips):
    """A folder of its own with those clips."""
    target = tmp_path / "videos"
    shutil.copytree(colour_clips, target)
    return target


@pytest.fixture
def plugin(tmp_path_factory, monkeypatch):
    """The models `sketch` and `sketch2` are installed."""
    path = sketch.install(tmp_path_factory.mktemp("plugin"))
    monkeypatch.syspath_prepend(str(path))
    return path


@pytest.fixture
def library(tmp_path, plugin):
    """A new library that uses `sketch`."""
    from reelspace import Library

    with Library.open(tmp_path / "library", model="sketch") as opened:
        yield opened


@pytest.fixture
def disk():
    """A file system of its own, in a place that everybody may enter."""
    where = Path(tempfile.mkdtemp())
    where.chmod(0o755)
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", where]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        where.rmdir()
        pytest.skip(f"mounting is not permitted: {done.stderr.strip()}")
    yield where
    subprocess.run(["umount", "--lazy", where], check=True)
    where.rmdir()
