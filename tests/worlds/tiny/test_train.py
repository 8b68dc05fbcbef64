import json

import numpy as np
import pytest
import torch

from recipe import RECIPE
from reelspace.errors import ReelspaceError
from reelspace.worlds.tiny.exam import auc
from reelspace.worlds.tiny.model import load
from reelspace.worlds.tiny.steps import Pace
from reelspace.worlds.tiny.train import CURVES, STATE, contrastive, read, train


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


class _KilledError(Exception):
    pass


def _weights(folder):
    return {name: weight.clone() for name, weight in load(folder)[0].state_dict().items()}


def test_an_interrupted_run_ends_as_one_that_was_not(recipe, tmp_path):
    train(read(recipe), tmp_path / "whole", 0, lambda line: None)

    def kill(line):
        if line.startswith('{"step": 2'):
            raise _KilledError

    with pytest.raises(_KilledError):
        train(read(recipe), tmp_path / "cut", 0, kill)
    assert not (tmp_path / "cut" / "model").exists()
    train(read(recipe), tmp_path / "cut", 0, lambda line: None)
    one, other = _weights(tmp_path / "whole"), _weights(tmp_path / "cut")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert (tmp_path / "whole" / CURVES).read_text() == (tmp_path / "cut" / CURVES).read_text()


def test_a_curve_that_ran_ahead_of_the_saved_state_is_taken_back(recipe, tmp_path):
    folder = tmp_path / "run"
    train(read(recipe), folder, 0, lambda line: None)
    curves = (folder / CURVES).read_text()
    (folder / CURVES).write_text(curves + json.dumps({"step": 6}) + "\n")
    train(read(recipe), folder, 0, lambda line: None)
    assert (folder / CURVES).read_text() == curves
    assert (folder / STATE).exists()


def test_a_folder_keeps_to_its_recipe_and_seed(recipe, tmp_path):
    train(read(recipe), tmp_path / "run", 0, lambda line: None)
    with pytest.raises(ReelspaceError, match="another recipe or seed"):
        train(read(recipe), tmp_path / "run", 1, lambda line: None)


def test_what_is_no_recipe_is_refused(recipe):
    recipe.write_text(RECIPE.replace("rate", "speed"))
    with pytest.raises(ReelspaceError, match="speed"):
        read(recipe)


def test_a_layer_that_there_is_not_is_refused(recipe):
    recipe.write_text(f"layer = 7\n{RECIPE}")
    with pytest.raises(ReelspaceError, match="no layer 7"):
        read(recipe)


def test_the_contrastive_loss_is_info_nce_both_ways_without_false_negatives():
    rows = torch.nn.functional.normalize(torch.tensor(np.random.default_rng(0).normal(size=(2, 4, 8))), dim=-1)
    alike = torch.eye(4, dtype=torch.bool)
    alike[0, 2] = True
    table = (rows[0] @ rows[1].T / 0.05).numpy()
    kept = np.where((alike & ~torch.eye(4, dtype=torch.bool)).numpy(), -np.inf, table)
    there = np.log(np.exp(kept).sum(axis=1)) - np.diag(table)
    back = np.log(np.exp(kept).sum(axis=0)) - np.diag(table)
    expected = (there.mean() + back.mean()) / 2
    assert float(contrastive(rows[0], rows[1], alike, 0.05)) == pytest.approx(expected, rel=1e-9)


def test_a_caption_that_is_nobodys_is_a_negative_of_every_video_and_asks_for_none():
    rows = torch.nn.functional.normalize(torch.tensor(np.random.default_rng(0).normal(size=(2, 4, 8))), dim=-1)
    videos, texts = rows[0][:3], rows[1]
    alike = torch.eye(3, 4, dtype=torch.bool)
    scores = videos @ texts.T / 0.05
    there = -scores.log_softmax(dim=1).diagonal().mean()
    back = -scores[:, :3].log_softmax(dim=0).diagonal().mean()
    assert float(contrastive(videos, texts, alike, 0.05)) == pytest.approx(float((there + back) / 2), rel=1e-9)
    alike[0, 3] = True  # true of the first video after all
    assert contrastive(videos, texts, alike, 0.05) < (there + back) / 2


def test_the_area_under_the_curve_counts_ties_half():
    assert auc(np.float32([3, 2, 2, 1]), np.array([True, True, False, False])) == pytest.approx(3.5 / 4)


def test_every_round_rises_and_falls():
    once = Pace(steps=100, warmup=10, cooldown=0.5)
    again = Pace(steps=300, warmup=10, cooldown=0.5, rounds=((100, 1.0), (200, 0.5)))
    rates = [again.factor(step) for step in range(300)]
    assert rates[:100] == [once.factor(step) for step in range(100)]
    assert rates[99] == pytest.approx(0.02)
    assert rates[100] == pytest.approx(0.05)
    assert max(rates[100:]) == rates[150] == 0.5
    assert rates[250] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("before", "after"), [("until = 4", "until = 3"), ("steps = 4", "steps = 4\nrounds = [[3, 1.0]]")]
)
def test_plans_and_rounds_end_with_the_last_step(recipe, before, after):
    recipe.write_text(recipe.read_text().replace(before, after, 1))
    with pytest.raises(ReelspaceError, match="must end with step 4"):
        read(recipe)
