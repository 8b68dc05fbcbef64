"""`make demo`: its commands work, and the samples are found."""

import importlib.util
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reelspace.answers import SearchReport
from reelspace.cli import app

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("demo", ROOT / "samples" / "demo.py")
demo = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(demo)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return tmp_path_factory.mktemp("demo") / "library"


def run(command, library, *more):
    _, *arguments = shlex.split(command)
    return CliRunner().invoke(app, [*arguments, "--library", str(library), *more])


def test_the_demo_runs(library, monkeypatch, capfd):
    monkeypatch.setattr(demo, "LIBRARY", library)
    assert demo.main() == 0
    printed = capfd.readouterr().out
    assert all(f"$ {command}\n" in printed for command in demo.COMMANDS)
    assert printed.count("score  ") == len(demo.COMMANDS) - 1


FOUND = ("cyclists.mp4", "samoyed.mp4", "bunny-trailer.webm", "cockatoo.mp4", None)


@pytest.mark.parametrize(("command", "wanted"), list(zip(demo.COMMANDS[1:], FOUND, strict=True)))
def test_what_the_demo_asks_for_is_found(command, wanted, library, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert run(demo.COMMANDS[0], library).exit_code == 0
    report = SearchReport.model_validate_json(run(command, library, "--json").stdout)
    if wanted is None:
        assert not report.match
    else:
        query = report.query
        best = [Path(hit.path).name for hit in report.hits[: 2 if query.text and query.image else 1]]
        assert wanted in best


def test_the_readme_shows_the_demo():
    page = (ROOT / "README.md").read_text("utf-8")
    shown = [line.removeprefix("$ ") for line in page.splitlines() if line.startswith("$ ")]
    assert shown == [f"export REELSPACE_LIBRARY={demo.LIBRARY}", *demo.COMMANDS]
