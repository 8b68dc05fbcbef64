"""No model at all: what is true of worlds, said in the models' form, with errors put in where they are asked for.

It stands for a captioner and a judge whose rate of errors is known, so that the checks can be measured.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from reelspace.embed.base import fingerprint
from reelspace.synth.config import OracleMllm
from reelspace.synth.mllm import Reply, Request, Show
from reelspace.synth.mllm.desk import settled
from reelspace.synth.source import truths
from reelspace.worlds.captions import a, caption, does, ground, lit
from reelspace.worlds.edits import ATTRIBUTES, vary
from reelspace.worlds.facts import Fact, Facts, deed, evidence
from reelspace.worlds.sample import Random, generator, pick, shuffled
from reelspace.worlds.scene import Scene, Thing

STYLE_KINDS = {
    "concise": ("brief",),
    "spatio-temporal": ("detailed",),
    "abstract": ("theme",),
    "keywords": ("keywords",),
    "partial": ("theme", "spatial", "object", "temporal"),
}
KINDS_OF = {"temporal": ("temporal", "events"), "spatial": ("spatial", "object"), "other": ("theme",)}


STATED = "stated.jsonl"
"""In the folder beside the dataset's: what each text that the oracle wrote states, and what is wrong with it."""


class Stated:
    """Texts of the oracle with the facts that they state: whoever judges them later need not understand them."""

    def __init__(self, run: Path) -> None:
        self._path, self._read, self._lock = run / STATED, 0, threading.Lock()
        self._known: dict[str, dict[str, Any]] = {}

    def put(self, text: str, facts: Facts, fault: str) -> None:
        """Writes it down: one line, added whole."""
        record = {"text": " ".join(text.split()), "facts": sorted(facts), "fault": fault}
        with self._path.open("ab", buffering=0) as file:
            file.write((json.dumps(record, ensure_ascii=False) + "\n").encode())

    def get(self, text: str) -> dict[str, Any] | None:
        """What a text states; `None` of one that is not the oracle's."""
        with self._lock:
            if text not in self._known and self._path.exists():
                with self._path.open("rb") as file:
                    file.seek(self._read)
                    new = file.read()
                whole = new.rfind(b"\n") + 1
                self._read += whole
                for line in new[:whole].splitlines():
                    with suppress(ValueError):  # the rest of a line that was cut off, with the next one behind it
                        record = json.loads(line)
                        self._known[record["text"]] = record
            return self._known.get(text)


class Oracle:
    """Answers for videos of worlds alone."""

    together = 1

    def __init__(self, config: OracleMllm, run: Path) -> None:
        self._config = config
        self._truths, self._stated = truths(run), Stated(run)

    @property
    def fingerprint(self) -> str:
        return fingerprint(kind="oracle", version=2, invented=self._config.invented, needless=self._config.needless)

    def close(self) -> None:
        pass

    def ask(self, request: Request) -> Reply:
        random = generator("oracle", request.seed, request.task, request.prompt)
        answer = getattr(self, f"_{request.task}")(request, random)
        text = answer if isinstance(answer, str) else settled(answer)
        words = len(request.prompt.split()), len(text.split())
        return Reply(text, "oracle", self._config.revision or "1", *words)

    def _scene(self, show: Show) -> Scene:
        return self._truths[show.source.path].scene

    def _said(self, scene: Scene, kind: str, random: Random) -> str:
        """A caption; where one is to be invented, of a scene that differs in one thing."""
        wording = int(random.integers(2**32))
        told, fault = caption(scene, kind, generator(wording)), ""
        if random.random() < self._config.invented:
            for attribute in shuffled(random, ATTRIBUTES):
                other = vary(scene, attribute, random)
                if other is not None and not (false := caption(other, kind, generator(wording))).true_of(scene):
                    told, fault = false, f"invented {attribute}"
                    break
        self._stated.put(told.text, told.facts, fault)
        return told.text

    def _captions(self, request: Request, random: Random) -> dict[str, Any]:
        scene = self._scene(request.shows[0])
        found = []
        for style, kinds in STYLE_KINDS.items():
            own = KINDS_OF[request.slots["profile"]] if style == "partial" else kinds
            found.append({"style": style, "text": self._said(scene, pick(random, own), random)})
        return {"captions": found}

    def _frame(self, request: Request, random: Random) -> dict[str, Any]:
        return {"caption": self._said(self._scene(request.shows[1]), pick(random, ("brief", "general")), random)}

    def _from_picture(self, request: Request, random: Random) -> dict[str, Any]:
        reference, target = (self._scene(show) for show in request.shows)
        thing, shot = _main(target), target.shots[0]
        seen = next((t for t in reference.shots[0].things if t.form == thing.form), reference.shots[0].things[0])
        word = "CLIP" if request.shows[0].moving else "IMAGE"
        named = seen.colour or seen.form
        doing, facts = _doings(thing, target, random)
        setting = f"{ground(shot.background, random)}, {lit(shot.light, random)}"
        facts |= {("world", "place", shot.background), ("world", "light", shot.light)}
        fault = ""
        query = f"The {named} one FROM REFERENCE {word} {doing} {setting}"
        if thing.form != seen.form:
            query = f"In place of the {named} one FROM REFERENCE {word} {a(thing.form)} {doing} {setting}"
        if random.random() < self._config.needless:
            if random.random() < 0.5:
                # As much as a query may be long.
                told = next(
                    one
                    for kind in ("detailed", "general", "brief")
                    if len((one := caption(target, kind, random)).text.split()) <= 50 or kind == "brief"
                )
                fault = "needless reference"
                query, facts = f"{told.text} It is the {named} one FROM REFERENCE {word}", set(told.facts)
                query = " ".join(query.replace(".", ",").rstrip(",").split())
            else:
                fault, facts = "needless words", set()
                query = f"The {named} one FROM REFERENCE {word}, shown in full"
        self._stated.put(query, frozenset(facts), fault)
        return {"query": query, "attribute": named}

    def _from_clip(self, request: Request, random: Random) -> dict[str, Any]:
        same = request.shows[0].source.path == request.shows[1].source.path
        relation = "temporal continuation" if same else "minor action variation"
        return {**self._from_picture(request, random), "relation": relation}

    def _verify(self, request: Request, random: Random) -> str:
        known = self._stated.get(str(request.slots["text"]))
        true = known is not None and {tuple(fact) for fact in known["facts"]} <= evidence(
            self._scene(request.shows[-1])
        )
        return "Yes" if true else "No"


def _main(scene: Scene) -> Thing:
    shot = scene.shots[0]
    return next((thing for thing in shot.things if thing.acts), shot.things[0])


def _doings(thing: Thing, scene: Scene, random: Random) -> tuple[str, set[Fact]]:
    """What a thing does, in words and as facts."""
    if not thing.acts:
        return does("nothing", random), {(thing.name, "does", "nothing")}
    words, facts = [], set[Fact]()
    for act in thing.acts:
        whom = () if act.other is None else (scene.shots[0].things[act.other].name,)
        words.append(does(deed(act), random, *whom))
        facts.add((thing.name, "does", deed(act), *whom))
    return " and then ".join(words), facts
