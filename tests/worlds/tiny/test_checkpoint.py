"""The tiny model that is kept: what it has learnt, on scenes whose combinations it was never shown."""

from pathlib import Path

import numpy as np
import pytest
import torch

from reelspace.embed import load as embedder
from reelspace.item import Frames, Item
from reelspace.worlds.captions import caption, questions
from reelspace.worlds.edits import vary
from reelspace.worlds.sample import generator
from reelspace.worlds.tiny import exam
from reelspace.worlds.tiny.batches import chosen, clip, shown
from reelspace.worlds.tiny.lessons import ONE_WORD, Lesson, sampled
from reelspace.worlds.tiny.model import load
from reelspace.worlds.tiny.tokens import Turn

FOLDER = Path(__file__).parents[2] / "data" / "tiny-mllm"
COUNT = 64
LAYER = 4  # behind which its embeddings are read


@pytest.fixture(scope="module")
def taught():
    return load(FOLDER)


@pytest.fixture(scope="module")
def scenes():
    return exam.drawn("full", COUNT)


@pytest.fixture(scope="module")
def answers(taught, scenes):
    with torch.inference_mode():
        return exam.answered(*taught, scenes)


def _messages(text):
    return [{"role": "user", "content": [{"type": "video"}, {"type": "text", "text": text}]}]


def test_it_is_small_and_half_precise():
    from safetensors import safe_open

    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 25e6
    with safe_open(FOLDER / "model.safetensors", "pt") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"F16"}  # noqa: SIM118


def test_plain_transformers_asks_it(scenes, answers):
    from transformers import AutoModelForImageTextToText, AutoTokenizer

    model = AutoModelForImageTextToText.from_pretrained(FOLDER, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    right = []
    for number, scene in enumerate(scenes[:12]):
        asked = next(q for q in questions(scene, generator("exam", number)) if q.kind == "place")
        text = tokenizer.apply_chat_template(_messages(asked.text), tokenize=False, add_generation_prompt=True)
        inputs = shown([Lesson("video", "", (), scene)])
        count = int(inputs["video_grid_thw"].prod()) // 4
        ids = tokenizer(text.replace("<|video_pad|>", "<|video_pad|>" * count), return_tensors="pt")["input_ids"]
        kinds = 2 * (ids == model.config.video_token_id).long()
        said = model.generate(ids, mm_token_type_ids=kinds, **inputs, max_new_tokens=4, do_sample=False)
        right.append(tokenizer.decode(said[0, ids.shape[1] :], skip_special_tokens=True) == asked.answer)
    assert np.mean(right) >= 0.9


@pytest.mark.parametrize(
    ("kind", "least"),
    [("place", 0.9), ("light", 0.9), ("side", 0.85), ("camera", 0.8), ("colour", 0.65), ("form", 0.3)],
)
def test_it_answers(answers, kind, least):
    score, chance, count = answers[kind]
    assert count >= 10
    assert score >= least > chance


def test_it_judges_statements(taught, scenes):
    with torch.inference_mode():
        assert exam.checked(*taught, scenes)[0] >= 0.8


def test_it_judges_whole_captions_better_than_chance(taught):
    with torch.inference_mode():
        area, count = exam.judged(*taught, exam.drawn("full", 128), "general", "full")
    assert count == 128
    assert area >= 0.6


def test_it_tells_what_it_sees(taught, scenes):
    with torch.inference_mode():
        scores = exam.captioned(*taught, scenes)
    for attribute, least in (("light", 0.9), ("place", 0.9), ("form", 0.25), ("colour", 0.15)):
        own, other, _ = scores[attribute]
        assert own >= least > other, attribute


def test_captions_find_their_videos_in_the_later_layers(taught, scenes):
    with torch.inference_mode():
        layers = exam.retrieved(*taught, scenes)
    assert layers[0] <= 4 / COUNT
    assert max(layers) >= 0.4


@pytest.mark.parametrize(("shuffled", "least", "most"), [(False, 0.6, 1.0), (True, 0.35, 0.65)])
def test_of_the_same_deeds_in_two_orders_the_right_caption_is_nearer(taught, shuffled, least, most):
    drawn = [
        scene for n in range(160) if len((scene := sampled("ordered", "held-out", n)).shots[0].things[0].acts) == 4
    ]
    others = [vary(scene, "order", generator("order", n)) for n, scene in enumerate(drawn)]
    asked = Turn(ONE_WORD["video"], "")
    videos = [Lesson("video", "", (asked,), scene, shuffled=shuffled) for scene in drawn]
    told = [
        Lesson("text", caption(scene, "temporal", generator(n)).text, (Turn(ONE_WORD["text"], ""),), scene)
        for n, pair in enumerate(zip(drawn, others, strict=True))
        for scene in pair
    ]
    with torch.inference_mode():
        seen = exam.states(*taught, videos)[:, LAYER]
        true, false = exam.states(*taught, told)[:, LAYER].reshape(len(drawn), 2, -1).swapaxes(0, 1)
    nearer = float(((seen * true).sum(axis=1) > (seen * false).sum(axis=1)).mean())
    assert len(drawn) >= 60
    assert least <= nearer <= most


def test_its_readout_says_where_the_exam_reads_it(taught, scenes):
    """The embedder that the folder's readout makes gives what the exam reads, of videos and of texts."""
    model = embedder(str(FOLDER), device="cpu", dtype="float32")
    some = scenes[:4]
    times = [np.array([k / scene.rate for k in chosen(scene)]) for scene in some]
    videos = [Frames(clip(scene), at, 0.0, scene.duration) for scene, at in zip(some, times, strict=True)]
    said = [caption(scene, "general", generator(n)).text for n, scene in enumerate(some)]
    given = [Item(video=video) for video in videos], [Item(text=text) for text in said]
    lessons = (
        [Lesson("video", "", (Turn(ONE_WORD["video"], ""),), scene) for scene in some],
        [Lesson("text", text, (Turn(ONE_WORD["text"], ""),), scene) for text, scene in zip(said, some, strict=True)],
    )
    for items, asked in zip(given, lessons, strict=True):
        with torch.inference_mode():
            expected = exam.states(*taught, asked)[:, model.readout.layer]
        assert np.allclose(model.encode_candidate(items), expected, atol=1e-4)
