"""What is heard, and when: beeps come out at the times of the frames they were heard with."""

import numpy as np
import pytest

from reelspace.errors import MediaError
from reelspace.media.reader import Reader
from reelspace.media.sound import RATE, _Line
from talks import RATE as WRITTEN
from talks import write_talk

BEEPS = (1.0, 2.5)


@pytest.fixture(scope="module")
def reader():
    with Reader() as opened:
        yield opened


def beeping(seconds, early=0.0):
    """Beeps at `BEEPS` after `early` seconds of silence."""
    samples = np.zeros(round((seconds + early) * WRITTEN), np.float32)
    for beep in BEEPS:
        first = round((beep + early) * WRITTEN)
        samples[first : first + 960] = 0.8 * np.sin(2 * np.pi * 1000 * np.arange(960) / WRITTEN)
    return samples


def heard(reader, path):
    with reader.sound(path) as sound:
        return sound, np.concatenate([np.empty(0, np.int16), *sound.samples])


def starts(samples):
    loud = np.flatnonzero(np.abs(samples.astype(int)) > 4000)
    return [at / RATE for at, before in zip(loud, [-RATE, *loud[:-1]], strict=True) if at - before > RATE // 10]


@pytest.mark.parametrize(
    ("name", "options", "off"),
    [
        ("plain.mp4", {}, 0.003),
        ("late-sound.mp4", {"sound_start": 0.7, "shift": -0.7}, 0.003),
        ("late-picture.mp4", {"video_start": 0.6, "shift": 0.6}, 0.003),
        ("shifted.ts", {"video_start": 3.0, "sound_start": 3.0}, 0.003),
        ("opus.mkv", {"sound_codec": "libopus"}, 0.003),
        ("late.mkv", {"sound_codec": "flac", "video_start": 1.1, "shift": 1.1}, 0.003),
        ("pcm.mov", {"sound_codec": "pcm_s16le", "sound_start": 0.3, "shift": -0.3}, 0.003),
        ("old.avi", {"sound_codec": "mp3", "codec": "mpeg4"}, 0.03),  # says nothing of its encoder's delay
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_sound_keeps_to_the_clock_of_the_frames(tmp_path, reader, name, options, off):
    shift = options.pop("shift", 0.0)
    path = write_talk(tmp_path / name, 4.0, sound=beeping(4.0, early=shift), **options)
    sound, samples = heard(reader, path)
    assert sound.present
    assert starts(samples) == pytest.approx(BEEPS, abs=off)
    assert len(samples) <= 4.1 * RATE
    assert not sound.damaged


def test_sound_ends_with_the_video(tmp_path, reader):
    path = write_talk(tmp_path / "long.mp4", 3.0, sound=beeping(6.0))
    assert len(heard(reader, path)[1]) == pytest.approx(3 * RATE, abs=2)


def test_a_video_without_sound_is_silent_and_says_so(tmp_path, reader):
    path = write_talk(tmp_path / "silent.mp4", 1.0)
    sound, samples = heard(reader, path)
    assert (sound.present, len(samples)) == (False, 0)


def test_the_language_is_what_the_file_says(tmp_path, reader):
    path = write_talk(tmp_path / "de.mp4", 1.0, sound=beeping(3.0), language="deu")
    assert heard(reader, path)[0].language == "deu"


def test_what_cannot_be_read_is_an_error_and_the_reader_goes_on(tmp_path, reader):
    (tmp_path / "junk.mp4").write_bytes(b"junk" * 1000)
    with pytest.raises(MediaError, match="not a video"), reader.sound(tmp_path / "junk.mp4"):
        pass
    assert heard(reader, write_talk(tmp_path / "good.mp4", 1.0, sound=beeping(3.0)))[0].present


def test_damage_in_the_sound_costs_what_is_damaged_only(tmp_path, reader):
    path = write_talk(tmp_path / "damaged.mkv", 4.0, sound=beeping(4.0), sound_codec="flac")
    raw = bytearray(path.read_bytes())
    middle = len(raw) // 2
    raw[middle : middle + 200] = bytes(200)
    path.write_bytes(raw)
    _, samples = heard(reader, path)
    assert len(samples) > RATE


def test_leaving_early_ends_the_decoding(tmp_path, reader):
    path = write_talk(tmp_path / "long.mp4", 40.0, sound=beeping(40.0), fps=1)
    with reader.sound(path) as sound:
        first = next(sound.samples)
    assert len(first) == 30 * RATE
    assert heard(reader, path)[1].size == pytest.approx(40 * RATE, abs=2)


def on_line(*pieces, most=10**9):
    line = _Line(most)
    blocks = [block for at, samples in pieces for block in line.put(at, np.asarray(samples, np.int16))]
    return np.concatenate([np.empty(0, np.int16), *blocks, *line.rest()])


def test_gaps_are_silent_overlaps_are_heard_once_and_what_is_early_is_left_out():
    assert on_line((0.0, [1, 2]), (4 / RATE, [5]), (None, [6])).tolist() == [1, 2, 0, 0, 5, 6]
    assert on_line((0.0, [1, 2, 3]), (1 / RATE, [8, 8, 4])).tolist() == [1, 2, 3, 4]
    assert on_line((-2 / RATE, [7]), (None, [7, 1, 2])).tolist() == [1, 2]
    assert on_line((1e9, [1]), most=5).tolist() == [0] * 5  # a claim of years is no reason to fill memory
