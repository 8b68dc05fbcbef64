from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch

from reelspace.worlds.captions import Question
from reelspace.worlds.sample import generator, split_of
from reelspace.worlds.scene import VERBS
from reelspace.worlds.tiny import tokens
from reelspace.worlds.tiny.batches import Sizes, batch, clip
from reelspace.worlds.tiny.hearing import heard
from reelspace.worlds.tiny.hearing import told as hearing_told
from reelspace.worlds.tiny.lessons import (
    EDGE,
    FRAMES,
    TELL,
    WORLDS,
    Plan,
    _balanced,
    _claimed,
    keywords,
    lesson,
    mistold,
    opposed,
    sampled,
    twin,
)

PLAN = Plan(until=4, worlds={"plain": 0.5, "full": 0.5}, contrast=1.0, judged=0.4, turns=4)
SIZES = Sizes(video=6, image=2, text=2, paired=4)


def _equal(one, other):
    return all(torch.equal(one.inputs[key], other.inputs[key]) for key in one.inputs) and torch.equal(
        one.weights, other.weights
    )


def test_a_batch_is_the_same_whenever_it_is_made(writer):
    first = batch(writer, PLAN, SIZES, "train", 0, 7)
    batch(writer, PLAN, SIZES, "train", 0, 8)
    assert _equal(first, batch(writer, PLAN, SIZES, "train", 0, 7))
    other = batch(writer, PLAN, SIZES, "train", 1, 7)
    assert not torch.equal(first.inputs["pixel_values_videos"], other.inputs["pixel_values_videos"])


def test_a_batch_has_what_the_model_needs(writer):
    made = batch(writer, PLAN, SIZES, "train", 0, 1)
    ids, kinds = made.inputs["input_ids"], made.inputs["mm_token_type_ids"]
    assert ids.shape[0] == 10
    assert ids.shape[1] <= SIZES.length
    per_video, per_image = (
        made.inputs["video_grid_thw"].prod(dim=1) // 4,
        made.inputs["image_grid_thw"].prod(dim=1) // 4,
    )
    assert (kinds[:6] == 2).sum(dim=1).tolist() == per_video.tolist() == [64] * 6
    assert (kinds[6:8] == 1).sum(dim=1).tolist() == per_image.tolist() == [16] * 2
    assert not kinds[8:].any()
    assert not made.weights[kinds > 0].any()
    assert not made.weights[made.inputs["attention_mask"] == 0].any()


def test_pairs_are_read_where_the_word_would_be_said(writer):
    made = batch(writer, PLAN, SIZES, "train", 0, 2)
    pairs = made.pairs
    assert (made.inputs["input_ids"][torch.arange(4), pairs.videos] == tokens.ASSISTANT).all()
    assert (pairs.inputs["input_ids"][torch.arange(4), pairs.readout] == tokens.ASSISTANT).all()
    assert pairs.alike.diagonal().all()
    assert batch(writer, Plan(1.0, {"plain": 1.0}, 0.0, 0.4, 4), SIZES, "train", 0, 2).pairs is None


def test_captions_of_twins_are_nobodys(writer):
    plan = Plan(1, {"full": 0.5, "ordered": 0.5}, contrast=1.0, judged=0.4, turns=4, mistold=True)
    plain, made = (batch(writer, one, SIZES, "train", 0, 2) for one in (replace(plan, mistold=False), plan))
    pairs, count = made.pairs, 4
    assert _equal(plain, made)
    assert count < len(pairs.readout) <= 2 * count
    assert pairs.alike.shape == (count, len(pairs.readout))
    assert torch.equal(pairs.alike[:, :count], plain.pairs.alike)
    assert (pairs.inputs["input_ids"][torch.arange(len(pairs.readout)), pairs.readout] == tokens.ASSISTANT).all()


@pytest.mark.parametrize("world", ["full", "placed", "ordered"])
def test_what_is_mistold_is_false_of_the_scene_and_shows_nothing_held_out(world):
    found = 0
    for number in range(60):
        drawn = sampled(world, "train", number)
        told = mistold(drawn, generator("mistold", number), WORLDS[world])
        found += told is not None
        assert told is None or not told[0].true_of(drawn)
        assert told is None or split_of(told[1].scene) == "train"
    assert found > 50


def test_no_training_scene_has_a_held_out_combination():
    for world in WORLDS:
        assert all(split_of(sampled(world, "train", number)) == "train" for number in range(50))
        assert all(split_of(sampled(world, "held-out", number)) == "held-out" for number in range(50))


def test_a_clip_shows_all_of_the_scene():
    drawn = sampled("full", "train", 3)
    frames = clip(drawn)
    assert frames.shape == (FRAMES, EDGE, EDGE, 3)
    assert frames.dtype == np.uint8


def test_the_single_words_sum_up_the_scene():
    drawn = sampled("easy", "train", 1)
    thing = drawn.shots[0].things[0]
    words = keywords(drawn)
    assert {thing.form, thing.colour, drawn.shots[0].background} <= set(words)
    assert set(words) & set(VERBS)


@pytest.mark.parametrize("claims", [0.0, 0.5])
@pytest.mark.parametrize("medium", ["video", "image", "text"])
def test_a_lesson_answers_what_it_asks(medium, claims):
    plan = Plan(1, {}, contrast=0.0, judged=0.5, turns=5, claims=claims)
    for number in range(40):
        random = generator("lesson", number)
        made = lesson(sampled("full", "train", number), medium, random, plan, WORLDS["full"], summed=True)
        assert len(made.turns) == 6
        assert all(turn.ask and turn.answer for turn in made.turns)
        assert all(turn.answer in ("Yes", "No") for turn in made.turns if turn.ask.endswith("Yes or No?"))
        assert all((turn.answer == "Yes") == (turn.ask == turn.rather) for turn in made.turns if turn.rather)
        assert all(turn.rather for turn in made.turns if turn.answer in ("Yes", "No"))
        assert (made.told != "") == (medium == "text")


def test_plainly_told_captions_have_one_wording_and_stay_true():
    drawn = sampled("full", "train", 4)
    told = {plainly: defaultdict(set) for plainly in (False, True)}
    for plainly, texts in told.items():
        for number in range(60):
            plan = Plan(1, {}, contrast=0.0, judged=0.0, turns=4, plainly=plainly)
            made = lesson(drawn, "video", generator("plain", number), plan, WORLDS["full"], False)
            for turn in made.turns:
                if turn.ask in TELL.values():
                    texts[turn.ask].add(turn.answer)
    assert all(len(texts) == 1 for texts in told[True].values())
    assert len(told[False][TELL["general"]]) > 3
    (general,) = told[True][TELL["general"]]
    assert heard(general) == hearing_told(drawn)


@pytest.mark.parametrize("claims", [0.0, 0.5])
def test_a_text_that_is_judged_is_true_of_one_twin_and_false_of_the_other(claims):
    found = 0
    for number in range(30):
        random = generator("opposed", number)
        one = sampled("full", "train", number)
        other = twin(one, random, WORLDS["full"])
        both = opposed(one, other, 4, random, claims) if other else ((), ())
        assert len(both[0]) == len(both[1]) <= 4
        for mine, theirs in zip(*both, strict=True):
            found += 1
            assert mine.rather != theirs.rather
            assert (mine.answer, mine.ask == mine.rather) in (("Yes", True), ("No", False))
        answers = {(turn.ask, scene): turn.answer for scene in (0, 1) for turn in both[scene]}
        assert all({answers[ask, 0], answers[ask, 1]} == {"Yes", "No"} for ask, _ in answers)
    assert found > 40


def test_only_so_many_pairs_of_a_batch_are_twins_and_judge_each_others_texts(writer):
    plan = Plan(4, {"plain": 1.0}, 0.0, 0.0, 2, twins=2, opposed=4)
    judged = np.zeros(6)
    for number in range(4):
        made = batch(writer, plan, SIZES, "train", 0, number)
        judged += (made.wrong[:6] >= 0).any(dim=1).numpy()
    assert (judged[:4] > 0).all()
    assert (judged[4:] == 0).all()


@pytest.mark.parametrize("world", ["full", "placed", "ordered"])
def test_a_claim_is_as_often_true_as_false(world):
    said = [_claimed(sampled(world, "train", n), generator("claim", n), WORLDS[world]) for n in range(300)]
    assert sum(pair.match for pair in said) == pytest.approx(150, abs=30)
    assert all((pair.text == pair.rather) == pair.match for pair in said)


@pytest.mark.parametrize(("hard", "share"), [(1, 1 / 2), (3, 3 / 4)])
def test_what_is_hard_is_asked_as_often_as_the_plan_says(hard, share):
    asked = [Question(f"{kind}?", "", (), kind) for kind in ("colour", "colour", "place", "direction", "last")]
    kinds = Counter(_balanced(asked, generator("hard", n), hard).kind for n in range(600))
    assert kinds["direction"] + kinds["last"] == pytest.approx(600 * share, abs=50)
    assert kinds["colour"] == pytest.approx(kinds["place"], abs=50)
