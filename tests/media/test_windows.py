from bisect import bisect_left, bisect_right
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelspace.errors import ItemError
from reelspace.media.windows import Fixed, Shots, Window, at_frames, parse_windowing, stills_joined

# Golden tables: (windowing, duration, cuts) → edges of the windows.
GOLDEN = [
    ("shots(2, 10)", 8.0, [], [(0, 8)]),
    ("shots(2, 10)", 0.04, [], [(0, 0.04)]),
    ("shots(2, 10)", 10.0, [], [(0, 10)]),
    ("shots(2, 10)", 10.5, [], [(0, 5.25), (5.25, 10.5)]),  # over 10 s: evenly, not 10 and a rest
    ("shots(2, 10)", 30.0, [6.0], [(0, 6), (6, 14), (14, 22), (22, 30)]),
    ("shots(2, 10)", 12.0, [4.0, 7.0], [(0, 4), (4, 7), (7, 12)]),
    ("shots(2, 10)", 12.0, [4.0, 5.0], [(0, 4), (4, 12)]),  # a short shot joins the next
    ("shots(2, 10)", 6.0, [1.0, 2.0, 3.0, 4.0, 5.0], [(0, 2), (2, 4), (4, 6)]),  # a montage does not run together
    ("shots(2, 10)", 9.0, [4.0, 8.0], [(0, 4), (4, 9)]),  # the last joins the one before
    ("shots(2, 10)", 1.5, [0.5], [(0, 1.5)]),
    ("shots(0, 3)", 4.0, [1.0], [(0, 1), (1, 4)]),
    ("fixed(10, 5)", 22.0, [3.0], [(0, 10), (5, 15), (10, 20), (15, 22)]),
    ("fixed(10, 5)", 20.0, [], [(0, 10), (5, 15), (10, 20)]),  # none that lies in another
    ("fixed(10, 10)", 25.0, [], [(0, 10), (10, 20), (20, 25)]),
    ("fixed(10, 5)", 7.0, [], [(0, 7)]),
    ("fixed(10, 5)", 10.0, [], [(0, 10)]),
]


@pytest.mark.parametrize(("text", "duration", "cuts", "windows"), GOLDEN)
def test_golden_tables(text, duration, cuts, windows):
    windowing = parse_windowing(text)
    assert windowing.windows(duration, cuts) == [Window(*window) for window in windows]
    assert str(windowing) == text


def test_an_hour_of_one_shot_is_split_evenly():
    windows = Shots().windows(3600.0, [])
    assert len(windows) == 360
    assert all(window.end - window.start == pytest.approx(10) for window in windows)


def _displayed(times):
    """As `Video.displayed`, of a video whose frames are first shown at these times."""

    def displayed(start, end):
        first = bisect_right(times, start) - 1
        return first, max(first + 1, bisect_left(times, end))

    return displayed


# (windowing, times of the frames, duration) → edges of the windows.
STILLS = [
    ("shots(2, 10)", [0], 3600, [(0, 3600)]),
    ("shots(2, 10)", [0, 30], 60, [(0, 30), (30, 60)]),  # two slides that are no cut
    ("shots(2, 10)", [0, 34], 60, [(0, 30), (30, 40), (40, 60)]),
    ("shots(2, 10)", [0, 21, 22, 23], 60, [(0, 20), (20, 30), (30, 60)]),  # paused, motion, paused
    ("shots(2, 10)", list(range(60)), 60, [(start, start + 10) for start in range(0, 60, 10)]),
    ("fixed(10, 5)", [0, 27], 60, [(0, 25), (20, 30), (25, 35), (30, 60)]),
]


@pytest.mark.parametrize(("text", "times", "duration", "windows"), STILLS)
def test_while_one_frame_is_on_show_it_is_one_window(text, times, duration, windows):
    every = parse_windowing(text).windows(duration)
    assert list(stills_joined(every, _displayed(times))) == windows


def test_windows_come_one_by_one_however_many_there_are():
    for windowing in (Shots(0, 1e-9), Fixed(1e-6, 1e-9)):
        assert len(list(islice(windowing.divide(7 * 86400.0, []), 3))) == 3


def test_a_window_comes_as_soon_as_the_cut_that_ends_it():
    def cuts():
        yield 3.0
        yield 6.0
        raise AssertionError

    assert list(islice(Shots().divide(60.0, cuts()), 2)) == [(0, 3), (3, 6)]


WINDOWINGS = st.one_of(
    st.builds(lambda a, b: Shots(min(a, b), max(a, b)), st.floats(0, 5), st.floats(0.5, 12)),
    st.builds(lambda a, b: Fixed(max(a, b), min(a, b)), st.floats(0.5, 12), st.floats(0.5, 12)),
)


@given(WINDOWINGS, st.floats(0.02, 200), st.lists(st.floats(0, 1, exclude_min=True, exclude_max=True), max_size=30))
def test_windows_cover_all_of_a_video_in_order_and_none_is_empty(windowing, duration, parts):
    cuts = sorted({part * duration for part in parts if 0 < part * duration < duration})
    windows = windowing.windows(duration, cuts)
    assert windows[0].start == 0
    assert windows[-1].end == duration
    assert all(window.start < window.end for window in windows)
    for one, other in pairwise(windows):
        assert one.start < other.start <= one.end + 1e-9
        assert one.end < other.end


@given(WINDOWINGS, st.floats(0.02, 200), st.lists(st.floats(0, 1, exclude_max=True), max_size=8))
def test_joined_stills_cover_what_their_windows_did(windowing, duration, parts):
    times = sorted({0.0, *(part * duration for part in parts)})
    every, displayed = windowing.windows(duration), _displayed(times)
    joined = list(stills_joined(every, displayed))
    assert (joined[0].start, joined[-1].end) == (0, duration)
    assert all(one.start < other.start <= one.end + 1e-9 for one, other in pairwise(joined))
    assert {displayed(*window) for window in joined} == {displayed(*window) for window in every}
    if isinstance(windowing, Shots):
        assert len(joined) < 2 * len(times)


@given(st.floats(0.02, 200), st.lists(st.floats(0, 1, exclude_min=True, exclude_max=True), max_size=30))
def test_shots_keep_to_their_lengths(duration, parts):
    cuts = sorted({part * duration for part in parts if 0 < part * duration < duration})
    for start, end in Shots(2, 10).windows(duration, cuts):
        assert end - start <= 10 + 1e-9
        assert end - start >= min(2, duration) - 1e-9


@pytest.mark.parametrize(
    "text",
    ["", "shots()", "shots(3)", "shots(5, 2)", "shots(0, 0)", "fixed(5, 10)", "fixed(0, 0)", "fixed(5)", "scenes"],
)
def test_what_is_no_windowing_is_refused(text):
    with pytest.raises(ItemError):
        parse_windowing(text)


# (windowing, duration, times of the frames) → edges.
AT_FRAMES = [
    ("shots(2, 10)", 8.0, [0], [(0, 8)]),
    ("shots(2, 10)", 24.0, [0, 8.3, 16.6], [(0, 8.3), (8.3, 16.6), (16.6, 24)]),
    ("shots(2, 10)", 30.0, [0, 3, 27], [(0, 3), (3, 27), (27, 30)]),
    ("shots(2, 10)", 10.2, [0, 10], [(0, 10.2)]),  # nothing begins in the last second
    ("shots(2, 10)", 0.5, [0, 0.1, 0.2], [(0, 0.5)]),
    ("fixed(10, 5)", 22.0, [0, 8, 16], [(0, 8), (8, 16), (8, 22), (16, 22)]),
    ("fixed(10, 5)", 22.0, [0], [(0, 22)]),
]


@pytest.mark.parametrize(("text", "duration", "times", "windows"), AT_FRAMES)
def test_fast_windows_begin_and_end_with_frames(text, duration, times, windows):
    every = parse_windowing(f"fast {text}").windows(duration)
    assert list(at_frames(every, np.array(times, float), duration)) == [Window(*window) for window in windows]


@given(WINDOWINGS, st.floats(0.02, 200), st.lists(st.floats(0, 1, exclude_max=True), max_size=30))
def test_windows_at_frames_still_cover_all_of_a_video(windowing, duration, parts):
    times = np.array(sorted({0.0, *(part * duration for part in parts)}))
    windows = list(at_frames(windowing.windows(duration), times, duration))
    assert (windows[0].start, windows[-1].end) == (0, duration)
    assert all(window.start < window.end for window in windows)
    assert all(one.start <= other.start <= one.end for one, other in pairwise(windows))
    assert {edge for window in windows for edge in window} <= {*times.tolist(), duration}


def test_fast_is_declared():
    assert str(Shots(fast=True)) == "fast shots(2, 10)"
    assert parse_windowing("fast fixed(10, 5)") == Fixed(10, 5, fast=True)
    assert parse_windowing("fast shots").form == "shots(2, 10)"


def test_the_default_has_a_short_name():
    assert parse_windowing("shots") == Shots() == Shots(2, 10)
