import pytest

from reelspace.errors import ReelspaceError
from reelspace.media.about import Cue
from reelspace.signals.base import Line
from reelspace.signals.subtitles import read
from reelspace.signals.transcript import transcript

LINES = [
    Line(0.0, 1.5, "Hello there, this is a line that is long enough to take two rows", "w"),
    Line(3661.25, 3662.0, "a < b --> c & d", "w", mark="unsure"),
]


def test_subrip():
    assert transcript(LINES, "srt") == (
        "1\n00:00:00,000 --> 00:00:01,500\nHello there, this is a line that is long\nenough to take two rows\n"
        "\n2\n01:01:01,250 --> 01:01:02,000\na < b → c & d [?]\n"
    )


def test_webvtt():
    written = transcript(LINES, "vtt")
    assert written.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nHello there")
    assert written.endswith("\n01:01:01.250 --> 01:01:02.000\na &lt; b → c &amp; d [?]\n")


@pytest.mark.parametrize("form", ["srt", "vtt"])
def test_what_is_written_is_read_back(tmp_path, form):
    lines = [Line(1.0, 2.25, "One.", "w"), Line(2.25, 4.0, "Two.", "w")]
    path = tmp_path / f"a.{form}"
    path.write_text(transcript(lines, form))
    assert read(path, 10.0) == [Cue(1.0, 2.25, "One."), Cue(2.25, 4.0, "Two.")]


def test_an_unknown_form_is_refused():
    with pytest.raises(ReelspaceError, match="srt"):
        transcript([], "doc")
