import pytest

from reelspace.worlds.captions import DOES, caption
from reelspace.worlds.sample import generator
from reelspace.worlds.tiny.hearing import heard, told
from reelspace.worlds.tiny.lessons import sampled


def test_true_captions_are_read_back_whole():
    for number in range(400):
        drawn = sampled("full", "held-out", "hearing", number)
        text = caption(drawn, "general", generator("hearing", number)).text
        assert heard(text) == told(drawn), text


@pytest.mark.parametrize(("verb", "way"), [(verb, way) for verb, ways in DOES.items() for way in ways])
def test_every_way_to_say_what_a_thing_does_is_understood(verb, way):
    text = f"By day, a red star {way.format('the dog')} in the city and a cow rests."
    assert {fact for fact in heard(text) if fact[0] == "deed"} == {("deed", "star", verb), ("deed", "cow", "nothing")}


def test_a_false_or_foreign_word_is_not_taken_for_a_true_one():
    assert heard("A red circle moves left.") == {
        ("form", "circle"),
        ("colour", "circle", "red"),
        ("deed", "circle", "left"),
    }
    assert ("deed", "circle", "left") not in heard("A red circle moves left and back.")
    assert heard("Nothing of this is known.") == frozenset()
