import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reelspace.embed.qwen_vl.pixels import CLIP_MEAN, CLIP_STD, Patches, normalised, patchified, resized, smart_resize
from reelspace.errors import ReelspaceError

LEAST, MOST = 56 * 56, 28 * 28 * 256
SIZES = [
    (211, 333),
    (28, 28),
    (30, 1200),
    (1200, 30),
    (57, 57),
    (640, 360),
    (359, 637),
    (2, 5),
    (100, 19),
    (1080, 1920),
]


def _picture(height, width):
    return np.random.default_rng(height * 10007 + width).integers(0, 256, (height, width, 3), dtype=np.uint8)


HALF = (0.5, 0.5, 0.5)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("patch", "mean", "std"), [(14, CLIP_MEAN, CLIP_STD), (16, HALF, HALF)], ids=["2.5", "3"])
def test_a_picture_is_prepared_to_the_bit_as_transformers_does(size, patch, mean, std):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    limits = {"shortest_edge": LEAST, "longest_edge": MOST}
    theirs = Qwen2VLImageProcessorPil(size=limits, patch_size=patch, image_mean=mean, image_std=std)
    picture, cut = _picture(*size), Patches(patch)
    given = theirs(images=[picture], return_tensors="np")
    height, width = smart_resize(*size, cut.factor, LEAST, MOST)
    rows, grid = patchified(normalised(resized(picture[None], height, width), mean, std), cut)
    assert [1, *grid[1:]] == given["image_grid_thw"][0].tolist()
    assert rows.dtype == np.float32
    assert np.array_equal(rows, given["pixel_values"])


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4000), st.integers(1, 4000), st.sampled_from([16, 28, 32]))
def test_sizes_are_those_of_transformers(height, width, factor):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize as theirs

    try:
        expected = theirs(height, width, factor, LEAST, MOST)
    except ValueError:
        with pytest.raises(ReelspaceError, match="too slender"):
            smart_resize(height, width, factor, LEAST, MOST)
    else:
        assert smart_resize(height, width, factor, LEAST, MOST) == tuple(expected)


def test_an_odd_number_of_frames_repeats_the_last():
    frames = np.stack([_picture(28, 56) + np.uint8(k) for k in range(3)])
    odd, grid = patchified(normalised(frames), Patches())
    even, _ = patchified(normalised(np.concatenate([frames, frames[-1:]])), Patches())
    assert grid == (2, 2, 4)
    assert np.array_equal(odd, even)


def test_a_patch_holds_its_frames_and_tokens_stand_together():
    cut = Patches(patch=2, temporal=2, merge=2)
    pixels = np.arange(2 * 3 * 4 * 8, dtype=np.float32).reshape(2, 3, 4, 8)
    rows, grid = patchified(pixels, cut)
    assert grid == (1, 2, 4)
    patch = rows.reshape(1, 2, 2, 2, 3, 2, 2, 2)  # token row, token column, patch row, patch column, c, t, y, x
    for column, right, below in ((0, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)):
        y, x = 2 * below, 4 * column + 2 * right
        assert np.array_equal(patch[0, column, below, right], pixels[:, :, y : y + 2, x : x + 2].transpose(1, 0, 2, 3))
