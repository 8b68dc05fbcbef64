import math

import numpy as np
import pytest

from reelspace.errors import ReelspaceError
from reelspace.train.schedule import Alignment, Epoch, Fixed, LossWeighted, Proportional, Pyramid, RoundRobin, Uniform
from reelspace.worlds.sample import generator

TASKS = ("texts", "clips", "mixes")
FOUND = {"texts": Alignment(0.8, 0.7, 0.1), "clips": Alignment(0.3, 0.1, 0.05), "mixes": Alignment(0.2, 0.15, 0.05)}


def epoch(number=0, epochs=3, batches=(10.0, 20.0, 30.0), **known):
    return Epoch(number, epochs, TASKS, batches, **known)


def test_the_pyramid_is_the_papers_formula():
    for number, sigma in ((0, 0.1), (1, 0.55), (2, 1.0)):
        weights = [math.exp(FOUND[task].matched / sigma) for task in TASKS]
        expected = [weight / sum(weights) for weight in weights]
        assert Pyramid().shares(epoch(number, alignment=FOUND)) == pytest.approx(expected)


def test_a_single_epoch_has_the_first_sigma():
    assert Pyramid().sigma(epoch(0, 1)) == 0.1


def test_raw_cosines_of_texts_swallow_the_first_epoch_and_contrast_does_not():
    raw = Pyramid().shares(epoch(alignment=FOUND))
    contrast = Pyramid(score="contrast").shares(epoch(alignment=FOUND))
    assert raw[0] > 0.98
    # 1, 4 and 1 standard deviations above what any two items of the task have in common.
    assert contrast.argmax() == 1
    assert contrast[0] == pytest.approx(contrast[2])


def test_the_pyramid_refuses_to_guess_an_alignment():
    with pytest.raises(ReelspaceError, match="clips, mixes"):
        Pyramid().shares(epoch(alignment={"texts": FOUND["texts"]}))


def test_siblings():
    assert Uniform().shares(epoch()) == pytest.approx([1 / 3] * 3)
    assert Proportional().shares(epoch()) == pytest.approx([1 / 6, 2 / 6, 3 / 6])
    assert Fixed({"texts": 1, "clips": 0, "mixes": 3}).shares(epoch()) == pytest.approx([0.25, 0, 0.75])
    assert LossWeighted().shares(epoch()) == pytest.approx([1 / 3] * 3)
    assert LossWeighted().shares(epoch(loss={"texts": 1.0, "clips": 3.0})) == pytest.approx([1 / 6, 3 / 6, 2 / 6])
    assert RoundRobin().draw(epoch(batches=(2.0, 2.0, 3.0)), generator("x")).tolist() == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize(
    "weights", [{"texts": 1}, {"texts": 0, "clips": 0, "mixes": 0}, {"texts": -1, "clips": 1, "mixes": 1}]
)
def test_fixed_weights_must_be_weights_of_the_tasks(weights):
    with pytest.raises(ReelspaceError, match="one weight"):
        Fixed(weights).shares(epoch())


@pytest.mark.parametrize("schedule", [Uniform(), Proportional(), Pyramid()])
def test_an_epoch_has_a_step_for_every_batch_and_tasks_come_by_their_shares(schedule):
    known = epoch(batches=(1000.0, 2000.0, 3000.0), alignment=FOUND)
    drawn = schedule.draw(known, generator("draws", 1))
    shares = np.bincount(drawn, minlength=3) / len(drawn)
    assert len(drawn) == 6000
    assert shares == pytest.approx(schedule.shares(known), abs=0.02)
