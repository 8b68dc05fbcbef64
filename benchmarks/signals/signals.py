"""What each signal finds, and what they find together: recall@k of each alone and of all fused, and “no match”.

    python benchmarks/signals/signals.py DIR [--rows N] [--footage DIR]

`facts.csv` says what is said, written and named in each video, and how somebody asks for it: once by meaning, once by
two of its words. The videos are made of the footage in samples/ (or of clips that benchmarks/footage has gathered): a
synthetic voice speaks over it, a sign stands in it, and its file has a name. They are written into DIR, indexed there
with `lite` and all signals, and each question is put to each signal alone and to all of them. `absent.csv` has
questions that nothing answers. The halves `choose` and `report` of both share no video: thresholds and weights were
chosen on the first, tables are of the second. The peers are each single signal, the best of them above all, and plain
reciprocal rank fusion: no weight by fit, and the usual damping of 60.

What it prints goes to DIR/signals.json too. Resumable: videos and index are kept.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from reelspace import Library

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(HERE.parent / "footage"))

from speech import RATE, at_times, speak  # noqa: E402
from talks import sign, write_talk  # noqa: E402

SIZE = (640, 360)
SECONDS = 10.0
KS = (1, 5, 10)
BY = ("seen", "said", "written", "named")
# What a person would ask the pictures for; of the samples only.
LOOKS = {
    "cyclists": "people riding bicycles",
    "samoyed": "a big white dog",
    "cockatoo": "a white bird",
    "towers-at-night": "a city at night",
    "bunny-wakes": "a cartoon rabbit",
    "potted-plant": "a plant in a pot",
}


@dataclass(frozen=True)
class Question:
    """One question, and the videos that answer it."""

    kind: str
    text: str
    relevant: frozenset[str]
    split: str


def rows(name: str) -> list[dict[str, str]]:
    with (HERE / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def clips(footage: Path | None) -> dict[str, Path]:
    """Name → a clip to put words over."""
    if footage is not None:
        return {path.stem: path for path in sorted((footage / "clips").iterdir())}
    return {path.stem: path for path in sorted((ROOT / "samples").iterdir()) if path.suffix in (".mp4", ".mkv", ".mov")}


def frames(path: Path) -> list[NDArray[np.uint8]]:
    """Twenty frames of a clip, at two a second."""
    import av

    with av.open(str(path)) as container:
        every = [frame for number, frame in enumerate(container.decode(video=0)) if number % 12 == 0 and number < 240]
        return [np.asarray(frame.to_image().resize(SIZE, Image.Resampling.BILINEAR)) for frame in every]


def make(folder: Path, facts: list[dict[str, str]], sources: dict[str, Path]) -> dict[str, str]:
    """Writes the videos; id → the clip each is made of."""
    names, made = sorted(sources), {}
    for number, fact in enumerate(facts):
        clip = names[number % len(names)]
        made[fact["id"]] = clip
        path = folder / fact["split"] / f"{fact['title']}.mp4"
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        shots = frames(sources[clip])

        def picture(
            at: float, shots: list[NDArray[np.uint8]] = shots, fact: dict[str, str] = fact
        ) -> NDArray[np.uint8]:
            shot = shots[int(at * 2) % len(shots)]
            return sign(shot, fact["written"], (0.1, 0.75)) if at >= 5 else shot

        sound = at_times([(1.0, speak(fact["said"]))], SECONDS)
        part = path.with_name(f".{path.stem}.part.mp4")
        write_talk(part, SECONDS, picture=picture, sound=sound, sound_rate=RATE, size=SIZE, fps=2)
        part.replace(path)
    return made


def questions(facts: list[dict[str, str]], made: dict[str, str], looks: dict[str, str]) -> Iterator[Question]:
    for fact in facts:
        one = frozenset({fact["title"]})
        for kind, by in (("said", "said"), ("written", "written")):
            yield Question(f"{by}, meaning", fact[f"{kind}_query"], one, fact["split"])
            yield Question(f"{by}, words", fact[f"{kind}_words"], one, fact["split"])
        yield Question("named, meaning", fact["named_query"], one, fact["split"])
    for clip, text in looks.items():
        for split in ("choose", "report"):
            there = frozenset(f["title"] for f in facts if made[f["id"]] == clip and f["split"] == split)
            if there:
                yield Question("seen", text, there, split)


def interval(hits: NDArray[np.float64], seed: int = 0) -> tuple[float, float]:
    """95 % of what the mean would be on other questions of the kind (bootstrap)."""
    draws = np.random.default_rng(seed).integers(0, len(hits), (2000, len(hits)))
    low, high = np.quantile(hits[draws].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def places(
    library: Library, every: list[Question], by: str
) -> tuple[NDArray[np.float64], list[bool | None], list[float]]:
    """The place of the first right video for each question (inf: not among 20), `match`, and the best score."""
    found, matches, best = [], [], []
    for question in every:
        report = library.search(question.text, by=by, k=20, per_video=1, within=f"*/{question.split}/*")
        titles = [Path(hit.path).stem for hit in report.hits]
        right = [place for place, title in enumerate(titles, start=1) if title in question.relevant]
        found.append(float(right[0]) if right else np.inf)
        matches.append(report.match)
        best.append(max((one.score for hit in report.hits for one in hit.found if one.by == by), default=0.0))
    return np.array(found), matches, best


def table(every: list[Question], found: dict[str, NDArray[np.float64]]) -> list[dict[str, object]]:
    """Recall of each way of asking for each kind of question."""
    lines = []
    for kind in [*sorted({question.kind for question in every}), "all"]:
        chosen = np.array([kind in (question.kind, "all") for question in every])
        for way, ranks in found.items():
            line: dict[str, object] = {"kind": kind, "by": way, "questions": int(chosen.sum())}
            for k in KS:
                hits = (ranks[chosen] <= k).astype(float)
                line[f"R@{k}"], line[f"R@{k} 95%"] = float(hits.mean()), interval(hits)
            lines.append(line)
    return lines


def shown(lines: list[dict[str, object]]) -> None:
    print(f"{'question':<18}{'by':<14}{'n':>4}" + "".join(f"{f'R@{k}':>19}" for k in KS))
    for line in lines:
        cells = "".join(f"{line[f'R@{k}']:>6.2f} ({line[f'R@{k} 95%'][0]:.2f}–{line[f'R@{k} 95%'][1]:.2f})" for k in KS)
        print(f"{line['kind']:<18}{line['by']:<14}{line['questions']:>4}{cells}")


def varied(library: Library, every: list[Question], damping: float, unfit: float) -> NDArray[np.float64]:
    """All signals fused with other weights."""
    from reelspace.index import signalled

    kept = signalled.DAMPING, signalled.UNFIT
    signalled.DAMPING, signalled.UNFIT = damping, unfit
    try:
        return places(library, every, ",".join(BY))[0]
    finally:
        signalled.DAMPING, signalled.UNFIT = kept


def thresholds(scores: dict[str, tuple[list[float], list[float]]]) -> dict[str, float]:
    """The least score of a fit for each signal, by the same rule as the model's own."""
    from reelspace.rank.calibration import fit

    return {by: fit(np.array(present), np.array(absent)) for by, (present, absent) in scores.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, metavar="DIR")
    parser.add_argument("--rows", type=int, help="only the first N facts")
    parser.add_argument("--footage", type=Path, help="clips that benchmarks/footage/gather.py has fetched")
    parser.add_argument("--grid", action="store_true", help="try other weights of the fusion on the half `choose`")
    arguments = parser.parse_args()
    facts = rows("facts.csv")[: arguments.rows]
    made = make(arguments.dir / "videos", facts, clips(arguments.footage))
    every = list(questions(facts, made, {} if arguments.footage else LOOKS))
    absent = [Question("absent", row["text"], frozenset(), row["split"]) for row in rows("absent.csv")]
    with Library.open(arguments.dir / "library") as library:
        begun, costs = time.process_time(), []
        report = library.index(arguments.dir / "videos", signals="names,speech,ocr", announce=costs.extend)
        print(f"indexed: {report.embedded} new, {time.process_time() - begun:.0f} s of this process")
        result = measured(library, every, absent, arguments.grid)
    result["spent"] = spent(arguments.dir / "library")
    (arguments.dir / "signals.json").write_text(json.dumps(result, indent=1))


def spent(library: Path) -> dict[str, str]:
    """Seconds of work and of video of each signal, as the library noted them."""
    import sqlite3

    db = sqlite3.connect(library / "catalogue.sqlite")
    rows = dict(db.execute("SELECT name, value FROM settings WHERE name LIKE 'spent-%'").fetchall())
    for name, value in rows.items():
        worked, heard = map(float, value.split())
        print(
            f"{name.removeprefix('spent-')}: {worked:.0f} s of work for {heard:.0f} s of video: {worked / heard:.3f} ×"
        )
    return rows


def measured(library: Library, every: list[Question], absent: list[Question], grid: bool) -> dict[str, object]:
    """Everything that is asked, as tables."""
    result: dict[str, object] = {}
    halves: dict[str, Callable[[list[Question]], list[Question]]] = {
        name: (lambda some, name=name: [one for one in some if one.split == name]) for name in ("choose", "report")
    }
    if grid:
        choose = halves["choose"](every)
        for damping in (5, 10, 20, 60):
            for unfit in (0.1, 0.25, 0.5, 1.0):
                ranks = varied(library, choose, damping, unfit)
                print(f"damping {damping}, unfit {unfit}: R@1 {np.mean(ranks <= 1):.3f}, R@5 {np.mean(ranks <= 5):.3f}")
    scores = {}
    for by in BY[1:]:
        mine = [one for one in halves["choose"](every) if one.kind.startswith(by)]
        scores[by] = places(library, mine, by)[2], places(library, halves["choose"](absent), by)[2]
    result["least"] = thresholds(scores)
    from reelspace.index.wording import least_fit

    number = len(every) // 10
    print("least scores that fit, by the half `choose`:", {by: round(one, 3) for by, one in result["least"].items()})
    print(f"in use, among {number} passages: {least_fit(number):.3f}")
    asked, nothing = halves["report"](every), halves["report"](absent)
    found = {by: places(library, asked, by)[0] for by in BY}
    found["fused"], matches, _ = places(library, asked, ",".join(BY))
    found["plain RRF"] = varied(library, asked, 60.0, 1.0)
    result["recall"] = table(asked, found)
    shown(result["recall"])
    refused = places(library, nothing, ",".join(BY))[1]
    rates = {
        "false accept": sum(match is True for match in refused) / len(refused),
        "false reject": sum(match is False for match in matches) / len(matches),
    }
    print(f"no match: {rates}, of {len(refused)} absent and {len(matches)} present questions")
    result["match"] = rates
    return result


if __name__ == "__main__":
    main()
