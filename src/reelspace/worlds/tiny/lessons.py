"""Scenes → lessons: conversations about a video, a picture or a text, all of them true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from reelspace.worlds.captions import Caption, Question, caption, questions
from reelspace.worlds.edits import ATTRIBUTES, Match, match, vary
from reelspace.worlds.facts import deed, facts
from reelspace.worlds.sample import (
    EASY,
    FULL,
    PLAIN,
    Profile,
    Random,
    Split,
    generator,
    pick,
    scene,
    shuffled,
    split_of,
)
from reelspace.worlds.scene import Scene
from reelspace.worlds.tiny.tokens import Turn

EDGE = 64
FRAMES = 8

Medium = Literal["video", "image", "text"]

ONE_WORD = {
    "video": "Summarise the video in one word:",
    "image": "Summarise the picture in one word:",
    "text": "Summarise the sentence in one word:",
}
"""What an embedding is read after (VidVec's explicit one-word limitation)."""
TELL = {
    "brief": "Describe the video briefly.",
    "general": "Describe the video.",
    "spatial": "Where is everything?",
    "temporal": "What happens?",
    "camera": "How is it filmed?",
    "events": "What happens when?",
    "theme": "Describe the setting.",
    "keywords": "Give keywords.",
    "object": "How do the things look?",
    "detailed": "Describe the video in detail.",
}
"""Kind of caption → what asks for it."""
_TOLD: dict[Medium, tuple[str, ...]] = {"video": (*TELL,), "text": (*TELL,), "image": ("theme", "object")}
WEIGHED = ("brief", "general", "temporal", "keywords", "object", "spatial")
"""Kinds of caption that are judged."""
STILL = ("where", "colour", "form", "place", "light", "count", "side")
"""Kinds of question that one frame answers."""
HARD = ("where", "deed", "direction", "first", "last", "camera")
"""Kinds of question that are learnt late: it takes a place or an order."""
ASSISTED = " Yes or No?"

FULL_CLIPS = replace(FULL, frames=(8, 16), size=(EDGE,), sizes=("medium", "large"), nuisance=0.05)
WORLDS: dict[str, Profile] = {
    "easy": replace(EASY, size=(EDGE,)),
    "plain": replace(PLAIN, size=(EDGE,)),
    "full": FULL_CLIPS,
    # One thing after the other.
    "ordered": replace(FULL_CLIPS, camera=0.0, relations=0.0, programmes=0.6, in_turn=0.4, still=0.0),
    # Things that stay where they are: of others it cannot be asked where.
    "placed": replace(FULL_CLIPS, camera=0.0, relations=0.0, programmes=0.0, in_turn=0.0, still=1.0),
    "easy order": replace(EASY, size=(EDGE,), sizes=("medium",), programmes=1.0),
    "easy places": replace(EASY, size=(EDGE,), still=1.0),
    # For the eyes: more things to see in a picture.
    "crowded": replace(FULL_CLIPS, things=(3, 3), relations=0.1, programmes=0.0, in_turn=0.0, still=0.0),
}


@dataclass(frozen=True)
class Plan:
    """What a stretch of training is made of.

    Attributes:
        until: the number of the step that the next begins with.
        worlds: name → share of scenes.
        contrast: weight of the contrastive loss between videos and captions; 0: none, and no captions are read.
        judged: share of turns that ask for Yes or No.
        turns: turns a lesson.
        changes: most attributes in which a text to be judged is false.
        plainly: captions are told in one wording.
        hard: how often a kind of question is asked that takes a place or an order, to once of the others.
        asked: share of the turns that are not judged that are questions; the others ask for captions.
        twins: how many families of videos, each of which differs from its first in one thing, there are at most; the
            others are more to see.
        family: videos of a family.
        opposed: texts of a video and its twin that are asked of both, at most; the first of a larger family is asked
            those of its last twin.
        settled: what is said in one word is the main thing, always; else any word that fits.
        claims: share of the captions to be judged that state one thing alone.
        mistold: each video is told from a caption, too, that would be true of a twin.
    """

    until: int
    worlds: dict[str, float]
    contrast: float
    judged: float
    turns: int
    changes: int = 1
    plainly: bool = False
    hard: int = 1
    asked: float = 0.65
    twins: int = 0
    family: int = 2
    opposed: int = 0
    settled: bool = False
    claims: float = 0.0
    mistold: bool = False


@dataclass(frozen=True)
class Lesson:
    """A scene and a conversation about it.

    Attributes:
        medium: how the scene is given: as video, as one of its frames, or told in words.
        told: the words, else empty.
        turns: questions and answers. An embedding is read where the answer begins that is to be one word.
        scene: what it is about.
        frame: the frame shown, of an image.
        shuffled: the frames are shown in another order.
    """

    medium: Medium
    told: str
    turns: tuple[Turn, ...]
    scene: Scene
    frame: int = 0
    shuffled: bool = False


def matched(statement: str) -> str:
    """The question whether a text is true of what was seen or told."""
    return f"Does this match? {statement}{ASSISTED}"


def keywords(drawn: Scene) -> list[str]:
    """The single words that a scene can be summed up in."""
    shot = drawn.shots[0]
    words = [thing.form for thing in shot.things] + [thing.colour for thing in shot.things if thing.colour]
    words += [deed(act) for actor in (*shot.things, shot.camera) for act in actor.acts[:1]]
    return [*words, shot.background, shot.light]


def one_word(medium: Medium, drawn: Scene, random: Random) -> Turn:
    """The scene in one word: any that fits, so that what is expected before it is said covers them all.

    The first that there is to choose is the main thing's form.
    """
    return Turn(ONE_WORD[medium], pick(random, keywords(drawn)))


def lesson(
    drawn: Scene,
    medium: Medium,
    random: Random,
    plan: Plan,
    profile: Profile,
    summed: bool,
    also: Sequence[Turn] = (),
) -> Lesson:
    """A lesson about a scene.

    Args:
        plan: what is asked, and how many turns there are besides the others named here.
        profile: the world of the scene.
        summed: the first turn asks for one word.
        also: turns that come before those of the plan.
    """
    told = caption(drawn, "detailed", random).text if medium == "text" else ""
    known = questions(drawn, random)
    if medium == "image":
        known = [question for question in known if question.kind in STILL]
    said = [_turn(drawn, medium, known, random, plan, profile) for _ in range(plan.turns)]
    frame = int(random.integers(drawn.shots[0].frames))
    first = (one_word(medium, drawn, _FIRST if plan.settled else random),) if summed else ()
    return Lesson(medium, told, (*first, *also, *said), drawn, frame)


def _turn(
    drawn: Scene, medium: Medium, known: Sequence[Question], random: Random, plan: Plan, profile: Profile
) -> Turn:
    if random.random() < plan.judged:
        if random.random() < 0.5:
            return _checked(pick(random, known), random)
        pair = _said(drawn, medium, random, plan, profile)
        return Turn(matched(pair.text), "Yes" if pair.match else "No", rather=matched(pair.rather))
    if random.random() < plan.asked:
        question = _balanced(known, random, plan.hard)
        return Turn(question.text, question.answer)
    kind = pick(random, _TOLD[medium])
    return Turn(TELL[kind], caption(drawn, kind, _FIRST if plan.plainly else random).text)


def _said(drawn: Scene, medium: Medium, random: Random, plan: Plan, profile: Profile) -> Match:
    """A text to be judged, true or false with equal chance."""
    if medium != "image" and random.random() < plan.claims:
        return _claimed(drawn, random, profile)
    kinds = WEIGHED if medium != "image" else _TOLD[medium]
    return match(drawn, pick(random, kinds), random, profile, int(random.integers(1, plan.changes + 1)))


def _claimed(drawn: Scene, random: Random, profile: Profile) -> Match:
    """A claim, true or false with equal chance where one is found: few of what is so can be made false."""
    wanted = bool(random.random() < 0.5)
    for _ in range(9):
        pair = match(drawn, "claim", random, profile)
        if pair.match == wanted:
            break
    return pair


class _First:
    """Chooses the first of everything, in the place of a random generator."""

    def integers(self, *_: int) -> int:
        return 0

    def random(self) -> float:
        return 0.0

    def permutation(self, count: int) -> range:
        return range(count)


_FIRST = cast("Random", _First())


def _balanced(asked: Sequence[Question], random: Random, hard: int) -> Question:
    """Kinds alike, however many questions each has; the hard ones `hard` times as often."""
    kinds = sorted({question.kind for question in asked})
    kind = pick(random, [kind for kind in kinds for _ in range(hard if kind in HARD else 1)])
    return pick(random, [question for question in asked if question.kind == kind])


def _checked(question: Question, random: Random) -> Turn:
    """A question with an answer in it, right or wrong with equal chance."""
    wrong = [option for option in question.options if option != question.answer]
    right = bool(random.random() < 0.5)
    said = question.answer if right else pick(random, wrong)
    text, rather = (f"{question.text} Is it {answer}?{ASSISTED}" for answer in (said, question.answer))
    return Turn(text, "Yes" if right else "No", rather=rather)


def retold(drawn: Scene, random: Random) -> tuple[Caption, Lesson]:
    """A caption of the scene as a text to embed, and the lesson that does it."""
    kind = pick(random, ("brief", "general", "temporal", "keywords"))
    said = caption(drawn, kind, random)
    return said, Lesson("text", said.text, (one_word("text", drawn, random),), drawn)


def mistold(drawn: Scene, random: Random, profile: Profile) -> tuple[Caption, Lesson] | None:
    """A caption to embed that is true of a twin of the scene and not of it; `None` where none is found."""
    for _ in range(6):
        other = twin(drawn, random, profile)
        if other is not None and not true_of((told := retold(other, random))[0], drawn):
            return told
    return None


def opposed(one: Scene, other: Scene, count: int, random: Random, claims: float = 0.0) -> tuple[list[Turn], list[Turn]]:
    """Captions of two scenes that differ in one thing, each asked of both: nothing but a look tells where it is true.

    Asked of one scene alone, a text is judged by what such texts mostly are: by how usual it sounds.

    Args:
        count: texts asked of each scene at most: pairs in the same words, one true of each.
        claims: share of them that state one thing alone.
    """
    turns: tuple[list[Turn], list[Turn]] = ([], [])
    kinds = shuffled(random, WEIGHED * (1 + count // len(WEIGHED)))
    claimed = ["claim"] * 8  # most claims are true of both
    for kind in [kind for whole in kinds for kind in (claimed if random.random() < claims else [whole])]:
        wording = int(random.integers(2**32))
        mine, theirs = (caption(drawn, kind, generator("opposed", wording)) for drawn in (one, other))
        if len(turns[0]) + 2 > count or mine.text == theirs.text or mine.true_of(other) or theirs.true_of(one):
            continue
        said, rather = matched(mine.text), matched(theirs.text)
        for number, true, false in ((0, said, rather), (1, rather, said)):
            turns[number].extend((Turn(true, "Yes", rather=true), Turn(false, "No", rather=true)))
    return turns


def twin(drawn: Scene, random: Random, profile: Profile) -> Scene | None:
    """A scene that differs in one thing, of the same split: what it takes to tell them apart is that thing alone."""
    timely = ("action", "order") if random.random() < 0.5 else ()
    for attribute in (*timely, *shuffled(random, ATTRIBUTES)):
        other = vary(drawn, attribute, random, 0, profile)
        if other is not None and split_of(other) == split_of(drawn):
            return other
    return None


def true_of(said: Caption, drawn: Scene) -> bool:
    """Whether the caption is true of the scene, so that they are no negatives of each other."""
    return said.facts <= facts(drawn)


def sampled(world: str, split: Split, *names: object) -> Scene:
    """A scene of a world, of its own for every name."""
    return scene(generator("tiny", world, split, *names), WORLDS[world], split)


def turned(random: Random, most: Sequence[float]) -> int:
    """An index drawn by weight."""
    return int(random.choice(len(most), p=[share / sum(most) for share in most]))
