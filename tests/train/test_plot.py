import json

import numpy as np
import pytest

from reelspace.errors import ReelspaceError
from reelspace.train.plot import curves, plot, smoothed


@pytest.fixture
def folder(tmp_path):
    rows = [{"event": "plan", "epoch": 0, "draws": {}}]
    rows += [{"event": "step", "step": n, "loss": 1 / n, "mean_score": 0.1 * n} for n in range(1, 6)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_curves_are_what_was_logged(folder):
    found = curves(folder)
    assert set(found) == {"loss", "mean_score"}
    assert found["loss"].tolist() == [[n, 1 / n] for n in range(1, 6)]


def test_the_mean_is_of_the_last_steps_and_no_more():
    points = np.array([[10, 1.0], [20, 3.0], [30, 5.0]])
    mean, spread = smoothed(points, window=20)
    assert mean.tolist() == [1.0, 2.0, 4.0]
    assert spread.tolist() == [0.0, 1.0, 1.0]


def test_a_picture_of_one_run_or_of_several_is_always_the_same(folder, tmp_path):
    one = plot([folder], tmp_path / "one.svg").read_bytes()
    assert b"<svg" in one and b"Training loss" in one
    assert plot([folder], tmp_path / "two.svg").read_bytes() == one
    assert plot([folder, folder], tmp_path / "both.png").read_bytes()[:4] == b"\x89PNG"


def test_a_folder_without_a_run_says_so(tmp_path):
    with pytest.raises(ReelspaceError, match="holds no run"):
        curves(tmp_path)
