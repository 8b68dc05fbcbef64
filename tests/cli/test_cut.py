import json

import pytest
from typer.testing import CliRunner

from clips import every_frame, write_clip
from reelspace.answers import Hit, Query, SearchReport
from reelspace.cli import app


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_clip(tmp_path / "dog.mp4", seconds=3, gop=30, size=(160, 90))


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, ["cut", *map(str, arguments)], input=stdin)


def hits(*spans):
    made = [
        Hit(rank=rank, path=str(path), start=start, end=end, score=0.5, video="ab")
        for rank, (path, start, end) in enumerate(spans, start=1)
    ]
    return SearchReport(query=Query(text=["a dog"]), model="lite", match=True, page=1, hits=made).model_dump_json()


def test_a_copy_says_where_it_begins(source, tmp_path):
    result = run("dog.mp4@0:01.5-2", "-o", "out.mp4", "--json")
    assert result.exit_code == 0
    assert result.stderr.startswith("out.mp4: 0:01.0-0:02.")
    assert "(the key frame before 0:01.5)" in result.stderr
    (made,) = json.loads(result.stdout)
    assert made["path"] == str(tmp_path / "out.mp4")
    assert made["start"] == pytest.approx(1.0)
    assert every_frame("out.mp4")[0][0] == 30


def test_an_exact_cut(source):
    result = run("dog.mp4@1.5-2", "-o", "out.mkv", "--exact")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "out.mkv: 0:01.5-0:02.0\n"
    assert every_frame("out.mkv")[0] == list(range(45, 60))


def test_several_go_into_a_folder_and_one_that_fails_ends_nothing(source, tmp_path):
    result = run("dog.mp4@0-1", "gone.mp4@0-1", "dog.mp4@2-3", "-o", "clips/")
    assert result.exit_code == 1
    assert sorted(p.name for p in (tmp_path / "clips").iterdir()) == [
        "01 dog 0m00.00s-0m01.00s.mp4",
        "03 dog 0m02.00s-0m03.00s.mp4",
    ]
    assert "reelspace: gone.mp4: cannot be opened: No such file or directory." in result.stderr


def test_from_hits(source, tmp_path):
    (tmp_path / "hits.json").write_text(hits((source, 0, 1), (source, 2, 3)))
    assert run("--from", "hits.json", "--rank", "2", "-o", "best.mp4", "--exact").exit_code == 0
    assert every_frame("best.mp4")[0] == list(range(60, 90))
    assert run("--from", "-", "-o", "all", stdin=hits((source, 0, 1), (source, 2, 3))).exit_code == 0
    assert len(list((tmp_path / "all").iterdir())) == 2


def test_nothing_is_overwritten_without_force(source):
    assert run("dog.mp4@0-1", "-o", "out.mp4").exit_code == 0
    again = run("dog.mp4@1-2", "-o", "out.mp4")
    assert again.exit_code == 2
    assert (
        again.stderr
        == "reelspace: out.mp4: is there already; choose another name, or allow it to be replaced (--force).\n"
    )
    assert run("dog.mp4@1-2", "-o", "out.mp4", "--force").exit_code == 0
    before = source.read_bytes()
    assert run("dog.mp4@1-2", "-o", "dog.mp4", "--force").exit_code == 2
    assert source.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "nothing to cut"),
        (["--rank", "1"], "--from"),
        (["dog.mp4@2-1", "-o", "o.mp4"], "empty or not a time"),
        (["dog.mp4@0-1", "-o", "o.txt"], "cannot tell the container"),
        (["dog.mp4@0-1", "dog.mp4@1-2", "-o", "o.mp4"], "do not fit in one file"),
        (["--from", "hits.json", "--rank", "7"], "no hit of rank 7 in hits.json; it has 1 to 1"),
        (["--from", "dog.mp4"], "is not what"),
        (["--from", "gone.json"], "gone.json: No such file"),
    ],
)
def test_what_cannot_be_done_is_said(source, tmp_path, arguments, why):
    (tmp_path / "hits.json").write_text(hits((source, 0, 1)))
    result = run(*arguments)
    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stderr.count("\n") == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dog.mp4", "hits.json"]
