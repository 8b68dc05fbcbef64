"""Words → what they say: reads captions back, so that what a model tells can be held against what is true."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from reelspace.worlds.captions import DOES, GROUND, LIGHT
from reelspace.worlds.facts import deed
from reelspace.worlds.scene import COLOURS, FORMS, Scene

Said = frozenset[tuple[str, ...]]
ATTRIBUTES = ("form", "colour", "deed", "place", "light", "count")
"""What is looked for in a general caption."""


def heard(text: str) -> Said:
    """What a caption says: `("form", "circle")`, `("colour", "circle", "red")`, `("deed", "circle", "left")`, ….

    Captions of worlds are read back whole; of any other text whatever is said in their words.
    """
    low = _plain(text)
    said: set[tuple[str, ...]] = {("place", place) for place in _phrases(GROUND, low)} | {
        ("light", light) for light in _phrases(LIGHT, low)
    }
    said |= {
        ("count", str(number)) for number, word in enumerate(("no", "one", "two", "three")) if f"{word} thing" in low
    }
    things = list(_THING.finditer(low))
    ends = [*(thing.start() for thing in things[1:]), len(low)]
    for thing, end in zip(things, ends, strict=False):
        form = thing["form"]
        said.add(("form", form))
        if thing["colour"]:
            said.add(("colour", form, thing["colour"]))
        rest = low[thing.end() : end]
        said |= {("deed", form, done) for verb, done in _deeds() if re.match(rf" (?:{verb})\b", rest)}
    return frozenset(said)


def told(scene: Scene) -> Said:
    """What a general caption of the scene says."""
    shot = scene.shots[0]
    said: set[tuple[str, ...]] = {("place", shot.background), ("light", shot.light), ("count", str(len(shot.things)))}
    for thing in shot.things:
        said.add(("form", thing.form))
        if thing.colour:
            said.add(("colour", thing.form, thing.colour))
        said.add(("deed", thing.form, deed(thing.acts[0]) if thing.acts else "nothing"))
    return frozenset(said)


_THING = re.compile(rf"\ban? (?:(?P<colour>{'|'.join(COLOURS)}) )?(?P<form>{'|'.join(FORMS)})\b")


def _plain(text: str) -> str:
    """In small letters, and without the one circle that is no thing."""
    return text.lower().replace("round in a circle", "round")


def _phrases(ways: Mapping[str, tuple[str, ...]], text: str) -> set[str]:
    return {value for value, phrases in ways.items() if any(phrase in text for phrase in phrases)}


@lru_cache(maxsize=1)
def _deeds() -> list[tuple[str, str]]:
    """Patterns of what a thing may be said to do. One that begins like a longer one does not stand for it."""
    every = [(_plain(phrase.replace(" {}", "")), done) for done, phrases in DOES.items() for phrase in phrases]
    patterns = []
    for phrase, done in every:
        longer = [other[len(phrase) :] for other, of in every if of != done and other.startswith(phrase)]
        guard = f"(?!{'|'.join(map(re.escape, longer))})" if longer else ""
        patterns.append((re.escape(phrase) + guard, done))
    return patterns
