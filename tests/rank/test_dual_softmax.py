import numpy as np
import pytest

from reelspace.errors import ReelspaceError
from reelspace.rank.dual_softmax import DualSoftmax, fit, weighed


def _cosines(seed, n=60, noise=1.4):
    random = np.random.default_rng(seed)
    candidates = random.normal(size=(n, 16))
    queries = candidates + noise * random.normal(size=(n, 16))
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    return np.asarray(queries @ candidates.T, dtype=np.float32)


def _recall(scores):
    return (scores.argmax(axis=1) == np.arange(len(scores))).mean()


def test_the_weights_are_those_of_the_definition():
    scores = np.float32([[0.5, 0.1], [0.4, 0.3]])
    one = np.exp(0.5 / 0.1) / (np.exp(0.5 / 0.1) + np.exp(0.4 / 0.1))
    other = np.exp(0.3 / 0.1) / (np.exp(0.1 / 0.1) + np.exp(0.3 / 0.1))
    expected = [[0.5 * one, 0.1 * (1 - other)], [0.4 * (1 - one), 0.3 * other]]
    assert weighed(scores, 0.1) == pytest.approx(np.array(expected), rel=1e-6)


def test_it_helps_against_candidates_that_every_query_likes():
    hubs = np.zeros((60, 60), dtype=np.float32)
    hubs[:, :8] = 0.4
    tuned = fit(_cosines(1) + hubs, range(60))
    test = _cosines(2) + hubs
    assert tuned.forward is not None
    assert _recall(tuned(test)[0]) > _recall(test) + 0.05


def test_where_it_cannot_help_the_scores_are_left_alone():
    scores = np.eye(5, dtype=np.float32)
    assert fit(scores, range(5)) == DualSoftmax(None, None)
    forward, backward = DualSoftmax(None, None)(scores)
    assert np.array_equal(forward, scores)
    assert np.array_equal(backward, scores.T)


def test_the_directions_have_temperatures_of_their_own():
    scores = _cosines(3)
    forward, backward = DualSoftmax(0.05, 0.2)(scores)
    assert np.array_equal(forward, weighed(scores, 0.05))
    assert np.array_equal(backward, weighed(scores.T, 0.2))


def test_cold_temperatures_do_not_overflow():
    assert np.isfinite(weighed(_cosines(4), 1e-6)).all()


def test_it_is_fitted_on_pairs():
    with pytest.raises(ReelspaceError, match="a candidate of its own"):
        fit(np.eye(3, dtype=np.float32), [0, 0, 1])
    with pytest.raises(ReelspaceError, match="a candidate of its own"):
        fit(np.eye(3, dtype=np.float32), [0, 1])


def test_candidates_that_no_query_wants_may_stand_by():
    scores = np.concatenate([np.eye(3), np.zeros((3, 4))], axis=1).astype(np.float32)
    assert fit(scores, [0, 1, 2]) == DualSoftmax(None, None)
