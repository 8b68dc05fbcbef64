"""The process is killed at any moment; running again finishes with nothing lost and nothing twice."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

import reelspace
from conftest import colour_clip
from reelspace import Library

# Everything that writes: indexing, the caches, another model's space, the cut-over and back, pruning.
JOURNEY = """
import shutil, sys
from pathlib import Path
from reelspace import Library
from reelspace.index import ann

ann._FEWEST = 10  # also so few windows get an approximate index
where, folder = sys.argv[1:]
print("ready", flush=True)
with Library.open(where, model="sketch") as library:
    library.index(folder)
    library.search("red")
    library.index(model="sketch2", approximate=True)
    library.use("sketch2")
    library.search("red")
    shutil.rmtree(Path(where, "cache"))
    library.search("red")
    library.index(approximate=True)
    library.use("sketch")
    library.index(prune=True, approximate=False)
print("done", flush=True)
"""

# A step is what changes a file or its name: the process is killed just before the one whose number is given. What is
# killed is a copy of a process that has everything loaded; it says by its exit code whether it came to the end.
STEPS = """
import os, shutil, signal, sys
from pathlib import Path
import faiss
from reelspace import Library
from reelspace.index import ann

ann._FEWEST = 10
faiss.omp_set_num_threads(1)
where, scene, first, last = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])

def act():
    with Library.open(where, create=False, model=None) as library:
        if scene == "rebuild":
            shutil.rmtree(Path(where, "cache"))
            Path(where, "cache").mkdir()
            library.search("red")
        elif scene == "approximate":
            library.index(approximate=True)
            library.index(approximate=False)
        elif scene == "use":
            active = next(space.model for space in library.models() if space.active)
            library.use({"sketch": "sketch2", "sketch2": "sketch"}[active])
            library.search("red")

for number in range(first, last):
    child = os.fork()
    if not child:
        left = number
        def count(event, arguments):
            global left
            writes = event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wa+x")
            if writes or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link"):
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(count)
        act()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, status
        print("end", number, flush=True)
        break
    print("killed", number, flush=True)
"""


@pytest.fixture(scope="module")
def videos(tmp_path_factory, colour_clips):
    folder = tmp_path_factory.mktemp("crash") / "videos"
    folder.mkdir()
    for number, path in enumerate(sorted(colour_clips.iterdir())):
        for copy in range(2):  # with copies, and bytes that differ though the pictures do not
            target = folder / f"{number}-{copy}.mp4"
            target.write_bytes(path.read_bytes() + b"\0" * copy)
    (folder / "same.mp4").write_bytes((folder / "0-0.mp4").read_bytes())
    (folder / "junk.mp4").write_bytes(b"junk")
    colour_clip(folder / "half.mp4", "red", "black", seconds=3.0)
    return folder


@pytest.fixture
def journey(videos, plugin):
    """Starts the journey for a library; a tag in the environment tells its processes, the decoders too."""
    tag = f"REELSPACE_TEST={uuid.uuid4()}"
    source = str(Path(reelspace.__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([source, str(plugin), str(Path(__file__).parents[1])])}
    environment |= dict([tag.split("=")])

    def start(library, script=JOURNEY, *arguments):
        command = [sys.executable, "-c", script, str(library), *map(str, arguments or [videos])]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    yield start
    deadline = time.monotonic() + 20
    while left := _processes(tag):
        assert time.monotonic() < deadline, f"processes are left: {left}"
        time.sleep(0.1)


def _processes(tag):
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and tag.encode() in (entry / "environ").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


def content(library):
    """All that the catalogue says, without its row numbers."""
    with sqlite3.connect(library / "catalogue.sqlite") as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        files = "SELECT path, state, reason, hash, size FROM files LEFT JOIN videos ON videos.id = video ORDER BY path"
        windows = (
            'SELECT hash, start, "end", fingerprint, vector FROM windows JOIN videos ON videos.id = video '
            "LEFT JOIN vectors ON vectors.window = windows.id LEFT JOIN spaces ON spaces.id = space ORDER BY 1, 2, 3, 4"
        )
        embedded = (
            "SELECT hash, fingerprint, reason FROM embedded JOIN videos ON videos.id = video "
            "JOIN spaces ON spaces.id = space ORDER BY 1, 2"
        )
        spaces = "SELECT model, fingerprint, active FROM spaces ORDER BY 2"
        return [db.execute(question).fetchall() for question in (files, windows, embedded, spaces)]


def finish(process):
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, output) == (0, "ready\ndone\n")


def crash(journey, tmp_path, kills, seed):
    began = time.monotonic()
    finish(journey(tmp_path / "clean"))
    whole = time.monotonic() - began
    expected = content(tmp_path / "clean")
    assert len(expected[1]) == 2 * (2 * 9 + 2) - 1  # two spaces; the black window has no vector in either
    random = np.random.default_rng(seed)
    for number, delay in enumerate(random.uniform(0, whole, kills)):
        library = tmp_path / f"killed{number // 3}"  # each library is killed up to three times
        process = journey(library)
        assert process.stdout.readline() == "ready\n"
        try:
            process.wait(timeout=delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        if number % 3 == 2 or number == kills - 1:
            finish(journey(library))
            assert content(library) == expected
            with Library.open(library) as opened:
                report = opened.verify(sample=3)
                assert report.findings == []
                assert opened.index().embedded == 0


def test_killed_at_random_moments(journey, tmp_path):
    crash(journey, tmp_path, kills=10, seed=1)


@pytest.mark.slow
def test_killed_at_many_random_moments(journey, tmp_path):
    crash(journey, tmp_path, kills=100, seed=2)


def answers(library):
    with Library.open(library, create=False) as opened:
        assert opened.verify(sample=2).findings == []
        return [opened.search(words, k=50).hits for words in ("red", "blue yellow")]


@pytest.fixture(scope="module")
def arrived(tmp_path_factory):
    """A library at the end of the journey, made by the first who needs it, and what it answers with either model."""
    return tmp_path_factory.mktemp("arrived") / "library", {}


@pytest.mark.parametrize("scene", ["rebuild", "approximate", "use"])
def test_killed_before_every_step_of(scene, journey, arrived, tmp_path):
    made, told = arrived
    library = tmp_path / "library"
    if not told:
        finish(journey(made))
        told |= {"sketch": answers(made)}
        with Library.open(made) as opened:
            opened.use("sketch2")
        told |= {"sketch2": answers(made)}
        with Library.open(made) as opened:
            opened.use("sketch")
    shutil.copytree(made, library)
    expected, number, ended = content(library), 0, False
    while not ended:
        output, _ = journey(library, STEPS, scene, number, number + 12).communicate(timeout=120)
        lines = output.splitlines()
        assert lines
        ended = lines[-1].startswith("end")
        number += len(lines)
        # Nothing lost, nothing twice; and what could not be written is made again.
        now = content(library)
        assert now[:3] == expected[:3]
        (active,) = (model for model, _, is_active in now[3] if is_active)
        assert answers(library) == told[active]
    assert number >= 3
