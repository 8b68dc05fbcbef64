from itertools import pairwise

from reelspace.signals.base import Line
from reelspace.signals.passages import ENOUGH, LONGEST, passages_of


def lines(*rows, source="talk.srt"):
    return [Line(start, end, text, source) for start, end, text in rows]


def test_lines_that_follow_on_each_other_are_one_passage():
    found = passages_of(lines((0, 2, "We begin"), (2, 4, "with prices."), (4.5, 6, "Then costs.")))
    assert [(p.start, p.end, p.text) for p in found] == [(0, 6, "We begin with prices. Then costs.")]


def test_a_pause_ends_a_passage():
    found = passages_of(lines((0, 2, "before"), (9, 11, "after")))
    assert [p.text for p in found] == ["before", "after"]


def test_words_from_two_lines_that_follow_are_in_one_passage_wherever_it_ends():
    said = lines(*((n * 3.0, n * 3.0 + 3, f"{'filler ' * 9}end{n} begin{n + 1}") for n in range(40)))
    found = passages_of(said)
    assert len(found) > 5
    for one, two in pairwise(said):
        pair = f"{one.text.split()[-1]} {two.text.split()[0]}"
        assert any(pair in passage.text for passage in found)
    assert all(p.end - p.start <= LONGEST + 3 for p in found)
    assert all(len(p.text.split()) <= 2 * ENOUGH for p in found)


def test_every_line_is_in_a_passage_but_music():
    said = [Line(0, 2, "one", "w"), Line(2, 4, "la la", "w", mark="music"), Line(4, 6, "two", "w", mark="unsure")]
    assert [p.text for p in passages_of(said)] == ["one two"]
    assert passages_of([]) == []


def test_a_passage_that_is_mostly_unsure_says_so():
    said = [Line(0, 2, "one", "w", mark="unsure"), Line(2, 4, "two", "w", mark="unsure"), Line(4, 6, "three", "w")]
    assert [p.mark for p in passages_of(said)] == ["unsure"]
    assert [p.mark for p in passages_of(said[1:])] == [None]
