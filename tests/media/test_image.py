import numpy as np
import PIL.Image
import pytest

from reelspace.errors import MediaError
from reelspace.item import Frames
from reelspace.media.image import load_image
from reelspace.media.thumbnails import jpeg, thumbnail


@pytest.fixture
def picture():
    """Red above, blue below, green in the upper left corner: upright or not is plain to see."""
    pixels = np.zeros((40, 60, 3), dtype=np.uint8)
    pixels[:20, :, 0] = 255
    pixels[20:, :, 2] = 255
    pixels[:10, :15] = (0, 255, 0)
    return pixels


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_applied(tmp_path, picture, orientation):
    # What a camera stores for each orientation, so that undoing it gives the picture.
    stored = {
        1: picture,
        2: picture[:, ::-1],
        3: picture[::-1, ::-1],
        4: picture[::-1],
        5: picture.transpose(1, 0, 2),
        6: np.rot90(picture, 1),
        7: np.rot90(picture, 2).transpose(1, 0, 2),
        8: np.rot90(picture, -1),
    }[orientation]
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "photo.png"
    PIL.Image.fromarray(np.ascontiguousarray(stored)).save(path, exif=exif)
    assert np.array_equal(load_image(path), picture)
    with PIL.Image.open(path) as opened:
        assert np.array_equal(load_image(opened), picture)


@pytest.mark.parametrize("mode", ["L", "P", "CMYK", "RGBA", "LA", "1", "I;16"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    grey = np.full((8, 8), 255, dtype=np.uint8)
    if mode == "I;16":
        image = PIL.Image.fromarray(grey.astype(np.uint16) * 257)
    else:
        image = PIL.Image.fromarray(grey).convert("RGB" if mode == "CMYK" else "L").convert(mode)
    path = tmp_path / ("x.tif" if mode == "CMYK" else "x.png")
    image.save(path)
    pixels = load_image(path)
    assert pixels.shape == (8, 8, 3)
    assert pixels.dtype == np.uint8
    assert (pixels >= 250).all()


def test_transparency_lies_over_white(tmp_path):
    rgba = np.zeros((4, 4, 4), dtype=np.uint8)
    rgba[:2, :, 3] = 255
    PIL.Image.fromarray(rgba).save(tmp_path / "x.png")
    pixels = load_image(tmp_path / "x.png")
    assert (pixels[:2] == 0).all()
    assert (pixels[2:] == 255).all()


def test_an_array_is_given_back_as_it_is(picture):
    assert load_image(picture) is picture


def test_what_is_no_picture_is_refused_with_a_reason(tmp_path, picture):
    def refused(name, reason):
        with pytest.raises(MediaError, match=reason) as caught:
            load_image(tmp_path / name)
        assert name in str(caught.value)

    (tmp_path / "empty.png").touch()
    refused("empty.png", "empty")
    refused("missing.png", "No such file")
    refused(".", "not an ordinary file")
    (tmp_path / "text.jpg").write_text("hello " * 100)
    refused("text.jpg", "not a picture")
    PIL.Image.fromarray(picture).resize((900, 600)).save(tmp_path / "whole.jpg")
    (tmp_path / "half.jpg").write_bytes((tmp_path / "whole.jpg").read_bytes()[:2000])
    refused("half.jpg", "damaged")
    (tmp_path / "script.eps").write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n(/etc/passwd) run\n")
    refused("script.eps", "not a picture")


@pytest.mark.parametrize("side", [10_001, 14_000, 60_000])
def test_a_bomb_is_refused(tmp_path, side):
    """A few kilobytes that would unpack to gigabytes."""
    import struct
    import zlib

    def chunk(kind, body):
        return struct.pack("!I", len(body)) + kind + body + struct.pack("!I", zlib.crc32(kind + body))

    header = struct.pack("!IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    (tmp_path / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    with pytest.raises(MediaError, match=r"bomb\.png.*safely"):
        load_image(tmp_path / "bomb.png")


def test_a_thumbnail_is_a_small_jpeg_of_the_middle_frame(picture):
    pixels = np.stack([np.zeros((400, 600, 3), np.uint8), np.full((400, 600, 3), 200, np.uint8)] * 2)[[0, 1, 0]]
    import io

    image = PIL.Image.open(io.BytesIO(thumbnail(Frames(pixels, np.arange(3.0)))))
    assert (image.format, image.size) == ("JPEG", (270, 180))
    assert np.asarray(image).mean() == pytest.approx(200, abs=2)
    assert PIL.Image.open(io.BytesIO(jpeg(picture))).size == (60, 40)  # never enlarged


def test_measurements_are_no_picture(tmp_path):
    path = tmp_path / "depth.tif"
    PIL.Image.fromarray(np.ones((4, 4), np.float32)).save(path)
    with pytest.raises(MediaError, match="no known brightness"):
        load_image(path)


def test_the_limit_is_the_one_that_is_documented(tmp_path):
    path = tmp_path / "large.png"
    PIL.Image.new("1", (9_500, 10_000)).save(path)  # Pillow alone would warn of it
    assert load_image(path).shape == (10_000, 9_500, 3)
