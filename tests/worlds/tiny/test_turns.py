"""Turns are packed behind what they are about, and each is read as if it stood there alone."""

import pytest
import torch

from reelspace.worlds.sample import generator
from reelspace.worlds.tiny.batches import Sizes, batch, collated, written
from reelspace.worlds.tiny.lessons import WORLDS, Lesson, Plan, lesson, one_word, sampled
from reelspace.worlds.tiny.model import Shape, build, looked, quickened
from reelspace.worlds.tiny.train import _states, normed


@pytest.fixture(scope="module")
def model():
    made = build(Shape(hidden=32, layers=2, heads=1, inner=32, vision_hidden=32, vision_layers=1, vision_inner=32), 0)
    quickened(made)
    return made.eval()


def _read(model, rows, lessons, turns):
    inputs = collated(rows, lessons)
    for pixels, grid in (("pixel_values_videos", "video_grid_thw"), ("pixel_values", "image_grid_thw")):
        if pixels in inputs:
            inputs[pixels] = looked(model.model.visual, inputs[pixels], inputs[grid])
    return _states(model, inputs, turns)[-1]


@torch.no_grad()
@pytest.mark.parametrize("medium", ["video", "image", "text"])
def test_a_turn_among_others_is_the_turn_alone(model, writer, medium):
    plan = Plan(1, {}, contrast=0.0, judged=0.4, turns=5)
    made = lesson(sampled("full", "train", 3), medium, generator("turns", 1), plan, WORLDS["full"], summed=True)
    row = written(writer, made)
    # The second row is padded.
    shorter = written(writer, Lesson(medium, made.told, made.turns[:2], made.scene, made.frame))
    turns = torch.zeros(2, len(row.ids), dtype=torch.int64)
    turns[0], turns[1, : len(shorter.ids)] = torch.tensor(row.turn), torch.tensor(shorter.turn)
    packed = _read(model, [row, shorter], [made, made], turns)
    assert max(row.turn) == len(made.turns) == 6
    for number, turn in enumerate(made.turns, 1):
        single = Lesson(medium, made.told, (turn,), made.scene, made.frame)
        alone = written(writer, single)
        mine = [place for place, one in enumerate(row.turn) if one in (0, number)]
        assert [row.ids[place] for place in mine] == alone.ids
        assert [row.weights[place] for place in mine] == alone.weights
        assert [row.wrong[place] for place in mine] == alone.wrong
        expected = _read(model, [alone], [single], None)[0]
        torch.testing.assert_close(packed[0, mine], expected, atol=2e-5, rtol=0)
    assert (packed[0, : len(shorter.ids)] - packed[1, : len(shorter.ids)]).abs().max() < 2e-5


def test_a_batch_knows_its_turns(writer):
    made = batch(writer, Plan(4, {"easy": 1.0}, 1.0, 0.3, 3), Sizes(3, 1, 1, 2), "train", "turns")
    assert made.turns.shape == made.weights.shape
    assert made.turns.max() >= 3
    assert (made.weights[made.turns == 0] == 0).all()


def test_an_embedding_read_after_a_layer_leaves_those_behind_it_alone(model, writer):
    made = Lesson(
        "text", "A red star moves left.", (one_word("text", sampled("easy", "train", 1), generator(1)),), None
    )
    row = written(writer, made)
    inputs = collated([row], [])
    layers = _states(model, inputs)
    last = model.model(**inputs).last_hidden_state
    torch.testing.assert_close(normed(model, layers, None), last)
    torch.testing.assert_close(normed(model, layers, 2), last)
    normed(model, layers, 1).sum().backward()
    first, second = model.model.language_model.layers
    assert all(weight.grad is not None for weight in first.mlp.parameters())
    assert all(weight.grad is None for weight in second.parameters())
    model.zero_grad()
