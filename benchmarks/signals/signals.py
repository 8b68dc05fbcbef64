"""What each signal finds, and what they find together: recall@k of each alone and of all fused, and “no match”.

    python benchmarks/signals/signals.py DIR [--footage FOOTAGE] [--choose] [--rows N]

`corpus.py` tells what is asked for: its videos are written into DIR/videos and indexed in DIR/library, with `lite` and
all signals. FOOTAGE is what `benchmarks/footage/gather.py` has fetched; without it there are fewer pictures, and no
film.

Videos and questions are in parts that share nothing. What is fitted is fitted on the parts `choose…` (`--choose`
prints it: how much a find of a margin counts, when something fits, and what other values would do); tables are of the
part `report`. Each kind of question is asked of each signal alone and of all of them. The peers are the best single
signal of each kind, as if somebody had known which that is, and plain reciprocal rank fusion: every place counts, and
the usual damping of 60. Differences are paired; intervals are 95 % of what they would be on other questions of the kind
(bootstrap).

What a find counts is chosen so that the kind of question that loses most by fusing, against the best single signal,
loses least. Who asks does not say what they remember of a video; an average would give up what is asked for by its
looks, where the built-in model is never very sure, for what is asked for by words.

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
from corpus import REPORT, Question, build
from numpy.typing import NDArray

from reelspace import Library
from reelspace.index import signalled
from reelspace.index.query import Question as Asking
from reelspace.index.query import as_items
from reelspace.index.searcher import Filters
from reelspace.rank.fusion import Place, fuse_spans

BY = ("seen", "said", "written", "named")
KS = (1, 5, 10)
DEPTH = 20  # videos (or moments) looked at
SMOOTH = 0.3  # of what a find counts: within it, who is first is smoothed when curves are fitted
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


# -- what is chosen -----------------------------------------------------------------------------------------------


class Places(NamedTuple):
    """What is known of every video (or moment) that a question's signals found.

    Attributes:
        margins: of the best find of each signal in it, float64 `[question, video, signal]`; nan where there is none.
        right: whether it answers, bool `[question, video]`.
        kinds: of the questions; those of films are asked for what is said.
        best: of each question, whether the signal it asks of has the answer first.
    """

    margins: Floats
    right: NDArray[np.bool_]
    kinds: list[str]
    best: NDArray[np.bool_]


def places_of(questions: Sequence[Question], found: dict[str, Finds]) -> Places:
    """Leaves out questions with quoted words: there, nothing is weighed."""
    questions = [one for one in questions if "quoted" not in one.kind]
    rows: list[dict[object, tuple[list[float], bool]]] = []
    for question in questions:
        row: dict[object, tuple[list[float], bool]] = {}
        for number, by in enumerate(BY):
            for title, (span, *_), margin in found[key(question)][by][:DEPTH]:
                name = title if question.when is None else (title, span.start)
                margins, _ = row.setdefault(name, ([np.nan] * len(BY), right(question, title, span.start, span.end)))
                if margin is not None and not margins[number] >= margin:
                    margins[number] = margin
        rows.append(row)
    margins = np.full((len(rows), max(map(len, rows)), len(BY)), np.nan)
    answers = np.zeros(margins.shape[:2], bool)
    for number, row in enumerate(rows):
        for place, (values, answer) in enumerate(row.values()):
            margins[number, place], answers[number, place] = values, answer
    best = [alone(one, found[key(one)][signal_of(one)]) == 1 for one in questions]
    return Places(margins, answers, [one.kind.replace("film", "said") for one in questions], np.array(best))


def least_loss(
    places: Places, begin: tuple[float, float] = (1.0, 20.0), sharp: float = 10.0, steps: int = 500
) -> dict[str, tuple[float, float]]:
    """a and b of `log(1 + exp(a + b·m))`, what a find of margin m counts, with which the kind of question that loses
    most by fusing loses least: its share of answers in the first place, less that of the signal it asks of.

    Descends (Adam) from `begin`; who is first is smoothed, and so is which kind loses most.
    """
    there = ~np.isnan(places.margins)
    margins, anything = np.where(there, places.margins, 0.0), there.any(axis=2)
    kinds = [np.array([one == kind for one in places.kinds]) for kind in sorted(set(places.kinds))]
    curves, unit = np.array([begin] * len(BY)), np.array([1.0, 8.0])
    moved, slow, fast = np.zeros_like(curves), np.zeros_like(curves), np.zeros_like(curves)
    for step in range(1, steps + 1):
        a, b = (curves + moved * unit).T
        worth = a + b * margins
        scores = (np.logaddexp(0, worth) * there).sum(axis=2) / SMOOTH
        scores = np.where(anything, scores, -np.inf)
        first = np.exp(scores - scores.max(axis=1, keepdims=True))
        first /= first.sum(axis=1, keepdims=True)
        won = (first * places.right).sum(axis=1)
        lost = np.array([places.best[kind].mean() - won[kind].mean() for kind in kinds])
        most = np.exp(sharp * (lost - lost.max()))
        most /= most.sum()
        by_question = -sum(share * kind / kind.sum() for share, kind in zip(most, kinds, strict=True))
        by_score = by_question[:, None] * first * (places.right - won[:, None]) / SMOOTH
        by_worth = by_score[..., None] * there / (1 + np.exp(-worth))
        slope = np.stack([by_worth.sum(axis=(0, 1)), (by_worth * margins).sum(axis=(0, 1))], axis=1) * unit
        slope += 2e-3 * moved / moved.size
        slow, fast = 0.9 * slow + 0.1 * slope, 0.999 * fast + 0.001 * slope**2
        moved -= 0.05 * (slow / (1 - 0.9**step)) / (np.sqrt(fast / (1 - 0.999**step)) + 1e-8)
    curves = curves + moved * unit
    return {by: (float(a), float(b)) for by, (a, b) in zip(BY, curves, strict=True)}


def first_places(places: Places, curves: dict[str, tuple[float, float]]) -> NDArray[np.bool_]:
    """Whether the answer is first, by question."""
    a, b = np.array([curves[by] for by in BY]).T
    there = ~np.isnan(places.margins)
    scores = np.where(there, np.logaddexp(0, a + b * np.where(there, places.margins, 0.0)), 0.0).sum(axis=2)
    return places.right[np.arange(len(scores)), np.where(there.any(axis=2), scores, -1.0).argmax(axis=1)]


def choose(questions: Sequence[Question], absent: Sequence[Question], found: dict[str, Finds]) -> dict[str, Any]:
    """Fits what `reelspace.index.signalled` has as constants, and prints how it would do with others."""
    parts = sorted({one.split for one in questions})
    places = places_of(questions, found)
    curves = least_loss(places)
    print("what a find counts (a, b):", {by: (round(a, 2), round(b, 2)) for by, (a, b) in curves.items()})
    held = np.zeros(len(places.kinds), bool)  # each part with what was fitted on the others
    asked_of = np.array([one.split for one in questions if "quoted" not in one.kind])
    for part in parts if len(parts) > 1 else []:
        rest = asked_of != part
        others = Places(
            places.margins[rest],
            places.right[rest],
            [kind for kind, kept in zip(places.kinds, rest, strict=True) if kept],
            places.best[rest],
        )
        held[~rest] = first_places(places, least_loss(others))[~rest]
    ways = {
        "fitted": first_places(places, curves),
        "held out": held,
        "in use": first_places(places, signalled.COUNTS),
        "alone": places.best,
    }
    lines = {}
    for kind in sorted(set(places.kinds)):
        mine = np.array([one == kind for one in places.kinds])
        lines[kind] = {way: float(hits[mine].mean()) for way, hits in ways.items()}
        print(f"{kind:<18}R@1 of videos: " + ", ".join(f"{way} {value:.2f}" for way, value in lines[kind].items()))
    grid = {}
    sharing = shares(questions)
    for name, sure in (("fitted", curves), ("in use", signalled.COUNTS)):
        for damping in (0.0, 10.0, 60.0):
            ranks = np.array([together(one, found[key(one)], weighed(sure), damping) for one in questions])
            grid[f"{name}, damping {damping:g}"] = line = {
                "R@1": float((ranks <= 1) @ sharing),
                "R@5": float((ranks <= 5) @ sharing),
                "reciprocal": float((1 / ranks) @ sharing),
            }
            print(f"{name:<26} damping {damping:>4g}: " + ", ".join(f"{what} {v:.3f}" for what, v in line.items()))
    result: dict[str, Any] = {"counts": curves, "first": lines, "grid": grid}
    quoted = [one for one in questions if "quoted" not in one.kind]
    for name, some in (("fitted", curves), ("in use", signalled.COUNTS)):
        present, nothing = (np.array([evidence(found[key(one)], some) for one in asked]) for asked in (quoted, absent))
        weights = shares(quoted)
        bars = np.unique(np.round(np.concatenate([present, nothing]), 3))
        errors = [float((nothing >= bar).mean() + (present < bar) @ weights) for bar in bars]
        result[f"bar, {name}"] = bar = float(bars[int(np.argmin(errors))])
        for least in (bar, signalled.ENOUGH):
            print(
                f"{name}: “no match” below {least:.3f}: {(nothing >= least).mean():.2f} of the absent are said to be "
                f"there, {(present < least) @ weights:.2f} of those there to be absent"
            )
    return result


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


def weighed(counts: dict[str, tuple[float, float]]) -> Callable[[str, Find], float]:
    """What a find counts by these curves."""

    def weigh(by: str, find: Find) -> float:
        a, b = counts[by]
        return (
            find.place.weight
            if find.margin is None
            else float(np.logaddexp(0, min(a + b * find.margin, signalled.HIGHEST)))
        )

    return weigh


def evidence(finds: Finds, counts: dict[str, tuple[float, float]]) -> float:
    """As `signalled.evidence`, with other curves."""
    weigh = weighed(counts)
    told = sum(weigh(by, every[0]) for by, every in finds.items() if every)
    return float(told / sum(np.logaddexp(0, a) for a, _ in counts.values()))


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
    if choosing:
        present, nothing = ([one for one in some if one.split != REPORT] for some in (questions, absent))
        every = {key(one): asked(library, one) for one in (*present, *nothing)}
        result["chosen"] = choose(present, nothing, every)
    present, nothing = ([one for one in some if one.split == REPORT] for some in (questions, absent))
    found = {key(one): asked(library, one) for one in present}
    places = {by: np.array([alone(one, found[key(one)][by]) for one in present]) for by in BY}
    public = [searched(library, one) for one in present]
    places["fused"] = np.array([place for place, _ in public])
    plain = [together(one, found[key(one)], lambda by, find: 1.0, 60.0) for one in present]
    places["plain RRF"] = np.array(plain)
    result["recall"], result["gains"] = table(present, places), gains(present, places)
    show(result["recall"], result["gains"])
    accepted = np.array([searched(library, one)[1] is True for one in nothing], float)
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
    parser.add_argument("--choose", action="store_true", help="fit on the parts `choose…`, and try other values there")
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
