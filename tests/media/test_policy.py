import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelspace.errors import ItemError
from reelspace.media.policy import Centres, Fps, Sampling, Uniform, parse_policy

# Golden tables: (policy, displayed frames, seconds) → indices. Frames are evenly spaced unless a test says so.
GOLDEN = [
    ("uniform(8)", 1, 1.0, [0] * 8),
    ("uniform(8)", 5, 1.0, [0, 1, 1, 2, 2, 3, 3, 4]),
    ("uniform(8)", 8, 1.0, [0, 1, 2, 3, 4, 5, 6, 7]),
    ("uniform(8)", 15, 1.0, [0, 2, 4, 6, 8, 10, 12, 14]),
    ("uniform(8)", 300, 10.0, [0, 43, 85, 128, 171, 214, 256, 299]),
    ("uniform(1)", 300, 10.0, [0]),
    ("uniform(3)", 4, 1.0, [0, 2, 3]),  # 1.5 is halfway: to the even 2
    ("uniform(3)", 6, 1.0, [0, 2, 5]),  # 2.5 is halfway: to the even 2
    ("centres(4)", 1, 1.0, [0, 0, 0, 0]),
    ("centres(4)", 8, 8.0, [1, 3, 5, 7]),
    ("centres(4)", 10, 10.0, [1, 3, 6, 8]),
    ("centres(1)", 9, 9.0, [4]),
    ("fps(1, max=8)", 300, 10.0, [0, 43, 85, 128, 171, 214, 256, 299]),  # capped at 8
    ("fps(1, max=8)", 150, 5.0, [0, 50, 99, 149]),  # 5 → the even 4
    ("fps(1, max=8)", 60, 2.0, [0, 20, 39, 59]),  # at least 4
    ("fps(1, max=8)", 210, 7.0, [0, 42, 84, 125, 167, 209]),
    ("fps(1, max=8)", 3, 0.1, [0, 2]),  # no more than there are, evenly
    ("fps(1, max=8)", 1, 0.04, [0, 0]),  # never none
    ("fps(2, max=180)", 90, 3.0, [0, 18, 36, 53, 71, 89]),
]


def _times(count, seconds):
    return np.arange(count) * (seconds / count)


@pytest.mark.parametrize(("text", "count", "seconds", "indices"), GOLDEN)
def test_golden_tables(text, count, seconds, indices):
    policy = parse_policy(text)
    assert policy.choose(_times(count, seconds), 0.0, seconds).tolist() == indices
    assert str(policy) == text


def test_centres_go_by_the_clock_where_frames_are_uneven():
    times = np.array([0.0, 0.1, 0.2, 0.3, 6.0])  # four quick frames, then a still picture until 10 s
    assert Centres(5).choose(times, 0.0, 10.0).tolist() == [3, 3, 3, 4, 4]


def test_centres_of_a_stretch_begin_with_the_frame_on_show():
    times = np.array([4.8, 5.8, 6.8])  # the first is already on show when the stretch 5–7 begins
    assert Centres(4).choose(times, 5.0, 7.0).tolist() == [0, 0, 1, 1]


POLICIES = st.one_of(
    st.builds(Uniform, st.integers(1, 40)),
    st.builds(Centres, st.integers(1, 40)),
    st.builds(Fps, st.sampled_from([0.5, 1.0, 2.0, 4.0]), st.integers(2, 40)),
)


@given(POLICIES, st.lists(st.floats(0.001, 3), min_size=1, max_size=80))
def test_time_never_runs_backwards_and_choosing_again_changes_nothing(policy, steps):
    times = np.concatenate([[0.0], np.cumsum(steps)[:-1]])
    end = float(np.sum(steps))
    chosen = policy.choose(times, 0.0, end)
    assert len(chosen) > 0
    assert chosen[0] >= 0
    assert chosen[-1] < len(times)
    assert (np.diff(chosen) >= 0).all()
    again = policy.choose(times[chosen], 0.0, end)
    assert chosen[again].tolist() == chosen.tolist()


@given(st.integers(1, 60), st.integers(1, 500))
def test_uniform_takes_both_ends_and_covers_every_part(n, count):
    chosen = Uniform(n).choose(_times(count, 1.0), 0.0, 1.0)
    assert chosen[0] == 0
    if n > 1:
        assert chosen[-1] == count - 1
        assert np.abs(chosen - np.linspace(0, count - 1, n)).max() <= 0.5 + 1e-9


@pytest.mark.parametrize(
    "text", ["", "uniform", "uniform()", "uniform(0)", "uniform(2.5)", "fps(1)", "fps(0, max=8)", "median(3)"]
)
def test_what_is_no_policy_is_refused(text):
    with pytest.raises(ItemError):
        parse_policy(text)


def test_a_sampling_declares_itself():
    assert str(Sampling(Uniform(8), edge=224)) == "uniform(8) @ 224 px"
    assert str(Sampling(Fps(1, max=8))) == "fps(1, max=8)"
