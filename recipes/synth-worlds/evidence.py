"""How well the filters and checks of V-SynFlow find what is wrong, on drawn videos of which everything is known.

    python recipes/synth-worlds/evidence.py --count 240 --output recipes/synth-worlds/evidence.json
    python recipes/synth-worlds/evidence.py --tiny runs/tiny …  # also with the tiny model: embedder, captioner, judge
    python recipes/synth-worlds/evidence.py --tiny runs/new --but-for evidence.json …  # the rest from there

Faults are put in: captions of another video, videos in which nothing moves, texts that are no captions, copies;
captions with one invented attribute; composed queries that do not need one of their parts. Every filter and check then
says what it would turn down. Precision is the share of what it turned down that was at fault, recall the share of what
was at fault that it turned down. The table in docs/synth.md is printed by `--table`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from reelspace import embed
from reelspace.embed.base import normalise
from reelspace.item import Item
from reelspace.media.policy import Centres, Sampling
from reelspace.media.reader import Reader
from reelspace.synth import extend, prompts, rules
from reelspace.synth import filter as filtering
from reelspace.synth.answers import FromPicture
from reelspace.synth.config import Config, TinyMllm, WorldsSource
from reelspace.synth.mllm import Show
from reelspace.synth.schema import Clip
from reelspace.synth.source import Drawn, at_rest, drawn
from reelspace.worlds.captions import caption
from reelspace.worlds.edits import ATTRIBUTES, compose, vary
from reelspace.worlds.facts import Facts, evidence, facts, picture
from reelspace.worlds.film import cached
from reelspace.worlds.render import picture as drawn_picture
from reelspace.worlds.sample import FULL, Random, generator, looks, pick, shuffled
from reelspace.worlds.scene import Scene, Shot


@dataclass
class Found:
    """What a check turned down, beside what was at fault."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    passed: int = 0

    def add(self, turned_down: bool, fault: bool) -> None:
        if turned_down:
            self.right, self.wrong = self.right + fault, self.wrong + (not fault)
        else:
            self.missed, self.passed = self.missed + fault, self.passed + (not fault)

    def figures(self) -> dict[str, Any]:
        down, faults = self.right + self.wrong, self.right + self.missed
        return {
            "precision": round(self.right / down, 3) if down else None,
            "recall": round(self.right / faults, 3) if faults else None,
            "faults": faults,
            "n": down + self.missed + self.passed,
            "turned down": down,
        }


# An embedder that knows the truth: facts, hashed into a vector.


class Oracle:
    """Cosines of facts: of what a text states, of what a scene shows."""

    name, dim = "oracle", 4096
    modalities = frozenset({"text", "image", "video", "image+text", "video+text"})
    sampling = Sampling(Centres(4))
    fingerprint = "oracle"

    def of(self, known: Facts) -> np.ndarray:
        row = np.zeros((1, self.dim), np.float32)
        for fact in sorted(known):
            digest = hashlib.sha256(repr(fact).encode()).digest()
            row[0, int.from_bytes(digest[:4], "little") % self.dim] = 1.0
        return normalise(row)[0]


def areas(scores: Iterable[float], faults: Iterable[bool]) -> float | None:
    """The chance that a fault scores below what is none."""
    values, bad = np.asarray(list(scores)), np.asarray(list(faults))
    low, high = values[bad][:, None], values[~bad][None]
    if not low.size or not high.size:
        return None
    return round(float(((low < high) + 0.5 * (low == high)).mean()), 3)


class Studio:
    """Makes and embeds videos."""

    def __init__(self, folder: Path, reader: Reader, config: Config, embedders: dict[str, embed.Embedder]) -> None:
        self.folder, self.reader, self.config, self.embedders = folder, reader, config, embedders
        self.oracle = Oracle()

    def frames(self, scene: Scene, sampling: Sampling) -> Any:
        from reelspace.item import Span

        return self.reader.sample(Span(cached(scene, self.folder)), sampling)

    def videos(self, name: str, scenes: Iterable[Scene]) -> np.ndarray:
        embedder = self.embedders[name]
        items = (Item(video=self.frames(scene, embedder.sampling)) for scene in scenes)
        return np.concatenate([embedder.encode_candidate([item]) for item in items])

    def texts(self, name: str, said: Iterable[str]) -> np.ndarray:
        return np.concatenate([self.embedders[name].encode_query([Item(text=text)]) for text in said])


def by_cosine(queries: np.ndarray, candidates: np.ndarray, faults: list[bool], seed: int) -> dict[str, Any]:
    """What thresholds that are taken from mismatched pairs turn down."""
    cosines = (queries * candidates).sum(axis=1)
    found: dict[str, Any] = {"AUC": areas(cosines, faults)}
    for share in (0.5, 0.9):
        least, check = filtering.threshold(f"null:{share}", queries, candidates, seed), Found()
        for cosine, fault in zip(cosines, faults, strict=True):
            check.add(float(cosine) < least, fault)
        found[f"null:{share}"] = check.figures()
    return found


# Stage 1.


def of_filter(studio: Studio, count: int, seed: int) -> dict[str, Any]:
    """Each filter alone, on all pairs: so that none hides behind the one before it."""
    source = WorldsSource(kind="worlds", count=count, wrong=0.3, still=0.1, junk=0.1, copies=0.05)
    made = list(drawn(source, seed))
    rectify, moving, near = Found(), Found(), Found()
    seen: list[tuple[Drawn, bytes]] = []
    for pair in made:
        rectify.add(bool(filtering.unfit(pair.text, studio.config)), pair.said is None)
        frames = studio.frames(pair.scene, filtering.LOOKED)
        moving.add(filtering.motion(frames.pixels) < studio.config.filter.motion, at_rest(pair.scene))
        seen.append((pair, filtering.looks(frames.pixels)))
    for k, (pair, own) in enumerate(seen):
        grey = np.frombuffer(own, np.uint8).astype(int)
        alike = [
            j
            for j in range(k)
            if np.abs(np.frombuffer(seen[j][1], np.uint8) - grey).max() <= studio.config.filter.near_video
        ]
        near.add(bool(alike), pair.fault == "copy")
    figures: dict[str, Any] = {
        "rectify": rectify.figures(),
        "moving": moving.figures(),
        "near_videos": near.figures(),
    }
    # Consistency: of what is a caption.
    told = [pair for pair in made if pair.said is not None]
    wrong = [pair.said is not pair.scene for pair in told]
    for name in studio.embedders:
        queries = studio.texts(name, (pair.text for pair in told))
        candidates = studio.videos(name, (pair.scene for pair in told))
        figures[f"consistent, {name}"] = by_cosine(queries, candidates, wrong, seed)
    stated = np.stack([studio.oracle.of(pair.stated) for pair in told])
    shown = np.stack([studio.oracle.of(evidence(pair.scene)) for pair in told])
    figures["consistent, oracle"] = by_cosine(stated, shown, wrong, seed)
    return figures


# Stage 2.


@dataclass(frozen=True)
class Told:
    """A caption as a model might have given it, true or with one attribute invented."""

    scene: Scene
    text: str
    stated: Facts
    fault: str


def captions_told(count: int, seed: int) -> list[Told]:
    """Half of them are true."""
    found = []
    for number in range(count):
        random = generator("evidence captions", seed, number)
        scene = _scene(random)
        kind, wording = (
            pick(random, ("brief", "general", "temporal", "detailed", "object")),
            int(random.integers(2**32)),
        )
        told, fault = caption(scene, kind, generator(wording)), ""
        if number % 2:
            for attribute in shuffled(random, ATTRIBUTES):
                other = vary(scene, attribute, random)
                if other is not None and not (false := caption(other, kind, generator(wording))).true_of(scene):
                    told, fault = false, attribute
                    break
        found.append(Told(scene, told.text, told.facts, fault))
    return found


def _scene(random: Random) -> Scene:
    from reelspace.worlds.sample import scene
    from reelspace.worlds.tiny.lessons import WORLDS

    return scene(random, WORLDS["full"], "held-out")


def of_captions(studio: Studio, count: int, seed: int, tiny: Path | None) -> dict[str, Any]:
    """Invented attributes: by the cosine with the video, by a verifier; and the rules, on texts that break them."""
    told = captions_told(count, seed)
    faults = [bool(one.fault) for one in told]
    figures: dict[str, Any] = {}
    for name in studio.embedders:
        queries, videos = studio.texts(name, (one.text for one in told)), studio.videos(name, (o.scene for o in told))
        figures[f"ground, {name}"] = by_cosine(queries, videos, faults, seed)
    stated = np.stack([studio.oracle.of(one.stated) for one in told])
    shown = np.stack([studio.oracle.of(evidence(one.scene)) for one in told])
    figures["ground, oracle"] = by_cosine(stated, shown, faults, seed)
    judges = {"oracle": lambda one: float(one.stated <= facts(one.scene))}
    if tiny is not None:
        from reelspace.synth.mllm.tiny import Tiny

        model = Tiny(TinyMllm(kind="tiny", model=str(tiny)))

        def judge(one: Told) -> float:
            frames = studio.frames(one.scene, Sampling(Centres(8)))
            show = Show("VIDEO", frames.pixels, frames.times, Clip(path="x.mp4"))
            return model.ask(prompts.verify([show], one.text)).likelihoods["Yes"]

        judges["tiny"] = judge
    for name, judge in judges.items():
        values = [judge(one) for one in told]
        check = Found()
        for value, fault in zip(values, faults, strict=True):
            check.add(value < 0.5, fault)
        figures[f"verify, {name}"] = {"AUC": areas(values, faults), **check.figures()}
        if name != "oracle":
            figures[f"verify, {name}"]["at its own threshold"] = fitted(values, faults)
    figures["rules"] = of_rules(told)
    return figures


def fitted(values: Sequence[float], faults: Sequence[bool]) -> dict[str, Any]:
    """What the threshold turns down that is best for the other half of the texts.

    For a judge whose Yes is seldom likely, or always, though it is likelier where it should be.
    """
    pairs = list(zip(values, faults, strict=True))
    here, there = pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]
    check = Found()
    for known, asked in ((here, there), (there, here)):
        ways = sorted(value for value, _ in known)
        least = max(ways, key=lambda least: sum((value < least) == fault for value, fault in known), default=0.5)
        for value, fault in asked:
            check.add(value < least, fault)
    return check.figures()


# Written without looking at the rules, so some get past them.
INVENTED = {
    "absence": (
        "There are no people to be seen.",
        "Nobody else is around.",
        "No other animals appear.",
        "The sky is empty of clouds.",
        "Nothing else happens.",
        "The ground has no visible texture.",
    ),
    "speculation": (
        "It seems to be looking for something.",
        "It is probably early.",
        "This could be a toy.",
        "Maybe it is tired.",
        "It looks as if it were lost.",
        "One might think of a holiday.",
    ),
    "dialogue": (
        "“Come here,” somebody calls.",
        "A voice tells it to stop.",
        "“Wait!” it cries.",
        "Someone shouts in the distance.",
        "It greets its friend with a hello.",
        "Two people talk about the weather.",
    ),
    "backstory": (
        "It used to live on a farm.",
        "It has come a long way from home.",
        "It was born in the spring.",
        "Soon it will be back with its family.",
        "It wants to go home.",
        "After years of searching it has found its place.",
    ),
    "meta": (
        "The video shows all of this.",
        "In this clip, the colours are flat.",
        "As an AI, I can only see the frames.",
        "The frames depict a simple scene.",
        "This footage was made by a computer.",
        "Here is a caption of the video.",
    ),
}


def of_rules(told: list[Told]) -> dict[str, Any]:
    """The rules of a text: true captions, and the same with a sentence that says what is not to be said."""
    check, kinds = Found(), {kind: Found() for kind in INVENTED}
    sentences = [(kind, sentence) for kind, said in INVENTED.items() for sentence in said]
    for number, one in enumerate(told):
        check.add(rules.broken(one.text) is not None, False)
        kind, sentence = sentences[number % len(sentences)]
        down = rules.broken(f"{one.text} {sentence}") is not None
        check.add(down, True)
        kinds[kind].add(down, True)
    return {**check.figures(), **{f"recall, {kind}": found.figures()["recall"] for kind, found in kinds.items()}}


# Stage 3.


@dataclass(frozen=True)
class Asked:
    """A composed query with its target and rivals."""

    reference: Scene
    text: str
    words: Facts
    seen: Facts
    target: Scene
    rivals: list[Scene]
    fault: str


def composed_asked(count: int, seed: int) -> list[Asked]:
    """A third needs both its parts; a third states all in words; a third has words that say nothing.

    A query's vector is the sum of its parts' facts: the words state the deed and the setting, the reference shows what
    the thing looks like. Rivals share the thing or the deed with the target.
    """
    found = []
    for number in range(count):
        random = generator("evidence composed", seed, number)
        (thing,) = looks(random, replace(FULL, textures=("plain",)), 1)
        shot = Shot(things=(thing,), background=pick(random, FULL.backgrounds), light=pick(random, FULL.lights))
        reference = Scene(shots=(shot,))
        made = compose(reference, ("action", pick(random, ("light", "background"))), random)
        target = made.target
        name = thing.name
        doing = frozenset(fact for fact in made.facts if fact[0] != "camera" and fact != (name, "is", "there"))
        words = frozenset(("it", *fact[1:]) if fact[0] == name else fact for fact in doing)
        seen = frozenset({(name, "is", "there"), *appearance(reference)})
        fault = ("", "reference", "words")[number % 3]
        text = f"The one FROM REFERENCE IMAGE, {made.text.split(', ', 1)[1]}"
        if fault == "reference":
            told = caption(target, "detailed", random)
            text, words = f"{told.text} It is as in REFERENCE IMAGE", told.facts | appearance(target) | words
        elif fault == "words":
            text, words = "The one FROM REFERENCE IMAGE, shown in full", frozenset()
            target, seen = stirred(reference), seen | {picture(shot, 0)}
        others = [replace(target.shots[0], things=(other,)) for other in others_of(target.shots[0].things[0], random)]
        rivals = [Scene(shots=(other,)) for other in others]
        for attribute in ("action", "background", "light"):
            rivals += [other for _ in range(2) if (other := vary(target, attribute, random)) is not None]
        rivals = [rival for rival in dict.fromkeys(rivals) if rival not in (target, reference)]
        found.append(Asked(reference, text, words, seen, target, rivals, fault))
    return found


def stirred(reference: Scene) -> Scene:
    """A target that is what the reference shows, and little more: words are not needed to find it."""
    shot = reference.shots[0]
    return replace(reference, shots=(replace(shot, frames=8, lay=(shot.lay + 1) % 8),))


def appearance(scene: Scene) -> Facts:
    """How the first thing looks."""
    thing = scene.shots[0].things[0]
    return frozenset(fact for fact in facts(scene) if fact[0] == thing.name and fact[1] in ("is", "colour", "texture"))


def others_of(thing: Any, random: Random) -> list[Any]:
    return [
        replace(thing, form=other.form, colour=other.colour, texture=other.texture)
        for other in looks(random, replace(FULL, textures=("plain",)), 3)
        if other.form != thing.form
    ]


def of_composed(studio: Studio, count: int, seed: int) -> dict[str, Any]:
    """The necessity test, by rank and by margin, with `lite` and with facts; and the rules of composed queries."""
    asked = composed_asked(count, seed)
    figures: dict[str, Any] = {}
    for name in (*studio.embedders, "oracle"):
        leads = [_leads(studio, name, one) for one in asked]
        for way in ("rank", "margin"):
            config = studio.config.model_copy(
                update={"extend": studio.config.extend.model_copy(update={"necessity": way, "depth": 1})}
            )
            check = Found()
            parts = {"reference": Found(), "words": Found()}
            for one, (lead, place) in zip(asked, leads, strict=True):
                reason = extend.needless(lead, place, config)
                check.add(bool(reason), bool(one.fault))
                for part, found in parts.items():
                    if one.fault in ("", part):
                        found.add(bool(reason), one.fault == part)
            figures[f"necessary by {way}, {name}"] = {
                **check.figures(),
                **{f"recall, needless {part}": found.figures()["recall"] for part, found in parts.items()},
            }
        gains = [lead["both"] - max(lead["words"], lead["reference"]) for lead, _ in leads]
        figures[f"necessary by margin, {name}"]["AUC"] = areas(gains, [bool(one.fault) for one in asked])
    check = Found()
    for one in (one for one in asked if not one.fault):
        colour = one.reference.shots[0].things[0].name.split(" ")[0]
        good = one.text.replace("The one", f"The {colour} one")
        check.add(rules.broken_query(FromPicture(query=good, attribute=colour)) is not None, False)
        for text in (
            one.text,  # names no attribute
            good.replace("FROM REFERENCE IMAGE", "similar to the reference"),
            good.replace("FROM REFERENCE IMAGE", "shown"),
        ):
            check.add(rules.broken_query(FromPicture(query=text, attribute=colour)) is not None, True)
    figures["rules of composed queries"] = check.figures()
    return figures


def _leads(studio: Studio, name: str, one: Asked) -> tuple[dict[str, float], dict[str, int]]:
    if name == "oracle":
        of = studio.oracle.of
        queries = {
            "both": of(one.words | one.seen),
            "words": of(one.words or frozenset({("nothing",)})),
            "reference": of(one.seen),
        }
        known = [frozenset(anonymous(scene)) for scene in (one.target, *one.rivals, one.reference)]
        target, *rivals = (of(row) for row in known)
    else:
        frame = drawn_picture(one.reference.shots[0], 0, one.reference.size)
        items = {"both": Item(text=one.text, image=frame), "words": Item(text=one.text), "reference": Item(image=frame)}
        queries = dict(zip(items, studio.embedders[name].encode_query(list(items.values())), strict=True))
        target, *rivals = studio.videos(name, (one.target, *one.rivals, one.reference))
    return extend.leads_of(queries, target, np.stack(rivals))


def anonymous(scene: Scene) -> set[Any]:
    """What is true of a scene, also said of `it`; without what is only true of the camera, and without other names."""
    known = {fact for fact in evidence(scene) if fact[0] not in ("camera", "video")}
    return {
        fact for fact in known if fact[0] != scene.shots[0].things[0].form or " " not in scene.shots[0].things[0].name
    }


# The tiny model as captioner.


def of_tiny(studio: Studio, count: int, seed: int, tiny: Path) -> dict[str, Any]:
    """What becomes of captions that the tiny model writes: how many keep the rules, how much in them is true."""
    from reelspace.synth.mllm.tiny import Tiny
    from reelspace.worlds.tiny.hearing import heard
    from reelspace.worlds.tiny.hearing import told as said_of

    model = Tiny(TinyMllm(kind="tiny", model=str(tiny)))
    kept, sets, true, other, spoken, before = 0, 0, 0, 0, 0, None
    for number in range(count):
        scene = _scene(generator("evidence tiny", seed, number))
        frames = studio.frames(scene, Sampling(Centres(8)))
        show = Show("VIDEO", frames.pixels, frames.times, Clip(path="x.mp4"))
        slots = {"profile": "temporal", "readability": "plain", "education": "university"}
        reply = model.ask(prompts.captions(show, "", slots, studio.config.enrich, number))
        texts = [one["text"] for one in json.loads(reply.text)["captions"]]
        sets += 1
        kept += sum(rules.broken(text) is None for text in texts)
        facts_heard = set().union(*(heard(text) for text in texts))
        spoken += len(facts_heard)
        true += len(facts_heard & said_of(scene))
        if before is not None:
            other += len(facts_heard & before)
        before = said_of(scene)
    return {
        "videos": sets,
        "texts that keep the rules": round(kept / (5 * sets), 3),
        "facts heard that are true": round(true / max(spoken, 1), 3),
        "… of another video": round(other / max(spoken, 1), 3),
    }


JUDGES = ("", "lite", "tiny", "oracle")


def table(figures: dict[str, Any]) -> str:
    """As it stands in docs/synth.md: precision / recall, and (AUC), by check and by who judges."""
    rows: dict[str, dict[str, str]] = {}
    for part in ("filter", "captions", "composed"):
        for name, data in figures[part].items():
            check, _, judge = name.partition(", ")
            for inner, more in {"": data, **{k: v for k, v in data.items() if isinstance(v, dict)}}.items():
                label = f"{check}, {inner}" if inner else check
                if "n" in more or inner == "":
                    cells = rows.setdefault(label, {})
                    cells[judge] = _cell(more)
                    if "n" in more:
                        cells["of"] = f"{more['faults']} of {more['n']}"
    lines = ["| check | faults of | no model | lite | tiny model | oracle |", "|---|---|---|---|---|---|"]
    for label, cells in rows.items():
        lines.append(f"| {label} | {cells.get('of', '')} | {' | '.join(cells.get(judge, '') for judge in JUDGES)} |")
    return "\n".join(lines)


def _cell(data: dict[str, Any]) -> str:
    auc = f"({data['AUC']:.2f})" if data.get("AUC") is not None else ""
    if "n" not in data:
        return auc
    shown = " / ".join("–" if data[part] is None else f"{data[part]:.2f}" for part in ("precision", "recall"))
    return f"{shown} {auc}".strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=240)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--tiny", type=Path)
    parser.add_argument("--but-for", type=Path, metavar="FILE", help="ask the tiny model alone; the rest is in FILE")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--table", type=Path, metavar="FILE", help="print the table of a file that --output wrote")
    asked = parser.parse_args()
    if asked.table:
        print(table(json.loads(asked.table.read_text())))
        return
    config = Config.model_validate(
        {"source": {"kind": "worlds"}, "mllm": {"kind": "oracle"}, "enrich": {"short": 20, "long": 40}}
    )
    with tempfile.TemporaryDirectory() as folder, Reader(workers=1, patience=600) as reader:
        embedders = {} if asked.but_for else {"lite": embed.load("lite")}
        embedders |= {"tiny": embed.load(str(asked.tiny))} if asked.tiny else {}
        studio = Studio(Path(folder), reader, config, embedders)
        figures: dict[str, Any] = {"count": asked.count, "seed": asked.seed}
        parts = {
            "filter": lambda: of_filter(studio, asked.count, asked.seed),
            "captions": lambda: of_captions(studio, asked.count, asked.seed, asked.tiny),
            "composed": lambda: of_composed(studio, max(asked.count // 4, 3), asked.seed),
        }
        if asked.tiny:
            few = max(asked.count // 8, 4)
            parts["tiny as captioner"] = lambda: of_tiny(studio, few, asked.seed, asked.tiny)
        for name, part in parts.items():
            figures[name] = part()
            print(f"{name}: done after {time.process_time():.0f} s of processor time", file=sys.stderr, flush=True)
    if asked.but_for:
        kept = json.loads(asked.but_for.read_text())
        if any(kept[name] != figures[name] for name in ("count", "seed")):
            raise SystemExit(f"{asked.but_for} is of another --count or --seed.")
        figures = {name: {**kept[name], **data} if isinstance(data, dict) else data for name, data in figures.items()}
    text = json.dumps(figures, indent=1) + "\n"
    if asked.output:
        asked.output.write_text(text)
    print(table(figures), file=sys.stderr)
    print(text)


if __name__ == "__main__":
    main()
