"""Finding the shots and taking their frames is one pass, and what comes of it is as if it were two."""

from pathlib import Path

import numpy as np
import pytest

from clips import Scene, write_clip
from reelspace.media import foresight
from reelspace.media.decode import Video
from reelspace.media.kept import Kept
from reelspace.media.policy import Centres, Sampling, Uniform
from reelspace.media.shots import shot_cuts
from reelspace.media.windows import Shots, Window
from reelspace.media.worker import _Windows

SCENES = [Scene(3, seed=1, pan=0.02), Scene(2.5, seed=2), Scene(1, seed=3), Scene(4, seed=4), Scene(14, seed=5)]
WINDOWS = [(0, 3), (3, 5.5), (5.5, 10.5), (10.5, 17.5), (17.5, 24.5)]
SAMPLING = Sampling(Centres(4), edge=64)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """Five shots; no key frame at any cut."""
    path = tmp_path_factory.mktemp("clips") / "five.mp4"
    return write_clip(path, scenes=SCENES, gop=250, bframes=3, barcode=False)


@pytest.fixture(scope="module")
def with_keys(tmp_path_factory):
    """The same shots with a key frame at every cut."""
    path, options = tmp_path_factory.mktemp("clips") / "keys.mp4", {"sc_threshold": "40", "keyint_min": "5"}
    return write_clip(path, scenes=SCENES, gop=250, bframes=3, options=options, barcode=False)


def _read(path, sampling=SAMPLING, windowing="shots"):
    """The windows that one pass gives, and the indices of frames that it decodes once more."""
    again = []
    with Video(path, through=True, keys=windowing.startswith("fast")) as video:
        read = video._read

        def noting(indices, edge):
            again.extend(np.asarray(indices).tolist())
            return read(indices, edge)

        video._read = noting
        windows = _Windows(windowing, sampling, video)
        return list(video.samples(windows, sampling, windows.kept)), again


def _in_two(path, sampling=SAMPLING):
    with Video(path) as video:
        windows = Shots().windows(video.duration, shot_cuts(video))
        return list(video.samples(windows, sampling))


def _assert_same(some, others):
    assert [(frames.start, frames.end) for frames in some] == [(frames.start, frames.end) for frames in others]
    for one, other in zip(some, others, strict=True):
        assert np.array_equal(one.pixels, other.pixels)
        assert np.array_equal(one.times, other.times)


@pytest.mark.parametrize("sampling", [SAMPLING, Sampling(Uniform(3))], ids=str)
@pytest.mark.parametrize("name", ["clip", "with_keys"])
def test_no_frame_is_decoded_twice_where_packets_tell_of_cuts(request, name, sampling):
    path = request.getfixturevalue(name)
    found, again = _read(path, sampling)
    assert [(frames.start, frames.end) for frames in found] == WINDOWS
    assert sampling != SAMPLING or not again
    _assert_same(found, _in_two(path, sampling))


def test_footage_has_the_same_shots_in_one_pass_as_in_two():
    """Its one cut differs by about as much as a cut must: smoothed or not, it is found or missed."""
    path = Path(__file__).parents[2] / "samples" / "cyclists.mp4"
    found, _ = _read(path)
    assert [round(frames.start, 2) for frames in found] == [0, 2.56]
    _assert_same(found, _in_two(path))


def test_of_key_frames_none_is_decoded_twice(with_keys):
    found, again = _read(with_keys, windowing="fast shots")
    assert again == []
    with Video(with_keys, keys=True) as video:
        windows = [Window(frames.start, frames.end) for frames in found]
        assert len(windows) == 4
        _assert_same(found, list(video.samples(windows, SAMPLING)))


def test_a_guess_that_fails_costs_time_and_nothing_else(clip, monkeypatch):
    monkeypatch.setattr(foresight, "_likely_ends", lambda video: [[1.0, 1.1], [2.7], [20.0]])
    found, again = _read(clip)
    assert len(again) > 8
    _assert_same(found, _in_two(clip))


@pytest.mark.parametrize("room", [0, 100_000, 400_000])
def test_where_there_is_no_room_frames_are_decoded_again(clip, monkeypatch, room):
    monkeypatch.setattr(Kept.__init__, "__defaults__", ((), room))
    found, again = _read(clip)
    assert (len(again) == 20) == (room == 0)
    _assert_same(found, _in_two(clip))


def test_windows_come_while_the_rest_is_being_decoded(clip):
    """So memory does not grow with the length of a film, and the first windows are there at once."""
    with Video(clip, through=True) as video:
        windows = _Windows("shots", SAMPLING, video)
        first = next(video.samples(windows, SAMPLING, windows.kept))
        assert (first.start, first.end) == WINDOWS[0]
        assert max(windows.kept._frames | windows.kept._pictures) < 200  # of 735


def test_what_is_seen_does_not_depend_on_what_is_kept(clip):
    with Video(clip) as video:
        plain = [seen.time for seen in video.skim()]
        kept = video.keeping(SAMPLING, range(0, len(video.times), 3))
        beside = [seen.time for seen in video.skim(kept=kept) if seen.beside]
        assert [seen.time for seen in video.skim(kept=video.keeping(SAMPLING)) if not seen.beside] == plain
        assert beside
        assert not set(beside) & set(plain)
        assert all(index in kept for index in kept.wanted)


def test_very_many_windows_of_one_shot_are_foreseen_a_few_at_a_time(clip, monkeypatch):
    monkeypatch.setattr(foresight, "_likely_ends", lambda video: [])
    with Video(clip) as video:
        kept = video.keeping(SAMPLING)
        seer = foresight.Foresight(video, Shots(0, 0.1), SAMPLING, kept)
        assert max(kept.wanted) < (foresight.AHEAD + 1) * 30
        seer.passes(20.0)
        assert max(kept.wanted) > 700
