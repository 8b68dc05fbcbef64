import pytest
from typer.testing import CliRunner

from clips import write_clip
from reelspace.answers import Hit, Query, SearchReport
from reelspace.cli import app
from reelspace.cli.export import Form
from reelspace.export import FORMATS


@pytest.fixture
def found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = str(write_clip(tmp_path / "dog.mp4", seconds=1, fps=25, size=(160, 90)))
    hit = Hit(rank=1, path=path, start=0.2, end=1, score=0.5, video="ab")
    report = SearchReport(query=Query(text=["a dog"]), model="lite", match=True, page=1, hits=[hit])
    (tmp_path / "hits.json").write_text(report.model_dump_json())
    return report.model_dump_json()


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, ["export", *arguments], input=stdin)


def test_the_forms_are_those_of_the_library():
    assert tuple(form.value for form in Form) == FORMATS


@pytest.mark.parametrize("form", FORMATS)
def test_from_a_pipe_and_from_a_file_it_is_the_same(found, form, tmp_path):
    piped = run("--format", form, stdin=found)
    assert piped.exit_code == 0, piped.output
    assert "dog.mp4" in piped.stdout
    written = run("hits.json", "-o", f"out.{form}")
    assert (written.exit_code, written.stdout) == (0, "")
    assert written.stderr == f"out.{form}: 1 hit.\n"
    assert (tmp_path / f"out.{form}").read_bytes().decode() == piped.stdout_bytes.decode()


def test_the_rate_can_be_chosen(found):
    assert "00:00:00:05 00:00:01:00" in run("hits.json", "--format", "edl").stdout
    assert "00:00:00;06 00:00:01;00" in run("hits.json", "--format", "edl", "--fps", "29.97").stdout


def test_nothing_is_overwritten_without_force(found, tmp_path):
    (tmp_path / "out.csv").write_text("mine")
    result = run("hits.json", "-o", "out.csv")
    assert result.exit_code == 2
    assert "is there already" in result.stderr
    assert (tmp_path / "out.csv").read_text() == "mine"
    assert run("hits.json", "-o", "out.csv", "--force").exit_code == 0
    assert (tmp_path / "out.csv").read_text("utf-8-sig").startswith("rank,")


@pytest.mark.parametrize(
    ("arguments", "stdin", "why"),
    [
        (["hits.json"], None, "Which form?"),
        (["hits.json", "-o", "out.doc"], None, "Which form?"),
        (["--format", "csv"], "{}", "standard input: is not what `reelspace search --json` prints"),
        (["--format", "csv"], "", "standard input: is not what"),
        (["gone.json", "--format", "csv"], None, "gone.json: No such file"),
        (["hits.json", "--format", "edl", "--fps", "7"], None, "no timecode at 7"),
    ],
)
def test_what_cannot_be_done_is_said(found, arguments, stdin, why):
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 2
    assert why in result.stderr
