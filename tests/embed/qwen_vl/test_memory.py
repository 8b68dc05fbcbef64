import numpy as np
import pytest
import torch

import tinies
from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder
from reelspace.errors import ModelError
from reelspace.item import Frames, Item

PICTURE = np.random.default_rng(0).integers(256, size=(60, 90, 3), dtype=np.uint8)
CLIP = Frames(np.random.default_rng(1).integers(256, size=(6, 60, 90, 3), dtype=np.uint8), np.arange(6) / 2)
OTHER = Frames(CLIP.pixels[::-1].copy(), CLIP.times)
ITEMS = [Item("a dog"), Item("a dog", image=PICTURE), Item(video=CLIP), Item("runs", PICTURE, CLIP), Item(video=OTHER)]


@pytest.fixture(scope="module", params=["qwen2_vl", "qwen2_5_vl"])
def folder(request, tmp_path_factory):
    return tinies.write(tmp_path_factory.mktemp("model"), request.param)


def opened(folder):
    return QwenVLEmbedder("tiny", lambda: folder, device="cpu")


def kept(folder):
    return sorted(folder.rglob("*.safetensors"))


def test_what_is_remembered_has_the_vectors_of_what_is_seen(folder, tmp_path):
    embedder = opened(folder)
    seen = embedder.encode_candidate(ITEMS)
    embedder.module.remember(tmp_path)
    first = embedder.encode_candidate(ITEMS)
    assert len(kept(tmp_path)) == 3  # the picture and both clips, once each
    assert abs(first - seen).max() < 1e-5
    assert abs(seen[2] - seen[4]).max() > 1e-2

    def blind(*args, **kwargs):
        raise AssertionError("the vision tower was asked again")

    again = opened(folder)
    again.module.remember(tmp_path)
    again.module.backbone.model.visual.forward = blind
    assert np.array_equal(again.encode_candidate(ITEMS), first)


def test_another_vision_tower_remembers_nothing_of_it(folder, tmp_path):
    embedder = opened(folder)
    embedder.module.remember(tmp_path)
    embedder.encode_candidate(ITEMS[1:2])
    other = opened(folder)
    with torch.no_grad():
        next(other.module.backbone.model.visual.parameters()).mul_(1.5)
    other.module.remember(tmp_path)
    other.encode_candidate(ITEMS[1:2])
    assert len(kept(tmp_path)) == 2


def test_a_file_that_changed_is_seen_anew(folder, tmp_path):
    from PIL import Image

    embedder, path = opened(folder), tmp_path / "picture.png"
    embedder.module.remember(tmp_path / "memory")
    for pixels in (PICTURE, 255 - PICTURE):
        Image.fromarray(pixels).save(path)
        vector = embedder.encode_candidate([Item(image=path)])
        assert abs(vector - embedder.encode_candidate([Item(image=pixels)])).max() < 1e-5
    assert len(kept(tmp_path)) == 4


def test_gradients_in_pieces_are_the_gradients(folder, tmp_path):
    from reelspace.train.losses import InfoNCE, make_loss

    found = []
    for tokens in (None, 40):
        model = opened(folder).model
        model[0].remember(tmp_path)
        columns = [model.preprocess(ITEMS[:4]), model.preprocess(ITEMS[1:])]
        loss = make_loss(model, InfoNCE(), tokens)(columns, torch.arange(8).reshape(4, 2))
        loss.backward()
        found.append((loss.item(), model[0].decoder.layers[0].mlp.up_proj.weight.grad))
    assert found[1][0] == pytest.approx(found[0][0], abs=1e-5)
    assert abs(found[1][1] - found[0][1]).max() < 1e-4 * max(1.0, abs(found[0][1]).max())


def test_a_model_that_hands_on_more_than_tokens_is_refused(tmp_path):
    embedder = opened(tinies.write(tmp_path / "model", "qwen3_vl"))
    with pytest.raises(ModelError, match="cannot be kept"):
        embedder.module.remember(tmp_path)
