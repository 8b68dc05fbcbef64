import pytest

from reelspace.media.about import Cue, plain
from reelspace.media.reader import Reader
from talks import write_talk


@pytest.fixture(scope="module")
def reader():
    with Reader() as opened:
        yield opened


@pytest.mark.parametrize(("name", "codec"), [("a.mkv", "subrip"), ("a.mp4", "mov_text")])
def test_subtitles_and_chapters_are_on_the_clock_of_the_frames(tmp_path, reader, name, codec):
    path = write_talk(
        tmp_path / name,
        6.0,
        video_start=1.0,
        subtitles=[(0.5, 2.0, "Hello there."), (3.0, 4.5, "Second line")],
        subtitle_codec=codec,
        chapters=[(0.0, 3.0, "Opening"), (3.0, 6.0, "Pricing")],
        metadata={"title": "A talk"},
    )
    about = reader.about(path, subtitles=True)
    (track,) = about.tracks
    assert [cue.text for cue in track.cues] == ["Hello there.", "Second line"]
    assert [time for cue in track.cues for time in (cue.start, cue.end)] == pytest.approx(
        [0.5, 2.0, 3.0, 4.5], abs=0.01
    )
    assert [chapter.text for chapter in about.chapters] == ["Opening", "Pricing"]
    assert [chapter.start for chapter in about.chapters] == pytest.approx([0.0, 3.0], abs=0.01)
    assert about.tags["title"] == "A talk"
    assert reader.about(path).tracks == []  # not asked for


def test_marks_of_subtitles_are_no_words():
    assert plain(r"{\an8}Hello\N<i>there</i> <c.yellow>you</c> 3 < 4") == "Hello\nthere you 3 < 4"
    assert plain("  \n ") == ""


def test_a_cue_knows_its_times():
    assert Cue(0.0, 1.0, "x").end == 1.0
