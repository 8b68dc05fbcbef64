"""Rows to train on, drawn from worlds: a base mixture as the paper's, and the seven tasks of UVRD.

No row shows a held-out combination, so UVRB-Worlds and the exam of held-out scenes are new to what is trained on them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from reelspace.synth.shards import write_text
from reelspace.worlds.captions import caption
from reelspace.worlds.edits import compose
from reelspace.worlds.film import cached, picture_file
from reelspace.worlds.sample import FULL, Profile, Random, Split, generator, looks, pick, scene
from reelspace.worlds.scene import Scene

Part = dict[str, Any]
Make = Callable[["Drawer"], "tuple[Part, Part]"]


class Drawer:
    """Draws the scenes of one row and says where their media are.

    Args:
        folder: where the rows lie; media go below it.
        profile: the world.
        split: whose scenes they are.
        names: what the row is named by: it is the same for the same names.
    """

    def __init__(self, folder: Path, profile: Profile, split: Split, *names: object) -> None:
        self.random: Random = generator("training rows", split, *names)
        self._folder, self._profile, self._split = folder, profile, split

    def scene(self, **changes: Any) -> Scene:
        """A scene of the world, or of the world with other shares."""
        return scene(self.random, replace(self._profile, **changes), self._split)

    def still(self) -> Scene:
        """A scene of one thing that rests."""
        drawn = self.scene(things=(1, 1), still=1.0, camera=0.0, relations=0.0, programmes=0.0, in_turn=0.0)
        shot = drawn.shots[0]
        things = tuple(looks(self.random, self._profile, 1, shot.style))
        return replace(drawn, shots=(replace(shot, things=things),))

    def text(self, drawn: Scene, *kinds: str) -> Part:
        """A caption of one of the kinds."""
        return {"text": caption(drawn, pick(self.random, kinds), self.random).text, "video": drawn.key}

    def video(self, drawn: Scene) -> Part:
        """The whole film."""
        return {"clip": {"path": self._below(cached(drawn, self._folder / "media"))}, "video": drawn.key}

    def clip(self, drawn: Scene) -> Part:
        """A third to two thirds of the film."""
        length = drawn.duration * float(self.random.uniform(0.34, 0.66))
        start = float(self.random.uniform(0, drawn.duration - length))
        part = self.video(drawn)
        part["clip"] |= {"start": round(start, 3), "end": round(start + length, 3)}
        return part

    def frame(self, drawn: Scene) -> Part:
        """One of the film's frames."""
        at = int(self.random.integers(drawn.frames))
        return {"image": {"path": self._below(picture_file(drawn, at, self._folder / "media"))}, "video": drawn.key}

    def _below(self, path: Path) -> str:
        return str(path.relative_to(self._folder))


_LOOSE = ("brief", "general", "temporal", "keywords", "theme")


def _texts(row: Drawer) -> tuple[Part, Part]:
    drawn = row.scene()
    return row.text(drawn, "general"), row.text(drawn, "detailed")


def _text_to_picture(row: Drawer) -> tuple[Part, Part]:
    drawn = row.still()
    return row.text(drawn, "object", "spatial", "theme"), row.frame(drawn)


def _picture_to_text(row: Drawer) -> tuple[Part, Part]:
    return _text_to_picture(row)[::-1]


def _composed_picture(row: Drawer) -> tuple[Part, Part]:
    reference = row.still()
    asked = compose(reference, (pick(row.random, ("light", "background")),), row.random, "image")
    return row.frame(reference) | {"text": asked.text}, row.frame(asked.target)


def _text_to_video(row: Drawer) -> tuple[Part, Part]:
    drawn = row.scene()
    return row.text(drawn, "brief", "general"), row.video(drawn)


def _styled_texts(row: Drawer) -> tuple[Part, Part]:
    drawn = row.scene()
    return row.text(drawn, *_LOOSE[:2]), row.text(drawn, *_LOOSE[2:])


def _styled_text_to_video(row: Drawer) -> tuple[Part, Part]:
    drawn = row.scene()
    return row.text(drawn, *_LOOSE, "spatial", "camera"), row.video(drawn)


def _informed(**shares: float) -> Make:
    """Videos asked for by captions about one thing: what moves, where and how things are, or anything else."""
    about = {"temporal": ("temporal",), "spatial": ("spatial", "object"), "other": ("theme", "camera", "keywords")}

    def make(row: Drawer) -> tuple[Part, Part]:
        drawn = row.scene()
        chosen = str(row.random.choice(list(shares), p=list(shares.values())))
        return row.text(drawn, *about[chosen]), row.video(drawn)

    return make


def _composed(row: Drawer, seen: str) -> tuple[Part, Part]:
    reference = row.still()
    asked = compose(reference, ("action", pick(row.random, ("light", "background"))), row.random, seen)
    shown = row.frame(reference) if seen == "image" else row.video(reference)
    return shown | {"text": asked.text}, row.video(asked.target)


def _frame_to_video(row: Drawer) -> tuple[Part, Part]:
    drawn = row.scene()
    return row.frame(drawn), row.video(drawn)


def _clip_to_video(row: Drawer) -> tuple[Part, Part]:
    drawn = row.scene()
    return row.clip(drawn), row.video(drawn)


BASE: Mapping[str, Make] = {
    "texts": _texts,
    "text to picture": _text_to_picture,
    "picture to text": _picture_to_text,
    "composed picture": _composed_picture,
    "text to video": _text_to_video,
}
"""As the main mixture: texts, pictures, and loosely captioned videos (GVE Table 6)."""
UVRD: Mapping[str, Make] = {
    "UVRD-T2T": _styled_texts,
    "UVRD-T2I": _text_to_picture,
    "UVRD-T2V": _styled_text_to_video,
    "UVRD-TI2V": lambda row: _composed(row, "image"),
    "UVRD-TV2V": lambda row: _composed(row, "video"),
    "UVRD-I2V": _frame_to_video,
    "UVRD-V2V": _clip_to_video,
}
"""The seven synthesised tasks (GVE Table 7)."""
INFORMED: Mapping[str, Make] = {
    "UVRD-T2V 60-30-10": _informed(temporal=0.6, spatial=0.3, other=0.1),
    "UVRD-T2V temporal": _informed(temporal=1.0),
    "UVRD-T2V spatial": _informed(spatial=1.0),
    "UVRD-T2V even": _informed(temporal=1 / 3, spatial=1 / 3, other=1 / 3),
}
"""Text → video by information profile (GVE §3.2; its own is 60 % temporal, 30 % spatial, 10 % other)."""
SUMMARIES = "summaries"
"""Brief → detailed captions of one scene, for text-only tuning (VidVec)."""


def _summary(row: Drawer) -> tuple[Part, Part]:
    drawn = row.scene()
    return row.text(drawn, "brief", "general"), row.text(drawn, "detailed")


TASKS: Mapping[str, Make] = {**BASE, **UVRD, **INFORMED, SUMMARIES: _summary}


def write(
    folder: Path,
    task: str,
    count: int,
    seed: int,
    profile: Profile = FULL,
    split: Split = "train",
    tick: Callable[[int], None] = lambda done: None,
) -> Path:
    """The first `count` rows of a task as JSONL beside their media: the same bytes for the same arguments.

    What is there of media is used; the rows are written last and whole.
    """
    lines = []
    for number in range(count):
        query, candidate = TASKS[task](Drawer(folder, profile, split, seed, task, number))
        row = {"id": f"{task} {number}", "query": query, "candidate": candidate}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
        tick(number + 1)
    path = folder / f"{task.replace(' ', '-')}.jsonl"
    write_text("".join(lines), path)
    return path
