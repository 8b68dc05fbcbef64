"""Files: byte for byte, whole or not at all, and faithful to what was drawn."""

import io
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from itertools import islice

import av
import numpy as np
import pytest

from reelspace.worlds.film import cached, film, picture_file, write
from reelspace.worlds.render import frames
from reelspace.worlds.sample import FULL, LONG, scenes

CLEAN = replace(FULL, nuisance=0.0)


def decoded(data):
    with av.open(io.BytesIO(data)) as file:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)])


def test_another_process_writes_the_same_bytes():
    code = (
        "from itertools import islice\nfrom hashlib import sha256\nfrom reelspace.worlds.film import film\n"
        "from reelspace.worlds.sample import scenes\n"
        "print([sha256(film(s)).hexdigest() for s in islice(scenes(8), 6)])"
    )
    run = [sys.executable, "-c", code]
    other = subprocess.run(run, check=True, capture_output=True, text=True).stdout.strip()
    assert other == str([sha256(film(scene)).hexdigest() for scene in islice(scenes(8), 6)])


def test_the_file_shows_what_was_drawn():
    for scene in islice(scenes(9, CLEAN), 12):
        drawn, shown = frames(scene), decoded(film(scene))
        assert shown.shape == drawn.shape == (scene.frames, scene.size, scene.size, 3)
        assert np.abs(shown.astype(int) - drawn).mean() < 6


def test_hard_compression_shows():
    scene = next(scenes(9, CLEAN))
    hard = replace(scene, quantiser=45)
    error = [np.abs(decoded(film(one)).astype(int) - frames(scene)).mean() for one in (scene, hard)]
    assert error[1] > 1.5 * error[0]
    assert len(film(hard)) < 0.6 * len(film(scene))


def test_times_and_durations_are_those_of_the_scene():
    scene = next(scenes(2, LONG))
    with av.open(io.BytesIO(film(scene))) as file:
        times = [float(frame.pts * file.streams.video[0].time_base) for frame in file.decode(video=0)]
    assert times == pytest.approx([k / scene.rate for k in range(scene.frames)])


def test_reversed_films_have_reversed_frames():
    for scene in islice(scenes(10), 6):
        assert np.array_equal(decoded(film(scene.reversed())), decoded(film(scene))[::-1])


def test_the_cache_makes_a_file_once(tmp_path):
    scene = next(scenes(1))
    path = cached(scene, tmp_path)
    assert path.read_bytes() == film(scene)
    path.write_bytes(b"kept")
    assert cached(scene, tmp_path).read_bytes() == b"kept"
    assert cached(replace(scene, quantiser=30), tmp_path) != path


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(TypeError):
        write("text", tmp_path / "a.mp4")
    assert list(tmp_path.iterdir()) == []


def test_a_picture_is_the_frame(tmp_path):
    from PIL import Image

    scene = next(scenes(3, LONG))
    at = scene.starts[2] + 3
    assert np.array_equal(np.asarray(Image.open(picture_file(scene, at, tmp_path))), frames(scene)[at])


def test_noise_is_seen_and_is_the_same_for_equal_frames():
    scene = next(s for s in scenes(0) if s.shots[0].noise and not s.shots[0].things[0].acts)
    quiet = replace(scene, shots=(replace(scene.shots[0], noise=0),))
    assert not np.array_equal(frames(scene), frames(quiet))
    assert np.array_equal(frames(scene), frames(scene))
