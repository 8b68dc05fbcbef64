"""Colours, ranges and fields: what is on the screen, not only which frame."""

from fractions import Fraction

import av
import numpy as np
import pytest

from clips import write_clip
from reelspace.media.decode import Video

COLOURS = [(200, 30, 40), (30, 160, 60), (40, 60, 190), (128, 128, 128), (235, 225, 215), (16, 20, 24)]
FULL, LIMITED = 2, 1
# Tags of ITU-T H.273 → weights of red and blue in brightness.
WEIGHTS = {1: (0.2126, 0.0722), 5: (0.299, 0.114), 6: (0.299, 0.114), 7: (0.212, 0.087), 9: (0.2627, 0.0593)}


def _stored(colours, matrix, limited, bits=8):
    """R'G'B' 0…1 `[n, 3]` → the numbers of a file, by the formulas of BT.601, BT.709 and BT.2020."""
    red, blue = WEIGHTS[matrix]
    r, g, b = np.asarray(colours, dtype=float).T
    y = red * r + (1 - red - blue) * g + blue * b
    u, v = (b - y) / (2 - 2 * blue), (r - y) / (2 - 2 * red)
    scale = 1 << (bits - 8)
    if limited:
        planes = (16 + 219 * y) * scale, (128 + 224 * u) * scale, (128 + 224 * v) * scale
    else:
        top = (1 << bits) - 1
        planes = y * top, u * top + 128 * scale, v * top + 128 * scale
    return np.round(np.stack(planes, axis=1)).astype(np.uint16)


def write_patches(path, numbers, codec="libx264", form="yuv420p", options=None, size=(384, 64), **tags):
    """A clip of plain patches side by side, of stored numbers `[n, 3]`, with tags as the decoder should find them."""
    width, height = size
    with av.open(str(path), "w") as output:
        stream = output.add_stream(codec, rate=10, options=options or {"crf": "4", "preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = width, height, form
        for name, value in tags.items():
            setattr(stream.codec_context, name, value)
        for number in range(3):
            frame = av.VideoFrame(width, height, form)
            for channel, plane in enumerate(frame.planes):
                row = np.repeat(numbers[:, channel], -(-plane.width // len(numbers)))[: plane.width]
                deep = plane.line_size >= 2 * plane.width and "10" in form
                line = np.zeros(plane.line_size // (2 if deep else 1), dtype=np.uint16 if deep else np.uint8)
                line[: plane.width] = row
                plane.update(np.tile(line, (plane.height, 1)).tobytes())
            frame.pts, frame.time_base = number, Fraction(1, 10)
            for name, value in tags.items():
                setattr(frame, name, value)
            output.mux(stream.encode(frame))
        output.mux(stream.encode())
    return path


def seen(path, count, edge=None):
    """The patches that come out: `[n, 3]`."""
    with Video(path) as video:
        picture = video.frames([1], edge=edge)[0].astype(int)
    width = picture.shape[1] / count
    return np.array([picture[len(picture) // 2, int(width * (at + 0.5))] for at in range(count)])


@pytest.mark.parametrize("limited", [True, False])
@pytest.mark.parametrize("matrix", WEIGHTS)
def test_numbers_become_colours_as_their_tags_say(tmp_path, matrix, limited):
    numbers = _stored(np.array(COLOURS) / 255, matrix, limited)
    tags = {"colorspace": matrix, "color_range": LIMITED if limited else FULL}
    path = write_patches(tmp_path / "tagged.mp4", numbers, **tags)
    assert np.abs(seen(path, len(COLOURS)) - COLOURS).max() <= 4


@pytest.mark.parametrize(("size", "matrix"), [((384, 64), 6), ((1344, 64), 1), ((384, 640), 1)])
def test_without_tags_large_pictures_are_bt709_and_small_ones_bt601(tmp_path, size, matrix):
    path = write_patches(tmp_path / "plain.mp4", _stored(np.array(COLOURS) / 255, matrix, True), size=size)
    assert np.abs(seen(path, len(COLOURS)) - COLOURS).max() <= 4


@pytest.mark.parametrize("matrix", [3, 8, 10, 11, 12, 13, 14])
def test_tags_that_cannot_be_followed_do_not_keep_a_file_from_being_read(tmp_path, matrix):
    numbers = _stored(np.full((6, 3), 0.5), 1, True)
    path = write_patches(tmp_path / "odd.mp4", numbers, colorspace=matrix)
    assert np.abs(seen(path, 6) - 128).max() <= 3  # grey is grey in all of them


def test_motion_jpeg_is_of_full_range(tmp_path):
    numbers = _stored(np.array(COLOURS) / 255, 5, limited=False)
    options = {"qmin": "1", "qmax": "1", "strict": "unofficial"}
    path = write_patches(tmp_path / "camera.avi", numbers, "mjpeg", "yuvj420p", options, color_range=FULL)
    assert np.abs(seen(path, len(COLOURS)) - COLOURS).max() <= 5


@pytest.mark.parametrize("name", ["tagged.mp4", "tagged.mov"])
def test_ten_bits_and_444_have_the_same_colours(tmp_path, name):
    for form in ("yuv420p10le", "yuv444p10le", "yuv422p10le"):
        numbers = _stored(np.array(COLOURS) / 255, 1, True, bits=10)
        path = write_patches(tmp_path / name, numbers, form=form, colorspace=1, color_range=LIMITED)
        assert np.abs(seen(path, len(COLOURS)) - COLOURS).max() <= 4


def _linear(srgb):
    value = np.asarray(srgb, dtype=float) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


# What a chromaticity of BT.709 is in the primaries of BT.2020 (BT.2087).
TO_WIDE = np.array([[0.6274, 0.3293, 0.0433], [0.0691, 0.9195, 0.0114], [0.0164, 0.0880, 0.8956]])


def _pq(light):
    """BT.2100: light in cd/m² → signal 0…1."""
    power = (np.asarray(light) / 10_000) ** 0.1593017578125
    return ((0.8359375 + 18.8515625 * power) / (1 + 18.6875 * power)) ** 78.84375


def _hlg(light):
    """BT.2100: light in cd/m² of a screen of 1000 → signal 0…1, the inverse of what such a screen does."""
    shown = np.asarray(light) / 1000
    brightness = shown @ np.array([0.2627, 0.6780, 0.0593])
    scene = shown * np.maximum(brightness, 1e-9)[:, None] ** (1 / 1.2 - 1)
    a, b, c = 0.17883277, 0.28466892, 0.55991073
    return np.where(scene <= 1 / 12, np.sqrt(3 * scene), a * np.log(np.maximum(12 * scene - b, 1e-9)) + c)


TRANSFERS = {"pq": (16, _pq), "hlg": (18, _hlg)}
HDR_OPTIONS = {"x265-params": "log-level=none:crf=4", "preset": "ultrafast"}


def _write_hdr(path, light, kind):
    """Patches that give `light` `[n, 3]`, cd/m² in the primaries of BT.2020."""
    tag, signal = TRANSFERS[kind]
    numbers = _stored(signal(np.asarray(light, dtype=float)), 9, True, bits=10)
    tags = {"colorspace": 9, "color_primaries": 9, "color_trc": tag, "color_range": LIMITED}
    return write_patches(path, numbers, "libx265", "yuv420p10le", HDR_OPTIONS, **tags)


@pytest.mark.parametrize("name", ["hdr.mp4", "hdr.mkv"])
@pytest.mark.parametrize("kind", TRANSFERS)
def test_hdr_shows_the_colours_that_an_ordinary_video_of_the_scene_has(tmp_path, kind, name):
    """A scene whose white gives 80 cd/m², beside HDR's white of 203: the same colours, as much darker."""
    light = _linear(COLOURS) * 80
    path = _write_hdr(tmp_path / name, light @ TO_WIDE.T, kind)
    darker = light / 203
    expected = 255 * np.where(darker <= 0.0031308, 12.92 * darker, 1.055 * darker ** (1 / 2.4) - 0.055)
    assert np.abs(seen(path, len(COLOURS)) - expected).max() <= 5
    assert np.abs(seen(path, len(COLOURS), edge=32) - expected).max() <= 5


@pytest.mark.parametrize("kind", TRANSFERS)
def test_what_is_brighter_than_white_keeps_its_shades(tmp_path, kind):
    """Values of BT.2390's curve from 1000 down to 203 cd/m²."""
    light = np.repeat(np.array([50, 100, 203, 400, 700, 1000])[:, None], 3, axis=1)
    path = _write_hdr(tmp_path / "bright.mp4", light, kind)
    shades = seen(path, 6)
    assert np.abs(shades - np.array([136, 186, 229, 250, 255, 255])[:, None]).max() <= 4


@pytest.mark.parametrize("kind", TRANSFERS)
def test_a_bright_light_keeps_its_hue(tmp_path, kind):
    light = np.array([[900, 90, 90], [90, 90, 900], [400, 400, 40]]) @ TO_WIDE.T
    red, blue, yellow = seen(_write_hdr(tmp_path / "lamps.mp4", light, kind), 3)
    assert red[0] > 225
    assert abs(red[1] - red[2]) < 12
    assert red[1] < 130
    assert blue[2] > 225
    assert blue[0] < 130
    assert abs(yellow[0] - yellow[1]) < 12
    assert yellow[2] < 120


def test_wide_colours_of_ordinary_brightness_are_brought_to_the_screen(tmp_path):
    """BT.2020 without HDR: a plain red of BT.709, told in wide primaries."""
    linear = _linear(COLOURS) @ TO_WIDE.T
    signal = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    tags = {"colorspace": 9, "color_primaries": 9, "color_trc": 14, "color_range": LIMITED}
    numbers = _stored(signal, 9, True, bits=10)
    path = write_patches(tmp_path / "wide.mp4", numbers, "libx265", "yuv420p10le", HDR_OPTIONS, **tags)
    assert np.abs(seen(path, len(COLOURS)) - COLOURS).max() <= 5


@pytest.mark.parametrize("edge", [None, 90])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("h264.mp4", {"options": {"x264-params": "tff=1"}}),
        ("mpeg2.mpg", {"codec": "mpeg2video", "options": {"b": "8M", "flags": "+ildct+ilme"}}),
    ],
)
def test_an_interlaced_frame_shows_one_moment_not_two(tmp_path, name, settings, edge):
    """A bar that is elsewhere in each field: one bar is seen, where the upper field has it, and no comb."""

    def draw(number, time):
        picture = np.full((360, 640, 3), 40, dtype=np.uint8)
        picture[0::2, 100:200] = picture[1::2, 300:400] = 220
        return picture

    path = write_clip(tmp_path / name, seconds=0.4, fps=25, size=(640, 360), draw=draw, barcode=False, **settings)
    with Video(path) as video:
        picture = video.frames([2], edge=edge)[0][..., 1].astype(int)
    assert np.abs(np.diff(picture, axis=0)).max() < 30
    row = picture[len(picture) // 2]
    at = [round(len(row) * part) for part in (150 / 640, 350 / 640)]
    assert row[at[0]] > 200
    assert row[at[1]] < 60


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (3, 1), (1, 7)])
def test_the_smallest_pictures(tmp_path, size):
    path = write_clip(tmp_path / "dot.mov", codec="png", pix_fmt="rgb24", size=size, seconds=0.3, fps=10, barcode=False)
    with Video(path) as video:
        assert video.frames([0, 2]).shape == (2, size[1], size[0], 3)
        assert min(video.frames([1], edge=1).shape[1:3]) == 1
