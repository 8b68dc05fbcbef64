import os
import time

import pytest

from reelspace.media.about import Cue, Track
from reelspace.signals.subtitles import beside, lines_of, read, sounds

SRT = "1\n00:00:01,000 --> 00:00:02,500\n<i>Hello</i> there.\nFriend\n\n2\n00:01:00,000 --> 00:01:01,000\nBye\n"


def cues(path, text, encoding="utf-8", duration=100.0):
    path.write_text(text, encoding)
    return [(cue.start, cue.end, cue.text) for cue in read(path, duration)]


def test_subrip(tmp_path):
    assert cues(tmp_path / "a.srt", SRT) == [(1.0, 2.5, "Hello there.\nFriend"), (60.0, 61.0, "Bye")]
    assert cues(tmp_path / "b.srt", SRT.replace("\n", "\r\n")) == cues(tmp_path / "a.srt", SRT)


def test_webvtt(tmp_path):
    text = "WEBVTT\n\nNOTE a remark\n\nid\n00:01.500 --> 00:02.000 align:start\n<v Ann>Hello <00:01.700>you\n\n"
    assert cues(tmp_path / "a.vtt", text) == [(1.5, 2.0, "Hello you")]


def test_substation_alpha(tmp_path):
    text = (
        "[Script Info]\nTitle: x\n[Events]\nFormat: Layer, Start, End, Style, Text\n"
        "Dialogue: 0,0:00:01.00,0:00:02.50,Default,{\\i1}Well, hello{\\i0}\\Nyou\n"
        "Comment: 0,0:00:03.00,0:00:04.00,x,no\n"
    )
    assert cues(tmp_path / "a.ass", text) == [(1.0, 2.5, "Well, hello\nyou")]


@pytest.mark.parametrize(
    ("language", "encoding", "said"),
    [
        ("ru", "cp1251", "Мы закрыты из-за бури"),
        ("rus", "cp1251", "Мы закрыты из-за бури"),
        (None, "cp1251", "Мы закрыты из-за бури. Приходите завтра утром"),
        ("pl", "cp1250", "Zażółć gęślą jaźń"),
        ("el", "cp1253", "Το λιμάνι είναι κλειστό"),
        ("tr", "cp1254", "Fırtına yüzünden kapalı"),
        ("ja", "cp932", "嵐のため閉まっています"),
        (None, "cp932", "嵐のため閉まっています"),
        (None, "euc_jp", "嵐のため閉まっています"),
        (None, "cp949", "폭풍 때문에 문을 닫았습니다"),
        (None, "gb18030", "因为暴风雨我们关门了"),
        ("zh-tw", "big5", "因為暴風雨我們關門了"),
        (None, "cp1252", "Der Hafen ist wegen Überschwemmung geschlossen"),
        ("de", "cp1252", "ÄÖÜ äöü ß"),
        (None, "utf-16-le", "Мы закрыты из-за бури"),
        (None, "utf-16-be", "Closed because of the storm"),
    ],
)
def test_what_is_no_unicode_is_read_as_its_language_was_written(tmp_path, language, encoding, said):
    path = tmp_path / (f"talk.{language}.srt" if language else "talk.srt")
    path.write_bytes("".join(f"{n}\n00:00:0{n},000 --> 00:00:0{n},900\n{said}\n\n" for n in range(4)).encode(encoding))
    lines = next(iter(lines_of(beside(tmp_path / "talk.mp4"), [], 10.0).values()))
    assert [line.text for line in lines] == [said]  # what is said again is told once


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_any_common_encoding(tmp_path, encoding):
    assert cues(tmp_path / "a.srt", "1\n00:00:01,000 --> 00:00:02,000\nCafé über\n", encoding)[0][2] == "Café über"


def test_what_lies_beyond_the_video_or_makes_no_sense_is_left_out(tmp_path):
    spans = (("01", "09", "long"), ("08", "09", "beyond"), ("03", "02", "back"))
    text = "".join(f"00:00:{start},000 --> 00:00:{end},000\n{words}\n\n" for start, end, words in spans)
    assert cues(tmp_path / "a.srt", text, duration=5.0) == [(1.0, 5.0, "long")]
    assert cues(tmp_path / "b.srt", "no subtitles at all") == []


CUE = "00:00:01,000 --> 00:00:02,000\n"


@pytest.mark.parametrize(
    ("name", "text", "most"),
    [
        ("a.srt", "\n" * 400_000, 0),
        ("a.srt", " " * 400_000 + "\n" + CUE + "words", 1),
        ("a.srt", "9" * 400_000 + CUE, 0),
        ("a.srt", CUE * 30_000, 0),
        ("a.srt", (CUE + "word\n") * 30_000, 30_000),
        ("a.srt", CUE + "{\\" * 400_000, 1),
        ("a.srt", CUE + "<a " * 400_000, 1),
        ("a.vtt", CUE + "<1:" * 400_000, 1),
        ("a.ass", "Format: Start, End, Text" + ", x" * 400_000 + "\nDialogue: 0\n" * 2000, 0),
        ("a.ass", "Dialogue: 0," + "9" * 400_000 + ":00:01.00,0:00:02.00,a,b,0,0,0,,x", 0),
        ("a.ass", "Dialogue: 0,0:00:01.00,0:00:02.00,a,b,0,0,0,,x\n" * 30_000, 30_000),
    ],
)
def test_a_file_made_to_be_slow_is_read_in_no_time(tmp_path, name, text, most):
    begun = time.process_time()
    assert len(cues(tmp_path / name, text)) <= most
    assert time.process_time() - begun < 5  # each took minutes


def test_no_more_cues_are_taken_than_anybody_can_read(tmp_path):
    (tmp_path / "film.srt").write_text((CUE + "a word\n\n" + CUE + "another\n\n") * 10_000)
    lines = lines_of(beside(tmp_path / "film.mp4"), [], 4.0)["film.srt"]
    assert len(lines) == 1080
    rows = "\n".join(map(str, range(5_000)))
    begun = time.process_time()
    (track,) = lines_of(
        [], [Track(2, "subrip", None, None, False, [Cue(0, 1, rows), Cue(1, 2, rows)] * 20)], 4.0
    ).values()
    assert len(track) == 1
    assert time.process_time() - begun < 5


def test_files_beside_a_video_are_known_by_their_names(tmp_path):
    for name in (
        "talk.srt",
        "talk.en.vtt",
        "talk.pt-BR.srt",
        "talk.en.forced.srt",
        "talk.mp4.ass",
        "talk.part2.srt",
        "talks.srt",
    ):
        (tmp_path / name).write_text(SRT)
    (tmp_path / "talk.fr.srt").mkdir()
    (tmp_path / "talk.it.srt").write_text("")
    found = {one.path.name: (one.language, one.forced) for one in beside(tmp_path / "talk.mp4")}
    assert found == {
        "talk.srt": (None, False),
        "talk.en.vtt": ("en", False),
        "talk.pt-BR.srt": ("pt-br", False),
        "talk.en.forced.srt": ("en", True),
        "talk.mp4.ass": (None, False),
    }
    before = beside(tmp_path / "talk.mp4")
    os.utime(tmp_path / "talk.srt", (1, 1))
    assert [one.stamp for one in before] != [one.stamp for one in beside(tmp_path / "talk.mp4")]


def test_a_pipe_in_place_of_a_file_makes_nothing_wait(tmp_path):
    os.mkfifo(tmp_path / "talk.srt")
    assert beside(tmp_path / "talk.mp4") == []
    assert read(tmp_path / "talk.srt", 10.0) == []


def track(language, *texts, forced=False, number=2):
    return Track(number, "subrip", language, None, forced, [Cue(n, n + 1.0, text) for n, text in enumerate(texts)])


def test_one_of_each_language_is_taken_the_file_beside_first(tmp_path):
    (tmp_path / "talk.en.srt").write_text(SRT)
    tracks = [track("eng", "inside"), track("fra", "dedans", number=3), track("deu", "Schild", forced=True, number=4)]
    found = lines_of(beside(tmp_path / "talk.mp4"), tracks, 100.0)
    assert {source: lines[0].language for source, lines in found.items()} == {
        "talk.en.srt": "en",
        "subtitles 3 (fra)": "fra",
    }
    assert lines_of([], [track(None)], 100.0) == {}  # pictures: nothing to read


def test_captions_that_roll_are_told_once():
    found = lines_of([], [track("eng", "one", "one\ntwo", "two\nthree")], 100.0)["subtitles 2 (eng)"]
    assert [line.text for line in found] == ["one", "two", "three"]


def test_notes_on_sounds_are_marked_and_words_are_not():
    marks = {
        text: sounds(text)
        for text in ("[Applause]", "(upbeat music)", "♪ I will survive ♪", "♪♪", "...", "Hello (there)")
    }
    assert list(marks.values()) == ["sound", "music", "sung", "music", "sound", None]
