"""Lines → passages: a sentence alone says too little to be found by what it means, an hour of them too much."""

from __future__ import annotations

from collections.abc import Sequence

from reelspace.signals.base import WORDLESS, Line, Passage

ENOUGH = 30  # words from which on a passage ends with its line
LONGEST = 20.0  # seconds a passage grows to
PAUSE = 3.0  # seconds of silence that end it


def passages_of(lines: Sequence[Line]) -> list[Passage]:
    """Passages of successive lines, in order of time.

    Each begins with the last line of the one before, where the two follow on each other: whoever remembers words from
    two lines finds them in one passage. Lines that only note a sound are left out.

    Args:
        lines: in order of time.
    """
    spoken = [line for line in lines if line.mark not in WORDLESS and line.text.strip()]
    found: list[Passage] = []
    held: list[Line] = []
    fresh = 0  # lines held that are in no passage yet
    for line in spoken:
        if held and _ends(held, line):
            if fresh:
                found.append(_joined(held))
            held, fresh = ([held[-1]] if _follows(held[-1], line) else []), 0
        held.append(line)
        fresh += 1
    if fresh:
        found.append(_joined(held))
    return found


def _ends(held: Sequence[Line], following: Line) -> bool:
    words = sum(len(line.text.split()) for line in held)
    return words >= ENOUGH or following.end - held[0].start > LONGEST or not _follows(held[-1], following)


def _follows(line: Line, following: Line) -> bool:
    return following.start - line.end <= PAUSE and line.source == following.source


def _joined(lines: Sequence[Line]) -> Passage:
    unsure = sum(line.mark == "unsure" for line in lines) * 2 > len(lines)
    return Passage(
        start=lines[0].start,
        end=max(line.end for line in lines),
        text=" ".join(" ".join(line.text.split()) for line in lines),
        source=lines[0].source,
        mark="unsure" if unsure else None,
    )
