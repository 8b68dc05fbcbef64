import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelspace.moments import ALIKE, OVERLAP, Scored, iou, mean_iou, moments, nms, rank, recall_at_1


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((0, 10), (0, 10), 1),
        ((0, 10), (5, 15), 1 / 3),
        ((0, 10), (10, 20), 0),
        ((0, 1), (5, 9), 0),
        ((2, 4), (0, 10), 0.2),
        ((3, 3), (3, 3), 0),
    ],
)
def test_iou(a, b, expected):
    assert iou(a, b) == pytest.approx(expected)
    assert iou(b, a) == pytest.approx(expected)


def test_iou_broadcasts():
    assert iou([[0, 10], [5, 15]], (0, 10)).tolist() == pytest.approx([1, 1 / 3])


def test_span_metrics():
    predicted, truth = [(0, 10), (0, 10), (0, 1)], [(0, 10), (5, 15), (5, 9)]
    assert recall_at_1(predicted, truth) == pytest.approx(1 / 3)
    assert recall_at_1(predicted, truth, 0.3) == pytest.approx(2 / 3)
    assert mean_iou(predicted, truth) == pytest.approx(4 / 9)


def test_ties_are_ordered_by_video_and_start():
    windows = [Scored("b", 0, 1, 0.5), Scored("a", 5, 6, 0.5), Scored("a", 0, 1, 0.5), Scored("c", 0, 1, 0.9)]
    assert rank(windows) == [windows[3], windows[2], windows[1], windows[0]]


def test_nms_keeps_the_best_of_those_that_overlap_and_other_videos():
    best, overlapping, apart = Scored("a", 0, 10, 0.9), Scored("a", 3, 12, 0.8), Scored("a", 8, 20, 0.7)
    other = Scored("b", 0, 10, 0.6)
    assert nms([best, overlapping, apart, other]) == [best, apart, other]


def test_touching_windows_merge_when_they_score_alike():
    windows = rank(
        [Scored("a", 0, 5, 0.50), Scored("a", 5, 9, 0.48), Scored("a", 9, 12, 0.30), Scored("a", 14, 20, 0.5)]
    )
    found = list(moments(windows, spread=0.2))
    assert [(m.start, m.end, m.score) for m in found] == [(0, 9, 0.50), (14, 20, 0.5), (9, 12, 0.30)]
    assert [(m.start, m.end) for m in moments(windows, spread=0.01)] == [(0, 5), (14, 20), (5, 9), (9, 12)]


def test_alike_is_judged_against_the_best_so_a_slope_does_not_merge_into_one():
    slope = rank(Scored("a", i, i + 1, 1 - 0.02 * i) for i in range(10))
    assert [(m.start, m.end) for m in moments(slope, spread=0.1)] == [(0, 2), (2, 4), (4, 6), (6, 8), (8, 10)]


def test_overlapping_windows_of_fixed_length_merge_into_their_union():
    windows = rank([Scored("a", 0, 10, 0.5), Scored("a", 5, 15, 0.5), Scored("a", 10, 20, 0.5)])
    assert [(m.start, m.end) for m in moments(windows, spread=0.1)] == [(0, 20)]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 12), st.sampled_from([1, 2, 3]), st.integers(0, 20)),
        max_size=25,
    ),
    st.integers(0, 20),
    st.sampled_from([0.0, 0.1, 0.4]),
)
def test_the_head_of_a_ranking_does_not_depend_on_its_tail(drawn, floor, spread):
    """What lets a search stop early, and pages follow one another."""
    unique = {(video, start, length): score for video, start, length, score in drawn}
    windows = rank(Scored(v, s, s + n, score / 20) for (v, s, n), score in unique.items())
    whole = list(moments(windows, spread))
    head = moments([w for w in windows if w.score > floor / 20], spread)
    final = [m for m in head if m.score - ALIKE * spread > floor / 20]
    assert whole[: len(final)] == final


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9), st.integers(0, 9)), max_size=30))
def test_every_window_kept_is_told_by_a_moment_that_scores_as_well(drawn):
    windows = rank({Scored("a", s, s + n, score / 9) for s, n, score in drawn})
    found = list(moments(windows, spread=float(np.std([w.score for w in windows])) if windows else 0))
    assert [m.score for m in found] == sorted((m.score for m in found), reverse=True)
    for window in nms(windows):
        assert any(_share(window, m) > OVERLAP and m.score >= window.score for m in found)


def _share(window, moment):
    return (min(window.end, moment.end) - max(window.start, moment.start)) / (window.end - window.start)


def test_moments_of_overlapping_windows_do_not_overlap_much():
    """Windows of 10 s every 5 s: what a better moment has grown over is not told again from its second half on."""
    scores = [0.9, 0.5, 0.89, 0.5, 0.88, 0.5, 0.6, 0.1]
    windows = rank([Scored("a", 5.0 * i, 5.0 * i + 10, score) for i, score in enumerate(scores)])
    found = list(moments(windows, spread=0.2))
    assert (found[0].start, found[0].end) == (0, 30)
    assert all(moment.start >= 30 or moment is found[0] for moment in found)
