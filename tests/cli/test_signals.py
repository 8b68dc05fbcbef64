"""The commands' part in what is said, written and named."""

import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

from clips import Scene, write_clip
from reelspace.answers import SearchReport, TranscriptReport
from reelspace.cli import app
from reelspace.cli.terminal import lasting
from reelspace.signals.base import USUAL_COST
from talks import write_talk

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
SRT = "1\n00:00:00,500 --> 00:00:01,500\nThe ferry leaves at noon.\n"


def schema(name):
    return json.loads((SCHEMAS / f"{name}.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A library of two clips, one of which has subtitles beside it, and what indexing it said."""
    folder = tmp_path_factory.mktemp("told")
    write_clip(folder / "harbour walk.mp4", scenes=[Scene(2, (20, 20, 200))], size=(256, 144), fps=10, barcode=False)
    (folder / "harbour walk.en.srt").write_text(SRT)
    write_talk(folder / "garden.mp4", 2.0, size=(256, 144))
    library = folder / "library"
    arguments = ["index", str(folder), "--signals", "names,speech", "--library", str(library)]
    return CliRunner().invoke(app, arguments), library, folder


@pytest.fixture
def asking(told, reelspace, monkeypatch):
    monkeypatch.setenv("REELSPACE_LIBRARY", str(told[1]))
    return reelspace


def test_index_says_what_signals_cost_before_and_what_they_found_after(told):
    result, _, folder = told
    assert result.exit_code == 0, result.output
    lines = result.stderr.splitlines()
    costs = [number for number, line in enumerate(lines) if " an hour of video (" in line]
    assert [lines[number] for number in costs] == [
        f"{signal}: 4.0 s in 2 videos to look through; at {lasting(3600 * USUAL_COST[signal])} an hour of video (on "
        f"one ordinary core) about {lasting(4 * USUAL_COST[signal])}."
        for signal in ("names", "speech")
    ]
    assert "names: 2 passages in 2 videos." in lines
    assert "speech: 1 passage in 2 videos." in lines
    assert f"note: {folder / 'garden.mp4'}: speech: there is no sound in it" in lines
    assert costs[-1] < lines.index("names: 2 passages in 2 videos.")


def test_a_hit_says_which_signal_found_it_and_shows_the_words(asking):
    result = asking("search", "when does the boat leave", "--by", "said")
    assert result.exit_code == 0, result.output
    assert "said" in result.stdout
    assert "“The ferry leaves at noon.” (harbour walk.en.srt)" in result.stdout

    report = asking("search", '"ferry leaves"', "--json")
    jsonschema.validate(json.loads(report.stdout), schema("search"))
    parsed = SearchReport.model_validate_json(report.stdout)
    assert (parsed.match, parsed.by) == (True, ["seen", "said", "named"])
    said = next(one for one in parsed.hits[0].found if one.by == "said")
    assert (said.text, said.start, said.end) == ("The ferry leaves at noon.", 0.5, 1.5)
    assert "Nothing fits" not in result.stdout
    assert asking("search", '"leaves ferry"').stderr == "Nothing fits these words.\n"


def test_a_transcript_is_exported(asking, told, tmp_path):
    video = told[2] / "harbour walk.mp4"
    assert asking("transcript", video, "--format", "srt").stdout == SRT
    result = asking("transcript", video, "-o", "talk.vtt")
    assert (result.exit_code, (tmp_path / "talk.vtt").read_text()[:6]) == (0, "WEBVTT")
    assert asking("transcript", video, "-o", "talk.vtt").exit_code == 2
    result = asking("transcript", video, "--format", "json")
    jsonschema.validate(json.loads(result.stdout), schema("transcript"))
    report = TranscriptReport.model_validate_json(result.stdout)
    assert (report.path, report.language, report.lines[0].source) == (str(video), "en", "harbour walk.en.srt")
    assert asking("transcript", video, "--format", "srt", "--language", "de").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["index", "--signals", "smell"], "smell"),
        (["search", "x", "--by", "written"], "--signals ocr"),
        (["search", "x", "--by", "felt"], "felt"),
        (["transcript", "garden.mp4"], "Which form"),
        (["transcript", "nowhere.mp4", "--format", "srt"], "not indexed"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_refused(asking, arguments, why):
    result = asking(*arguments)
    assert result.exit_code == 2
    assert why in result.stderr


def test_status_tells_how_far_signals_are(asking):
    lines = asking("status").stdout.splitlines()
    assert [" ".join(line.split()) for line in lines if line.startswith(("names", "speech"))] == [
        "names 2 0 2 kept up to date",
        "speech 2 0 1 kept up to date",
    ]
