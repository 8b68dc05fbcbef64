"""UVRB-Worlds: each of UVRB's 16 tasks in miniature, with answers proved instead of annotated.

A task is built of families: scenes that differ from each other in one thing. Every scene of a family is asked
for, so a model must see that one thing to beat its siblings. Whatever a query states, `evidence` decides which
candidates answer it; a family that would give any query a second answer is not taken.

In the tasks of ability T a family is every ordering of four acts, and a query is asked among one family only:
its members show the same frames, so that without their order there is nothing to go by but chance.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from reelspace.errors import ReelspaceError
from reelspace.item import Item
from reelspace.worlds.captions import Caption, caption, does, order
from reelspace.worlds.edits import compose, mirrored, outcome, vary
from reelspace.worlds.facts import Facts, clip, deed, evidence, picture
from reelspace.worlds.film import cached, picture_file
from reelspace.worlds.oracle import Ranking, expected
from reelspace.worlds.sample import FULL, Random, generator, looks, pick, programme, scene, shoot, shuffled
from reelspace.worlds.scene import BACKGROUNDS, CAMERA, LIGHTS, RETURNS, STYLES, Camera, Scene, Shot, Thing

Size = Literal["mini", "small", "full"]
QUERIES: dict[Size, int] = {"mini": 48, "small": 120, "full": 480}
"""About how many queries a task has; long videos are a quarter of that."""


@dataclass(frozen=True)
class Query:
    """What is asked, and what it states. An image is a frame of a scene, a clip a scene of its own."""

    facts: Facts
    text: str | None = None
    image: tuple[Scene, int] | None = None
    clip: Scene | None = None

    def item(self, folder: Path) -> Item:
        """The query to embed; its picture or clip lies in `folder`."""
        image = None if self.image is None else picture_file(*self.image, folder)
        video = None if self.clip is None else cached(self.clip, folder)
        return Item(text=self.text, image=image, video=video)


@dataclass(frozen=True)
class TaskData:
    """A retrieval task: corpus, queries, relevance.

    Attributes:
        ability: CG, S, T, PR, LC, CMP or VIS.
        relevant: query id → ids of the right answers.
        pools: query id → ids of the candidates it is asked among; `None`: the whole corpus.
        metric: `recall@1`, `recall@10` or `precision@1`.
        chance: what a random ranking is expected to score.
    """

    name: str
    ability: str
    queries: list[Item]
    query_ids: list[str]
    corpus: list[Item]
    corpus_ids: list[str]
    relevant: dict[str, frozenset[str]]
    pools: dict[str, tuple[str, ...]] | None
    metric: str
    chance: float


@dataclass(frozen=True)
class Task:
    """A task as scenes, before anything is drawn."""

    name: str
    ability: str
    metric: str
    corpus: Mapping[str, Scene]
    queries: Mapping[str, Query]
    pools: Mapping[str, tuple[str, ...]] | None = None

    @cached_property
    def relevant(self) -> dict[str, frozenset[str]]:
        """Query id → the candidates that have every fact it states."""
        return {
            key: frozenset(name for name in self.candidates(key) if query.facts <= evidence(self.corpus[name]))
            for key, query in self.queries.items()
        }

    def candidates(self, query: str) -> Sequence[str]:
        """Ids of what the query is asked among."""
        return list(self.corpus) if self.pools is None else self.pools[query]

    @property
    def ranking(self) -> Ranking:
        """Which columns count for each query, and which of them are right."""
        column = {name: k for k, name in enumerate(self.corpus)}
        asked = [np.array([column[name] for name in self.candidates(query)]) for query in self.queries]
        right = [np.array(sorted(column[name] for name in self.relevant[query])) for query in self.queries]
        return Ranking(asked, right, int(self.metric.partition("@")[2]))

    @property
    def chance(self) -> float:
        """What a random ranking is expected to score."""
        return expected(self.ranking, np.zeros((len(self.queries), len(self.corpus)), dtype=np.float32))

    def data(self, folder: str | Path) -> TaskData:
        """The task as files: what is not yet in `folder` is drawn."""
        folder = Path(folder)
        return TaskData(
            name=self.name,
            ability=self.ability,
            queries=[query.item(folder) for query in self.queries.values()],
            query_ids=list(self.queries),
            corpus=[Item(video=cached(drawn, folder)) for drawn in self.corpus.values()],
            corpus_ids=list(self.corpus),
            relevant=self.relevant,
            pools=None if self.pools is None else dict(self.pools),
            metric=self.metric,
            chance=self.chance,
        )


def task(name: str, size: Size = "small", seed: int = 0) -> Task:
    """One of the 16 tasks; the same for equal arguments.

    Raises:
        ReelspaceError: there is no such task.
    """
    if name not in RECIPES:
        raise ReelspaceError(f"There is no task “{name}”; the tasks are {', '.join(RECIPES)}.")
    return _build(name, RECIPES[name], QUERIES[size], seed)


def tasks(size: Size = "small", seed: int = 0) -> Iterator[Task]:
    """All 16."""
    return (task(name, size, seed) for name in RECIPES)


Family = list[tuple[Scene, list[Query]]]


@dataclass(frozen=True)
class Recipe:
    """How a task is made: its ability and metric, and what makes its n-th family.

    Attributes:
        pooled: each query is asked among its own family only.
        several: a query may have more than one right answer.
        share: part of the usual number of queries.
        scenes: name of what it draws, where another task has the same scenes; its own otherwise.
    """

    ability: str
    metric: str
    family: Callable[[Random, int], Family]
    pooled: bool = False
    several: bool = False
    share: float = 1.0
    scenes: str = ""


@dataclass
class _Growing:
    """A corpus that takes a family only if every query keeps one answer."""

    recipe: Recipe
    corpus: dict[str, Scene] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    pools: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def take(self, family: Family) -> None:
        old, new = set(self.corpus.values()), [drawn for drawn, _ in family]
        asked = [query for _, queries in family for query in queries]
        if old & set(new) or len(set(new)) < len(new) or not self._clear(new, asked):
            return
        names = [f"v{len(self.corpus) + k:05d}" for k in range(len(new))]
        self.corpus |= dict(zip(names, new, strict=True))
        for query in asked:
            key = f"q{len(self.queries):05d}"
            self.queries[key] = query
            self.pools[key] = tuple(names)

    def _clear(self, new: Sequence[Scene], asked: Sequence[Query]) -> bool:
        if self.recipe.several:
            return True
        if any(sum(query.facts <= evidence(drawn) for drawn in new) != 1 for query in asked):
            return False
        if self.recipe.pooled:
            return True
        known = [evidence(drawn) for drawn in self.corpus.values()]
        clash = any(query.facts <= truth for query in asked for truth in known)
        return not clash and not any(query.facts <= evidence(drawn) for query in self.queries.values() for drawn in new)


def _build(name: str, recipe: Recipe, count: int, seed: int) -> Task:
    growing = _Growing(recipe)
    for number in itertools.count():
        if len(growing.queries) >= count * recipe.share:
            break
        scenes = recipe.scenes or name
        family = recipe.family(generator("uvrb-worlds", scenes, seed, number), number)
        # In no order that a tie broken by id could profit from.
        growing.take(shuffled(generator("uvrb-worlds order", scenes, seed, number), family))
    pools = growing.pools if recipe.pooled else None
    return Task(name, recipe.ability, recipe.metric, growing.corpus, growing.queries, pools)


# Families.

_PROFILE = replace(FULL, frames=(16,), size=(96,), camera=0.0, programmes=0.0, still=0.0, nuisance=0.0)
_RATE = 4
_SLOW = 2  # frames a second where order is asked for: eight seconds, so that one frame a second is every other one


def _scene(random: Random, **changes: object) -> Scene:
    profile = replace(_PROFILE, **changes)  # type: ignore[arg-type]
    return replace(scene(random, profile), rate=_RATE)


def _kin(base: Scene, attributes: Sequence[str], random: Random) -> list[Scene]:
    """The scene and, for each attribute it has, a scene that differs in that."""
    varied = (vary(base, attribute, random, int(random.integers(len(base.shots)))) for attribute in attributes)
    return list(dict.fromkeys([base, *(other for other in varied if other is not None)]))


def _told(kind: str, attributes: Sequence[str], **changes: object) -> Callable[[Random, int], Family]:
    """Families of a scene and its kin, each asked for by a caption of one kind."""

    def family(random: Random, number: int) -> Family:
        kin = _kin(_scene(random, **changes), attributes, random)
        return [(drawn, [_asked(caption(drawn, kind, random))]) for drawn in kin]

    return family


def _asked(said: Caption) -> Query:
    return Query(said.facts, text=said.text)


def _spatial(random: Random, number: int) -> Family:
    """The same still things with their places exchanged."""
    shot = _still(random, 3)
    things = shot.things
    spots = [(thing.x, thing.y) for thing in things]
    family: Family = []
    for turn in shuffled(random, list(itertools.permutations(spots)))[:4]:
        moved = tuple(replace(thing, x=x, y=y) for thing, (x, y) in zip(things, turn, strict=True))
        drawn = _single(replace(shot, things=moved))
        family.append((drawn, [_asked(caption(drawn, "spatial", random))]))
    return family


def _still(random: Random, count: int) -> Shot:
    """Things that rest in some place."""
    shot = _scene(random, in_turn=0.0, relations=0.0, things=(1, 1)).shots[0]
    return replace(shot, things=tuple(looks(random, _PROFILE, count, shot.style)))


def _single(shot: Shot) -> Scene:
    return Scene(shots=(shot,), rate=_RATE)


def _object(random: Random, number: int) -> Family:
    """Two still things, and the kin of one by size, texture, colour and form."""
    shot = replace(_still(random, 2), style=pick(random, STYLES[:2]))
    kin = _kin(_single(shot), ("size", "texture", "colour", "form"), random)
    return [(drawn, [_asked(caption(drawn, "object", random))]) for drawn in kin]


def _orders(random: Random, number: int) -> Family:
    """One thing doing four acts that return, in all 24 orders: equal frames, differently ordered."""
    shot = _still(random, 1)
    thing = replace(shot.things[0], size="medium")
    family: Family = []
    for verbs in itertools.permutations(shuffled(random, RETURNS)[:4]):
        done = programme(thing, verbs, shot.frames)
        drawn = replace(_single(replace(shot, things=(done,))), rate=_SLOW)
        family.append((drawn, [_asked(order(done.acts, random))]))
    return family


def _camera_orders(random: Random, number: int) -> Family:
    """One view filmed with four camera moves that return, in all 24 orders."""
    shot = _still(random, 2)
    part = shot.frames // 4
    family: Family = []
    for verbs in itertools.permutations(shuffled(random, CAMERA)[:4]):
        acts = tuple(shoot(verb, part * k, part * (k + 1), back=True) for k, verb in enumerate(verbs))
        drawn = replace(_single(replace(shot, camera=Camera(acts=acts))), rate=_SLOW)
        family.append((drawn, [_asked(caption(drawn, "camera", random))]))
    return family


def _events(random: Random, number: int) -> Family:
    """Several deeds a video, each asked for alone; the twin does the first of them the other way round."""
    base = _scene(random, things=(2, 3), in_turn=0.6, relations=0.0)
    twin = mirrored(base)
    family: Family = []
    for drawn in [base] if twin is None else [base, twin]:
        asked = []
        for thing in drawn.shots[0].things:
            for act in thing.acts:
                text = f"The {thing.name} {does(deed(act), random)}."
                asked.append(Query(frozenset({(thing.name, "does", deed(act))}), text=text))
        family.append((drawn, asked))
    return family


def _themes(random: Random, number: int) -> Family:
    """All themes in turn; the things are the same from one theme to the next, and tell nothing."""
    themes = list(itertools.product(BACKGROUNDS, LIGHTS, STYLES))
    background, light, style = themes[number * 7 % len(themes)]
    shot = _scene(generator("theme", number // 6), styles=("pixel art",)).shots[0]
    drawn = _single(replace(shot, background=background, light=light, style=style, lay=int(random.integers(8))))
    return [(drawn, [_asked(caption(drawn, "theme", random))])]


def _long(random: Random, shots: int) -> Scene:
    return _scene(random, shots=(shots,), camera=0.15)


def _long_text(random: Random, number: int) -> Family:
    """A long video, one with a shot changed, and one with two shots exchanged; told from end to end."""
    base = _long(random, 12)
    one, other = sorted(int(k) for k in random.permutation(12)[:2])
    swapped = list(base.shots)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    shots = tuple(replace(shot, chapter=k // 4) for k, shot in enumerate(swapped))
    kin = [*_kin(base, ("background",), random), replace(base, shots=shots)]
    return [(drawn, [_asked(caption(drawn, "chapters", random))]) for drawn in kin]


def _clip(random: Random, number: int) -> Family:
    """Long videos that share all but one shot; that shot is the query."""
    base = _long(random, 12)
    at = int(random.integers(12))
    family: Family = []
    for attribute in ("", "background", "form"):
        drawn = base if not attribute else vary(base, attribute, random, at)
        if drawn is not None:
            shot = replace(drawn.shots[at], chapter=0)
            family.append((drawn, [Query(frozenset({clip(shot)}), clip=_single(shot))]))
    return family


def _frame(random: Random, number: int) -> Family:
    """A frame of each of a scene's kin."""
    base = _scene(random)
    family: Family = []
    for drawn in _kin(base, ("action", "size", "texture", "colour"), random):
        at = int(random.integers(2, 7))
        family.append((drawn, [Query(frozenset({picture(drawn.shots[0], at)}), image=(drawn, at))]))
    return family


def _composed(seen: Literal["image", "video"]) -> Callable[[Random, int], Family]:
    """Ten candidates and three references that the same words lead from, each to a target of its own.

    The others are what one has who misses the deed, the light or the place: neither the words nor the reference tell.
    """

    def family(random: Random, number: int) -> Family:
        reference = _single(_still(random, 1))
        asked = compose(reference, ("action", pick(random, ("light", "background"))), random, seen)
        things = _doubles(reference, random)
        references = [_instead(reference, thing) for thing in things]
        targets = [_instead(asked.target, replace(thing, acts=_thing(asked.target).acts)) for thing in things]
        queries = [
            Query(
                outcome(target),
                text=asked.text,
                image=(first, 0) if seen == "image" else None,
                clip=first if seen == "video" else None,
            )
            for first, target in zip(references, targets, strict=True)
        ]
        rivals = [
            other
            for attribute in ("action", "light", "background")
            for target in targets
            for other in _kin(target, (attribute,), random)[1:]
        ]
        rest = [drawn for drawn in dict.fromkeys(rivals) if drawn not in targets]
        return [
            *((target, [query]) for target, query in zip(targets, queries, strict=True)),
            *((drawn, []) for drawn in rest[: 10 - len(targets)]),
        ]

    return family


def _thing(drawn: Scene) -> Thing:
    return drawn.shots[0].things[0]


def _instead(drawn: Scene, thing: Thing) -> Scene:
    """The scene of one shot with this as its only thing."""
    return _single(replace(drawn.shots[0], things=(thing,)))


def _doubles(reference: Scene, random: Random) -> list[Thing]:
    """The thing of the scene, and two of other forms in its place."""
    thing = _thing(reference)
    others = [form for form in looks(random, replace(_PROFILE, textures=("plain",)), 3) if form.form != thing.form]
    return [
        thing,
        *(
            replace(thing, form=other.form, colour=other.colour, texture=other.texture, size=other.size)
            for other in others[:2]
        ),
    ]


_DETAILS = ("action", "texture", "size", "style", "light")
RECIPES: dict[str, Recipe] = {
    "MSRVTT": Recipe("CG", "recall@1", _told("brief", ("action", "form", "background"))),
    "DiDeMo": Recipe("CG", "recall@1", _told("brief", ("action", "form", "background"), shots=(3,))),
    "CRB-G": Recipe("CG", "recall@1", _told("general", ("action", "light", "form"), things=(2, 3))),
    "CRB-S": Recipe("S", "recall@1", _spatial),
    "VDC-O": Recipe("S", "recall@1", _object),
    "CRB-T": Recipe("T", "recall@1", _orders, pooled=True),
    "CMRB": Recipe("T", "recall@10", _camera_orders, pooled=True),
    "DREAM-E": Recipe("PR", "recall@1", _events),
    "LoVR-TH": Recipe("PR", "recall@10", _themes, several=True),
    "PEV-K": Recipe("PR", "recall@1", _told("keywords", ("action", "colour", "background"))),
    "LoVR-V": Recipe("LC", "recall@1", _long_text, share=0.25),
    "VDC-D": Recipe("LC", "recall@1", _told("detailed", _DETAILS, things=(2, 3), camera=0.3)),
    "MS-TI": Recipe("CMP", "precision@1", _composed("image"), pooled=True, scenes="MS"),
    "MS-TV": Recipe("CMP", "precision@1", _composed("video"), pooled=True, scenes="MS"),
    "MSRVTT-I2V": Recipe("VIS", "recall@1", _frame),
    "LoVR-C2V": Recipe("VIS", "recall@1", _clip, share=0.25),
}
"""In the order of UVRB's tables."""
