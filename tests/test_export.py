import csv
import io
import json
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from clips import write_clip
from reelspace.answers import Hit, Query, SearchReport
from reelspace.errors import MediaError
from reelspace.export import FORMATS, RATES, ExportError, export, frame_rate, standard_rate, timecode

if sys.version_info < (3, 14):
    import opentimelineio as otio
reads_back = pytest.mark.skipif(sys.version_info >= (3, 14), reason="OpenTimelineIO has no build for this Python")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("videos")
    for name, fps in (("a", 25), ("b é 猫", 25), ("ntsc", Fraction(30000, 1001)), ("odd", 15)):
        write_clip(made / f"{name}.mp4", seconds=4, fps=fps, size=(160, 90))
    write_clip(made / "vfr.mp4", times=[0, 0.1, 0.15, 0.9, 1, 1.01, 2], size=(160, 90))
    (made / "junk.mp4").write_bytes(b"junk")
    return made


def report(*hits, text="a dog"):
    made = [
        Hit(rank=rank, path=str(path), start=start, end=end, score=0.5 / rank, video="ab", matched={"text": 0.25})
        for rank, (path, start, end) in enumerate(hits, start=1)
    ]
    return SearchReport(query=Query(text=[text]), model="lite", match=True, page=1, hits=made)


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_of_nothing_is_well_formed(form):
    text = export(report(), form)
    assert text.endswith("\n")
    if form == "otio":
        assert json.loads(text)["tracks"]["children"][0]["children"] == []
    if form == "csv":
        assert list(csv.reader(io.StringIO(text.lstrip("\ufeff")))) == [
            ["rank", "path", "start", "end", "score", "video"]
        ]


def test_an_unknown_form_is_refused():
    with pytest.raises(ExportError, match="json, csv, otio, edl, m3u"):
        export(report(), "xml")


def test_json_comes_back_as_it_was(folder):
    given = report((folder / "a.mp4", 1, 2.5))
    assert SearchReport.model_validate_json(export(given, "json")) == given


def test_csv_survives_a_spreadsheet():
    names = ['/v/comma, "quote".mp4', "/v/line\nbreak.mp4", "/v/猫.mp4", "=cmd()", "@x"]
    text = export(report(*((name, 1, 2.5) for name in names)), "csv")
    assert text.encode().startswith(b"\xef\xbb\xbfrank,path,start,end,score,video,matched text\r\n")
    rows = list(csv.DictReader(io.StringIO(text.lstrip("\ufeff"), newline="")))
    assert [row["path"] for row in rows] == [*names[:3], "'=cmd()", "'@x"]
    assert (rows[0]["start"], rows[0]["end"], rows[0]["score"], rows[0]["matched text"]) == (
        "1.0",
        "2.5",
        "0.5",
        "0.25",
    )


def test_m3u_gives_vlc_the_moments_and_every_name_is_one_line():
    lines = export(report(("/v/a b.mp4", 1.5, 4), ("/v/line\nbreak 猫\udcff.mp4", 0, 0.2)), "m3u").splitlines()
    assert lines == [
        "#EXTM3U",
        "#EXTINF:2,1. a b.mp4 1.5-4 s",
        "#EXTVLCOPT:start-time=1.500",
        "#EXTVLCOPT:stop-time=4.000",
        "file:///v/a%20b.mp4",
        "#EXTINF:1,2. line break 猫\udcff.mp4 0-0.2 s",
        "#EXTVLCOPT:start-time=0.000",
        "#EXTVLCOPT:stop-time=0.200",
        "file:///v/line%0Abreak%20%E7%8C%AB%FF.mp4",
    ]


@reads_back
def test_otio_is_read_by_opentimelineio(folder):
    hits = [(folder / "a.mp4", 1.0, 2.52), (folder / "ntsc.mp4", 0.5, 1.5), (folder / "vfr.mp4", 0.15, 1.0)]
    timeline = otio.adapters.read_from_string(export(report(*hits), "otio"), "otio_json")
    assert timeline.name == "a dog"
    clips = list(timeline.find_clips())
    assert [clip.name for clip in clips] == ["a.mp4", "ntsc.mp4", "vfr.mp4"]
    ranges = [clip.source_range for clip in clips]
    assert ranges[0] == otio.opentime.TimeRange(otio.opentime.RationalTime(25, 25), otio.opentime.RationalTime(38, 25))
    assert ranges[1].start_time.value == 15
    assert ranges[1].start_time.rate == pytest.approx(29.97, abs=0.001)
    assert (ranges[2].start_time.value, ranges[2].start_time.rate) == (150, 1000)
    assert clips[0].media_reference.target_url == (folder / "a.mp4").as_uri()
    assert clips[1].metadata["reelspace"]["score"] == 0.25
    assert timeline.metadata["reelspace"]["model"] == "lite"
    assert timeline.duration().to_seconds() == pytest.approx(1.52 + 1 + 0.85, abs=0.05)
    again = otio.adapters.write_to_string(timeline, "otio_json")
    assert json.loads(again)["OTIO_SCHEMA"] == "Timeline.1"


@reads_back
def test_a_hit_whose_file_is_gone_still_has_its_place_in_otio():
    timeline = otio.adapters.read_from_string(export(report(("/gone/x.mp4", 1, 2.5)), "otio"), "otio_json")
    assert next(iter(timeline.find_clips())).source_range.duration.to_seconds() == pytest.approx(1.5)


def read_edl(text, rate):
    timeline = otio.adapters.read_from_string(text, "cmx_3600", rate=float(rate))
    return list(timeline.find_clips())


@reads_back
def test_an_edl_is_read_back(folder):
    hits = [(folder / "a.mp4", 1.0, 2.52), (folder / "b é 猫.mp4", 0, 3.2)]
    text = export(report(*hits, text="dog\nFCM: DROP FRAME"), "edl")
    assert text.splitlines()[:4] == [
        "TITLE: dog FCM: DROP FRAME",
        "FCM: NON-DROP FRAME",
        "",
        "001  AX       V     C        00:00:01:00 00:00:02:13 01:00:00:00 01:00:01:13",
    ]
    clips = read_edl(text, 25)
    assert [clip.name for clip in clips] == ["a.mp4", "b é 猫.mp4"]
    assert [clip.source_range.start_time.value for clip in clips] == [25, 0]
    assert [clip.source_range.duration.value for clip in clips] == [38, 80]


@reads_back
def test_a_drop_frame_edl_is_read_back(folder):
    text = export(report((folder / "ntsc.mp4", 1, 2), ("/v/elsewhere.mp4", 600, 661)), "edl", Fraction(30000, 1001))
    assert "FCM: DROP FRAME" in text
    assert "01:00:00;00" in text
    clips = read_edl(text, Fraction(30000, 1001))
    assert [clip.source_range.start_time.value for clip in clips] == [30, 17982]
    assert [clip.source_range.duration.value for clip in clips] == [30, 1828]


def test_an_edl_without_one_rate_is_refused_until_it_is_chosen(folder):
    mixed = report((folder / "a.mp4", 1, 2), (folder / "ntsc.mp4", 1, 2))
    with pytest.raises(ExportError, match=r"a\.mp4 25; ntsc\.mp4 29\.97.*--fps"):
        export(mixed, "edl")
    with pytest.raises(ExportError, match=r"vfr\.mp4 variable.*--fps"):
        export(report((folder / "vfr.mp4", 0, 1)), "edl")
    with pytest.raises(ExportError, match=r"no timecode at 15 .*--fps"):
        export(report((folder / "odd.mp4", 0, 1)), "edl")
    with pytest.raises(MediaError, match=r"junk\.mp4: not a video"):
        export(report((folder / "junk.mp4", 0, 1)), "edl")
    assert export(mixed, "edl", Fraction(25)).count("FROM CLIP NAME") == 2
    with pytest.raises(ExportError, match="999"):
        export(report(*[(folder / "a.mp4", 0, 1)] * 1000), "edl", Fraction(25))


def test_rates(folder):
    rates = [frame_rate(folder / f"{name}.mp4") for name in ("a", "ntsc", "odd", "vfr")]
    assert rates == [25, Fraction(30000, 1001), 15, None]
    assert standard_rate(29.97) == Fraction(30000, 1001)
    assert standard_rate(Fraction("23.98")) == Fraction(24000, 1001)
    assert standard_rate(12.5) == Fraction(25, 2)
    assert [standard_rate(rate) for rate in RATES] == list(RATES)


@reads_back
@pytest.mark.parametrize("rate", RATES, ids=lambda rate: f"{float(rate):.5g}")
def test_timecode_is_that_of_opentimelineio(rate):
    drop = round(rate) in (30, 60) and rate.denominator == 1001
    tricky = [0, 1, 1799, 1800, 1801, 3597, 3600, 17981, 17982, 17983, 35964, 107892, 215784]
    for frame in [*tricky, *range(0, 1_000_000, 9973)]:
        expected = otio.opentime.RationalTime(frame, float(rate)).to_timecode(float(rate), drop)
        assert timecode(frame, rate) == expected


def test_paths_of_hits_are_absolute_in_the_forms(folder):
    path = Path(folder / "a.mp4")
    for form in FORMATS:
        assert "a.mp4" in export(report((path, 0, 1)), form)
