"""What only a process of its own can show: interruption, pipes, streams, exit codes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clips import Scene, write_clip
from reelspace.errors import LibraryError
from reelspace.library import Library

REELSPACE = [sys.executable, "-m", "reelspace"]


def run(*arguments, **options):
    command = [*REELSPACE, *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, **options)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send")
def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path):
    videos, library = tmp_path / "videos", tmp_path / "library"
    videos.mkdir()
    for number in range(10):
        write_clip(videos / f"{number}.mp4", scenes=[Scene(2, seed=number)], size=(320, 180), fps=15)
    command = [*REELSPACE, "index", str(videos), "--library", str(library), "--windows", "fixed(0.25,0.25)"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while indexed(library) < 1:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    assert err.splitlines()[-1] == "reelspace: Interrupted. What was done is kept; run the same command again to go on."
    kept = indexed(library)
    assert 1 <= kept < 10
    again = run("index", videos, "--library", library)
    assert again.returncode == 0, again.stderr
    assert f"{kept} unchanged" in again.stderr
    assert indexed(library) == 10


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send")
@pytest.mark.parametrize(
    "command", [["check", "long.mp4"], ["cut", "long.mp4", "-o", "cut.mp4", "--exact"]], ids=" ".join
)
def test_ctrl_c_ends_what_reads_a_file_and_leaves_nothing(tmp_path, command):
    write_clip(tmp_path / "long.mp4", scenes=[Scene(90, seed=1, pan=0.2)], size=(640, 360), fps=30, bframes=0)
    with subprocess.Popen(
        [*REELSPACE, *command], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        children = f"/proc/{process.pid}/task/{process.pid}/children"
        deadline = time.monotonic() + 60
        while not (workers := Path(children).read_text().split()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "reelspace: Interrupted.\n")
    # One that was just being started is not killed; it ends when it finds that nobody is there any more.
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["long.mp4"]


def indexed(library):
    """Files of a library, seen by another process than the indexer."""
    try:
        with Library.open(library, create=False) as opened:
            return opened.status().indexed
    except LibraryError:
        return 0


def test_a_reader_that_leaves_is_no_failure(asking_environment):
    command = [*REELSPACE, "search", "red", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=asking_environment)
    process.stdout.close()
    err = process.stderr.read()
    assert (process.wait(timeout=60), err) == (0, b"")
    process.stderr.close()


@pytest.fixture
def asking_environment(made):
    return os.environ | {"REELSPACE_LIBRARY": str(made)}


def test_the_answer_alone_is_on_standard_output(asking_environment):
    import json

    done = run("search", "red", "--json", env=asking_environment)
    assert json.loads(done.stdout)["hits"]
    assert done.stderr == ""


def test_any_locale_will_do(asking_environment):
    env = asking_environment | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": ""}
    done = run("search", "red", "--in", "猫", env=env)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    done = run("search", "--image", "猫.jpg", env=env)
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr


def test_errors_are_one_line_and_2(tmp_path):
    done = run("status", "--library", tmp_path / "none")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"reelspace: {tmp_path}/none")
    done = run("serch", "x")
    assert done.returncode == 2
    assert "search" in done.stderr
