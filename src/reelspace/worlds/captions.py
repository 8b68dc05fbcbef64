"""Scene → words, with the facts they state. The wording varies with the generator given; the truth does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from reelspace.worlds.facts import Fact, Facts, deed, facts, in_shot, interval, place, sized, speed, still
from reelspace.worlds.sample import Random, pick, shuffled
from reelspace.worlds.scene import BACKGROUNDS, CAMERA, COLOURS, FORMS, LIGHTS, PLACES, Act, Camera, Scene, Shot, Thing


@dataclass(frozen=True)
class Caption:
    """A text and what it states. It is true of every scene that has these facts."""

    text: str
    facts: Facts

    def true_of(self, scene: Scene) -> bool:
        """Whether the scene has every fact that is stated."""
        return self.facts <= facts(scene)


KINDS = (
    *("brief", "general", "spatial", "temporal", "camera", "events"),
    *("theme", "keywords", "object", "detailed", "chapters"),
)


def caption(scene: Scene, kind: str, random: Random) -> Caption:
    """One caption of that kind, or one `claim` of what captions are made of.

    A video of several shots is told shot by shot: the looser kinds without their order.
    """
    if kind == "chapters":
        return _chapters(scene, random)
    said = [_SAYERS[kind](shot, scene.rate, random) for shot in scene.shots]
    return _joined(said) if len(said) == 1 or kind in ("brief", "theme", "keywords") else _numbered(scene, said)


def captions(scene: Scene, random: Random) -> dict[str, Caption]:
    """A caption of every kind."""
    return {kind: caption(scene, kind, random) for kind in KINDS}


# Words. Every list is of ways to say one thing.

DOES: dict[str, tuple[str, ...]] = {
    "left": ("moves left", "moves to the left", "goes left", "travels to the left"),
    "right": ("moves right", "moves to the right", "goes right", "travels to the right"),
    "up": ("moves up", "rises", "goes up", "moves upwards"),
    "down": ("moves down", "sinks", "goes down", "moves downwards"),
    "left and back": ("moves left and back", "goes left and returns"),
    "right and back": ("moves right and back", "goes right and returns"),
    "up and back": ("moves up and back", "goes up and returns"),
    "down and back": ("moves down and back", "goes down and returns"),
    "swell": ("swells and shrinks back", "gets bigger for a moment"),
    "blink": ("is gone for a moment", "blinks out and comes back"),
    "grow": ("grows", "gets bigger", "becomes larger"),
    "shrink": ("shrinks", "gets smaller", "becomes tiny"),
    "appear": ("appears", "comes into view", "shows up"),
    "vanish": ("vanishes", "disappears", "goes out of view"),
    "turn clockwise": ("turns clockwise", "rotates clockwise"),
    "turn anticlockwise": ("turns anticlockwise", "rotates anticlockwise"),
    "orbit clockwise": ("circles clockwise", "goes round in a circle, clockwise"),
    "orbit anticlockwise": ("circles anticlockwise", "goes round in a circle, anticlockwise"),
    "pass": ("passes {}", "goes past {}"),
    "meet": ("meets {}", "comes up to {}"),
    "leave": ("leaves {}", "moves away from {}"),
    "hide": ("hides behind {}", "goes behind {}"),
    "emerge": ("comes out from behind {}", "emerges from behind {}"),
    "nothing": ("stays still", "does not move", "rests"),
}
FILMS: dict[str, tuple[str, ...]] = {
    "left": ("pans left", "pans to the left"),
    "right": ("pans right", "pans to the right"),
    "up": ("tilts up", "tilts upwards"),
    "down": ("tilts down", "tilts downwards"),
    "in": ("zooms in", "moves closer"),
    "out": ("zooms out", "moves away"),
    "clockwise": ("rolls clockwise", "tips over clockwise"),
    "anticlockwise": ("rolls anticlockwise", "tips over anticlockwise"),
    "nothing": ("stays still", "does not move"),
}
GROUND = {
    "wall": ("in front of a wall", "before a brick wall"),
    "meadow": ("on a meadow", "in a green meadow"),
    "sea": ("by the sea", "at the sea"),
    "desert": ("in the desert", "among dunes in the desert"),
    "city": ("in the city", "in front of city houses"),
    "snow": ("in the snow", "in a snowy land"),
}
LIGHT = {
    "day": ("by day", "in daylight"),
    "sunset": ("at sunset", "in the evening sun"),
    "night": ("at night", "in the dark of night"),
}
STYLE = {
    "flat": ("in flat plain colours", "in full flat colours"),
    "pastel": ("in pale pastel colours", "in soft pastel"),
    "pixel art": ("as coarse pixel art", "in big pixels"),
}
_NUMBERS = ("no things", "one thing", "two things", "three things", "four things")


def a(noun: str) -> str:
    """The noun with its indefinite article."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def where(spot: str) -> str:
    """`at the top left`, `in the centre`."""
    return "in the centre" if spot == "centre" else f"at the {spot}"


def does(act: str, random: Random, whom: str = "") -> str:
    """A way to say what a thing does, given as in facts."""
    return pick(random, DOES[act]).format(f"the {whom}")


def films(act: str, random: Random) -> str:
    """A way to say what the camera does, given as in facts."""
    verb, back, _ = act.partition(" and back")
    return pick(random, FILMS[verb]) + back


def ground(background: str, random: Random) -> str:
    """A way to say where."""
    return pick(random, GROUND[background])


def lit(light: str, random: Random) -> str:
    """A way to say the time of day."""
    return pick(random, LIGHT[light])


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _joined(said: Iterable[Caption]) -> Caption:
    parts = list(said)
    return Caption(" ".join(part.text for part in parts), frozenset().union(*(part.facts for part in parts)))


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def _world(shot: Shot, *of: str) -> set[Fact]:
    values = {"place": shot.background, "light": shot.light, "style": shot.style}
    return {("world", what, values[what]) for what in of}


def _doing(shot: Shot, thing: Thing, rate: int, random: Random, full: bool = False) -> Caption:
    """`moves left quickly`: what one thing does, acts of a programme joined by `then`."""
    if not thing.acts:
        return Caption(does("nothing", random), frozenset({(thing.name, "does", "nothing")}))
    stated: set[Fact] = set()
    words = []
    for act in thing.acts:
        whom = () if act.other is None else (shot.things[act.other].name,)
        stated.add((thing.name, "does", deed(act), *whom))
        said = does(deed(act), random, *whom)
        if act.path in ("zigzag", "bounce"):
            stated.add((thing.name, "path", act.path))
            said += {"zigzag": " in a zigzag", "bounce": " in bounces"}[act.path]
        if full and (pace := speed(act, rate)):
            stated.add((thing.name, "speed", pace))
            said += f" {pace}"
        words.append(said)
    for one, other in pairwise(thing.acts):
        stated.add((thing.name, "before", deed(one), deed(other)))
    if full and (thing.name, "stops", "at last") in _facts_of(shot, rate):
        stated.add((thing.name, "stops", "at last"))
        words.append("stops")
    return Caption(", then ".join(words), frozenset(stated))


def _facts_of(shot: Shot, rate: int) -> Facts:
    return facts(Scene(shots=(shot,), rate=rate))


def _main(shot: Shot) -> Thing:
    return next((thing for thing in shot.things if thing.acts), shot.things[0])


def _brief(shot: Shot, rate: int, random: Random) -> Caption:
    thing = _main(shot)
    doing = _doing(shot, thing, rate, random)
    setting = ground(shot.background, random)
    text = pick(random, (f"{a(thing.name)} {doing.text} {setting}", f"{setting}, {a(thing.name)} {doing.text}"))
    return Caption(_sentence(text), doing.facts | _world(shot, "place"))


def _general(shot: Shot, rate: int, random: Random) -> Caption:
    apart = sorted(shot.things, key=lambda thing: any(act.other is not None for act in thing.acts))
    doings = [(thing, _doing(shot, thing, rate, random)) for thing in apart]
    count = _NUMBERS[len(shot.things)]
    setting = f"{ground(shot.background, random)}, {lit(shot.light, random)}"
    text = _listed([f"{a(thing.name)} {doing.text}" for thing, doing in doings])
    frame = pick(random, ("{1}, {2}. There is {0} in it", "{1}, there is {0}: {2}", "{2}, {1}. One sees {0}"))
    if len(shot.things) > 1:
        frame = frame.replace("there is", "there are").replace("There is", "There are")
    stated = _world(shot, "place", "light") | {("world", "holds", str(len(shot.things)))}
    return Caption(
        _sentence(frame.format(count, setting, text)), frozenset(stated).union(*(d.facts for _, d in doings))
    )


def _spatial(shot: Shot, rate: int, random: Random) -> Caption:
    """Where things are; which of them are left of and above which."""
    known = _facts_of(shot, rate)
    stated: list[Fact] = []
    texts = []
    for thing in shuffled(random, shot.things):
        spot = None if shot.camera.acts else place(thing)
        if spot is None:
            stated.append((thing.name, "is", "there"))
            texts.append(f"there is {a(thing.name)}")
        else:
            stated.append((thing.name, "starts" if thing.acts else "is at", spot))
            texts.append(f"{a(thing.name)} {'starts' if thing.acts else pick(random, ('is', 'sits'))} {where(spot)}")
    rows = [fact for fact in sorted(known) if fact[1] in ("left of", "above")]
    for fact in shuffled(random, rows)[:2]:
        stated.append(fact)
        texts.append(_beside(fact, random))
    return Caption(" ".join(map(_sentence, texts)), frozenset(stated))


def _beside(fact: Fact, random: Random) -> str:
    one, how, other = fact
    if random.random() < 0.5:
        return f"the {one} is {'to the left of' if how == 'left of' else 'above'} the {other}"
    return f"the {other} is {'to the right of' if how == 'left of' else 'below'} the {one}"


def _temporal(shot: Shot, rate: int, random: Random) -> Caption:
    """What happens, in order."""
    acting = sorted((thing for thing in shot.things if thing.acts), key=lambda thing: thing.acts[0].start)
    if not acting:
        return Caption("Nothing moves.", frozenset((thing.name, "does", "nothing") for thing in shot.things))
    doings = [_doing(shot, thing, rate, random, full=True) for thing in acting]
    stated = frozenset[Fact]().union(*(doing.facts for doing in doings))
    text = f"the {acting[0].name} {doings[0].text}"
    for one, other, doing in zip(acting, acting[1:], doings[1:], strict=False):
        after = one.acts[-1].end <= other.acts[0].start
        text += f"{pick(random, (', then', ', after that')) if after else ' while'} the {other.name} {doing.text}"
        if after:
            stated |= {(one.name, "before", deed(one.acts[-1]), other.name, deed(other.acts[0]))}
    return Caption(_sentence(f"first {text}" if ", then" in text or ", after" in text else text), stated)


def order(acts: Sequence[Act], random: Random) -> Caption:
    """What something unnamed does, one act after the other: nothing is said of what it is."""
    words = [does(deed(act), random) for act in acts]
    pairs = pairwise(acts)
    text = pick(
        random, ("first it {}, then it {}, after that it {}, and at last it {}", "it {}, then {}, then {}, then {}")
    )
    return Caption(_sentence(text.format(*words)), frozenset({("it", "before", deed(x), deed(y)) for x, y in pairs}))


def _camera(shot: Shot, rate: int, random: Random) -> Caption:
    acts = shot.camera.acts
    stated: set[Fact] = {("camera", "does", deed(act)) for act in acts} or {("camera", "does", "nothing")}
    stated |= {("camera", "before", deed(x), deed(y)) for x, y in pairwise(acts)}
    words = [films(deed(act), random) for act in acts] or [films("nothing", random)]
    return Caption(_sentence("the camera " + ", then ".join(words)), frozenset(stated))


def _events(shot: Shot, rate: int, random: Random) -> Caption:
    """One line an act, with its start and end in seconds of the shot."""
    done = [(act, thing) for thing in shot.things for act in thing.acts]
    lines, stated = [], set[Fact]()
    for act, thing in sorted(done, key=lambda pair: (pair[0].start, pair[1].name)):
        whom = () if act.other is None else (shot.things[act.other].name,)
        start, end = interval(act, rate)
        lines.append(f"{start}–{end} s: the {thing.name} {does(deed(act), random, *whom)}")
        stated.add((thing.name, "during", deed(act), start, end))
    for act in shot.camera.acts:
        start, end = interval(act, rate)
        lines.append(f"{start}–{end} s: the camera {films(deed(act), random)}")
        stated.add(("camera", "during", deed(act), start, end))
    if not lines:
        return Caption("Nothing happens.", frozenset((thing.name, "does", "nothing") for thing in shot.things))
    return Caption(". ".join(lines) + ".", frozenset(stated))


def _theme(shot: Shot, rate: int, random: Random) -> Caption:
    """Place, light and style; nothing of what happens."""
    words = (ground(shot.background, random), lit(shot.light, random), pick(random, STYLE[shot.style]))
    form = pick(random, ("a scene {0}, {1}, {2}", "{2}: a view {0} {1}", "all of it plays {0} {1}, drawn {2}"))
    return Caption(_sentence(form.format(*words)), frozenset(_world(shot, "place", "light", "style")))


def _keywords(shot: Shot, rate: int, random: Random) -> Caption:
    stated = _world(shot, "place", "light")
    words = [shot.background, shot.light]
    for thing in shot.things:
        stated.add((thing.name, "is", "there"))
        words.append(thing.name)
    for act in _main(shot).acts[:1]:
        whom = () if act.other is None else (shot.things[act.other].name,)
        stated.add((_main(shot).name, "does", deed(act), *whom))
        words.append(deed(act))
    return Caption(", ".join(shuffled(random, words)), frozenset(stated))


def _object(shot: Shot, rate: int, random: Random) -> Caption:
    """How the first thing (and the second) looks: size, texture, colour, form."""
    noun, stated = _described(shot, shot.things[0])
    text = pick(random, ("the main thing is {}", "one sees {}", "{} is the main thing here")).format(a(noun))
    if len(shot.things) > 1:
        beside, more = _described(shot, shot.things[1])
        text += pick(random, (", together with {}", "; besides there is {}")).format(a(beside))
        stated |= more
    return Caption(_sentence(text), frozenset(stated))


def _claim(shot: Shot, rate: int, random: Random) -> Caption:
    """One thing that is so, and nothing else: what a caption is made of."""
    things = [thing for thing in shot.things if not any(act.other is not None for act in thing.acts)]
    claims = [Caption(ground(shot.background, random), frozenset(_world(shot, "place")))]
    claims.append(Caption(lit(shot.light, random), frozenset(_world(shot, "light"))))
    for thing in shot.things:
        noun, stated = _described(shot, thing)
        claims += [Caption(f"there is {a(thing.name)}", frozenset({(thing.name, "is", "there")}))] * 2
        claims.append(Caption(f"there is {a(noun)}", frozenset(stated)))
    for thing in things:
        acts = [_doing(shot, replace(thing, acts=pair), rate, random) for pair in pairwise(thing.acts)]
        for said in acts or [_doing(shot, thing, rate, random)]:
            claims += [Caption(f"the {thing.name} {said.text}", said.facts)] * 2
        if thing in still(shot) and (spot := place(thing)):
            stated = {(thing.name, "is at", spot)}
            claims += [Caption(f"the {thing.name} is {where(spot)}", frozenset(stated))] * 3
    if shot.camera.acts:
        claims.append(_camera(replace(shot, camera=Camera(acts=shot.camera.acts[:2])), rate, random))
    chosen = pick(random, claims)
    return Caption(_sentence(chosen.text.rstrip(".")), chosen.facts)


def _described(shot: Shot, thing: Thing) -> tuple[str, set[Fact]]:
    """`small striped red circle`, and the facts in it."""
    words, stated = list[str](), set[Fact]({(thing.name, "is", "there")})
    if sized(shot, thing):
        words.append({"medium": "medium-sized"}.get(thing.size, thing.size))
        stated.add((thing.name, "size", thing.size))
    if thing.colour:
        words.append(thing.texture)
        stated.add((thing.name, "texture", thing.texture))
    return " ".join([*words, thing.name]), stated


def _detailed(shot: Shot, rate: int, random: Random) -> Caption:
    """All that can be said: looks, places, deeds, paces, arrangement, camera, setting."""
    parts = [_theme(shot, rate, random)]
    for thing in shot.things:
        noun, stated = _described(shot, thing)
        doing = _doing(shot, thing, rate, random, full=True)
        parts.append(Caption(_sentence(f"there is {a(noun)}; it {doing.text}"), doing.facts | stated))
    parts += [_spatial(shot, rate, random), _temporal(shot, rate, random), _camera(shot, rate, random)]
    return _joined(parts)


def _numbered(scene: Scene, said: Sequence[Caption]) -> Caption:
    """Shot by shot, each with its start in the video."""
    parts = []
    for number, part in enumerate(said):
        begins = f"{scene.starts[number] / scene.rate:.1f}"
        stated = {in_shot(fact, number) for fact in part.facts} | {in_shot(("video", "cuts at", begins), number)}
        parts.append(Caption(f"Shot {number + 1}, from {begins} s: {part.text}", frozenset(stated)))
    return _joined(parts)


def _chapters(scene: Scene, random: Random) -> Caption:
    """The whole of a long video, chapter by chapter, shot by shot."""
    parts, chapter = [], -1
    for number, shot in enumerate(scene.shots):
        said = _joined(
            [_general(shot, scene.rate, random), _object(shot, scene.rate, random), _camera(shot, scene.rate, random)]
        )
        head = "" if shot.chapter == chapter else f"Chapter {shot.chapter + 1}. "
        chapter = shot.chapter
        stated = said.facts if len(scene.shots) == 1 else frozenset(in_shot(fact, number) for fact in said.facts)
        parts.append(Caption(head + said.text, stated))
    return _joined(parts)


_SAYERS: dict[str, Callable[[Shot, int, Random], Caption]] = {
    **{"brief": _brief, "general": _general, "spatial": _spatial, "temporal": _temporal, "camera": _camera},
    **{"events": _events, "theme": _theme, "keywords": _keywords, "object": _object, "detailed": _detailed},
    "claim": _claim,
}


# Questions.


@dataclass(frozen=True)
class Question:
    """A question with its one right answer among `options`: guessing is right one time in `len(options)`."""

    text: str
    answer: str
    options: tuple[str, ...]
    kind: str


def questions(scene: Scene, random: Random) -> list[Question]:
    """Everything that can be asked of the first shot and has one answer."""
    shot = scene.shots[0]
    asked = [
        Question(pick(random, ("Where is this?", "What is the place?")), shot.background, BACKGROUNDS, "place"),
        Question(pick(random, ("What time of day is it?", "When is this?")), shot.light, LIGHTS, "light"),
        Question("How many things are there?", str(len(shot.things)), ("1", "2", "3"), "count"),
    ]
    asked += [question for thing in shot.things for question in _about(shot, thing, random)]
    if len(shot.camera.acts) < 2:
        done = shot.camera.acts[0].verb if shot.camera.acts else "nothing"
        asked.append(Question("What does the camera do?", done, ("nothing", *CAMERA), "camera"))
    for one, how, other in (fact for fact in sorted(facts(scene)) if len(fact) == 3 and fact[1] == "left of"):
        asked.append(Question(f"Is the {one} left or right of the {other}?", how.split()[0], ("left", "right"), "side"))
    return asked


def _about(shot: Shot, thing: Thing, random: Random) -> list[Question]:
    asked = []
    if thing.colour:
        asked.append(Question(f"What colour is the {thing.form}?", thing.colour, tuple(COLOURS), "colour"))
        if [t.colour for t in shot.things].count(thing.colour) == 1:
            asked.append(Question(f"What is {thing.colour}?", thing.form, FORMS, "form"))
    if thing in still(shot) and (spot := place(thing)):
        asked.append(Question(f"Where is the {thing.name}?", spot, tuple(PLACES), "where"))
    if len(thing.acts) < 2 and not shot.camera.acts:
        act = thing.acts[0].verb if thing.acts else "nothing"
        asked.append(Question(f"What does the {thing.name} do?", act, tuple(DOES), "deed"))
        ways = ("left", "right", "up", "down")
        if act in ways:
            asked.append(Question(f"Which way does the {thing.name} go?", act, ways, "direction"))
    if len(thing.acts) > 2:
        done = tuple(map(deed, thing.acts))
        for when, act in (("first", done[0]), ("last", done[-1])):
            asked.append(Question(f"At {when}, what does the {thing.name} do?", act, tuple(sorted(done)), when))
    return asked
