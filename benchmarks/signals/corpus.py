"""The videos that `signals.py` asks about, and the questions.

`facts.csv` says what is said, written and named in each of eighty videos, and how somebody asks for it: once by
meaning, once by two of its words. They are made of footage: a synthetic voice speaks over it, a sign stands in it, and
its file has a name. `absent.csv` has questions that nothing answers.

With the footage set (benchmarks/footage) every candidate becomes a video, so that many of them have no words at all,
and its questions ask what is seen. There are four parts, and videos and questions of one never meet those of another:

* `choose` and `choose-2`: the clips of the set's two halves. Five of its files are real speech and are left whole,
  sound and name: a film scene, two people who introduce themselves, a talk and a lecture. `films.csv` asks for what is
  said in them, by meaning, by words and by a quotation, and knows when it is said. Who wrote these questions had read
  what Whisper heard, beside the pictures: they tell how well speech is found again, and misheard words only where that
  was noticed.
* `choose-3`: the pictures of the half `choose`, each shown for ten seconds, with the words of the first two parts.
* `report`: the pictures of the half `report`, with words of its own; and five of them with a recording of a novel read
  aloud, which `films.csv` asks for by what is printed in the book.

Without it, the clips of samples/ are taken, each several times, for `choose` and `report`.
"""

from __future__ import annotations

import csv
import shutil
import sys
import wave
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from reelspace import Span
from reelspace.media.decode import sample
from reelspace.media.policy import Sampling, Uniform

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path += [str(ROOT / "tests"), str(HERE.parent / "footage")]

from footage_set import read_items, read_queries  # noqa: E402

from speech import RATE, at_times, speak  # noqa: E402
from talks import sign, write_talk  # noqa: E402

CHOOSE = ("choose", "choose-2", "choose-3")
REPORT = "report"
# Kind and half in the footage set → part here.
PARTS = {
    ("clip", "choose"): "choose",
    ("clip", "report"): "choose-2",
    ("picture", "choose"): "choose-3",
    ("picture", "report"): "report",
}
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
    """Footage to put words over: a span of a file (of a picture: all of it), its part, and its title without words."""

    id: str
    split: str
    path: Path
    span: tuple[float, float | None] | None
    title: str


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
    """The folder of the videos, a subfolder a part, and what is asked of them."""

    folder: Path
    questions: tuple[Question, ...]
    absent: tuple[Question, ...]


def rows(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def build(folder: Path, footage: Path | None, count: int | None) -> Corpus:
    """Writes what is not there yet. `count`: only so many facts of a part."""
    films = _films(footage) if footage else {}
    voices = _voices(footage) if footage else {}
    grounds = _footage(footage, films) if footage else _samples()
    asked: list[Question] = []
    titles: dict[str, str] = {}  # id of a ground → title of the video made of it
    for part in dict.fromkeys(ground.split for ground in grounds):
        there = [ground for ground in grounds if ground.split == part]
        facts = _facts(part)[:count][: len(there)]
        told: list[Told] = [*facts, *voices.get(part, [])]
        for number, ground in enumerate(there):
            words = told[number] if number < len(told) else None
            titles[ground.id] = words["title"] if isinstance(words, dict) else ground.title
            if isinstance(words, Path):
                titles[words.name] = ground.title
            _make(folder / part / f"{titles[ground.id]}.mp4", ground, words)
        asked += _worded(facts, part)
    for path, name, part in films.values():
        (folder / part).mkdir(parents=True, exist_ok=True)
        if not (copy := folder / part / name).exists():
            shutil.copyfile(path, copy)
    named = {**titles, **{file: Path(film.name).stem for file, film in films.items()}}
    if footage:
        asked += [*_seen(titles, films), *_said_aloud(named)]
    else:
        asked += _looks(grounds, titles)
    absent = [Question("absent", row["text"], row["split"], frozenset()) for row in rows("absent.csv")]
    if footage:
        absent += [
            Question("absent", query.text, part, frozenset())
            for query in read_queries()
            if query.kind == "absent" and query.text and not query.image and query.text not in ANSWERED
            for (_, half), part in PARTS.items()
            if half == query.split
        ]
    return Corpus(folder, tuple(asked), tuple(absent))


def _facts(part: str) -> list[dict[str, str]]:
    """What is said, written and named in videos of a part."""
    parts = CHOOSE[:2] if part == CHOOSE[2] else (part,)
    return [fact for fact in rows("facts.csv") if fact["split"] in parts]


class Film(NamedTuple):
    """Real speech: where it is, what it was called in its package, and its part."""

    path: Path
    name: str
    part: str


def _films(footage: Path) -> dict[str, Film]:
    """File in the footage set → the film."""
    parts = {name: row["split"] for row in rows("films.csv") for name in row["file"].split()}
    items = {Path(item.file).name: item for item in read_items() if item.kind == "clip"}
    return {
        name: Film(items[name].path(footage), Path(items[name].member).name, part)
        for name, part in sorted(parts.items())
        if name in items
    }


def _voices(footage: Path) -> dict[str, list[Path]]:
    """Part → its recordings of somebody who reads aloud."""
    found: dict[str, list[Path]] = {}
    for item in read_items():
        if item.kind == "sound":
            found.setdefault(item.split, []).append(item.path(footage))
    return found


def _heard(path: Path) -> NDArray[np.float32]:
    """Mono samples of a WAV file at `RATE`."""
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768
        count = round(len(samples) * RATE / file.getframerate())
    return np.interp(np.arange(count) * len(samples) / count, np.arange(len(samples)), samples).astype(np.float32)


def _footage(footage: Path, films: dict[str, Film]) -> list[Ground]:
    grounds: list[Ground] = []
    counts: Counter[str] = Counter()
    for item in read_items():
        if item.role != "candidate" or Path(item.file).name in films:
            continue
        part = PARTS[item.kind, item.split]
        clip = item.kind == "clip"
        title = f"{'VID' if clip else 'IMG'}_{1000 + 37 * counts[part]}"
        span = (item.start or 0.0, item.end) if clip else None
        grounds.append(Ground(item.id, part, item.path(footage), span, title))
        counts[part] += 1
    return grounds


def _samples() -> list[Ground]:
    clips = [path for path in sorted((ROOT / "samples").iterdir()) if path.suffix in (".mp4", ".mkv", ".mov")]
    return [
        Ground(f"{clip.stem} {part} {number}", part, clip, (0.0, None), f"VID_{1000 + 37 * number}")
        for part in (CHOOSE[0], REPORT)
        for number, clip in enumerate(2 * clips)
    ]


Told = dict[str, str] | Path  # a fact, or a recording


def _make(path: Path, ground: Ground, words: Told | None) -> None:
    """Ten seconds of a ground; a voice speaks from the first second on, a sign stands in it from the fifth."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    shots = _shots(ground)
    fact = words if isinstance(words, dict) else None
    voice = speak(fact["said"]) if fact else _heard(words) if isinstance(words, Path) else None
    seconds = max(SECONDS, 1.5 + len(voice) / RATE) if voice is not None else SECONDS

    def picture(at: float) -> NDArray[np.uint8]:
        shot = shots[int(at * 2) % len(shots)]
        return sign(shot, fact["written"], (0.1, 0.75)) if fact and at >= 5 else shot

    sound = at_times([(1.0, voice)], seconds) if voice is not None else None
    part = path.with_name(f".{path.stem}.part.mp4")
    write_talk(part, seconds, picture=picture, sound=sound, sound_rate=RATE, size=SIZE, fps=2)
    part.replace(path)


def _shots(ground: Ground) -> list[NDArray[np.uint8]]:
    """What is shown, two a second."""
    if ground.span is not None:
        found = sample(Span(ground.path, *ground.span), Sampling(Uniform(round(2 * SECONDS))))
        return [np.asarray(Image.fromarray(one).resize(SIZE, Image.Resampling.BILINEAR)) for one in found.pixels]
    with Image.open(ground.path) as opened:
        cut_out = opened.convert("RGBA")
    whole = Image.new("RGBA", cut_out.size, "white")
    whole.alpha_composite(cut_out)
    shown = ImageOps.pad(whole.convert("RGB"), SIZE, Image.Resampling.BILINEAR)  # black beside it, as players do
    return [np.asarray(shown)]


def _worded(facts: list[dict[str, str]], part: str) -> Iterator[Question]:
    for fact in facts:
        one = frozenset({fact["title"]})
        for by in ("said", "written"):
            yield Question(f"{by}, meaning", fact[f"{by}_query"], part, one)
            yield Question(f"{by}, words", fact[f"{by}_words"], part, one)
        yield Question("named, meaning", fact["named_query"], part, one)


def _looks(grounds: list[Ground], titles: dict[str, str]) -> Iterator[Question]:
    for clip, text in LOOKS.items():
        for part in (CHOOSE[0], REPORT):
            mine = (ground for ground in grounds if ground.path.stem == clip and ground.split == part)
            if there := frozenset(titles[ground.id] for ground in mine):
                yield Question("seen", text, part, there)


def _seen(titles: dict[str, str], films: dict[str, Film]) -> Iterator[Question]:
    """What the footage set asks. What a film answers is asked in the film's part."""
    items = {item.id: item for item in read_items()}
    for query in read_queries():
        if query.kind != "text" or query.target == "both":
            continue
        named = {id: Path(items[id].file).name for id in query.relevant}
        usual = PARTS[query.target.removesuffix("s"), query.split]
        part = next((films[name].part for name in named.values() if name in films), usual)
        there = {titles[id] for id in named if id in titles and PARTS[items[id].kind, items[id].split] == part}
        there |= {Path(films[name].name).stem for name in named.values() if name in films and films[name].part == part}
        if there:
            yield Question("seen", query.text, part, frozenset(there))


def _said_aloud(titles: dict[str, str]) -> Iterator[Question]:
    """What `films.csv` asks; `titles` are those of the files it names."""
    for row in rows("films.csv"):
        there = frozenset(titles[name] for name in row["file"].split())
        when = (float(row["start"]), float(row["end"])) if row["start"] else None
        yield Question(f"film, {row['kind']}", row["text"], row["split"], there, when)
