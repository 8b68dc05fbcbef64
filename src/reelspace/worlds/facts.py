"""What is true of a scene, as short tuples. One idea serves every judgement:

* a caption states facts, and is true when the scene has them all;
* a query has one right answer when exactly one candidate has every fact it states;
* the oracle ranks candidates by the share of the query's facts that they have;
* an oracle that cannot see order knows only what `unordered` leaves of each fact.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from itertools import pairwise

from reelspace.worlds.scene import PLACES, Act, Scene, Shot, Thing

Fact = tuple[str, ...]
Facts = frozenset[Fact]
SLOW, FAST = 0.2, 0.55
"""Fractions of the frame a second: slower is “slowly”, faster is “quickly”."""


@lru_cache(maxsize=65536)
def facts(scene: Scene) -> Facts:
    """Everything sayable that is true of the scene."""
    found: set[Fact] = {("video", "has", f"{len(scene.shots)} shots")}
    for number, shot in enumerate(scene.shots):
        own = set(_shot(shot, scene.rate))
        found |= own
        if len(scene.shots) > 1:
            own.add(("video", "cuts at", f"{scene.starts[number] / scene.rate:.1f}"))
            found |= {in_shot(fact, number) for fact in own}
    return frozenset(found)


@lru_cache(maxsize=65536)
def evidence(scene: Scene) -> Facts:
    """The facts, and every shot and frame as such: what a clip or a picture of the scene states."""
    clips = {clip(shot) for shot in scene.shots}
    return facts(scene) | clips | {picture(shot, frame) for shot in scene.shots for frame in range(shot.frames)}


def unordered(known: Iterable[Fact]) -> Facts:
    """What is left of facts for someone who sees every frame but not their order."""
    return frozenset(left for fact in known if (left := _unordered(fact)) is not None)


def in_shot(fact: Fact, number: int) -> Fact:
    """The fact, said of one shot (counted from 0) of a video of several."""
    return (f"shot {number + 1}", *fact)


_EITHER_WAY = {
    **{"left": "sideways", "right": "sideways", "up": "vertically", "down": "vertically"},
    **{"in": "zooms", "out": "zooms", "clockwise": "rolls", "anticlockwise": "rolls"},
    **{"grow": "changes size", "shrink": "changes size", "appear": "is partly there", "vanish": "is partly there"},
    **{"meet": "touches", "leave": "touches", "hide": "is partly hidden", "emerge": "is partly hidden"},
    **{"turn clockwise": "turns", "turn anticlockwise": "turns", "orbit clockwise": "orbits"},
    "orbit anticlockwise": "orbits",
}


def _unordered(fact: Fact) -> Fact | None:
    if fact[0].startswith("shot "):
        return _unordered(fact[1:])
    if fact[1] in ("does", "is done with"):
        return (*fact[:2], _EITHER_WAY.get(fact[2], fact[2]), *fact[3:])
    return None if fact[1] in ("before", "during", "starts", "waits", "stops") else fact


def names(shot: Shot, thing: Thing) -> tuple[str, ...]:
    """What the thing can be called: by colour and form, by its form alone, and `it` where there is no other."""
    alone = ("it",) if len(shot.things) == 1 else ()
    return tuple(dict.fromkeys((thing.name, thing.form, *alone)))


def deed(act: Act) -> str:
    """What an act is, in facts: `left`, `left and back`."""
    return f"{act.verb} and back" if act.back and act.verb not in ("swell", "blink") else act.verb


def speed(act: Act, rate: int) -> str:
    """`slowly`, `quickly`, or neither: of acts that cross the frame."""
    across = abs(act.dx) + abs(act.dy)
    if not across or act.back or act.other is not None:
        return ""
    pace = across * rate / (act.end - act.start)
    return "slowly" if pace < SLOW else "quickly" if pace > FAST else ""


def place(thing: Thing) -> str | None:
    """The name of the place where it begins; `None` when it is at none of the nine."""
    return _PLACE.get((round(thing.x, 2), round(thing.y, 2)))


_PLACE = {spot: name for name, spot in PLACES.items()}


def still(shot: Shot) -> list[Thing]:
    """The things that have a place of their own: neither they nor the camera move."""
    return [] if shot.camera.acts else [thing for thing in shot.things if not thing.acts]


def sized(shot: Shot, thing: Thing) -> bool:
    """Whether the thing keeps one size on the screen, so that it can be called small or large."""
    return all(act.zoom == 1 for act in (*thing.acts, *shot.camera.acts))


def _shot(shot: Shot, rate: int) -> Iterator[Fact]:
    yield from (("world", "place", shot.background), ("world", "light", shot.light), ("world", "style", shot.style))
    yield ("world", "holds", str(len(shot.things)))
    for thing in shot.things:
        for name in names(shot, thing):
            yield from _looks(name, thing, shot)
            yield from _deeds(name, thing, shot, rate)
            yield from _sequence(name, thing.acts)
    yield from _arrangement(still(shot))
    yield from _camera(shot, rate)
    yield from _order(shot)


def _looks(name: str, thing: Thing, shot: Shot) -> Iterator[Fact]:
    yield (name, "is", "there")
    if sized(shot, thing):
        yield (name, "size", thing.size)
    if thing.colour:
        yield from ((name, "colour", thing.colour), (name, "texture", thing.texture))


def _deeds(name: str, thing: Thing, shot: Shot, rate: int) -> Iterator[Fact]:
    spot = None if shot.camera.acts else place(thing)
    if not thing.acts:
        yield (name, "does", "nothing")
        if spot:
            yield (name, "is at", spot)
        return
    if spot:
        yield (name, "starts", spot)
    for act in thing.acts:
        whom = () if act.other is None else (shot.things[act.other].name,)
        yield (name, "does", deed(act), *whom)
        if act.path in ("zigzag", "bounce"):
            yield (name, "path", act.path)
        if pace := speed(act, rate):
            yield (name, "speed", pace)
        yield (name, "during", deed(act), *interval(act, rate))
    if thing.acts[-1].end < 0.7 * shot.frames and thing.acts[-1].verb in ("left", "right", "up", "down"):
        yield (name, "stops", "at last")
    if thing.acts[0].start > 0.3 * shot.frames:
        yield (name, "waits", "at first")


def interval(act: Act, rate: int) -> tuple[str, str]:
    """When the act starts and ends, in seconds of its shot: `0.5`, `2.0`."""
    return f"{act.start / rate:.1f}", f"{act.end / rate:.1f}"


def _arrangement(things: list[Thing]) -> Iterator[Fact]:
    for one in things:
        for other in things:
            if one.x < other.x - 0.15:
                yield (one.name, "left of", other.name)
            if one.y < other.y - 0.15:
                yield (one.name, "above", other.name)


def _camera(shot: Shot, rate: int) -> Iterator[Fact]:
    acts = shot.camera.acts
    if not acts:
        yield ("camera", "does", "nothing")
    for act in acts:
        yield ("camera", "does", deed(act))
        yield ("camera", "during", deed(act), *interval(act, rate))
    yield from _sequence("camera", acts)


def _sequence(name: str, acts: Sequence[Act]) -> Iterator[Fact]:
    for one, other in pairwise(acts):
        yield (name, "before", deed(one), deed(other))


def _order(shot: Shot) -> Iterator[Fact]:
    """Which deeds of one thing come before which of another."""
    done = [(thing.name, act) for thing in shot.things for act in thing.acts]
    for name, one in done:
        for other_name, other in done:
            if name != other_name and one.end <= other.start:
                yield (name, "before", deed(one), other_name, deed(other))


def clip(shot: Shot) -> Fact:
    """That this very shot is in the video."""
    return ("view", "clip", _hash(asdict(replace(shot, chapter=0))))


def picture(shot: Shot, frame: int) -> Fact:
    """That this very picture is in the video: all that is seen in one frame of the shot."""
    poses = [
        (thing.form, thing.colour, thing.texture, thing.size, _rounded(shot, thing, frame)) for thing in shot.things
    ]
    seen = [pose for pose in poses if pose[-1]]
    camera = [round(part, 2) for part in shot.camera.pose(frame)[:4]]
    world = [shot.background, shot.lay, shot.light, shot.style, shot.bar]
    return ("view", "picture", _hash([*world, camera, seen]))


def _rounded(shot: Shot, thing: Thing, frame: int) -> list[float] | None:
    pose = shot.on_screen(thing, frame)
    return [round(part, 2) for part in pose[:4]] if pose.seen else None


def _hash(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:12]
