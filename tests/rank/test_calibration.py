"""“No match” and `--not`, on scores whose truth is known."""

import numpy as np
import pytest

from reelspace.item import Item
from reelspace.rank.calibration import Calibration, Threshold, calibration_of, fit, query_form, rates
from reelspace.rank.exclude import beyond, exclude

PIXEL = np.zeros((1, 1, 3), np.uint8)


@pytest.mark.parametrize(
    ("item", "form"),
    [
        (Item(text="a cat"), "text"),
        (Item(image=PIXEL), "image"),
        (Item(video="clip.mp4"), "video"),
        (Item(image=PIXEL, video="clip.mp4"), "video"),
        (Item(text="a cat", image=PIXEL), "composed"),
        (Item(text="a cat", video="clip.mp4"), "composed"),
    ],
    ids=repr,
)
def test_query_forms(item, form):
    assert query_form(item) == form


def test_the_fit_separates_what_can_be_separated():
    least = fit(present=np.array([0.5, 0.6, 0.9]), absent=np.array([0.1, 0.3]))
    assert least == pytest.approx(0.4)
    assert rates(least, np.array([0.5, 0.6, 0.9]), np.array([0.1, 0.3])) == (0, 0)


def test_the_fit_weighs_both_errors_by_rate_not_by_count():
    present, absent = np.array([0.4, 0.6]), np.linspace(0, 0.5, 101)
    assert sum(rates(fit(present, absent), present, absent)) == pytest.approx(0.2, abs=0.02)


def test_a_relative_score_is_put_between_the_mean_and_the_best_of_the_background():
    background = np.eye(4, dtype=np.float32)
    calibration = Calibration({"text": Threshold(0.5, relative=True), "image": Threshold(0.5)}, background)
    query = np.array([0.8, 0, 0, 0], np.float32)  # mean .2, best .8
    assert calibration.relative(query, 0.8) == pytest.approx(1)
    assert calibration.relative(query, 0.2) == pytest.approx(0, abs=1e-6)
    assert calibration.match("text", query, 0.51) is True
    assert calibration.match("text", query, 0.49) is False
    assert calibration.match("image", query, 0.49) is False
    assert calibration.match("video", query, 0.49) is None
    scores = np.array([0.56, 0.44])
    assert list(calibration.margins("text", query, scores)) == pytest.approx([0.1, -0.1], abs=1e-6)
    # .06 of the .6 that lie between .2 and .8
    assert list(calibration.margins("image", query, scores)) == pytest.approx([0.1, -0.1], abs=1e-6)
    assert calibration.margins("video", query, scores) is None
    assert Calibration({"image": Threshold(0.5)}, background[:0]).margins("image", query, scores) is None


def test_models_without_thresholds_are_uncalibrated():
    class Plain:
        dim = 4

    assert calibration_of(Plain()) is None


def test_exclusion_pushes_down_what_is_not_wanted_and_lifts_nothing():
    asked, unwanted = np.array([1, 0, 0.0]), np.array([0.8, 0.6, 0])
    candidates = np.array([[0.8, 0.6, 0], [0.75, 0, 0.66], [0.1, 0, 0.99]])
    before = (candidates @ asked).astype(np.float32)
    likeness = candidates @ beyond(asked, unwanted)
    after = exclude(before, likeness, float(likeness.mean()))
    assert before.argmax() == 0
    assert after.argmax() == 1
    assert (after <= before).all()
    assert after[2] == before[2]


def test_excluding_the_query_itself_excludes_nothing():
    query = np.array([0.6, 0.8, 0], np.float32)
    assert not beyond(query, query).any()


def test_what_lies_beyond_the_query_is_at_right_angles_to_it():
    random = np.random.default_rng(0).standard_normal((2, 16)).astype(np.float32)
    query, unwanted = random / np.linalg.norm(random, axis=1, keepdims=True)
    direction = beyond(query, unwanted)
    assert abs(direction @ query) < 1e-6
    assert np.linalg.norm(direction) == pytest.approx(1, abs=1e-6)
    assert direction @ unwanted > 0
