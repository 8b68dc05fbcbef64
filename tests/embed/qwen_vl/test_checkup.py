"""`models check` finds nothing in good models, and each of the faults that such software has had."""

import numpy as np
import torch

from reelspace.embed import checkup, load
from reelspace.embed.conformance import violations
from reelspace.item import Item


def test_a_good_model_drifts_within_what_its_type_allows(embedder):
    side, kind = checkup.drifts(embedder)
    assert (side.what, side.violation) == ("the padding side", None)
    assert side.by <= 1e-5
    assert kind.what == "float32 or bfloat16"
    assert kind.by > 1e-4  # they do differ
    assert embedder.dtype == "float32"


def test_half_a_model_is_held_to_what_half_precision_can_do(folders):
    embedder = load(str(folders["qwen2_5_vl"]), dtype="bfloat16")
    assert checkup.tolerance(embedder) == 0.05
    assert checkup.drifts(embedder)[0].violation is None


def test_pooling_by_the_length_of_the_mask_is_found(folders, monkeypatch):
    def by_length(mask, position):
        return torch.arange(len(mask)), mask.sum(dim=1) + position

    monkeypatch.setattr("reelspace.embed.qwen_vl.module.pooled", by_length)
    embedder = load(str(folders["qwen2_5_vl"]))
    assert "the padding side" in checkup.drifts(embedder)[0].violation
    assert any("batch size" in found for found in violations(load(str(folders["qwen2_5_vl"]), padding_side="left")))


def test_a_model_that_sees_nothing_is_found(folders, monkeypatch):
    embedder = load(str(folders["qwen2_5_vl"]))
    monkeypatch.setattr(
        "reelspace.embed.qwen_vl.inputs.normalised",
        lambda pixels, *_: np.zeros((len(pixels), 3, *pixels.shape[1:3]), np.float32),
    )
    clips = [Item(video=item.video) for item in checkup.probe_items(frozenset({"video"}))]
    assert any(
        "different inputs have one vector" in found for found in violations(embedder, [clips[1], clips[1], clips[2]])
    )
    pictures = [Item(image=np.full((56, 56, 3), shade, np.uint8)) for shade in (0, 90, 200)]
    assert any("different inputs have one vector" in found for found in violations(embedder, pictures))


def test_costs_count_tokens_by_temporal_patch(embedder):
    costs = {cost.item: cost for cost in checkup.costs(embedder)}
    picture, clip = costs["a picture of 1280 × 720"], costs["a clip of 4 s, 1280 × 720"]
    made = embedder.module.preparer(Item(image=np.zeros((720, 1280, 3), np.uint8)), "candidate")
    assert picture.visual == picture.patch == sum(made.images[0].tokens)
    assert clip.visual == 2 * clip.patch  # four frames are two pairs
    assert costs["a text of 300 words"].tokens > 300 > costs["a text of 5 words"].tokens
    assert all(cost.seconds > 0 and cost.memory >= 0 for cost in costs.values())
    assert "a temporal patch" in str(clip)


def test_models_without_torch_have_neither():
    assert checkup.drifts(load("lite")) == checkup.costs(load("lite")) == []
