"""How much several signals say together that something fits."""

import pytest

from reelspace.index.signalled import COUNTS, Ranking, counts, evidence
from reelspace.moments import Scored
from reelspace.rank.fusion import Place


def found(**margins):
    """Rankings with one find each, or none."""
    span = Scored("video", 0.0, 1.0, 1.0)
    return {
        by: Ranking([] if margin is None else [Place(span, margin >= 0, counts(by, margin))], [])
        for by, margin in margins.items()
    }


@pytest.mark.parametrize("by", COUNTS)
def test_a_find_is_the_surer_the_further_it_is_above_what_fits(by):
    told = [counts(by, margin) for margin in (-100.0, -0.5, -0.1, 0.0, 0.1, 0.5, 100.0)]
    assert told == sorted(told)
    assert 0 <= told[0] < 1e-6 and told[1] < 0.05
    assert told[3] < told[4] and told[-1] == counts(by, 1000.0) < 31


def test_a_signal_alone_fits_where_its_own_find_does():
    for by in COUNTS:
        assert evidence(found(**{by: 0.0})) == pytest.approx(1)
        assert evidence(found(**{by: 0.01})) > 1 > evidence(found(**{by: -0.01}))


def test_of_several_one_that_is_sure_is_enough_and_so_are_all_that_just_fit():
    nothing = dict.fromkeys(COUNTS)
    assert evidence(found(**nothing)) == 0
    assert evidence(found(**dict.fromkeys(COUNTS, 0.0))) == pytest.approx(1)
    for by in COUNTS:
        assert evidence(found(**nothing | {by: 2.0})) > 1
    assert evidence(found(**nothing | {"said": 0.0})) < 1  # there were three more to be wrong
    assert evidence({}) == 0
