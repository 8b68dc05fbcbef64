"""What each signal finds, and what they find together: recall@k of each alone and of all fused, and “no match”.

    python benchmarks/signals/signals.py DIR [--footage FOOTAGE] [--choose] [--rows N]

`corpus.py` tells what is asked for: its videos are written into DIR/videos and indexed in DIR/library, with `lite` and
all signals. FOOTAGE is what `benchmarks/footage/gather.py` has fetched; without it there are fewer pictures, and no
film.

Videos and questions are in two halves that share nothing. What is fitted is fitted on the half `choose` (`--choose`
prints it: how sure a find of a margin is, and what other values would do); tables are of the half `report`. Each
kind of question is asked of each signal alone and of all of them. The peers are the best single signal of each kind, as
if somebody had known which that is, and plain reciprocal rank fusion: every place counts, and the usual damping of 60.
Differences are paired; intervals are 95 % of what they would be on other questions of the kind (bootstrap).

What it prints goes to DIR/signals.json too. Resumable: videos and index are kept.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from corpus import HALVES, Question, build
from numpy.typing import NDArray

from reelspace import Library
from reelspace.index import signalled
from reelspace.index.query import Question as Asking
from reelspace.index.query import as_items
from reelspace.index.searcher import Filters
from reelspace.rank.calibration import fit, rates
from reelspace.rank.fusion import Place, fuse_spans

BY = ("seen", "said", "written", "named")
KS = (1, 5, 10)
DEPTH = 20  # videos (or moments) looked at
FIRST = 3  # finds of each signal that its curve is fitted on
DRAWS = 2000

Floats = NDArray[np.float64]


class Find(NamedTuple):
    """A find of one signal: the video's title, its place, and how far it is above what fits (None: nobody can tell)."""

    title: str
    place: Place
    margin: float | None


Finds = dict[str, list[Find]]


def asked(library: Library, question: Question) -> Finds:
    """What each signal finds, before anything is fused."""
    filters = Filters((f"*/{question.split}/*",), (None, None), (None, None))
    searcher = library._signalled(Asking(as_items(question.text), (), None), BY, filters)
    found = {}
    for by, ranking in searcher.rankings().items():
        margins = searcher.margins(by, ranking.finds)
        found[by] = [
            Find(Path(find.files[0]).stem, place, None if margins is None else float(margins[number]))
            for number, (place, find) in enumerate(zip(ranking.places, ranking.finds, strict=True))
        ]
    return found


# -- places of right answers --------------------------------------------------------------------------------------


def right(question: Question, title: str, start: float, end: float) -> bool:
    """Whether a moment answers."""
    if title not in question.relevant:
        return False
    return question.when is None or (start < question.when[1] and end > question.when[0])


def place_of(question: Question, moments: Iterable[tuple[str, float, float]]) -> float:
    """The place of the first that is right, from 1; inf: none among `DEPTH`. A video counts once, unless it matters
    when.
    """
    before: set[object] = set()
    for title, start, end in moments:
        if right(question, title, start, end):
            return len(before) + 1.0
        before.add(title if question.when is None else (title, start, end))
        if len(before) == DEPTH:
            break
    return np.inf


def alone(question: Question, finds: Sequence[Find]) -> float:
    return place_of(question, ((one.title, one.place.span.start, one.place.span.end) for one in finds))


def together(question: Question, finds: Finds, weigh: Callable[[str, Find], float], damping: float) -> float:
    """All fused, with other weights."""
    titles = {one.place.span.video: one.title for every in finds.values() for one in every}
    places = {by: [one.place._replace(weight=weigh(by, one)) for one in every] for by, every in finds.items()}
    fused = fuse_spans(places, damping)
    return place_of(question, ((titles[one.span.video], one.span.start, one.span.end) for one in fused))


def searched(library: Library, question: Question) -> tuple[float, bool | None]:
    """All fused, as anybody searches; and whether anything is said to fit."""
    report = library.search(
        question.text,
        by=BY,
        k=DEPTH,
        per_video=1 if question.when is None else None,
        within=f"*/{question.split}/*",
    )
    return place_of(question, ((Path(hit.path).stem, hit.start, hit.end) for hit in report.hits)), report.match


# -- what is chosen on one half ------------------------------------------------------------------------------------


def choose(questions: Sequence[Question], absent: Sequence[Question], found: dict[str, Finds]) -> dict[str, Any]:
    """Fits what `reelspace.index.signalled` has as constants, and prints how it would do with others."""
    curves = {by: logistic(*margins_of(questions, absent, found, by)) for by in BY}
    print("how sure (a, b):", {by: (round(a, 2), round(b, 2)) for by, (a, b) in curves.items()})
    sharing = shares(questions)
    grid = {}
    for name, sure in (
        ("fitted", curves),
        ("in use", signalled.SURE),
        ("steps, .25 below the bar", None),
    ):
        for damping in (0.0, 1.0, 3.0, 5.0, 10.0, 20.0, 60.0):
            ranks = np.array([together(one, found[key(one)], weighed(sure), damping) for one in questions])
            grid[f"{name}, damping {damping:g}"] = line = {
                "R@1": float((ranks <= 1) @ sharing),
                "R@5": float((ranks <= 5) @ sharing),
                "reciprocal": float((1 / ranks) @ sharing),
            }
            print(f"{name:<26} damping {damping:>4g}: " + ", ".join(f"{what} {v:.3f}" for what, v in line.items()))
    present, nothing = (np.array([evidence(found[key(one)], curves) for one in some]) for some in (questions, absent))
    bar = fit(present, nothing)
    for least in (bar, 1.0):  # 1 is in use: nothing is fitted
        print(f"“no match” below evidence of {least:.3f}: {rates(least, present, nothing)} on this half")
    return {"sure": curves, "grid": grid, "bar": bar}


def key(question: Question) -> str:
    return f"{question.split} {question.kind} {question.text}"


def signal_of(question: Question) -> str:
    """What a question asks of."""
    kind = question.kind.partition(",")[0]
    return "said" if kind == "film" else kind


def shares(questions: Sequence[Question]) -> Floats:
    """What each question counts, in all 1: each signal is asked for equally often."""
    kinds = [signal_of(question) for question in questions]
    return np.array([1 / kinds.count(kind) for kind in kinds]) / len(set(kinds))


def margins_of(
    questions: Sequence[Question], absent: Sequence[Question], found: dict[str, Finds], by: str
) -> tuple[Floats, Floats, Floats]:
    """The margins of a signal's first finds, whether they are right, and what each counts: half of what is asked has
    an answer there, and half has none anywhere. What other signals answer is left out, as it depends on how often a
    video's name tells what is said in it.
    """
    own = [question for question in questions if signal_of(question) == by]
    rows = [
        (one.margin, right(question, one.title, one.place.span.start, one.place.span.end), 1 / len(every))
        for every in (own, absent)
        for question in every
        for one in found[key(question)][by][:FIRST]
        if one.margin is not None
    ]
    margins, rights, counts = np.array(rows, float).T
    return margins, rights, counts


def logistic(margins: Floats, rights: Floats, counts: Floats) -> tuple[float, float]:
    """a and b of `1 / (1 + exp(−(a + b·m)))` that make these most likely (Newton's method, a slight prior on b)."""
    design, weights = np.stack([np.ones_like(margins), margins], axis=1), np.zeros(2)
    counts = counts / counts.mean()
    for _ in range(80):
        sure = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (counts * (rights - sure)) - np.array([0.0, 1e-3]) * weights
        curve = design.T @ (design * (counts * sure * (1 - sure))[:, None]) + np.diag([1e-9, 1e-3])
        weights += np.linalg.solve(curve, slope)
    return float(weights[0]), float(weights[1])


def weighed(sure: dict[str, tuple[float, float]] | None) -> Callable[[str, Find], float]:
    """What a find counts by these curves; without them: a quarter if it does not fit."""

    def weigh(by: str, find: Find) -> float:
        if find.margin is None:
            return find.place.weight
        if sure is None:
            return 1.0 if find.margin >= 0 else 0.25
        a, b = sure[by]
        return float(1 / (1 + np.exp(-(a + b * find.margin))))

    return weigh


def evidence(finds: Finds, sure: dict[str, tuple[float, float]]) -> float:
    """As `signalled.evidence`, with other curves."""
    weigh = weighed(sure)
    doubts = sum(np.log1p(-min(weigh(by, every[0]), 1 - 1e-9)) for by, every in finds.items() if every)
    return float(doubts / sum(np.log1p(-1 / (1 + np.exp(-a))) for a, _ in sure.values()))


# -- tables ----------------------------------------------------------------------------------------------------------


def interval(values: Floats, seed: int = 0) -> tuple[float, float]:
    """95 % of what the mean would be on other questions of the kind."""
    draws = np.random.default_rng(seed).integers(0, len(values), (DRAWS, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def table(questions: Sequence[Question], places: dict[str, Floats]) -> list[dict[str, Any]]:
    """Recall of each way of asking for each kind of question."""
    lines = []
    for kind in [*sorted({question.kind for question in questions}), "all"]:
        chosen = np.array([kind in (question.kind, "all") for question in questions])
        for way, ranks in places.items():
            line: dict[str, Any] = {"kind": kind, "by": way, "questions": int(chosen.sum())}
            for k in KS:
                hits = (ranks[chosen] <= k).astype(float)
                line[f"R@{k}"], line[f"R@{k} 95%"] = float(hits.mean()), interval(hits)
            lines.append(line)
    return lines


def gains(questions: Sequence[Question], places: dict[str, Floats]) -> list[dict[str, Any]]:
    """Fused less the best single signal of each kind of question, paired."""
    lines = []
    for kind in [*sorted({question.kind for question in questions}), "all"]:
        chosen = np.array([kind in (question.kind, "all") for question in questions])
        for k in KS[:2]:
            hits = {way: (ranks[chosen] <= k).astype(float) for way, ranks in places.items()}
            best = max(BY, key=lambda by: hits[by].mean())
            apart = hits["fused"] - hits[best]
            lines.append({"kind": kind, "best": best, "k": k, "gain": float(apart.mean()), "gain 95%": interval(apart)})
    return lines


def show(lines: list[dict[str, Any]], differences: list[dict[str, Any]]) -> None:
    print(f"{'question':<18}{'by':<12}{'n':>4}" + "".join(f"{f'R@{k}':>19}" for k in KS))
    for line in lines:
        cells = "".join(f"{line[f'R@{k}']:>6.2f} ({line[f'R@{k} 95%'][0]:.2f}–{line[f'R@{k} 95%'][1]:.2f})" for k in KS)
        print(f"{line['kind']:<18}{line['by']:<12}{line['questions']:>4}{cells}")
    print("fused less the best single signal of the kind")
    for line in differences:
        low, high = line["gain 95%"]
        gain = f"{line['gain']:>+7.2f} ({low:+.2f} to {high:+.2f})" + ("   WORSE" if high < 0 else "")
        print(f"{line['kind']:<18}R@{line['k']:<3}{line['best']:<10}{gain}")


def spent(library: Path) -> dict[str, str]:
    """Seconds of work and of video of each signal, as the library noted them."""
    db = sqlite3.connect(library / "catalogue.sqlite")
    rows = dict(db.execute("SELECT name, value FROM settings WHERE name LIKE 'spent-%'").fetchall())
    for name, value in rows.items():
        worked, heard = map(float, value.split())
        print(f"{name.removeprefix('spent-')}: {worked:.0f} s for {heard:.0f} s of video: {worked / heard:.3f} ×")
    return rows


def measured(
    library: Library, questions: Sequence[Question], absent: Sequence[Question], choosing: bool
) -> dict[str, Any]:
    """Everything that is asked, as tables."""
    result: dict[str, Any] = {}
    halves = {half: [one for one in questions if one.split == half] for half in HALVES}
    nothing = {half: [one for one in absent if one.split == half] for half in HALVES}
    if choosing:
        every = {key(one): asked(library, one) for one in (*halves["choose"], *nothing["choose"])}
        result["chosen"] = choose(halves["choose"], nothing["choose"], every)
    found = {key(one): asked(library, one) for one in halves["report"]}
    places = {by: np.array([alone(one, found[key(one)][by]) for one in halves["report"]]) for by in BY}
    public = [searched(library, one) for one in halves["report"]]
    places["fused"] = np.array([place for place, _ in public])
    plain = [together(one, found[key(one)], lambda by, find: 1.0, 60.0) for one in halves["report"]]
    places["plain RRF"] = np.array(plain)
    result["recall"], result["gains"] = table(halves["report"], places), gains(halves["report"], places)
    show(result["recall"], result["gains"])
    accepted = np.array([searched(library, one)[1] is True for one in nothing["report"]], float)
    refused = np.array([match is False for _, match in public], float)
    result["match"] = {}
    for what, errors in (("absent, said to be there", accepted), ("there, said to be absent", refused)):
        low, high = interval(errors)
        print(f"{what}: {errors.mean():.2f} ({low:.2f}–{high:.2f}) of {len(errors)}")
        result["match"][what] = [float(errors.mean()), low, high, len(errors)]
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, metavar="DIR")
    parser.add_argument("--footage", type=Path, help="what benchmarks/footage/gather.py has fetched")
    parser.add_argument("--rows", type=int, help="only the first N facts")
    parser.add_argument("--choose", action="store_true", help="fit on the half `choose`, and try other values there")
    arguments = parser.parse_args()
    corpus = build(arguments.dir / "videos", arguments.footage, arguments.rows)
    with Library.open(arguments.dir / "library") as library:
        begun = time.process_time()
        report = library.index(corpus.folder, signals="names,speech,ocr")
        print(f"indexed: {report.embedded} new, {time.process_time() - begun:.0f} s of this process", flush=True)
        result = measured(library, corpus.questions, corpus.absent, arguments.choose)
    result["spent"] = spent(arguments.dir / "library")
    (arguments.dir / "signals.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
