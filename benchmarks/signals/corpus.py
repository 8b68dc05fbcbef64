"""The videos that `signals.py` asks about, and the questions.

`facts.csv` says what is said, written and named in each of forty videos, and how somebody asks for it: once by meaning,
once by two of its words. They are made of footage: a synthetic voice speaks over it, a sign stands in it, and its file
has a name. `absent.csv` has questions that nothing answers.

With the footage set (benchmarks/footage) every candidate clip becomes a video, so that a third of them have no words at
all, and its questions ask what is seen. Five of its files are real speech and are left whole, sound and name: a film
scene, two people who introduce themselves, a talk and a lecture. `films.csv` asks for what is said in them, by
meaning, by words and by a quotation, and knows when it is said. Who wrote these questions had read what Whisper
heard, beside the pictures: they tell how well speech is found again, and misheard words only where that was noticed.

Without it, the clips of samples/ are taken, each several times.
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from reelspace import Span
from reelspace.media.decode import sample
from reelspace.media.policy import Sampling, Uniform

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path += [str(ROOT / "tests"), str(HERE.parent / "footage")]

from footage_set import read_items, read_queries  # noqa: E402

from speech import RATE, at_times, speak  # noqa: E402
from talks import sign, write_talk  # noqa: E402

HALVES = ("choose", "report")
SIZE = (640, 360)
SECONDS = 10.0
# What a person would ask the pictures of the samples for.
LOOKS = {
    "cyclists": "people riding bicycles",
    "samoyed": "a big white dog",
    "cockatoo": "a white bird",
    "towers-at-night": "a city at night",
    "bunny-wakes": "a cartoon rabbit",
    "potted-plant": "a plant in a pot",
}
# Questions of the footage set that nothing seen answers, but something said, written or named might.
ANSWERED = {
    "a sewing machine", "a wedding ring on a finger", "a volcano erupting", "a church wedding", "marathon runners",
    "a bride in a white dress", "changing the tyre of a car", "knitting with wool", "a goat on a roof",
    "a subway platform", "a choir singing in church", "a sailing boat race", "an airport terminal",
    "a suitcase at the airport",
}  # fmt: skip


class Ground(NamedTuple):
    """Footage to put words over: a span of a file, and what asks for it."""

    id: str
    split: str
    path: Path
    start: float
    end: float | None


@dataclass(frozen=True)
class Question:
    """One question, and the videos (stems of their names) that answer it, and when: None where anywhere is right."""

    kind: str
    text: str
    split: str
    relevant: frozenset[str]
    when: tuple[float, float] | None = None


@dataclass(frozen=True)
class Corpus:
    """The folder of the videos, a subfolder a half, and what is asked of them."""

    folder: Path
    questions: tuple[Question, ...]
    absent: tuple[Question, ...]


def rows(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def build(folder: Path, footage: Path | None, count: int | None) -> Corpus:
    """Writes what is not there yet. `count`: only so many facts."""
    facts = rows("facts.csv")[:count]
    films = _films(footage) if footage else {}
    grounds = _footage(footage, films) if footage else _samples(len(facts))
    titles: dict[str, str] = {}  # id of a ground → title of the video made of it
    for half in HALVES:
        mine = [fact for fact in facts if fact["split"] == half]
        there = [ground for ground in grounds if ground.split == half]
        assert len(mine) <= len(there), "more facts than footage"
        for number, ground in enumerate(there):
            fact = mine[number] if number < len(mine) else None
            titles[ground.id] = fact["title"] if fact else f"VID_{1000 + 37 * number}"
            _make(folder / half / f"{titles[ground.id]}.mp4", ground, fact)
    for path, name, half in films.values():
        (folder / half).mkdir(parents=True, exist_ok=True)
        if not (copy := folder / half / name).exists():
            shutil.copyfile(path, copy)
    asked = [*_worded(facts), *(_seen(titles, films) if footage else _looks(grounds, titles))]
    if films:
        asked += _said_in_films(films)
    absent = [Question("absent", row["text"], row["split"], frozenset()) for row in rows("absent.csv")]
    if footage:
        absent += [
            Question("absent", query.text, query.split, frozenset())
            for query in read_queries()
            if query.kind == "absent" and query.text and not query.image and query.text not in ANSWERED
        ]
    return Corpus(folder, tuple(asked), tuple(absent))


class Film(NamedTuple):
    """Real speech: where it is, what it was called in its package, and its half."""

    path: Path
    name: str
    half: str


def _films(footage: Path) -> dict[str, Film]:
    """File in the footage set → the film."""
    halves = {name: row["split"] for row in rows("films.csv") for name in row["file"].split()}
    items = {Path(item.file).name: item for item in read_items() if item.kind == "clip"}
    return {
        name: Film(items[name].path(footage), Path(items[name].member).name, half)
        for name, half in sorted(halves.items())
    }


def _footage(footage: Path, films: dict[str, Film]) -> list[Ground]:
    return [
        Ground(item.id, item.split, item.path(footage), item.start or 0.0, item.end)
        for item in read_items()
        if item.kind == "clip" and item.role == "candidate" and Path(item.file).name not in films
    ]


def _samples(count: int) -> list[Ground]:
    clips = [path for path in sorted((ROOT / "samples").iterdir()) if path.suffix in (".mp4", ".mkv", ".mov")]
    return [
        Ground(f"{clips[number // 2 % len(clips)].stem} {number}", HALVES[number % 2], clip, 0.0, None)
        for number in range(count)
        if (clip := clips[number // 2 % len(clips)])
    ]


def _make(path: Path, ground: Ground, fact: dict[str, str] | None) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    found = sample(Span(ground.path, ground.start, ground.end), Sampling(Uniform(round(2 * SECONDS))))
    shots = [np.asarray(Image.fromarray(one).resize(SIZE, Image.Resampling.BILINEAR)) for one in found.pixels]

    def picture(at: float) -> NDArray[np.uint8]:
        shot = shots[int(at * 2) % len(shots)]
        return sign(shot, fact["written"], (0.1, 0.75)) if fact and at >= 5 else shot

    sound = at_times([(1.0, speak(fact["said"]))], SECONDS) if fact else None
    part = path.with_name(f".{path.stem}.part.mp4")
    write_talk(part, SECONDS, picture=picture, sound=sound, sound_rate=RATE, size=SIZE, fps=2)
    part.replace(path)


def _worded(facts: list[dict[str, str]]) -> Iterator[Question]:
    for fact in facts:
        one = frozenset({fact["title"]})
        for by in ("said", "written"):
            yield Question(f"{by}, meaning", fact[f"{by}_query"], fact["split"], one)
            yield Question(f"{by}, words", fact[f"{by}_words"], fact["split"], one)
        yield Question("named, meaning", fact["named_query"], fact["split"], one)


def _looks(grounds: list[Ground], titles: dict[str, str]) -> Iterator[Question]:
    for clip, text in LOOKS.items():
        for half in HALVES:
            mine = (ground for ground in grounds if ground.path.stem == clip and ground.split == half)
            if there := frozenset(titles[ground.id] for ground in mine):
                yield Question("seen", text, half, there)


def _seen(titles: dict[str, str], films: dict[str, Film]) -> Iterator[Question]:
    """What the footage set asks of clips. What a film answers is asked in the film's half."""
    items = {item.id: item for item in read_items()}
    for query in read_queries():
        if query.kind != "text" or query.target != "clips":
            continue
        named = {id: Path(items[id].file).name for id in query.relevant}
        half = next((films[name].half for name in named.values() if name in films), query.split)
        there = {titles[id] for id in named if id in titles and items[id].split == half}
        there |= {Path(films[name].name).stem for name in named.values() if name in films and films[name].half == half}
        if there:
            yield Question("seen", query.text, half, frozenset(there))


def _said_in_films(films: dict[str, Film]) -> Iterator[Question]:
    for row in rows("films.csv"):
        there = frozenset(Path(films[name].name).stem for name in row["file"].split())
        span = float(row["start"]), float(row["end"])
        yield Question(f"film, {row['kind']}", row["text"], row["split"], there, span)
