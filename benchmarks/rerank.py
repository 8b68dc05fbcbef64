"""Second looks: pairs judged a second with and without reading once what the prompts of a query share.

A small random Qwen2.5-VL judges clips of eight small frames for queries short and long. Beside it, in the same run: the
same model as sentence-transformers' own CrossEncoder (batches of 32 in order of length, nothing shared). All three
must give the same probabilities.

    python benchmarks/rerank.py [--candidates 20] [--repeat 5] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import tinies
from reelspace.item import Frames, Item
from reelspace.rank import yes_no

LENGTHS = (8, 64, 256, 1024)  # words of a query


def clips(count: int) -> list[Item]:
    random = np.random.default_rng(0)
    shapes = [(90, 160), (160, 90), (120, 120)]
    return [
        Item(video=Frames(random.integers(0, 256, (8, *shapes[n % 3], 3), dtype=np.uint8), np.arange(8) / 2, 0.0, 4.0))
        for n in range(count)
    ]


def timed(work: Callable[[], np.ndarray], repeat: int) -> tuple[float, np.ndarray]:
    """Median seconds of `repeat` runs after one that does not count, and what came out."""
    found = work()
    times = []
    for _ in range(repeat):
        begun = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - begun)
    return statistics.median(times), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    candidates, rows = clips(asked.candidates), []
    with tempfile.TemporaryDirectory() as folder:
        tinies.write(Path(folder), readout={**tinies.READOUT, "max_length": 8192, "frames": "uniform(8)"}, layers=12)
        judges = [yes_no.load(folder, budget=asked.candidates) for _ in range(2)]
        judges[1].share = False
        crossed = judges[1].cross_encoder()
        for length in asked.lengths:
            text = " ".join(["the cat sleeps and a dog runs."] * (length // 7 + 1)).split()
            query = Item(" ".join(text[:length]))
            work = {
                "shared": lambda query=query: judges[0].score(query, candidates),
                "not shared": lambda query=query: judges[1].score(query, candidates),
                "CrossEncoder": lambda query=query: crossed.predict(
                    [(query, candidate) for candidate in candidates], show_progress_bar=False
                ),
            }
            found = {name: timed(one, asked.repeat) for name, one in work.items()}
            apart = max(float(abs(found["shared"][1] - other).max()) for _, other in found.values())
            assert apart < 1e-5, f"the scores differ by {apart}"
            speeds = {name: asked.candidates / seconds for name, (seconds, _) in found.items()}
            row = {"words": length, **speeds, "apart": apart}
            row |= {f"over {name}": speeds["shared"] / speeds[name] for name in ("not shared", "CrossEncoder")}
            rows.append(row)
            print(
                f"{length:5} words: {speeds['shared']:6.1f} pairs/s shared, {speeds['not shared']:6.1f} not "
                f"({row['over not shared']:.2f} ×), {speeds['CrossEncoder']:6.1f} CrossEncoder "
                f"({row['over CrossEncoder']:.2f} ×); probabilities differ by {apart:.1g} at most"
            )
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
