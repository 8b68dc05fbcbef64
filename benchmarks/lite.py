"""How well the built-in model finds things, on the footage set.

    python benchmarks/footage/gather.py out/footage
    python benchmarks/lite.py out/footage                  # both halves; settings were chosen on `choose`
    python benchmarks/lite.py out/footage --calibrate      # fit the “no match” thresholds on `choose` first

Every figure is of one half of the set, with a bootstrap interval over its queries. Plain ConSE (class texts weighted by
class probabilities, nothing else) runs beside the model as its baseline.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import Embedder, Vectors
from reelspace.embed.lite import space, weights
from reelspace.embed.lite.model import Lite
from reelspace.item import Item, Span
from reelspace.rank.calibration import Calibration, calibration_of, fit, query_form, rates
from reelspace.rank.exclude import beyond, exclude

sys.path.insert(0, str(Path(__file__).parent / "footage"))
import footage_set

TRIAL = {"pictures": 73, "clips": 14}  # how many candidates the first trial of the method had
DRAWS = 200
RELATIVE = ("text",)  # forms whose threshold is relative: chosen on `choose`, where it raised the AUC from .66 to .79
FRAME = 0.001  # seconds; a span this short holds the one frame shown at its start


class Footage:
    """The set's items and queries, embedded once and kept in a file named by the model's fingerprint."""

    def __init__(self, root: Path, model: Embedder) -> None:
        self.root = root
        self.model = model
        self.items = [item for item in footage_set.read_items() if item.path(root).exists()]
        self.queries = footage_set.read_queries()
        self._by_id = {item.id: item for item in self.items}
        self._asked: dict[tuple[str, str], Vectors] = {}

    def item(self, name: str) -> Item:
        """What an id of `items.csv`, or `FILE@SECONDS`, stands for."""
        if name in self._by_id:
            entry = self._by_id[name]
            path = entry.path(self.root)
            return Item(image=path) if entry.kind == "picture" else Item(video=Span(path, entry.start or 0, entry.end))
        file, _, time = name.rpartition("@")
        return Item(video=Span(self.root / file, float(time), float(time) + FRAME))

    def ask(self, query: footage_set.Query, part: str = "all") -> Item:
        """The query, or only its `text` or its `visual` part."""
        visual = self.item(query.image or query.clip) if query.image or query.clip else None
        text = query.text or None
        if part == "text":
            return Item(text=text)
        return Item(
            text=text if part == "all" else None,
            image=visual.image if visual else None,
            video=visual.video if visual else None,
        )

    @cached_property
    def candidates(self) -> dict[str, Vectors]:
        """Candidate vectors by id."""
        names = [item.id for item in self.items if item.role == "candidate"]
        file = self.root / f"{self.model.name}-{self.model.fingerprint}.npz"
        if file.exists():
            with np.load(file) as kept:
                if kept["names"].tolist() == names:
                    return dict(zip(names, kept["vectors"], strict=True))
        vectors = self.model.encode_candidate([self.item(name) for name in names])
        np.savez(file, names=names, vectors=vectors)
        return dict(zip(names, vectors, strict=True))

    def vector(self, query: footage_set.Query, part: str = "all") -> Vectors:
        """The vector of a query or of one part of it."""
        key = (query.id, part)
        if key not in self._asked:
            self._asked[key] = self.model.encode_query([self.ask(query, part)])[0]
        return self._asked[key]

    def ranked(self, query: footage_set.Query) -> tuple[list[str], Vectors]:
        """The ids that are ranked for a query, and their vectors."""
        names = [item.id for item in query.candidates(self.items)]
        return names, np.stack([self.candidates[name] for name in names])


class PlainConSE(Lite):
    """The baseline: class texts weighted by class probabilities, and nothing else (Norouzi et al. 2014)."""

    name = "conse"

    @cached_property
    def fingerprint(self) -> str:
        return "meaning-" + super().fingerprint

    @cached_property
    def _space(self) -> space.Space:
        shipped = space.load()
        meaning = [1.0, 0.0, 0.0]
        alone = {"anchors_in_meaning": 0.0, "sureness": 0.0, "text": meaning, "picture": meaning, "candidate": meaning}
        return replace(shipped, class_meanings=shipped.class_texts, set=shipped.set | alone)


def rank_of(scores: NDArray[np.float32], names: Sequence[str], wanted: Sequence[str]) -> int:
    """The best rank (1 is first) of the wanted."""
    best = max(scores[names.index(name)] for name in wanted if name in names)
    return int((scores > best).sum()) + 1


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """95 % bootstrap interval of a mean over queries."""
    random = np.random.default_rng(0)
    means = values[random.integers(0, len(values), (2000, len(values)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def line(title: str, ranks: Sequence[int]) -> str:
    """One row of the table: R@1 with its interval, R@5, MRR."""
    r = np.array(ranks, dtype=np.float64)
    first = (r == 1).astype(np.float64)
    low, high = interval(first)
    return (
        f"| {title} | {len(r)} | {first.mean():.2f} [{low:.2f}, {high:.2f}] "
        f"| {(r <= 5).mean():.2f} | {(1 / r).mean():.2f} |"
    )


def retrieval(footage: Footage, split: str) -> None:
    """Print one table: every kind of query, texts by tag, composed queries beside their parts."""
    print(f"\n### {footage.model.name}, half `{split}`\n")
    print("| queries | n | R@1 [95 %] | R@5 | MRR |\n|---|---|---|---|---|")
    groups: dict[str, list[int]] = defaultdict(list)
    for query in footage.queries:
        if query.split != split or query.kind in ("absent", "not"):
            continue
        names, vectors = footage.ranked(query)
        title = f"{query.kind} → {query.target}"
        titles = {"all": title if query.kind != "image" else f"{title}, {query.tag}"}
        if query.kind == "composed":
            titles = {"all": "composed", "text": "composed: the text alone", "visual": "composed: the visual alone"}
        for part, name in titles.items():
            groups[name].append(rank_of(vectors @ footage.vector(query, part), names, query.relevant))
            if query.kind == "text":
                groups[f"{title}: {query.tag}"].append(groups[name][-1])
    for name in sorted(groups):
        print(line(name, groups[name]))


def among_few(footage: Footage, split: str) -> None:
    """Print what texts find among as few candidates as the trial had: a hit at random is as likely as it was there."""
    random = np.random.default_rng(0)
    for target, size in TRIAL.items():
        ranks = []
        for query in footage.queries:
            if (query.kind, query.target, query.split) != ("text", target, split):
                continue
            names, vectors = footage.ranked(query)
            scores = vectors @ footage.vector(query)
            right = np.flatnonzero(np.isin(names, query.relevant))
            for _ in range(DRAWS):
                one = random.choice(right)
                drawn = np.append(random.permutation(np.delete(np.arange(len(names)), one))[: size - 1], one)
                best = scores[np.intersect1d(drawn, right)].max()
                ranks.append(1 + int((scores[drawn] > best).sum()))
        found = np.array(ranks)
        print(
            f"\ntexts among {size} {target}, mean of {DRAWS} draws a query: R@1 {(found == 1).mean():.2f}, "
            f"R@5 {(found <= 5).mean():.2f}, MRR {(1 / found).mean():.2f}"
        )


def exclusion(footage: Footage, split: str) -> None:
    """Print what `--not` does to the ranks of the excluded and of the relevant."""
    logs = []
    for query in (query for query in footage.queries if query.kind == "not" and query.split == split):
        names, vectors = footage.ranked(query)
        asked, unwanted = footage.model.encode_query([Item(text=query.text), Item(text=query.not_text)])
        before = vectors @ asked
        likeness = vectors @ beyond(asked, unwanted)
        after = exclude(before, likeness, float(likeness.mean()))
        logs.append(
            [
                np.mean([np.log(rank_of(scores, names, [name])) for name in who if name in names])
                for who in (query.near, query.relevant)
                for scores in (before, after)
            ]
        )
    mean = np.exp(np.mean(logs, axis=0))
    print(f"\n`--not` ({len(logs)} queries), geometric mean rank: excluded {mean[0]:.1f} → {mean[1]:.1f}, ", end="")
    print(f"relevant {mean[2]:.1f} → {mean[3]:.1f}; queries whose excluded went down: ", end="")
    print(f"{np.mean([row[1] > row[0] for row in logs]):.2f}, up: {np.mean([row[1] < row[0] for row in logs]):.2f}")


def best_scores(footage: Footage, split: str) -> dict[str, tuple[list[float], list[float]]]:
    """Query form → best scores of the queries that have an answer, and of those that have none.

    Texts and pictures have queries made for that. For composed queries and clips (and for pictures too) every query is
    asked once more where its answers, and what is near them, have been taken away.
    """
    bank = Calibration({}, footage.model.background)
    found: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for query in footage.queries:
        if query.split != split or query.kind == "not":
            continue
        form = "image" if query.kind == "image" else query_form(footage.ask(query))
        vector = footage.vector(query)
        names, vectors = footage.ranked(query)
        scores = dict(zip(names, vectors @ vector, strict=True))

        def best(
            left: Sequence[str], form: str = form, vector: Vectors = vector, of: dict[str, float] = scores
        ) -> float:
            top = max(float(of[name]) for name in left)
            return bank.relative(vector, top) if form in RELATIVE else top

        present, absent = found[form]
        (present if query.relevant else absent).append(best(names))
        if query.relevant and form != "text":
            absent.append(best([name for name in names if name not in (*query.relevant, *query.near)]))
    return found


def no_match(footage: Footage, split: str) -> None:
    """Print the error rates of the shipped thresholds."""
    calibration = calibration_of(footage.model)
    assert calibration is not None
    print(f"\n| “no match”, `{split}` | threshold | with / without an answer | false accept | false reject |")
    print("|---|---|---|---|---|")
    for form, scores in sorted(best_scores(footage, split).items()):
        present, absent = map(np.array, scores)
        least = calibration.thresholds[form].least
        error = rates(least, present, absent)
        print(
            f"| {form}{', relative' if form in RELATIVE else ''} | {least:.3f} | {len(present)} / {len(absent)} "
            f"| {error.false_accept:.2f} | {error.false_reject:.2f} |"
        )


def calibrate(footage: Footage) -> None:
    """Fit the thresholds on `choose` and write them beside the model."""
    fitted = {
        form: [round(fit(np.array(present), np.array(absent)), 4), form in RELATIVE]
        for form, (present, absent) in sorted(best_scores(footage, "choose").items())
    }
    (weights.DATA / "calibration.json").write_text(json.dumps(fitted, indent=1) + "\n")


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, metavar="DIR", help="what gather.py wrote")
    parser.add_argument("--calibrate", action="store_true", help="fit the thresholds on `choose` first")
    parser.add_argument("--half", choices=("choose", "report"), action="append", help="only this half")
    arguments = parser.parse_args()
    footage = Footage(arguments.dir, Lite())
    if arguments.calibrate:
        calibrate(footage)
    baseline = Footage(arguments.dir, PlainConSE())
    for split in arguments.half or ("choose", "report"):
        retrieval(footage, split)
        among_few(footage, split)
        exclusion(footage, split)
        no_match(footage, split)
        retrieval(baseline, split)
        among_few(baseline, split)


if __name__ == "__main__":
    main()
