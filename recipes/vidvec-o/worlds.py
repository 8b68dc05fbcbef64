"""VidVec's text-only tuning on the tiny model: text → video R@1 on held-out scenes, before and after.

    python recipes/vidvec-o/worlds.py [--model tests/data/tiny-mllm] [--work runs/vidvec-o-worlds]

The tuning sees texts alone: of worlds, a brief caption asks and a detailed one stands in for the video. Writes
`worlds.json` and, of it, `worlds.md`; with --report only the latter.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from reelspace.uvrb.statistics import mean_interval, random

HERE = Path(__file__).parent


def examined(model: Path, count: int, memory: Path) -> list[int]:
    """Of each held-out scene, the rank (from 0) of its own video for its general caption, among all."""
    from reelspace.embed import load
    from reelspace.item import Frames, Item
    from reelspace.worlds.captions import caption
    from reelspace.worlds.sample import generator
    from reelspace.worlds.tiny.batches import clip
    from reelspace.worlds.tiny.exam import drawn

    embedder: Any = load(str(model))
    embedder.module.remember(memory)
    scenes = drawn("full", count)
    texts = [caption(scene, "general", generator("vidvec", number)).text for number, scene in enumerate(scenes)]
    clips = [Frames(pixels, np.arange(len(pixels)) / 4) for pixels in map(clip, scenes)]
    queries = embedder.encode_query([Item(text) for text in texts])
    scores = queries @ embedder.encode_candidate([Item(video=shown) for shown in clips]).T
    own = np.diagonal(scores)[:, None]
    # Of equal scores the smaller number comes first.
    before = (scores > own) | ((scores == own) & np.tri(count, k=-1, dtype=bool))
    return before.sum(axis=1).tolist()


def tuned(model: Path, told: dict[str, Any], seed: int, work: Path) -> tuple[Path, dict[str, Any]]:
    """The tuned model, and what it took."""
    from reelspace.train.config import LOG, Config
    from reelspace.train.trainer import run
    from reelspace.train.worlds import write
    from reelspace.worlds.tiny.lessons import FULL_CLIPS

    told = dict(told)
    source = work / "rows" / f"{seed}" / "summaries.jsonl"
    if not source.exists():
        write(source.parent, "summaries", told.pop("rows"), seed, FULL_CLIPS)
    told.pop("rows", None)
    output = work / f"run-{seed}"
    shutil.rmtree(output, ignore_errors=True)
    task = {"name": "summaries", "source": str(source), "formats": "T>T", "batch_size": told.pop("batch_size")}
    config = Config.model_validate(
        {**told, "model": str(model), "output": str(output), "mixture": {"tasks": [task]}, "seed": seed}
    )
    began = time.process_time()
    folder = run(config, Path(), lambda line: print(line, file=sys.stderr, flush=True))
    steps = [row for row in map(json.loads, (output / LOG).read_text("utf-8").splitlines()) if row["event"] == "step"]
    return folder, {
        "steps": steps[-1]["step"],
        "loss": [round(steps[0]["loss"], 4), round(steps[-1]["loss"], 4)],
        "processor seconds": round(time.process_time() - began),
    }


def recall(ranks: list[int], depth: int) -> np.ndarray:
    return (np.array(ranks) < depth).astype(float)


def share(values: np.ndarray, *key: str) -> str:
    """The mean and its 95 % interval, queries drawn again."""
    low, high = mean_interval(values, random("vidvec-o", *key))
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]".replace("-", "−")


def report(found: dict[str, Any]) -> str:
    """The table, of the raw results."""
    before, count = found["before"], len(found["before"])
    lines = [
        "# Text-only tuning of the tiny model",
        "",
        f"Made by `worlds.py` of `worlds.json`: general caption → video among {count} held-out scenes of the full "
        f"world (chance {1 / count:.3f} at 1, {10 / count:.3f} at 10), with 95 % intervals (queries drawn again; the "
        "change query by query). Each seed has other pairs of captions.",
        "",
        "| | R@1 | R@10 | change of R@1 | change of R@10 | loss, first and last | processor seconds |",
        "|---|---|---|---|---|---|---|",
        f"| before | {share(recall(before, 1), '1')} | {share(recall(before, 10), '10')} | | | | |",
    ]
    for run in found["after"]:
        ranks, name = run["ranks"], str(run["seed"])
        cells = [share(recall(ranks, depth), name, str(depth)) for depth in (1, 10)]
        cells += [share(recall(ranks, depth) - recall(before, depth), name, "change", str(depth)) for depth in (1, 10)]
        told = f"{run['loss'][0]:.2f}, {run['loss'][1]:.2f} | {run['processor seconds']}"
        lines.append(f"| tuned on text, seed {name} | {' | '.join(cells)} | {told} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=HERE.parent.parent / "tests" / "data" / "tiny-mllm")
    parser.add_argument("--work", type=Path, default=Path("runs/vidvec-o-worlds"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--count", type=int, default=240)
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args()
    path = HERE / "worlds.json"
    if not asked.report:
        told = yaml.safe_load((HERE / "worlds.yaml").read_text("utf-8"))
        work, model = asked.work.resolve(), asked.model.resolve()
        found: dict[str, Any] = {"settings": told, "before": examined(model, asked.count, work / "memory"), "after": []}
        for seed in asked.seeds:
            folder, cost = tuned(model, told, seed, work)
            found["after"].append({"seed": seed, **cost, "ranks": examined(folder, asked.count, work / "memory")})
            path.write_text(json.dumps(found) + "\n", "utf-8")
            print(report(found).splitlines()[-1], file=sys.stderr, flush=True)
    (HERE / "worlds.md").write_text(report(json.loads(path.read_text("utf-8"))), "utf-8")


if __name__ == "__main__":
    main()
