import json
from pathlib import Path

import jsonschema
import pytest

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


@pytest.fixture
def videos(footage, tmp_path):
    """A good video, one with a wrong name, and none, in two folders."""
    folder = tmp_path / "videos"
    (folder / "sub").mkdir(parents=True)
    data = (footage / "red.mp4").read_bytes()
    (folder / "good.mp4").write_bytes(data)
    (folder / "sub" / "wrong.mkv").write_bytes(data)
    (folder / "junk.mp4").write_bytes(b"junk" * 100)
    (folder / "notes.txt").write_text("no video")
    return folder


def test_it_lists_what_is_wrong(reelspace, videos):
    done = reelspace("check", videos)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["file", "what", "is", "wrong"]
    assert lines[1].startswith("videos/junk.mp4")
    assert lines[1].endswith("not a video, or damaged where it must not be (its header cannot be read)")
    assert lines[2].startswith("videos/sub/wrong.mkv")
    assert len(lines) == 3
    assert done.stderr == "Checked 3 files, 4.0 s: something is wrong with 2.\n"


def test_nothing_is_wrong(reelspace, videos):
    done = reelspace("check", videos / "good.mp4")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "Checked 1 file, 2.0 s: nothing is wrong.\n")
    assert reelspace("check", videos, "--exclude", "junk*", "--exclude", "sub").exit_code == 0


def test_repair_writes_into_another_folder(reelspace, videos, tmp_path):
    before = sorted((path, path.stat().st_mtime_ns) for path in videos.rglob("*"))
    done = reelspace("check", videos, "--repair", "--output", tmp_path / "mended", "--json")
    assert done.exit_code == 1  # one cannot be mended
    report = json.loads(done.stdout)
    jsonschema.validate(report, json.loads((SCHEMAS / "check.json").read_text("utf-8")))
    junk, wrong = report["faults"]
    assert (junk["readable"], junk["repair"]["how"], junk["repair"]["path"]) == (False, "cannot be mended", None)
    mended = tmp_path / "mended" / "sub" / "wrong.mp4"
    assert wrong["repair"] == {"how": "remuxed", "path": str(mended), "reason": None}
    assert [path for path in (tmp_path / "mended").rglob("*") if path.is_file()] == [mended]
    assert sorted((path, path.stat().st_mtime_ns) for path in videos.rglob("*")) == before
    assert reelspace("check", tmp_path / "mended").exit_code == 0
    done = reelspace("check", videos / "sub", "-o", tmp_path / "fresh", "--repair")
    assert done.exit_code == 0  # all that was wrong is mended
    assert "remuxed: fresh/wrong.mp4" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["none.mp4"], "there is no such file or folder"),
        (["videos", "--repair"], "belong together"),
        (["videos", "-o", "mended"], "belong together"),
        (["videos", "--repair", "-o", "videos/mended"], "choose a folder outside it"),
        (["videos", "--repair", "-o", "videos"], "choose a folder outside it"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_done_is_said(reelspace, videos, arguments, why):
    done = reelspace("check", *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert why in done.stderr


def test_a_pipe_named_as_a_video_is_not_opened(reelspace, tmp_path):
    import os

    (tmp_path / "videos").mkdir()
    os.mkfifo(tmp_path / "videos" / "pipe.mp4")
    assert reelspace("check", "videos").exit_code == 0  # left out, as when indexing
    done = reelspace("check", "videos/pipe.mp4")
    assert done.exit_code == 1
    assert "not a regular file" in done.stdout
