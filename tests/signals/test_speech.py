"""What is said, heard by the packaged Whisper model in synthetic speech."""

import re

import numpy as np
import pytest

from reelspace.media.reader import Reader
from reelspace.media.sound import RATE as HEARD
from reelspace.signals import speech
from reelspace.signals.base import SignalError
from reelspace.signals.speech import Speech
from speech import RATE, at_times, speak
from talks import write_talk

FIRST = "Welcome to the quarterly review."
SECOND = "In this part we talk about pricing and discounts for students."


@pytest.fixture(scope="module")
def finder():
    return Speech()


@pytest.fixture(scope="module")
def reader():
    with Reader() as opened:
        yield opened


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    """A minute of which somebody speaks at 2 s and at 40 s."""
    sound = at_times([(2.0, speak(FIRST)), (40.0, speak(SECOND))], 60.0)
    return write_talk(tmp_path_factory.mktemp("talk") / "talk.mp4", 60.0, sound=sound, sound_rate=RATE, fps=1)


def find(finder, reader, path, duration):
    done = []
    return finder.find(path, duration, [], reader, done.append), done


def words(text):
    return re.findall(r"[a-z]+", text.lower())


def test_what_is_said_is_heard_when_it_is_said_and_silence_costs_no_words(finder, reader, talk):
    found, done = find(finder, reader, talk, 60.0)
    first, second = found.lines
    assert {"welcome", "quarterly", "review"} <= set(words(first.text))
    assert {"talk", "about", "pricing", "students"} <= set(words(second.text))
    assert first.start == pytest.approx(2.0, abs=0.5)
    assert second.start == pytest.approx(40.0, abs=0.5)
    assert second.end <= 40.0 + len(speak(SECOND)) / RATE + 0.5
    assert (found.language, first.source, first.mark) == ("en", "whisper tiny.en", None)
    assert 0 < first.confidence <= 1
    assert [part.text for part in first.parts] == first.text.split()
    times = [time for part in second.parts for time in (part.start, part.end)]
    assert times == sorted(times)
    assert [(p.start, p.source) for p in found.passages] == [(first.start, first.source), (second.start, second.source)]
    assert done[-1] == pytest.approx(1.0, abs=0.01)


def test_blocks_end_where_nobody_speaks_and_lose_no_word(finder, monkeypatch):
    monkeypatch.setattr(speech, "BLOCK", 10 * HEARD)
    sound = at_times([(8.2, speak(SECOND))], 20.0)  # in the middle of which a block would end
    count = round(len(sound) * HEARD / RATE)
    samples = np.interp(np.arange(count) * RATE / HEARD, np.arange(len(sound)), sound)
    pieces = np.array_split((samples * 32767).astype(np.int16), 9)
    lines = [line for every, _ in finder._blocks(iter(pieces)) for line in every]
    heard = words(" ".join(line.text for line in lines))
    assert {"part", "talk", "about", "pricing", "students"} <= set(heard)
    assert heard.count("pricing") == 1
    assert lines[0].start == pytest.approx(8.3, abs=0.5)


def test_noise_and_music_are_no_words(finder):
    rng, time = np.random.default_rng(0), np.arange(6 * HEARD) / HEARD
    noise = (rng.standard_normal(6 * HEARD) * 1500).astype(np.int16)
    music = sum(np.sin(2 * np.pi * pitch * k * time) / k for pitch in (262, 330, 392) for k in (1, 2, 3))
    music = (music * np.exp(-(time % 0.5) * 4) * 3000).astype(np.int16)
    for sound in (noise, music, np.zeros(HEARD, np.int16)):
        lines = [line for every, _ in finder._blocks(iter([sound])) for line in every]
        assert [line for line in lines if line.mark is None] == []


def test_subtitles_are_used_before_anything_is_heard(finder, reader, talk, tmp_path, monkeypatch):
    def listen(*_):
        raise AssertionError("it was listened to")

    monkeypatch.setattr(finder, "_heard", listen)
    path = write_talk(tmp_path / "a.mkv", 5.0, subtitles=[(1.0, 2.0, "Inside")], subtitle_codec="subrip", fps=2)
    found, _ = find(finder, reader, path, 5.0)
    assert [(line.text, line.source) for line in found.lines] == [("Inside", "subtitles 1")]
    before = finder.version(path)
    (tmp_path / "a.de.srt").write_text("1\n00:00:01,000 --> 00:00:02,000\nDaneben\n")
    assert Speech().version(path) != before  # the next run's
    found, _ = find(finder, reader, path, 5.0)
    first = found.lines[0]
    assert (first.text, first.source, first.language) == ("Daneben", "a.de.srt", "de")
    assert {passage.text for passage in found.passages} == {"Inside", "Daneben"}


def test_a_silent_video_says_so(finder, reader, tmp_path):
    found, _ = find(finder, reader, write_talk(tmp_path / "s.mp4", 1.0), 1.0)
    assert (list(found.lines), found.note) == ([], "there is no sound in it")


def test_a_language_the_model_does_not_know_is_not_guessed_at(finder, reader, tmp_path):
    sound = at_times([(0.5, speak("Guten Tag.", "de"))], 2.0)
    path = write_talk(tmp_path / "de.mp4", 2.0, sound=sound, sound_rate=RATE, language="deu")
    found, _ = find(finder, reader, path, 2.0)
    assert (list(found.lines), found.language) == ([], "deu")
    assert "knows English only" in found.note


def test_another_model_is_named_by_its_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(speech.WHISPER, str(tmp_path))
    with pytest.raises(SignalError, match=r"model\.bin"):
        Speech()
    (tmp_path / "model.bin").write_bytes(b"no model")
    finder = Speech()
    assert finder.name == f"whisper {tmp_path.name}"
    with pytest.raises(SignalError, match="can be loaded"):
        finder._model  # noqa: B018
