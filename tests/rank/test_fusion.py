import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelspace.errors import ReelspaceError
from reelspace.rank.fusion import fuse


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
