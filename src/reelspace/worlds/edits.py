"""One scene from another by changing one thing: distractors, no-match captions, and composed queries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reelspace.worlds.captions import caption, does, films, ground, lit
from reelspace.worlds.facts import Facts, deed
from reelspace.worlds.sample import (
    FULL,
    Profile,
    Random,
    generator,
    perform,
    pick,
    programme,
    shoot,
    shuffled,
    split_of,
)
from reelspace.worlds.scene import (
    BACKGROUNDS,
    CAMERA,
    LIGHTS,
    OPPOSITE,
    PLACES,
    SHAPES,
    SOLID,
    STEPS,
    VERBS,
    Camera,
    Scene,
    Shot,
    Thing,
)

Change = Callable[[Shot, Random, Profile], Shot | None]


def vary(scene: Scene, attribute: str, random: Random, number: int = 0, profile: Profile = FULL) -> Scene | None:
    """The scene with one attribute of one shot changed to another that the profile has, all else as it was.

    `None` where the shot has no such attribute, or the profile nothing else to offer.
    """
    changed = _CHANGES[attribute](scene.shots[number], random, profile)
    if changed is None:
        return None
    return replace(scene, shots=(*scene.shots[:number], changed, *scene.shots[number + 1 :]))


def mirrored(scene: Scene) -> Scene | None:
    """The scene in which the first act is done the other way round, from where it would have ended."""
    shot = scene.shots[0]
    thing = shot.things[0]
    if not thing.acts or thing.acts[0].verb not in OPPOSITE:
        return None
    return replace(scene, shots=(_first(shot, thing.reversed(shot.frames)), *scene.shots[1:]))


def _other(random: Random, values: Sequence[str], value: str) -> str | None:
    rest = [other for other in values if other != value]
    return pick(random, rest) if rest else None


def _first(shot: Shot, thing: Thing) -> Shot:
    return replace(shot, things=(thing, *shot.things[1:]))


def _look(attribute: str, values: Callable[[Profile], Sequence[str]]) -> Change:
    """Another colour, size or texture for the first thing."""

    def change(shot: Shot, random: Random, profile: Profile) -> Shot | None:
        thing = shot.things[0]
        if attribute == "size" and _sized(shot):
            return None
        if attribute != "size" and (not thing.colour or (attribute == "texture" and shot.style == "pixel art")):
            return None
        other = _other(random, values(profile), getattr(thing, attribute))
        changes: dict[str, Any] = {attribute: other}
        return None if other is None else _first(shot, replace(thing, **changes))

    return change


def _sized(shot: Shot) -> bool:
    """Whether sizes are part of what happens."""
    return any(act.zoom != 1 or act.other is not None for t in (*shot.things, shot.camera) for act in t.acts)


def _setting(attribute: str, values: Callable[[Profile], Sequence[str]]) -> Change:
    """Another background, light or style; a style only where the things suit every one."""

    def change(shot: Shot, random: Random, profile: Profile) -> Shot | None:
        fine = any(t.texture != "plain" or t.size == "small" or t.colour == "black" for t in shot.things)
        other = _other(random, values(profile), getattr(shot, attribute))
        changes: dict[str, Any] = {attribute: other}
        return None if other is None or (attribute == "style" and fine) else replace(shot, **changes)

    return change


def _form(shot: Shot, random: Random, profile: Profile) -> Shot | None:
    thing = shot.things[0]
    kin = [form for form in profile.forms if (form in SHAPES) == (thing.form in SHAPES)]
    if any(act.other is not None for other in shot.things for act in other.acts):
        kin = [form for form in kin if form in SOLID]
    free = [form for form in kin if form not in {other.form for other in shot.things}]
    turning = any(act.verb.startswith("turn") for act in thing.acts)
    return None if turning or not free else _first(shot, replace(thing, form=pick(random, free)))


def _place(shot: Shot, random: Random, profile: Profile) -> Shot | None:
    """To another place, in no other thing's row or column."""
    thing, rest = shot.things[0], shot.things[1:]
    free = [
        (x, y)
        for x, y in PLACES.values()
        if (x, y) != (thing.x, thing.y) and all(abs(x - t.x) > 0.2 and abs(y - t.y) > 0.2 for t in rest)
    ]
    if shot.camera.acts or not free or any(t.acts for t in shot.things):
        return None
    x, y = pick(random, free)
    return _first(shot, replace(thing, x=x, y=y))


def _action(shot: Shot, random: Random, profile: Profile) -> Shot | None:
    """Another of the four directions, or the opposite of another act, over the same frames."""
    thing = shot.things[0]
    if len(thing.acts) != 1 or thing.acts[0].verb not in VERBS or thing.acts[0].path in ("zigzag", "bounce"):
        return None
    act = thing.acts[0]
    kin = tuple(STEPS) if act.verb in STEPS else (act.verb, OPPOSITE[act.verb])
    verb = _other(random, [verb for verb in kin if verb in profile.verbs], act.verb)
    home = replace(thing, x=0.5, y=0.5, zoom=1.0, turn=0.0, acts=())
    return None if verb is None else _first(shot, perform(home, verb, act.start, act.end))


def _order(shot: Shot, random: Random, profile: Profile) -> Shot | None:
    """The acts of a programme in another order."""
    thing = shot.things[0]
    verbs = [act.verb for act in thing.acts if act.back]
    if len(verbs) < 3:
        return None
    other = verbs
    while other == verbs:
        other = shuffled(random, verbs)
    return _first(shot, programme(thing, other, shot.frames))


def _camera(shot: Shot, random: Random, profile: Profile) -> Shot | None:
    if len(shot.camera.acts) != 1:
        return None
    act = shot.camera.acts[0]
    verb = pick(random, [verb for verb in CAMERA if verb != act.verb])
    return replace(shot, camera=Camera(acts=(shoot(verb, act.start, act.end),)))


_CHANGES: dict[str, Change] = {
    "form": _form,
    "colour": _look("colour", lambda profile: profile.colours),
    "size": _look("size", lambda profile: profile.sizes),
    "texture": _look("texture", lambda profile: profile.textures),
    "place": _place,
    "action": _action,
    "order": _order,
    "background": _setting("background", lambda profile: profile.backgrounds),
    "light": _setting("light", lambda profile: profile.lights),
    "style": _setting("style", lambda profile: profile.styles),
    "camera": _camera,
}
ATTRIBUTES = tuple(_CHANGES)


@dataclass(frozen=True)
class Match:
    """A text, whether it is true of the scene, and where it is not, the attribute that makes it false.

    Attributes:
        rather: the true text in the same words.
    """

    text: str
    match: bool
    attribute: str
    rather: str


def match(scene: Scene, kind: str, random: Random, profile: Profile = FULL, changes: int = 1) -> Match:
    """A caption of the scene, or with equal chance one in the same words that a changed attribute makes false.

    With more `changes`, up to so many attributes are changed: the first that makes it false, and others besides.

    No false text of a training scene names a held-out combination: else what is held out would be learnt as false.
    """
    wording = random.integers(2**32)
    text = caption(scene, kind, generator(wording)).text
    true = Match(text, True, "", text)
    if random.random() < 0.5:
        return true
    training = split_of(scene) == "train"
    for attribute in shuffled(random, ATTRIBUTES):
        other = vary(scene, attribute, random, int(random.integers(len(scene.shots))), profile)
        if other is None or (training and split_of(other) != "train"):
            continue
        false = caption(other, kind, generator(wording))
        if false.text != text and not false.true_of(scene):  # “Nothing moves.” names none of the things it is about
            for more in shuffled(random, ATTRIBUTES)[: changes - 1]:
                another = vary(other, more, random, 0, profile) if more != attribute else None
                if another is not None and not (training and split_of(another) != "train"):
                    other = another
            further = caption(other, kind, generator(wording))
            return Match((false if further.true_of(scene) else further).text, False, attribute, text)
    return true


@dataclass(frozen=True)
class Composed:
    """A reference, the words that lead from it to a target, and what both together state of the target."""

    reference: Scene
    text: str
    target: Scene
    facts: Facts


def compose(reference: Scene, changes: Sequence[str], random: Random, seen: str = "image") -> Composed:
    """From a reference of one still thing to a target in which it differs as `changes` say, and in nothing else.

    Args:
        changes: some of `ASKED`; neither the reference nor the words alone tell the target.
        seen: `image` or `video`, what the reference is shown as.
    """
    shot, words = reference.shots[0], list[str]()
    for change in changes:
        shot, said = _ASK[change](shot, random)
        words.append(said)
    noun = {"image": "picture", "video": "clip"}[seen]
    start = pick(random, (f"the one from the {noun}", f"the thing in the {noun}", f"what the {noun} shows"))
    rest = pick(random, ("all else as it was", "nothing else changed", "the rest the same"))
    target = replace(reference, shots=(shot,))
    return Composed(reference, f"{start}, {', '.join([*words, rest])}", target, outcome(target))


def outcome(target: Scene) -> Facts:
    """What a composed query asks for: the thing, what it does, where and in what light, and how it is filmed."""
    shot = target.shots[0]
    thing = shot.things[0]
    stated = {(thing.name, "is", "there"), ("world", "place", shot.background), ("world", "light", shot.light)}
    stated |= {(thing.name, "does", deed(act)) for act in thing.acts} or {(thing.name, "does", "nothing")}
    stated |= {("camera", "does", deed(act)) for act in shot.camera.acts} or {("camera", "does", "nothing")}
    return frozenset(stated)


def _ask_action(shot: Shot, random: Random) -> tuple[Shot, str]:
    thing = perform(shot.things[0], pick(random, tuple(STEPS)), 0, shot.frames)
    return _first(shot, thing), f"now {_moving(does(deed(thing.acts[0]), random))}"


def _ask_camera(shot: Shot, random: Random) -> tuple[Shot, str]:
    act = shoot(pick(random, CAMERA), 0, shot.frames)
    return replace(shot, camera=Camera(acts=(act,))), f"while the camera {films(act.verb, random)}"


def _ask_light(shot: Shot, random: Random) -> tuple[Shot, str]:
    light = pick(random, [light for light in LIGHTS if light != shot.light])
    return replace(shot, light=light), lit(light, random)


def _ask_background(shot: Shot, random: Random) -> tuple[Shot, str]:
    background = pick(random, [background for background in BACKGROUNDS if background != shot.background])
    return replace(shot, background=background), ground(background, random)


_ASK = {"action": _ask_action, "light": _ask_light, "background": _ask_background, "camera": _ask_camera}
ASKED = tuple(_ASK)


def _moving(said: str) -> str:
    """`moves left` → `moving left`."""
    verb, _, rest = said.partition(" ")
    stem = {"goes": "go", "rises": "ris", "moves": "mov", "travels": "travell", "sinks": "sink"}[verb]
    return f"{stem}ing {rest}".strip()
