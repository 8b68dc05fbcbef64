from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from reelspace import Frames, Item, Span
from reelspace.errors import ItemError
from reelspace.item import parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("12", 12), ("12.5", 12.5), (".5", 0.5), ("1:02.5", 62.5), ("01:01:02.5", 3662.5), ("90:00", 5400)],
)
def test_seconds_are_read_in_the_usual_notations(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "a", "-1", "1:2:3:4", "1.5:00", "nan", "inf", "1e3", ":", "1:", "٣:00.x"])
def test_what_is_not_a_time_is_refused(text):
    with pytest.raises(ItemError, match="not a time"):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("a.mp4", Span(Path("a.mp4"))),
        ("a.mp4@10-14.5", Span(Path("a.mp4"), 10, 14.5)),
        ("a.mp4@1:00-", Span(Path("a.mp4"), 60)),
        ("a.mp4@-5", Span(Path("a.mp4"), 0, 5)),
        ("a.mp4@-", Span(Path("a.mp4@-"))),
        ("me@home/a.mp4", Span(Path("me@home/a.mp4"))),
        ("a@1-2.mp4@3-4", Span(Path("a@1-2.mp4"), 3, 4)),
    ],
)
def test_a_span_is_read_from_its_notation(text, span):
    assert Span.parse(text) == span


def test_a_file_of_the_whole_name_wins_over_the_notation(tmp_path):
    odd = tmp_path / "talk@1-2"
    odd.touch()
    assert Span.parse(str(odd)) == Span(odd)


@given(st.floats(0, 1e6), st.floats(0.001, 1e6))
def test_a_span_survives_being_written_and_read(start, length):
    start, end = float(f"{start:g}"), float(f"{start + length:g}")
    if start < end and "e" not in f"{start:g}{end:g}":
        span = Span(Path("a.mp4"), start, end)
        assert Span.parse(str(span)) == span


@pytest.mark.parametrize("times", [(5, 5), (5, 4), (-1, 4), (float("nan"), 4), (0, float("inf"))])
def test_an_empty_span_is_refused(times):
    with pytest.raises(ItemError, match="empty or not a time"):
        Span(Path("a.mp4"), *times)


def test_the_order_parts_are_given_in_never_matters():
    picture = np.zeros((2, 2, 3), np.uint8)
    item = Item(video="a.mp4", text="a dog", image=picture)
    assert item.parts == ("video", "image", "text")
    assert item.modality == "video+image+text"
    assert item.format == "CMP"


def test_query_formats_are_the_benchmarks():
    picture = np.zeros((2, 2, 3), np.uint8)
    assert Item("a dog").format == "TXT"
    assert Item(image=picture).format == Item(video="a.mp4").format == "VIS"
    assert Item("a dog", image=picture).format == "CMP"


def test_every_way_of_giving_a_part_is_taken():
    assert Item(image="a.jpg").image == Path("a.jpg")
    assert Item(image=Image.new("L", (3, 2))).modality == "image"
    assert Item(video="a.mp4@1-2").video == Span(Path("a.mp4"), 1, 2)
    assert Item(video=Path("a.mp4@1-2")).video == Span(Path("a.mp4@1-2"))


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"text": " \n"},
        {"text": 3},
        {"image": np.zeros((2, 2, 3), np.float32)},
        {"image": np.zeros((2, 2), np.uint8)},
        {"image": np.zeros((0, 2, 3), np.uint8)},
        {"image": 3},
        {"video": 3},
    ],
)
def test_an_item_that_cannot_be_meant_is_refused(parts):
    with pytest.raises(ItemError):
        Item(**parts)


def test_frames_know_the_stretch_they_stand_for():
    frames = Frames(np.zeros((3, 2, 2, 3), np.uint8), np.array([1.0, 1.5, 2.0]))
    assert (frames.start, frames.end, len(frames)) == (1.0, 2.5, 3)
    single = Frames(np.zeros((1, 2, 2, 3), np.uint8), np.array([4.0]))
    assert (single.start, single.end) == (4.0, 4.04)


@pytest.mark.parametrize(
    ("pixels", "times"),
    [
        (np.zeros((2, 2, 2, 3), np.uint8), [1.0, 0.5]),
        (np.zeros((2, 2, 2, 3), np.uint8), [1.0]),
        (np.zeros((2, 2, 2, 3), np.uint8), [0.0, float("nan")]),
        (np.zeros((2, 3, 2, 2), np.uint8), [0.0, 1.0]),
        (np.zeros((0, 2, 2, 3), np.uint8), []),
        (np.zeros((1, 2, 2, 3), np.float32), [0.0]),
    ],
)
def test_frames_in_a_wrong_layout_are_refused(pixels, times):
    with pytest.raises(ItemError):
        Frames(pixels, np.array(times))


def test_an_item_shows_what_it_is_made_of():
    assert repr(Item("a dog", video="a.mp4@1-2")) == "Item(text='a dog', video='a.mp4@1-2')"
