"""UVRB-Worlds: what a second look by a judge makes of an embedder's R@1, with the interval of the difference.

    python benchmarks/rerank_worlds.py [--embedder tiny] [--judge tiny] [--k 10] [--size small] [--cache DIR] [TASK …]

For each task that asks in words: R@1 of the embedder, and after its best k candidates were put in the order of P(yes).
The interval is of a bootstrap over queries, paired. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reelspace.embed import load
from reelspace.embed.base import Embedder
from reelspace.rank import yes_no
from reelspace.rank.base import PairScorer
from reelspace.worlds.tasks import QUERIES, TaskData, task

TASKS = (
    *("MSRVTT", "DiDeMo", "CRB-G", "CRB-S", "VDC-O", "CRB-T", "CMRB", "DREAM-E", "LoVR-TH", "PEV-K"),
    *("LoVR-V", "VDC-D"),
)
"""Those that ask in words, in UVRB's order."""
DRAWS = 2000


@dataclass(frozen=True)
class Looked:
    """Per query whether the first was right, before and after, float64 `[queries]`."""

    before: np.ndarray
    after: np.ndarray

    def difference(self) -> tuple[float, float, float]:
        """After less before, and its 95 % interval."""
        apart = self.after - self.before
        draws = np.random.default_rng(0).integers(len(apart), size=(DRAWS, len(apart)))
        low, high = np.quantile(apart[draws].mean(axis=1), [0.025, 0.975])
        return float(apart.mean()), float(low), float(high)


def looked(data: TaskData, embedder: Embedder, judge: PairScorer, k: int) -> Looked:
    """A task with and without a second look; equal scores stand as they were, and at first by id."""
    scores = embedder.encode_query(data.queries) @ embedder.encode_candidate(data.corpus).T
    column = {name: place for place, name in enumerate(data.corpus_ids)}
    before, after = [], []
    for row, query, item in zip(scores, data.query_ids, data.queries, strict=True):
        asked = sorted(data.corpus_ids if data.pools is None else data.pools[query])
        best = sorted(asked, key=lambda name: -row[column[name]])[:k]
        judged = judge.score(item, [data.corpus[column[name]] for name in best])
        first = best[int(np.argsort(-judged, kind="stable")[0])]
        before.append(float(best[0] in data.relevant[query]))
        after.append(float(first in data.relevant[query]))
    return Looked(np.array(before), np.array(after))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(TASKS))
    parser.add_argument("--embedder", default="tiny")
    parser.add_argument("--judge", default="tiny")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--size", choices=list(QUERIES), default="small")
    parser.add_argument("--cache", type=Path, default=Path("worlds-cache"))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    embedder, judge = load(chosen.embedder), yes_no.load(chosen.judge)
    found: dict[str, Looked] = {}
    print(
        "| task | queries | chance | R@1 | after the second look | difference |\n|---|---|---|---|---|---|", flush=True
    )
    for name in chosen.tasks:
        data = task(name, chosen.size).data(chosen.cache)
        one = found[name] = looked(data, embedder, judge, chosen.k)
        gain, low, high = one.difference()
        print(
            f"| {name} | {len(one.before)} | {data.chance:.3f} | {one.before.mean():.3f} | {one.after.mean():.3f} | "
            f"{gain:+.3f} [{low:+.3f}, {high:+.3f}] |",
            flush=True,
        )
    every = Looked(*(np.concatenate([getattr(one, side) for one in found.values()]) for side in ("before", "after")))
    gain, low, high = every.difference()
    print(
        f"| all | {len(every.before)} | | {every.before.mean():.3f} | {every.after.mean():.3f} | "
        f"{gain:+.3f} [{low:+.3f}, {high:+.3f}] |"
    )
    if chosen.json:
        rows = {name: {"before": one.before.mean(), "after": one.after.mean()} for name, one in found.items()}
        chosen.json.write_text(json.dumps({**rows, "all": [gain, low, high]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
