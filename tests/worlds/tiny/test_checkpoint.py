"""The committed checkpoint: it loads with transformers alone, and knows what its page says."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from reelspace.embed.qwen_vl.pixels import normalised, patchified
from reelspace.worlds.captions import questions
from reelspace.worlds.sample import generator
from reelspace.worlds.tiny.batches import clip
from reelspace.worlds.tiny.exam import answered, auc, captioned, checked, drawn, retrieved
from reelspace.worlds.tiny.model import CUT, load

FOLDER = Path(__file__).parents[2] / "data" / "tiny-mllm"
RECIPE = Path(__file__).parents[3] / "recipes" / "tiny-mllm"


@pytest.fixture(scope="module")
def tiny():
    torch.set_num_threads(1)
    return load(FOLDER)


@pytest.fixture(scope="module")
def scenes():
    return drawn("full", 64)


def test_it_is_small_and_of_half_precision():
    from safetensors import safe_open

    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 25e6
    with safe_open(FOLDER / "model.safetensors", "pt") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"F16"}  # noqa: SIM118 - no mapping


def test_it_answers_with_transformers_alone():
    from transformers import AutoModelForImageTextToText, AutoTokenizer

    model = AutoModelForImageTextToText.from_pretrained(FOLDER, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    right = 0
    for number, scene in enumerate(drawn("full", 24)):
        asked = next(q for q in questions(scene, generator("exam", number)) if q.kind == "light")
        content = [{"type": "video"}, {"type": "text", "text": asked.text}]
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )
        rows, grid = patchified(normalised(clip(scene)), CUT)
        text = text.replace("<|video_pad|>", "<|video_pad|>" * (len(rows) // CUT.merge**2))
        inputs = tokenizer(text, return_tensors="pt", add_special_tokens=False)
        inputs["mm_token_type_ids"] = 2 * (inputs["input_ids"] == model.config.video_token_id).long()
        inputs.pop("token_type_ids", None)
        said = model.generate(
            **inputs,
            pixel_values_videos=torch.from_numpy(rows),
            video_grid_thw=torch.tensor([grid]),
            max_new_tokens=4,
            do_sample=False,
        )
        right += tokenizer.decode(said[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True) == asked.answer
    assert right >= 20


def test_it_tells_what_is_there(tiny, scenes):
    with torch.inference_mode():
        scores = captioned(*tiny, scenes)
    for attribute, least in LEAST_TOLD.items():
        score, chance, _ = scores[attribute]
        assert score >= least > chance, (attribute, score, chance)


def test_it_answers_questions_and_without_the_order_of_frames_not_those_of_time(tiny, scenes):
    with torch.inference_mode():
        scores, shuffled = answered(*tiny, scenes), answered(*tiny, scenes, shuffle=True)
    for kind, least in LEAST_ANSWERED.items():
        score, chance, _ = scores[kind]
        assert score >= least > chance, (kind, score, chance)
    assert shuffled["direction"][0] < scores["direction"][0] - 0.15


def test_it_says_yes_and_no(tiny, scenes):
    with torch.inference_mode():
        area, _ = checked(*tiny, scenes)
    assert area >= LEAST_CHECKED


def test_some_layer_finds_the_video_of_a_caption(tiny, scenes):
    with torch.inference_mode():
        found = retrieved(*tiny, scenes)
    assert found[0] <= 3 / 64
    assert max(found) >= LEAST_FOUND


def test_the_committed_scores_are_of_this_checkpoint(tiny):
    held = json.loads((RECIPE / "scores.json").read_text())
    with torch.inference_mode():
        found = np.array(retrieved(*tiny, drawn("full", held["retrieval"]["layer 0"]["n"])))
    told = np.array([row["score"] for row in held["retrieval"].values()])
    assert abs(found - told).max() <= 0.01


def test_areas_under_the_curve_are_what_they_are():
    assert auc(np.float32([2, 1]), np.array([True, False])) == 1.0
