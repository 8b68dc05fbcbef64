import numpy as np
import pytest

from clips import Scene, write_clip
from reelspace.media.decode import Video
from reelspace.media.shots import shot_cuts

SCENES = [Scene(1.5, seed=10 + number, pan=0.03) for number in range(4)]


def _cuts(path):
    with Video(path) as video:
        return shot_cuts(video)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("plain.mp4", {}),
        ("no-key-frames-at-cuts.mp4", {"gop": 250, "bframes": 3}),
        ("hevc.mkv", {"codec": "libx265", "gop": 250}),
        ("vp9.webm", {"codec": "libvpx-vp9", "gop": 250}),
        ("ten-bit.mkv", {"codec": "libx265", "pix_fmt": "yuv420p10le"}),
        ("rotated.mov", {"rotation": 90}),
        ("slow.mkv", {"fps": 5}),
        ("stream.ts", {"start": 2.0}),
        ("animation.gif", {"codec": "gif", "pix_fmt": "rgb8", "fps": 10}),
    ],
)
def test_a_cut_is_where_the_first_frame_of_a_shot_is_shown(tmp_path, name, settings):
    path = write_clip(tmp_path / name, scenes=SCENES, barcode=False, **settings)
    with Video(path) as video:
        expected = [float(video.times[int(np.searchsorted(video.times, cut - 0.002))]) for cut in (1.5, 3.0, 4.5)]
        assert shot_cuts(video) == pytest.approx(expected)


@pytest.mark.parametrize("size", [(320, 180), (1280, 720)])
def test_motion_is_no_cut(tmp_path, size):
    pan = write_clip(tmp_path / "pan.mp4", scenes=[Scene(3.0, seed=1, pan=0.8)], size=size, barcode=False)
    assert _cuts(pan) == []


def test_a_still_picture_and_noise_have_no_cuts(tmp_path):
    noise = np.random.default_rng(0)

    def draw(number, time):
        return noise.integers(90, 160, (90, 160, 3), dtype=np.uint8)

    assert _cuts(write_clip(tmp_path / "still.mp4", scenes=[Scene(3.0, seed=1)], barcode=False)) == []
    assert _cuts(write_clip(tmp_path / "noise.mp4", draw=draw, size=(160, 90), barcode=False)) == []


def test_a_flash_is_no_cut(tmp_path):
    scene = Scene(4.0, seed=3, pan=0.02)

    def draw(number, time):
        picture = scene.draw(time, 320, 180)
        return np.full_like(picture, 250) if 40 <= number < 43 else picture

    assert _cuts(write_clip(tmp_path / "flash.mp4", seconds=4, draw=draw, barcode=False)) == []


def test_a_cut_beside_a_flash_is_found(tmp_path):
    def draw(number, time):
        picture = Scene(seed=3 if number < 60 else 4).draw(time, 320, 180)
        return np.full_like(picture, 250) if 30 <= number < 32 else picture

    assert _cuts(write_clip(tmp_path / "both.mp4", seconds=4, draw=draw, barcode=False)) == [2.0]


def test_a_fade_through_black_is_one_cut_in_the_black(tmp_path):
    def draw(number, time):
        picture = Scene(seed=3 if time < 2 else 4).draw(time, 320, 180)
        light = np.clip((abs(time - 2) - 0.2) / 0.6, 0, 1)  # out from 1.2 to 1.8 s, black, in from 2.2 to 2.8 s
        return (picture * light).astype(np.uint8)

    (cut,) = _cuts(write_clip(tmp_path / "fade.mp4", seconds=4, draw=draw, barcode=False))
    assert 1.8 <= cut <= 2.2


def test_fading_in_at_the_start_and_out_at_the_end_is_no_cut(tmp_path):
    def draw(number, time):
        light = np.clip(min(time, 4 - time), 0, 1)
        return (Scene(seed=5).draw(time, 320, 180) * light).astype(np.uint8)

    assert _cuts(write_clip(tmp_path / "in-out.mp4", seconds=4, draw=draw, barcode=False)) == []


def test_cuts_of_an_edited_file_count_from_its_first_displayed_frame(tmp_path):
    from clips import cut_by_edit_list

    whole = write_clip(tmp_path / "whole.mp4", scenes=SCENES, barcode=False)
    assert _cuts(cut_by_edit_list(whole, tmp_path / "cut.mp4", 0.7)) == pytest.approx([0.8, 2.3, 3.8])


def test_one_frame_has_no_cuts(tmp_path):
    assert _cuts(write_clip(tmp_path / "one.mp4", seconds=1 / 30)) == []
