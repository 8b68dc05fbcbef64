"""VideoLLaMA 3 as VidVec reads it, against plain transformers."""

import numpy as np
import pytest
import torch

import tinies
from reelspace.embed import load
from reelspace.embed.conformance import violations
from reelspace.item import Frames, Item

RANDOM = np.random.default_rng(0)
STILL = RANDOM.integers(0, 256, (56, 84, 3), dtype=np.uint8)
MOVED = STILL.copy()
MOVED[28:] = RANDOM.integers(0, 256, (28, 84, 3), dtype=np.uint8)
CLIP = Frames(np.stack([STILL, STILL, MOVED, MOVED]), np.arange(4) / 2, 0.0, 2.0)
READOUT = {
    "template": "{user}",
    "user": {"text": "{text} one word: ", "image": "{image} one word: ", "video": "{video} one word: "},
    "layer": 2,
    "image_pixels": [784, 28**2 * 16],
    "frame_pixels": [784, 28**2 * 16],
    "frames": "fps(2, max=180)",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tinies.write(tmp_path_factory.mktemp("videollama3"), "video_llama_3", READOUT)


def plainly(folder, prompt, layer, **inputs):
    from transformers import AutoModelForImageTextToText, AutoTokenizer

    ids = AutoTokenizer.from_pretrained(folder)(prompt, return_tensors="pt")["input_ids"]
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    with torch.inference_mode():
        out = model(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True, **inputs)
        state = model.model.language_model.norm(out.hidden_states[layer][0, -1])
    return torch.nn.functional.normalize(state, dim=0).numpy()


def frames(pictures, merge):
    """Patches by transformers' own processor of pictures, one frame at a time."""
    from PIL import Image
    from transformers.models.video_llama_3.image_processing_pil_video_llama_3 import VideoLlama3ImageProcessorPil

    process = VideoLlama3ImageProcessorPil(size={"shortest_edge": 784, "longest_edge": 28**2 * 16}, merge_size=merge)
    made = [process(Image.fromarray(picture), return_tensors="pt") for picture in pictures]
    return torch.cat([one["pixel_values"] for one in made]), made[0]["image_grid_thw"][0, 1:].tolist()


def test_vectors_are_those_of_plain_transformers(folder):
    embedder = load(str(folder))
    rows = embedder.encode_candidate([Item("a dog"), Item(image=STILL), Item(video=CLIP)])
    np.testing.assert_allclose(rows[0], plainly(folder, "a dog one word: ", 2), atol=2e-6)
    patches, (h, w) = frames([STILL], 1)
    expected = plainly(
        folder,
        "<|image_pad|>" * (h * w) + " one word: ",
        2,
        pixel_values=patches,
        image_grid_thw=torch.tensor([[1, h, w]]),
        image_merge_sizes=torch.tensor([1]),
    )
    np.testing.assert_allclose(rows[1], expected, atol=2e-6)


def test_tokens_that_do_not_change_are_left_out_and_each_frame_has_its_time(folder):
    embedder = load(str(folder))
    patches, (h, w) = frames(CLIP.pixels, 2)
    a_frame = h * w // 4
    kept = torch.ones(4, a_frame, dtype=torch.bool)
    kept[1] = kept[3] = False
    kept[1, 0] = kept[3, 0] = True  # one a frame stays
    kept[2, : a_frame // 2] = False  # the upper half did not move
    prompt = ",".join(
        f"Time {time}s:" + "<|video_pad|>" * int(count)
        for time, count in zip((0.0, 0.5, 1.0, 1.5), kept.sum(dim=1), strict=True)
    )
    expected = plainly(
        folder,
        prompt + " one word: ",
        2,
        pixel_values_videos=patches,
        video_grid_thw=torch.tensor([[4, h, w]]),
        video_merge_sizes=torch.tensor([2]),
        video_compression_mask=kept.flatten(),
    )
    np.testing.assert_allclose(embedder.encode_candidate([Item(video=CLIP)])[0], expected, atol=2e-6)


def test_it_keeps_the_contract(folder):
    assert violations(load(str(folder), padding_side="left")) == []


def test_the_token_before_an_appended_one_is_the_last_of_the_request(folder):
    items = [Item("a dog"), Item(video=CLIP)]
    before = load(str(folder), appended="<|emb|>", position=-2).encode_candidate(items)
    np.testing.assert_allclose(before, load(str(folder)).encode_candidate(items), atol=1e-6)
