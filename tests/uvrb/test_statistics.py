import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from reelspace.uvrb.statistics import (
    binomial,
    correlate,
    correlation_gap,
    holm,
    mean_interval,
    middle,
    p_value,
    random,
    ranks,
    resampled,
    sign_test,
    wilson,
)

numbers = st.lists(st.floats(-5, 5, allow_nan=False).map(lambda x: round(x, 2)), min_size=4, max_size=30)


@settings(max_examples=40)
@given(st.integers(1, 500), st.data())
def test_wilson_agrees_with_scipy(n, data):
    right = data.draw(st.integers(0, n))
    theirs = stats.binomtest(right, n).proportion_ci(method="wilson")
    assert wilson(right, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@settings(max_examples=40)
@given(numbers, st.data())
def test_correlations_agree_with_scipy(x, data):
    y = data.draw(st.lists(st.integers(-9, 9), min_size=len(x), max_size=len(x)))
    if np.std(x) < 1e-6 or len(set(y)) == 1:
        assert correlate(x, y).value is None
        return
    assert correlate(x, y).value == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-9)
    assert correlate(x, y, "spearman").value == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-9)
    assert ranks(x).tolist() == stats.rankdata(x).tolist()


@settings(max_examples=40)
@given(numbers)
def test_the_interval_of_pearson_is_fishers(x):
    y = [value + 0.7 * ((7 * k) % 5) for k, value in enumerate(x)]
    result = correlate(x, y)
    if result.value is None or abs(result.value) > 1 - 1e-9:
        return
    theirs = stats.pearsonr(x, y).confidence_interval(0.95)
    assert result.interval == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_too_few_rows_have_no_correlation_or_no_interval():
    assert correlate([1, 2], [1, 2]).value is None
    assert (correlate([1, 2, 3], [1, 2, 2]).value, correlate([1, 2, 3], [1, 2, 2]).interval) == (
        pytest.approx(0.866, abs=1e-3),
        None,
    )
    assert correlate([1, 2, 3, 4], [2, 4, 6, 8]) == ("pearson", 1.0, None, 4)
    assert correlate([1, 1, 1, 1], [2, 4, 6, 8]) == ("pearson", None, None, 4)


def test_a_bootstrap_has_the_spread_of_the_mean():
    values = np.random.default_rng(5).random(400)
    drawn = resampled(values, random("spread"))
    assert drawn.mean() == pytest.approx(values.mean(), abs=4 * values.std() / np.sqrt(400 * 10_000))
    assert drawn.std() == pytest.approx(values.std() / np.sqrt(400), rel=0.03)
    low, high = middle(drawn)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=5000, method="percentile", rng=3).confidence_interval
    assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=0.004)


def test_an_unpaired_draw_has_the_binomials_spread():
    drawn = binomial(0.3, 100, random("b"))
    assert (drawn.mean(), drawn.std()) == (pytest.approx(0.3, abs=0.002), pytest.approx(np.sqrt(0.0021), rel=0.03))
    assert set(binomial(0.0, 9, random("b"))) == {0.0}


@pytest.mark.parametrize(("n", "share"), [(100, 0.5), (100, 0.95), (1000, 0.1)])
def test_intervals_of_a_mean_cover_it_nearly_95_times_in_100(n, share):
    made = np.random.default_rng(n)
    covered = 0
    for _ in range(400):
        low, high = mean_interval((made.random(n) < share).astype(float), random("cover"))
        covered += low <= share <= high
    assert 0.92 <= covered / 400 <= 0.985


def test_a_paired_bootstrap_seldom_finds_what_is_not_there():
    """Two models that differ by chance alone: p is below 0.05 about 5 times in 100."""
    made = np.random.default_rng(2)
    found = 0
    for _ in range(300):
        gaps = (made.random(500) < 0.3).astype(float) - (made.random(500) < 0.3)
        found += p_value(resampled(gaps, random("null"), 1000)) < 0.05
    assert 0.02 <= found / 300 <= 0.09


@settings(max_examples=40)
@given(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_is_exact(above, below):
    gaps = [1.0] * above + [-1.0] * below + [0.0] * 7
    expected = stats.binomtest(above, above + below).pvalue if above + below else 1.0
    assert sign_test(gaps) == pytest.approx(expected, abs=1e-12)


def test_the_sign_test_takes_many_queries():
    assert sign_test([1.0] * 7300 + [-1.0] * 7000) == pytest.approx(stats.binomtest(7300, 14300).pvalue)


def test_p_is_never_0_and_1_where_nothing_differs():
    assert p_value(np.full(999, 0.2)) == 2 / 1000
    assert p_value(np.zeros(999)) == 1.0


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_what_is_drawn_for_a_key_hangs_on_nothing_else():
    assert random("a", "b").random() == random("a", "b").random()
    assert random("ab").random() != random("a", "b").random()
    assert random("a").random() != random("a", seed=1).random()


@pytest.mark.parametrize("method", ["pearson", "spearman"])
def test_a_gap_between_correlations(method):
    made = np.random.default_rng(0)
    y = made.random(40)
    near, far = y + 0.1 * made.random(40), made.random(40)
    gap, (low, high) = correlation_gap(near, far, y, random("gap"), method)
    assert gap == pytest.approx(correlate(near, y, method).value - correlate(far, y, method).value)
    assert 0 < low < gap < high
    _, (low, high) = correlation_gap(far, made.random(40), y, random("gap"), method)
    assert low < 0 < high
    assert correlation_gap(y[:4], far[:4], y[:4], random("gap"), method) is None
    assert correlation_gap(np.ones(9), far[:9], y[:9], random("gap"), method) is None
