"""UVRB-Worlds: how much of each task models get, between chance and the oracle.

    python benchmarks/headroom.py lite tiny [--size small] [--cache DIR]

Prints a Markdown table: a row a task, chance, and each model's score with its 95 % interval (bootstrap over queries).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from reelspace.embed import load
from reelspace.embed.base import Embedder
from reelspace.worlds.tasks import QUERIES, TaskData, tasks


def hits(data: TaskData, embedder: Embedder) -> np.ndarray:
    """Per query its recall at the task's depth, float64 `[queries]`; ties go to the smaller id."""
    scores = embedder.encode_query(data.queries) @ embedder.encode_candidate(data.corpus).T
    column = {name: k for k, name in enumerate(data.corpus_ids)}
    depth = int(data.metric.partition("@")[2])
    found = []
    for row, query in zip(scores, data.query_ids, strict=True):
        asked = sorted(data.corpus_ids if data.pools is None else data.pools[query])
        best = sorted(asked, key=lambda name: -row[column[name]])[:depth]
        found.append(len(data.relevant[query] & set(best)) / len(data.relevant[query]))
    return np.asarray(found)


def interval(found: np.ndarray, seed: int = 0) -> tuple[float, float]:
    draws = np.random.default_rng(seed).integers(len(found), size=(2000, len(found)))
    low, high = np.quantile(found[draws].mean(axis=1), [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--size", choices=list(QUERIES), default="small")
    parser.add_argument("--cache", type=Path, default=Path("worlds-cache"))
    chosen = parser.parse_args()
    embedders = {name: load(name) for name in chosen.models}
    print("| task | ability | queries | metric | chance |", " | ".join(embedders), "|")
    print("|---|---|---|---|---|" + "---|" * len(embedders))
    for task in tasks(chosen.size):
        data = task.data(chosen.cache)
        cells = []
        for name, embedder in embedders.items():
            kinds = {item.modality for item in (*data.queries, *data.corpus)}
            if not kinds <= embedder.modalities:
                cells.append(f"no {', '.join(sorted(kinds - embedder.modalities))}")
                continue
            found = hits(data, embedder)
            low, high = interval(found)
            cells.append(f"{found.mean():.3f} [{low:.3f}, {high:.3f}]")
            print(f"{task.name} {name} {cells[-1]}", file=sys.stderr)
        print(
            f"| {data.name} | {data.ability} | {len(data.queries)} | {data.metric} | {data.chance:.3f} |",
            " | ".join(cells),
            "|",
            flush=True,
        )


if __name__ == "__main__":
    main()
