"""UVRB-Worlds: what a second look by a judge makes of an embedder's R@1, with the interval of the difference.

    python benchmarks/rerank_worlds.py [--embedder tiny] [--judge tiny] [--k 10] [--size small] [--cache DIR] [TASK …]

For each task that asks in words: R@1 of the embedder; after its best k candidates were put in the order of P(yes); and
in that of cosine + w · log-odds of yes, where w is chosen on one half of all queries and used on the other. Intervals
are of a bootstrap over queries, paired. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reelspace.embed import load
from reelspace.embed.base import Embedder
from reelspace.rank import yes_no
from reelspace.rank.yes_no import YesNo
from reelspace.worlds.tasks import QUERIES, TaskData, task

TASKS = (
    *("MSRVTT", "DiDeMo", "CRB-G", "CRB-S", "VDC-O", "CRB-T", "CMRB", "DREAM-E", "LoVR-TH", "PEV-K"),
    *("LoVR-V", "VDC-D"),
)
"""Those that ask in words, in UVRB's order."""
DRAWS = 2000
WEIGHTS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Of the log-odds beside a cosine, to choose from; of equally good ones the smallest."""


@dataclass(frozen=True)
class Looked:
    """A task's queries and the best candidates of each, by cosine and then by id: `[queries, k]`.

    Attributes:
        cosines: float64.
        odds: float64, the logarithm of P(yes) / P(no).
        right: float64, 1 where the candidate is an answer.
    """

    cosines: np.ndarray
    odds: np.ndarray
    right: np.ndarray

    def first(self, scores: np.ndarray) -> np.ndarray:
        """Whether the one with the highest score is right, float64 `[queries]`; equal ones stand as they were."""
        return self.right[np.arange(len(scores)), scores.argmax(axis=1)]

    def mixed(self, weight: float) -> np.ndarray:
        """Whether the first is right by cosine and log-odds together."""
        return self.first(self.cosines + weight * self.odds)


def looked(data: TaskData, embedder: Embedder, judge: YesNo, k: int) -> Looked:
    """The best k of each query, and what the judge says of them."""
    scores = embedder.encode_query(data.queries) @ embedder.encode_candidate(data.corpus).T
    column = {name: place for place, name in enumerate(data.corpus_ids)}
    cosines, odds, right = [], [], []
    for row, query, item in zip(scores, data.query_ids, data.queries, strict=True):
        asked = sorted(data.corpus_ids if data.pools is None else data.pools[query])
        best = sorted(asked, key=lambda name: -row[column[name]])[:k]
        cosines.append([row[column[name]] for name in best])
        odds.append(judge.log_odds(item, [data.corpus[column[name]] for name in best]))
        right.append([name in data.relevant[query] for name in best])
    return Looked(*(np.array(table, dtype=np.float64) for table in (cosines, odds, right)))


def chosen_weight(tasks: list[Looked], half: int) -> float:
    """The weight that is best on every other query of all tasks."""
    return max(WEIGHTS, key=lambda weight: np.concatenate([one.mixed(weight)[half::2] for one in tasks]).mean())


def crossed(one: Looked, weights: tuple[float, float]) -> np.ndarray:
    """Whether the first is right, each half of the queries with the weight that the other half chose."""
    found = np.empty(len(one.right))
    for half in (0, 1):
        found[half::2] = one.mixed(weights[1 - half])[half::2]
    return found


def difference(before: np.ndarray, after: np.ndarray) -> str:
    """R@1 after, by how much it is more, and the 95 % interval of that."""
    apart = after - before
    draws = np.random.default_rng(0).integers(len(apart), size=(DRAWS, len(apart)))
    low, high = np.quantile(apart[draws].mean(axis=1), [0.025, 0.975])
    return f"{after.mean():.3f}: {apart.mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def table(found: dict[str, Looked]) -> str:
    """A row a task, and one of all."""
    weights = tuple(chosen_weight(list(found.values()), half) for half in (0, 1))
    lines = [
        f"Log-odds count {weights[1]:g} in even queries and {weights[0]:g} in odd ones, beside cosines.",
        "",
        "| task | queries | R@1 | by P(yes) | by both |",
        "|---|---|---|---|---|",
    ]
    columns: list[tuple[np.ndarray, ...]] = []
    for one in found.values():
        columns.append((one.mixed(0.0), one.first(one.odds), crossed(one, weights)))
    for name, (before, *after) in zip(
        [*found, "all"], [*columns, tuple(map(np.concatenate, zip(*columns, strict=True)))], strict=True
    ):
        shown = " | ".join(difference(before, one) for one in after)
        lines.append(f"| {name} | {len(before)} | {before.mean():.3f} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--embedder", default="tiny")
    parser.add_argument("--judge", default="tiny")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--size", choices=list(QUERIES), default="small")
    parser.add_argument("--cache", type=Path, default=Path("worlds-cache"))
    asked = parser.parse_args()
    embedder, judge = load(asked.embedder), yes_no.load(asked.judge)
    found: dict[str, Looked] = {}
    for name in asked.tasks:
        found[name] = looked(task(name, asked.size).data(asked.cache), embedder, judge, asked.k)
        print(f"{name}: {len(found[name].right)} queries", file=sys.stderr)
    print(table(found))


if __name__ == "__main__":
    main()
