import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelspace.errors import ReelspaceError
from reelspace.moments import Scored
from reelspace.rank.fusion import Place, fuse, fuse_spans


def test_the_scores_are_those_of_the_definition():
    assert fuse([["a", "b"], ["b", "c"]]) == [("b", 1 / 62 + 1 / 61), ("a", 1 / 61), ("c", 1 / 62)]


def test_found_twice_beats_found_once_at_the_same_places_and_ties_go_by_id():
    assert [key for key, _ in fuse([["b", "a"], ["c", "a"]])] == ["a", "b", "c"]


def test_weights_decide_whom_to_believe():
    assert fuse([["a", "b"], ["b", "a"]], weights=[1.0, 2.0])[0][0] == "b"
    with pytest.raises(ReelspaceError, match="2 rankings cannot be fused with 1 weights"):
        fuse([["a"], ["b"]], weights=[1.0])


def test_a_ranking_that_names_something_twice_is_refused():
    with pytest.raises(ReelspaceError, match="twice"):
        fuse([["a", "a"]])


@given(st.lists(st.permutations(range(6)), min_size=1, max_size=4))
def test_the_order_of_the_rankings_does_not_matter_and_nothing_is_lost(rankings):
    fused = fuse(rankings)
    assert {key for key, _ in fused} == set(range(6))
    again = dict(fuse(rankings[::-1]))
    assert all(again[key] == pytest.approx(score) for key, score in fused)


def test_nothing_fused_is_nothing():
    assert fuse([]) == []
    assert fuse([[], []]) == []


def places(*spans, fits=True, weight=1.0):
    return [Place(Scored(video, start, end, 1.0), fits, weight) for video, start, end in spans]


def spans(fused):
    return [(one.span.video, one.span.start, one.span.end) for one in fused]


def test_a_moment_that_two_rankings_find_rises_above_those_that_one_finds():
    seen = places(("a", 0, 5), ("b", 0, 5), ("c", 10, 15))
    said = places(("d", 0, 9), ("e", 0, 9), ("c", 9, 16))
    fused = fuse_spans({"seen": seen, "said": said})
    assert spans(fused)[0] == ("c", 10, 15)  # the shorter of the two: it says more exactly when
    assert fused[0].places == {"seen": 2, "said": 2}
    assert fused[0].score == pytest.approx(2 / 63)
    assert [one.span.video for one in fused[1:3]] == ["a", "d"]


def test_what_lies_apart_in_time_is_not_one_finding():
    fused = fuse_spans({"seen": places(("a", 0, 5)), "said": places(("a", 4, 12))})
    assert spans(fused) == [("a", 0, 5), ("a", 4, 12)]
    assert all(len(one.places) == 1 for one in fused)


def test_a_name_lifts_every_moment_of_its_video_and_says_nothing_twice():
    seen = places(("b", 0, 5), ("a", 0, 5), ("a", 20, 25))
    fused = fuse_spans({"seen": seen, "named": places(("a", 0, 60))})
    assert spans(fused) == [("a", 0, 5), ("a", 20, 25), ("b", 0, 5)]
    assert [sorted(one.places) for one in fused] == [["named", "seen"], ["named", "seen"], ["seen"]]


def test_what_does_not_fit_counts_less_and_does_not_say_when():
    seen, named = places(("b", 0, 5), ("a", 0, 5), fits=False, weight=0.25), places(("a", 0, 60))
    fused = fuse_spans({"seen": seen, "named": named})
    assert spans(fused) == [("a", 0, 60), ("b", 0, 5)]
    assert fused[0].score == pytest.approx(1 / 61)


def test_a_long_span_does_not_gather_what_lies_at_different_times_in_it():
    seen, said = places(("a", 0, 5), ("b", 0, 5)), places(("a", 30, 35), ("b", 1, 4))
    fused = fuse_spans({"seen": seen, "said": said, "named": places(("a", 0, 60), ("b", 0, 60))})
    assert spans(fused) == [("b", 1, 4), ("a", 0, 5), ("a", 30, 35)]
    assert sorted(fused[0].places) == ["named", "said", "seen"]


def test_spans_of_no_rankings_are_none():
    assert fuse_spans({}) == []
    assert fuse_spans({"seen": []}) == []


def test_equal_scores_are_ordered_by_length_then_ranking_then_video_and_time():
    one = places(("b", 0, 5)), places(("a", 0, 5))
    assert spans(fuse_spans({"x": one[0], "y": one[1]})) == [("b", 0, 5), ("a", 0, 5)]
    assert spans(fuse_spans({"x": one[0], "y": places(("a", 0, 4))})) == [("a", 0, 4), ("b", 0, 5)]
