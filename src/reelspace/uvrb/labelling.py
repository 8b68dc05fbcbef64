"""Helps to label questions: shows what the library finds, and records which of it answers.

The candidates of every model that the library is indexed with are put together in turn, each moment once, without
their scores. Labels that were picked from one model's findings alone would flatter that model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from reelspace.errors import ReelspaceError
from reelspace.item import Item, parse_seconds
from reelspace.moments import iou
from reelspace.uvrb.footage import Answer, Question

if TYPE_CHECKING:
    from reelspace.answers import Hit
    from reelspace.index.searchable import Searchable

PAGE = 8
_SAME = 0.5  # IoU from which two models have found one moment

HELP = """\
  2          number 2 answers, from when to when as shown
  2 5        both do
  2v         the whole file of number 2, whatever the moment
  2@3-7.5    number 2's file from 3 to 7.5 s
  0          nothing in the library answers
  m          more candidates
  o2         open number 2 in a player
  Enter      leave this question for later
  q          stop; all that was answered is kept"""


class StoppedError(Exception):
    """The person has had enough."""


@dataclass(frozen=True)
class Said:
    """What a line of the person means.

    Attributes:
        answers: what answers; `None`: nothing is said about that.
        more: whether to show more candidates.
        opened: the number of the candidate to open.
    """

    answers: tuple[Answer, ...] | None = None
    more: bool = False
    opened: int | None = None


def candidates(models: Sequence[Searchable], item: Item, many: int) -> list[Hit]:
    """Up to `many` moments, the models' first ones before their second ones; each moment once."""
    rankings = [model.search(item, k=many).hits for model in models]
    found: list[Hit] = []
    for turn in zip_longest(*rankings):
        for hit in turn:
            if hit is not None and not any(_same(hit, other) for other in found):
                found.append(hit)
    return found[:many]


def _same(one: Hit, other: Hit) -> bool:
    return one.video == other.video and float(iou((one.start, one.end), (other.start, other.end))) >= _SAME


def understand(line: str, hits: Sequence[Hit]) -> Said:
    """What a line of the person means, of these candidates.

    Raises:
        StoppedError: it says to stop.
        ReelspaceError: it cannot be understood, or names a candidate that is not there.
    """
    words = line.split()
    if words in (["q"], ["m"]):
        if words == ["q"]:
            raise StoppedError
        return Said(more=True)
    if not words:
        return Said()
    if words == ["0"]:
        return Said(answers=())
    if len(words) == 1 and re.fullmatch(r"o\d+", words[0]):
        return Said(opened=_number(words[0][1:], hits))
    return Said(answers=tuple(dict.fromkeys(_answer(word, hits) for word in words)))


def _number(text: str, hits: Sequence[Hit]) -> int:
    number = int(text)
    if not 1 <= number <= len(hits):
        raise ReelspaceError(f"There is no candidate {number}; there are 1 to {len(hits)}.")
    return number


def _answer(word: str, hits: Sequence[Hit]) -> Answer:
    read = re.fullmatch(r"(\d+)(?:(v)|@([\d:.]+)-([\d:.]+))?", word)
    if read is None:
        raise ReelspaceError(f"“{word}” is not understood; ? explains what can be said.")
    hit = hits[_number(read[1], hits) - 1]
    if read[2]:
        return Answer(hit.path)
    if read[3] is None:
        return Answer(hit.path, round(hit.start, 3), round(hit.end, 3))
    start, end = parse_seconds(read[3]), parse_seconds(read[4])
    if start >= end:
        raise ReelspaceError(f"“{word}”: the end is not later than the start.")
    return Answer(hit.path, start, end)


def label(
    questions: Sequence[Question],
    find: Callable[[Question, int], list[Hit]],
    ask: Callable[[Question, list[Hit]], str],
    tell: Callable[[str], None],
    play: Callable[[Hit], None],
    keep: Callable[[list[Question]], None],
) -> list[Question]:
    """Asks a person about every question that nobody has looked at.

    Args:
        questions: all of them.
        find: the first n candidates of a question.
        ask: shows candidates and gives the line that the person says.
        tell: says something to the person.
        play: opens a candidate.
        keep: is given all questions after every answer, to be written down.

    Returns:
        All questions, with the new answers.
    """
    done = list(questions)
    try:
        for place, question in enumerate(done):
            if question.answers is None:
                answers = _one(question, find, ask, tell, play)
                if answers is not None:
                    done[place] = replace(question, answers=answers)
                    keep(done)
    except StoppedError:
        pass
    return done


def _one(
    question: Question,
    find: Callable[[Question, int], list[Hit]],
    ask: Callable[[Question, list[Hit]], str],
    tell: Callable[[str], None],
    play: Callable[[Hit], None],
) -> tuple[Answer, ...] | None:
    many = PAGE
    hits = find(question, many)
    while True:
        line = ask(question, hits)
        if line.strip() == "?":
            tell(HELP)
            continue
        try:
            said = understand(line, hits)
            if said.opened is not None:
                play(hits[said.opened - 1])
        except ReelspaceError as error:
            tell(str(error))
            continue
        if said.more:
            many += PAGE
            before, hits = len(hits), find(question, many)
            if len(hits) == before:
                tell("There are no more.")
        elif said.opened is None:
            return said.answers
