"""`worlds make`: the same bytes, whatever happened on the way; and what the lines say."""

import json
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from reelspace.cli.worlds import register
from reelspace.errors import ReelspaceError
from reelspace.worlds.film import film
from reelspace.worlds.make import make
from reelspace.worlds.sample import EASY, scenes
from reelspace.worlds.scene import from_json


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "worlds"
    make(folder, seed=4, count=8)
    return folder


def test_the_folder_holds_videos_and_lines(made):
    assert set(contents(made)) == {"worlds.json", "scenes.jsonl", *(f"videos/{k:06d}.mp4" for k in range(8))}
    rows = [json.loads(line) for line in (made / "scenes.jsonl").read_text().splitlines()]
    for row, scene in zip(rows, islice(scenes(4), 8), strict=True):
        assert from_json(row["scene"]) == scene and row["key"] == scene.key
        assert (made / row["video"]).read_bytes() == film(scene)
        assert len(row["truth"]) == scene.frames
        assert {"brief", "chapters"} <= set(row["captions"]) and row["questions"] and row["matches"]


def test_again_and_in_parts_gives_the_same_bytes(made, tmp_path):
    make(tmp_path / "a", seed=4, count=3)
    make(tmp_path / "a", seed=4, count=8)
    assert contents(tmp_path / "a") == contents(made)


def test_what_a_killed_run_left_is_used(made, tmp_path):
    """SIGKILL in the middle, then once more."""
    folder = tmp_path / "killed"
    code = f"from pathlib import Path; from reelspace.worlds.make import make; make(Path({str(folder)!r}), 4, 8)"
    run = subprocess.Popen([sys.executable, "-c", code])
    while run.poll() is None and not (folder / "videos" / "000002.mp4").exists():
        time.sleep(0.005)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    (folder / "videos" / ".x.part").write_bytes(b"half")
    make(folder, seed=4, count=8)
    assert contents(folder) == contents(made)


def test_other_worlds_are_not_overwritten(made, tmp_path):
    before = contents(made)
    with pytest.raises(ReelspaceError, match="other worlds"):
        make(made, seed=5, count=8)
    with pytest.raises(ReelspaceError, match="holds 8"):
        make(made, seed=4, count=2)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ReelspaceError, match="not empty"):
        make(tmp_path, seed=4, count=1)
    with pytest.raises(ReelspaceError, match="profile"):
        make(tmp_path / "b", seed=4, count=1, profile="hard")
    assert contents(made) == before


@pytest.fixture
def run():
    app = typer.Typer()

    @app.callback()
    def root() -> None: ...

    register(app)
    return lambda *arguments: CliRunner().invoke(app, ["worlds", *map(str, arguments)], catch_exceptions=False)


def test_the_command_makes_them(run, tmp_path):
    result = run("make", "--seed", 2, "--count", 3, "--profile", "easy", "--split", "train", "--output", tmp_path / "w")
    assert result.exit_code == 0
    keys = [json.loads(line)["key"] for line in (tmp_path / "w" / "scenes.jsonl").read_text().splitlines()]
    assert keys == [scene.key for scene in islice(scenes(2, EASY, "train"), 3)]
    assert result.stdout == ""


def test_the_command_shows_them(run, tmp_path):
    from PIL import Image

    assert run("show", "--count", 2, "--output", tmp_path).exit_code == 0
    assert {path.name for path in Path(tmp_path).iterdir()} == {"sheet.png", "000000.gif", "000001.gif"}
    shown = next(scenes(0))
    with Image.open(tmp_path / "000000.gif") as gif:
        assert 2 <= gif.n_frames <= shown.frames  # equal frames in a row are one, shown longer
        durations = 0
        for frame in range(gif.n_frames):
            gif.seek(frame)
            durations += gif.info["duration"]
    assert durations == pytest.approx(1000 * shown.duration + 600, abs=10 * shown.frames)


def test_the_command_shows_a_task(run, tmp_path):
    assert run("show", "--task", "CRB-T", "--count", 2, "--output", tmp_path).exit_code == 0
    assert (tmp_path / "sheet.png").stat().st_size > 1000


def test_an_unknown_kind_is_refused(run, tmp_path):
    with pytest.raises(ReelspaceError, match="brief"):
        run("show", "--kind", "short", "--output", tmp_path)


def test_help_keeps_its_examples_apart(run):
    lines = [line.strip() for line in run("make", "--help").stdout.splitlines()]
    assert "reelspace worlds make --seed 1 --count 1000 --output worlds/" in lines
