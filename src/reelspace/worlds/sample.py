"""Scenes drawn at random: equal seeds give equal scenes, on every machine."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations as combinations_of
from itertools import permutations
from typing import Literal, TypeVar

import numpy as np

from reelspace.worlds.scene import (
    BACKGROUNDS,
    CAMERA,
    COLOURS,
    FORMS,
    LIGHTS,
    LOPSIDED,
    ORBIT,
    RELATIONS,
    RETURNS,
    SHAPES,
    SIZES,
    SOLID,
    STEPS,
    STYLES,
    TEXTURES,
    VERBS,
    Act,
    Camera,
    Course,
    Scene,
    Shot,
    Thing,
)

Random = np.random.Generator
Split = Literal["train", "held-out"]
T = TypeVar("T")

REACH = 0.6
"""How far a thing moves, as a fraction of the frame."""


@dataclass(frozen=True)
class Profile:
    """What a world is made of, and how often its scenes are of which kind.

    Attributes:
        things: fewest and most things of a shot.
        frames, size, shots: choices: frames a shot, pixels of an edge, shots a scene.
        camera, relations, programmes, in_turn, still: shares of shots in which the camera moves; one thing passes,
            meets or hides behind another; one thing does four acts in a row; things act one after the other; nothing
            moves at all. In the rest they act at the same time.
        nuisance: share of shots with noise, a bar across, or hard compression.
    """

    forms: tuple[str, ...] = FORMS
    colours: tuple[str, ...] = tuple(COLOURS)
    sizes: tuple[str, ...] = tuple(SIZES)
    textures: tuple[str, ...] = TEXTURES
    backgrounds: tuple[str, ...] = BACKGROUNDS
    lights: tuple[str, ...] = LIGHTS
    styles: tuple[str, ...] = STYLES
    verbs: tuple[str, ...] = VERBS
    things: tuple[int, int] = (1, 3)
    frames: tuple[int, ...] = (8, 16, 24, 32, 48)
    size: tuple[int, ...] = (64, 80, 96, 128)
    shots: tuple[int, ...] = (1,)
    camera: float = 0.2
    relations: float = 0.15
    programmes: float = 0.15
    in_turn: float = 0.2
    still: float = 0.1
    nuisance: float = 0.1


FULL = Profile()
LONG = replace(FULL, shots=(8, 12, 16), nuisance=0.0)
EASY = Profile(
    forms=("circle", "square", "triangle", "star"),
    colours=("red", "yellow", "green", "blue", "purple", "white"),
    sizes=("large",),
    textures=("plain",),
    backgrounds=("wall",),
    lights=("day",),
    styles=("flat",),
    verbs=("left", "right", "up", "down"),
    things=(1, 1),
    frames=(8,),
    size=(48,),
    camera=0.0,
    relations=0.0,
    programmes=0.0,
    in_turn=0.0,
    still=0.0,
    nuisance=0.0,
)
"""96 combinations of colour, shape and direction: the first step of a curriculum."""
PLAIN = replace(
    EASY,
    forms=SHAPES,
    colours=tuple(COLOURS),
    sizes=("medium", "large"),
    verbs=VERBS,
    things=(1, 2),
    in_turn=0.3,
    still=0.1,
)
"""All shapes, colours and acts, one or two things at a time, before the same wall: the second step."""
PROFILES = {"full": FULL, "long": LONG, "easy": EASY, "plain": PLAIN}


def generator(*names: object) -> Random:
    """A random generator of its own for everything that has a name: no draw depends on another."""
    digest = hashlib.sha256("/".join(map(str, names)).encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))


def pick(random: Random, values: Sequence[T]) -> T:
    """One of the values."""
    return values[int(random.integers(len(values)))]


def shuffled(random: Random, values: Sequence[T]) -> list[T]:
    """All of the values, in another order."""
    return [values[k] for k in random.permutation(len(values))]


def scenes(seed: int, profile: Profile = FULL, split: Split | None = None) -> Iterator[Scene]:
    """Endless scenes; the n-th of a seed is always the same."""
    number = 0
    while True:
        yield scene(generator("scene", seed, number), profile, split)
        number += 1


def scene(random: Random, profile: Profile = FULL, split: Split | None = None) -> Scene:
    """One scene; with a split, one that belongs to it."""
    while True:
        count, size = pick(random, profile.shots), pick(random, profile.size)
        drawn = Scene(shots=tuple(_shot(random, profile, k) for k in range(count)), size=size)
        if random.random() < profile.nuisance:
            drawn = replace(drawn, quantiser=38)
        if split is None or split_of(drawn) == split:
            return drawn


# Held-out combinations: of every four form–colour–act triples one is never trained on, though each of its pairs is.


def combinations(drawn: Scene) -> set[tuple[str, ...]]:
    """What is learnt together: (form, colour or background, act) of each thing, and the order of each programme."""
    found: set[tuple[str, ...]] = set()
    for shot in drawn.shots:
        for thing in shot.things:
            verbs = tuple(act.verb for act in thing.acts)
            found |= {(thing.form, thing.colour or shot.background, verb) for verb in verbs or ("still",)}
            if len(verbs) > 2:
                found.add(verbs)
    return found


def held_out(combination: tuple[str, ...]) -> bool:
    """Whether no training scene may show this combination. About one in four, spread over every value alike."""
    if len(combination) > 3:  # the order of a programme
        orders = sorted(permutations(sorted(combination)))
        return orders.index(combination) % 4 == 3
    form, colour, verb = combination
    ranks = (FORMS.index(form), (*COLOURS, *BACKGROUNDS).index(colour), _RANK[verb])
    return sum(ranks) % 4 == 0


_RANK = {verb: rank for rank, verb in enumerate((*VERBS, "still", "swell", "blink", *RELATIONS))}


def split_of(drawn: Scene) -> Split:
    """`held-out` when any of its combinations is."""
    return "held-out" if any(map(held_out, combinations(drawn))) else "train"


# One shot.


Draw = Callable[[Random, Profile, Shot], Shot]


def _shot(random: Random, profile: Profile, number: int) -> Shot:
    shot = Shot(
        things=(),
        background=pick(random, profile.backgrounds),
        light=pick(random, profile.lights),
        style=pick(random, profile.styles),
        frames=pick(random, profile.frames),
        chapter=number // 4,
        lay=int(random.integers(8)),
    )
    if random.random() < profile.nuisance:
        shot = replace(shot, noise=int(random.integers(4, 12)))
    elif random.random() < profile.nuisance:
        shot = replace(shot, bar=round(float(random.uniform(0, 0.85)), 2))
    shares = (profile.camera, profile.relations, profile.programmes, profile.in_turn, profile.still)
    kinds: tuple[Draw, ...] = (_filmed, _related, _programme, _in_turn, _at_rest)
    dice = random.random()
    for share, kind in zip(shares, kinds, strict=True):
        if dice < share:
            return kind(random, profile, shot)
        dice -= share
    return _at_once(random, profile, shot)


def looks(random: Random, profile: Profile, count: int, style: str = "flat") -> list[Thing]:
    """Things of different forms, each in a row and a column of its own, that can be recognised in the style."""
    forms = shuffled(random, profile.forms)[:count]
    rows, columns = shuffled(random, (0.2, 0.5, 0.8)), shuffled(random, (0.2, 0.5, 0.8))
    coarse = style == "pixel art"
    sizes = [size for size in profile.sizes if not coarse or size != "small"] or ["medium"]
    things = []
    for form, x, y in zip(forms, columns, rows, strict=False):
        shape = form in SHAPES
        colour = pick(random, [c for c in profile.colours if (c, style) != ("black", "pastel")]) if shape else ""
        texture = pick(random, profile.textures) if shape and not coarse else "plain"
        things.append(Thing(form=form, colour=colour, size=pick(random, sizes), texture=texture, x=x, y=y))
    return things


def perform(thing: Thing, verb: str, start: int, end: int, reach: float = REACH, path: Course = "line") -> Thing:
    """The thing doing one act from frame `start` to `end`, moved to where the act stays inside the frame."""
    if verb in STEPS:
        dx, dy = (reach * step for step in STEPS[verb])
        x, y = (0.5 - dx / 2 if dx else thing.x), (0.5 - dy / 2 if dy else thing.y)
        if path != "line":
            y = min(max(y, 0.35), 0.65)
        act = Act(verb=verb, start=start, end=end, dx=dx, dy=dy, path=path)
        return replace(thing, x=x, y=y, acts=(act,))
    turn = (-1 if "anti" in verb else 1) * (360 if verb.startswith("orbit") else 90)
    if verb.startswith("orbit"):
        act = Act(verb=verb, start=start, end=end, turn=turn, path="orbit")
        return replace(thing, x=min(max(thing.x, 0.35), 0.65), y=min(max(thing.y, 0.4), 0.6) - ORBIT, acts=(act,))
    if verb.startswith("turn"):
        return replace(thing, acts=(Act(verb=verb, start=start, end=end, turn=turn),))
    if verb in ("grow", "shrink"):
        zoom = 1.9 if verb == "grow" else 1 / 1.9
        size = {"grow": "small", "shrink": "large"}[verb]
        return replace(thing, size=size, acts=(Act(verb=verb, start=start, end=end, zoom=zoom),))
    return replace(thing, acts=(Act(verb=verb, start=start, end=end),))


def programme(thing: Thing, verbs: Sequence[str], frames: int) -> Thing:
    """The thing in the middle doing acts that return, one after the other, in equal parts of the shot."""
    part = frames // len(verbs)
    acts = []
    for k, verb in enumerate(verbs):
        dx, dy = STEPS.get(verb, (0, 0))
        zoom = 1.8 if verb == "swell" else 1.0
        acts.append(Act(verb=verb, start=k * part, end=(k + 1) * part, dx=0.3 * dx, dy=0.3 * dy, zoom=zoom, back=True))
    return replace(thing, x=0.5, y=0.5, acts=tuple(acts))


def shoot(verb: str, start: int, end: int, back: bool = False) -> Act:
    """What the camera does: pan, tilt, zoom or roll."""
    dx, dy = STEPS.get(verb, (0, 0))
    zoom = {"in": 1.6, "out": 1 / 1.6}.get(verb, 1.0)
    turn = {"clockwise": 25.0, "anticlockwise": -25.0}.get(verb, 0.0)
    return Act(verb=verb, start=start, end=end, dx=0.3 * dx, dy=0.3 * dy, zoom=zoom, turn=turn, back=back)


def aimed(thing: Thing) -> Thing:
    """Drawn towards the middle, so that a moving camera does not lose it at once."""
    return replace(thing, x=round(0.5 + 0.7 * (thing.x - 0.5), 3), y=round(0.5 + 0.7 * (thing.y - 0.5), 3))


def _apart(draw: Draw) -> Draw:
    """Draws again (a few times) while things cover each other, which nothing in the captions would tell."""

    def drawn(random: Random, profile: Profile, shot: Shot) -> Shot:
        for _ in range(20):
            made = draw(random, profile, shot)
            if not any(_overlap(made, frame) for frame in range(0, made.frames, 2)):
                break
        return made

    return drawn


def _overlap(shot: Shot, frame: int) -> bool:
    poses = [(thing.pose(frame), SIZES[thing.size]) for thing in shot.things]
    return any(
        math.hypot(one.x - other.x, one.y - other.y) < 0.8 * (r * one.zoom + s * other.zoom)
        for (one, r), (other, s) in combinations_of(poses, 2)
        if one.seen and other.seen
    )


def _count(random: Random, profile: Profile, least: int = 1) -> int:
    low, high = profile.things
    return max(least, int(random.integers(low, high + 1)))


def _verb(random: Random, profile: Profile, thing: Thing) -> str:
    return pick(random, [verb for verb in profile.verbs if thing.form in LOPSIDED or not verb.startswith("turn")])


def _acting(random: Random, profile: Profile, thing: Thing, start: int, end: int) -> Thing:
    verb = _verb(random, profile, thing)
    path: Course = "line"
    if end - start >= 16 and verb in ("left", "right") and random.random() < 0.3:
        path = "zigzag" if random.random() < 0.5 else "bounce"
    reach = 0.3 if end - start >= 16 and path == "line" and random.random() < 0.25 else REACH
    return perform(thing, verb, start, end, reach, path)


@_apart
def _at_once(random: Random, profile: Profile, shot: Shot) -> Shot:
    things = looks(random, profile, _count(random, profile), shot.style)
    end = shot.frames
    if end >= 16 and random.random() < 0.25:
        end = end // 2  # … and then it stops
    active = [True] + [bool(random.random() < 0.5) for _ in things[1:]]
    return replace(
        shot,
        things=tuple(
            _acting(random, profile, t, 0, end) if acts else t for t, acts in zip(things, active, strict=True)
        ),
    )


@_apart
def _in_turn(random: Random, profile: Profile, shot: Shot) -> Shot:
    things = looks(random, profile, _count(random, profile, 2), shot.style)
    frames = max(shot.frames, 8 * len(things))
    part = frames // len(things)
    acting = (_acting(random, profile, thing, k * part, (k + 1) * part) for k, thing in enumerate(things))
    return replace(shot, things=tuple(acting), frames=frames)


def _at_rest(random: Random, profile: Profile, shot: Shot) -> Shot:
    return replace(shot, things=tuple(looks(random, profile, _count(random, profile), shot.style)))


def _programme(random: Random, profile: Profile, shot: Shot) -> Shot:
    (thing,) = looks(random, profile, 1, shot.style)
    thing = replace(thing, size="medium")
    return replace(shot, things=(programme(thing, shuffled(random, RETURNS)[:4], 16),), frames=16)


@_apart
def _filmed(random: Random, profile: Profile, shot: Shot) -> Shot:
    things = tuple(map(aimed, looks(random, profile, min(2, _count(random, profile)), shot.style)))
    if random.random() < 0.25:
        acts = tuple(shoot(verb, 4 * k, 4 * k + 4, back=True) for k, verb in enumerate(shuffled(random, CAMERA)[:4]))
        return replace(shot, things=things, frames=16, camera=Camera(acts=acts))
    return replace(shot, things=things, camera=Camera(acts=(shoot(pick(random, CAMERA), 0, shot.frames),)))


def _related(random: Random, profile: Profile, shot: Shot) -> Shot:
    who, whom = looks(random, profile, 2, shot.style)
    verb = pick(random, RELATIONS if whom.form in SOLID else RELATIONS[:3])
    return replace(shot, things=relation(who, whom, verb, shot.frames, bool(random.random() < 0.5)))


def relation(who: Thing, whom: Thing, verb: str, frames: int, rightward: bool = True) -> tuple[Thing, Thing]:
    """Two things in the order they are drawn: `who` passes, meets, leaves, hides behind or comes out behind `whom`."""
    way = 1 if rightward else -1
    start, end, middle = _TRACKS[verb]
    behind = verb in ("hide", "emerge")
    act = Act(verb=verb, start=0, end=frames, dx=round(way * (end - start), 3), other=1 if behind else 0)
    who = replace(who, size="small", x=0.5 + way * start, y=0.62 if verb == "pass" else 0.5, acts=(act,))
    whom = replace(whom, size="large", x=0.5 + way * middle, y=0.5, acts=())
    return (who, whom) if behind else (whom, who)


# Where the one begins and ends and where the other stands, from the middle.
_TRACKS = {
    **{"pass": (-0.38, 0.38, 0.0), "meet": (-0.35, -0.04, 0.2), "leave": (-0.04, -0.35, 0.2)},
    **{"hide": (-0.35, 0.15, 0.15), "emerge": (0.15, -0.35, 0.15)},
}
