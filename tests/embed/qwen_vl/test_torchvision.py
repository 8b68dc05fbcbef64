"""Against transformers' own processors of videos, where torchvision is installed; it is not among our requirements."""

import numpy as np
import pytest

from reelspace.embed.qwen_vl.pixels import CLIP_MEAN, CLIP_STD, Patches, normalised, patchified, resized, smart_resize

pytest.importorskip("torchvision", reason="transformers' video processors need torchvision, which is not required")

SIZES = [(56, 84), (97, 133), (360, 640), (720, 1280), (640, 360), (31, 200)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["qwen2_vl", "qwen3_vl"])
def test_frames_are_prepared_as_by_the_video_processor(size, kind):
    import torch
    from transformers import Qwen2VLVideoProcessor, Qwen3VLVideoProcessor

    frames = np.random.default_rng(0).integers(0, 256, (4, *size, 3), dtype=np.uint8)
    cut = Patches(16 if kind == "qwen3_vl" else 14)
    least, most = 128 * cut.factor**2, 200 * cut.factor**2
    if kind == "qwen2_vl":
        process, mean, std = Qwen2VLVideoProcessor(), CLIP_MEAN, CLIP_STD
        limits = {"shortest_edge": least, "longest_edge": most}
    else:
        process, mean, std = Qwen3VLVideoProcessor(), (0.5,) * 3, (0.5,) * 3
        limits = {"shortest_edge": 4 * least, "longest_edge": 4 * most}  # of the whole clip
    made = process(
        torch.from_numpy(frames).permute(0, 3, 1, 2),
        size=limits,
        do_sample_frames=False,
        cap_pixels_per_frame=False,
        return_tensors="pt",
    )
    height, width = smart_resize(*size, cut.factor, least, most)
    rows, grid = patchified(normalised(resized(frames, height, width), mean, std), cut)
    assert made["video_grid_thw"].tolist() == [list(grid)]
    # Its resizing is torchvision's, ours Pillow's: at most two grey levels apart, and nearly always none.
    apart = np.abs(made["pixel_values_videos"].numpy() - rows) * 255 * min(std)
    assert apart.max() < 2.6
    assert (apart < 0.5).mean() > 0.98
