import json

import numpy as np
import pytest

from reelspace.errors import ReelspaceError
from reelspace.train.plot import by_task, curves, plot, smoothed


@pytest.fixture
def folder(tmp_path):
    rows = []
    for epoch, drawn in enumerate((1, 3)):
        found = {task: {"matched": 0.2 * epoch + at} for task, at in (("clips", 0.1), ("texts", 0.5))}
        rows += [{"event": "probe", "epoch": epoch, "alignment": found}]
        rows += [{"event": "plan", "epoch": epoch, "draws": {"clips": drawn, "texts": 4 - drawn}}]
    rows += [{"event": "step", "step": n, "loss": 1 / n, "mean_score": 0.1 * n} for n in range(1, 6)]
    # The last line was being written when the run was killed.
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"event": "st')
    return tmp_path


def test_curves_are_what_was_logged(folder):
    found = curves(folder)
    assert set(found) == {"loss", "mean_score"}
    assert found["loss"].tolist() == [[n, 1 / n] for n in range(1, 6)]


def test_alignment_and_draws_are_told_by_task_and_epoch(folder):
    found = by_task(folder)
    assert {task: points.tolist() for task, points in found["alignment"].items()} == {
        "clips": [[1, 0.1], [2, pytest.approx(0.3)]],
        "texts": [[1, 0.5], [2, 0.7]],
    }
    assert {task: points.tolist() for task, points in found["draws"].items()} == {
        "clips": [[1, 0.25], [2, 0.75]],
        "texts": [[1, 0.75], [2, 0.25]],
    }


def test_the_mean_is_of_the_last_steps_and_no_more():
    points = np.array([[10, 1.0], [20, 3.0], [30, 5.0]])
    mean, spread = smoothed(points, window=20)
    assert mean.tolist() == [1.0, 2.0, 4.0]
    assert spread.tolist() == [0.0, 1.0, 1.0]


def test_a_picture_of_one_run_or_of_several_is_always_the_same(folder, tmp_path):
    one = plot([folder], tmp_path / "one.svg").read_bytes()
    assert b"<svg" in one and b"Training loss" in one and b"Alignment" in one and b"Share of steps" in one
    assert plot([folder], tmp_path / "two.svg").read_bytes() == one
    other = tmp_path / ("deeper" * 20) / folder.name  # of one name, so that the whole path tells them apart
    other.mkdir(parents=True)
    (other / "log.jsonl").write_bytes((folder / "log.jsonl").read_bytes())
    both = plot([folder, other], tmp_path / "both.svg").read_bytes()
    assert str(other).encode() in both and len(both) > len(one)
    assert plot([folder], tmp_path / "one.png").read_bytes()[:4] == b"\x89PNG"


def test_a_folder_without_a_run_says_so(tmp_path):
    with pytest.raises(ReelspaceError, match="holds no run"):
        curves(tmp_path)
