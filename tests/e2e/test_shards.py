"""Shards, jobs and merges killed at any moment: running again finishes with nothing lost and nothing twice."""

import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

import reelspace
from conftest import colour_clip
from conftest import whole_content as contents
from reelspace import Library

# By shards, by processes, and both with another model.
JOURNEY = """
import sys
from reelspace import Library
from reelspace.index import jobs, merge

jobs._LOOK = 0.0
merge._CONTENTS = 2
where, folder = sys.argv[1:]
print("ready", flush=True)
Library.index_shard("1/2", folder, location=where, model="sketch")
Library.index_shard("2/2", folder, location=where, model="sketch")
with Library.open(where, model="sketch") as library:
    library.merge()
    library.search("red")
    library.index(jobs=2, model="sketch2")
    library.index()
print("done", flush=True)
"""

# A step is the beginning or end of a transaction, or a change of a folder: the process is killed just before the one
# whose number is given. Every time it is a copy of a process that has everything loaded, with a copy of a library that
# waits for a merge.
STEPS = """
import os, shutil, signal, sys
from contextlib import contextmanager
from reelspace import Library
from reelspace.index import merge
from reelspace.index.catalogue import Catalogue

merge._CONTENTS = 1
prepared, where = sys.argv[1:]
begin = Catalogue.transaction

def count(event, arguments):
    if event in ("os.rename", "os.remove", "os.rmdir", "shutil.rmtree"):
        step()

def step():
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)

@contextmanager
def transaction(self):
    step()
    with begin(self):
        yield
        step()

sys.addaudithook(count)
left = 1 << 30
for number in range(1000):
    copy = f"{where}/{number}"
    shutil.copytree(prepared, copy)
    child = os.fork()
    if not child:
        Catalogue.transaction, left = transaction, number
        with Library.open(copy) as library:
            library.merge()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status):
        assert os.WEXITSTATUS(status) == 0, status
        print(number, flush=True)
        break
"""


@pytest.fixture
def videos(tmp_path, colour_clips):
    folder = tmp_path / "videos"
    folder.mkdir()
    for number, path in enumerate(sorted(colour_clips.iterdir())[:4]):
        (folder / f"{number}.mp4").write_bytes(path.read_bytes())
    for copy in range(3):  # in both shards
        shutil.copy(folder / "0.mp4", folder / f"same{copy}.mp4")
    (folder / "junk.mp4").write_bytes(b"junk")
    colour_clip(folder / "half.mp4", "red", "black", seconds=3.0)
    return folder


@pytest.fixture
def start(plugin, videos):
    """Starts a script; afterwards no process of its is left, not those either that it had started."""
    tag = f"REELSPACE_TEST={uuid.uuid4()}"
    source = str(Path(reelspace.__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([source, str(plugin), str(Path(__file__).parents[1])])}
    environment |= dict([tag.split("=")])

    def start(script, *arguments):
        command = [sys.executable, "-c", script, *map(str, arguments)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    yield start
    deadline = time.monotonic() + 60
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


def finish(process):
    output, _ = process.communicate(timeout=300)
    assert (process.returncode, output) == (0, "ready\ndone\n")


def sound(library, expected):
    assert contents(library) == expected
    assert not list((library / "shards").glob("*-of-*/"))
    with Library.open(library) as opened:
        assert opened.status().shards == []
        assert opened.verify(sample=2).findings == []


def killed_at_random(start, tmp_path, videos, kills, seed):
    began = time.monotonic()
    finish(start(JOURNEY, tmp_path / "clean", videos))
    whole = time.monotonic() - began
    expected = contents(tmp_path / "clean")
    for number, delay in enumerate(np.random.default_rng(seed).uniform(0, whole, kills)):
        library = tmp_path / f"killed{number // 3}"  # each library is killed up to three times
        process = start(JOURNEY, library, videos)
        assert process.stdout.readline() == "ready\n"
        try:
            process.wait(timeout=delay)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        if number % 3 == 2 or number == kills - 1:
            finish(start(JOURNEY, library, videos))
            sound(library, expected)


def test_killed_at_random_moments(start, tmp_path, videos):
    killed_at_random(start, tmp_path, videos, kills=3, seed=3)


@pytest.mark.slow
def test_killed_at_many_random_moments(start, tmp_path, videos):
    killed_at_random(start, tmp_path, videos, kills=60, seed=4)


def test_killed_before_and_after_every_transaction_of_a_merge(start, tmp_path, videos, plugin):
    for number in (1, 2):
        Library.index_shard(f"{number}/2", videos, location=tmp_path / "prepared", model="sketch")
    shutil.copytree(tmp_path / "prepared", tmp_path / "whole")
    with Library.open(tmp_path / "whole") as library:
        library.merge()
    expected = contents(tmp_path / "whole")
    (tmp_path / "killed").mkdir()
    output, _ = start(STEPS, tmp_path / "prepared", tmp_path / "killed").communicate(timeout=300)
    steps = int(output)
    assert steps > 20
    for number in range(steps):
        where = tmp_path / "killed" / str(number)
        with Library.open(where) as library:
            status = library.status()
            files, *_ = contents(where)
            assert status.indexed == [state for _, state, *_ in files].count("indexed")
            library.merge()
        assert contents(where) == expected, number
        assert not list((where / "shards").glob("*-of-*/")) and not list((where / "shards").glob(".gone*"))
