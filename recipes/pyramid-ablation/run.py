"""Trains and scores every arm of `ablation.toml` with every seed; what is there already is not done again.

    python recipes/pyramid-ablation/run.py --work runs/pyramid-ablation [--arms …] [--seeds …] [--parts …]
    python recipes/pyramid-ablation/run.py --settings recipes/pyramid-ablation/stages.toml …

A result is one file in `results/`, or in the folder that the settings name. `report.py` makes the report of them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from reelspace.embed import load
from reelspace.embed.qwen_vl.embedder import hashed
from reelspace.synth.shards import write_text
from reelspace.train.config import LOG, Config
from reelspace.train.trainer import run
from reelspace.train.worlds import write
from reelspace.worlds.oracle import expected
from reelspace.worlds.sample import FULL
from reelspace.worlds.tasks import Size, tasks
from reelspace.worlds.tiny.model import shortened

HERE = Path(__file__).parent
WORLD = replace(FULL, frames=(16,), size=(64,))
VIDEOS = ("text to video", "UVRD-T2V", "UVRD-TI2V", "UVRD-TV2V", "UVRD-I2V", "UVRD-V2V")


def plain(name: str) -> str:
    return name.replace(" ", "-")


def prepared(told: dict[str, Any], work: Path) -> Path:
    """Writes the rows of all tasks and the model that every arm begins with."""
    pools = {name: task["pool"] for name, task in every(told).items() if "pool" in task}
    for arm in told["arms"].values():
        pools |= {other: pools[name] for name, other in arm.get("instead", {}).items()}
    for name, pool in pools.items():
        if not (work / "rows" / f"{plain(name)}.jsonl").exists():
            say(f"rows of {name}")
            write(work / "rows", name, pool, seed=0, profile=WORLD)
    if "synth" in told:
        synthesised(told, work / "rows")
    if not (work / "start").exists():
        shortened((HERE / told["model"]).resolve(), told["layers"], work / "start.part", told["frames"])
        (work / "start.part").rename(work / "start")
    return work / "start"


def every(told: dict[str, Any]) -> dict[str, Any]:
    """All tasks, of all groups."""
    return {name: task for group in told["groups"] for name, task in told[group].items()}


def synthesised(told: dict[str, Any], rows: Path) -> None:
    """Runs V-SynFlow, and writes the pairs that there are before its stages and after each of the first two.

    What the last stage makes is trained on as it lies there. A run that was ended before goes on.
    """
    from reelspace.synth.config import Config as Flow
    from reelspace.synth.run import run as synthesise

    flow = Flow.model_validate({"embedder": str((HERE / told["model"]).resolve()), **told["synth"]})
    job = synthesise(flow, rows / "uvrd", say=say)
    for stage, step in (("raw", "source"), ("filtered", "select"), ("enriched", "enrich")):
        lines = []
        for asset in job.passed(step):
            texts = {
                "raw": [asset.raw.text],
                "filtered": [asset.caption],
                "enriched": [text.text for text in asset.captions],
            }[stage]
            for number, text in enumerate(texts):
                clip = {"clip": {"path": f"uvrd/{asset.raw.video}"}, "video": asset.key or asset.raw.id}
                query = {"text": text, "video": clip["video"]}
                lines.append(json.dumps({"id": f"{asset.raw.id}-{number}", "query": query, "candidate": clip}) + "\n")
        write_text("".join(lines), rows / f"{stage}.jsonl")


def mixture(told: dict[str, Any], arm: dict[str, Any], part: float) -> list[dict[str, Any]]:
    """The tasks of an arm. Where it leaves groups out there are as many more of the others."""
    chosen = {name: task for group in arm.get("groups", told["groups"]) for name, task in told[group].items()}
    batches = {name: task["rows"] / task["batch"] for name, task in every(told).items()}
    whole = told.get("batches") or sum(batches.values())
    more = whole / sum(batches[name] for name in chosen)
    return [
        {
            "name": name,
            "source": task.get("source", f"{plain(arm.get('instead', {}).get(name, name))}.jsonl"),
            "root": task.get("root"),
            "batch_size": task["batch"],
            "hard_negatives": arm.get("negatives", 0),
            "rows": max(task["batch"], round(task["rows"] * more * part)),
        }
        for name, task in chosen.items()
    ]


def config(told: dict[str, Any], arm: dict[str, Any], seed: int, work: Path, output: Path, part: float = 1.0) -> Config:
    """A run of an arm: all but its schedule, its tasks and what it names of the training is the same for all."""
    declared = mixture(told, arm, part)
    schedule = {"pairs": told["pairs"], **arm.get("schedule", {"kind": "proportional"})}
    if schedule["kind"] == "fixed":
        sizes = {task["name"]: task["rows"] / task["batch_size"] for task in declared}
        schedule["weights"] = {name: size * (2 if name in VIDEOS else 1) for name, size in sizes.items()}
    training = arm.get("training", {})
    memory = work / "memory" if "vision" in training.get("frozen", ["vision"]) else None
    steps = told["steps"] - (told["probing"] if schedule["kind"] == "pyramid" else 0)
    return Config.model_validate(
        {
            **{"model": str(work / "start"), "output": output, "memory": memory, "seed": seed},
            **{"mixture": {"tasks": declared}, "schedule": schedule, "epochs": told["epochs"]},
            **{"max_steps": max(1, round(steps * part)), "learning_rate": told["rate"], "warmup_steps": told["warmup"]},
            **{"lora": None, "frozen": ["vision"], "precision": "fp32", "gradient_checkpointing": False},
            **{"workers": 0, "log_every": 1, "save_every": 100_000, "weight_decay": 0.01},
            **training,
        }
    )


def scored(model: Path, size: Size, work: Path) -> dict[str, float]:
    """Task of UVRB-Worlds → score; ties are broken in all ways at once."""
    embedder: Any = load(str(model))
    embedder.module.remember(work / "memory")  # each vision tower has its own part of it
    found = {}
    for task in tasks(size):
        data = task.data(work / "uvrb-worlds")
        scores = embedder.encode_query(data.queries) @ embedder.encode_candidate(data.corpus).T
        found[task.name] = round(expected(task.ranking, scores), 6)
    return found


def log(folder: Path) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in (folder / LOG).read_text("utf-8").splitlines())


def result(told: dict[str, Any], name: str, seed: int, work: Path, output: Path, part: float = 1.0) -> dict[str, Any]:
    """Trains and scores."""
    made = config(told, told["arms"][name], seed, work, output, part)
    shutil.rmtree(made.output, ignore_errors=True)
    began = time.process_time()
    model = run(made, work / "rows", lambda line: None)
    spent = time.process_time() - began
    rows = list(log(made.output))
    steps = [row for row in rows if row["event"] == "step"]
    probes = [row for row in rows if row["event"] == "probe"]
    return {
        **{"arm": name, "seed": seed, "part": part, "steps": steps[-1]["step"], "pairs": sum_of(steps)},
        "flops": {
            "training": steps[-1]["cost"]["flops"],
            "probing": sum(row["cost"]["flops"] for row in probes),
        },
        "seconds": {
            "training": round(steps[-1]["cost"]["seconds"], 1),
            "probing": round(sum(row["cost"]["seconds"] for row in probes), 1),
            "processor": round(spent, 1),
        },
        "plans": [row["draws"] for row in rows if row["event"] == "plan"],
        "alignment": [
            {task: {key: round(value, 4) for key, value in row.items()} for task, row in probe["alignment"].items()}
            for probe in probes
        ],
        "loss": [round(row["loss"], 4) for row in steps],
        "scores": scored(model, told["size"], work),
    }


def sum_of(steps: list[dict[str, Any]]) -> int:
    """Pairs shown."""
    return sum(task["rows"] for row in steps for task in row["tasks"].values())


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


def main() -> None:
    first = argparse.ArgumentParser(add_help=False)
    first.add_argument("--settings", type=Path, default=HERE / "ablation.toml")
    from report import settings

    told = settings(first.parse_known_args()[0].settings)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, parents=[first]
    )
    parser.add_argument("--work", type=Path, default=Path("runs/pyramid-ablation"))
    parser.add_argument("--results", type=Path, default=HERE / told["results"])
    parser.add_argument("--arms", nargs="+", choices=list(told["arms"]), default=list(told["arms"]))
    parser.add_argument("--seeds", nargs="+", type=int, default=told["seeds"])
    parser.add_argument("--parts", nargs="+", type=float, default=[1.0], help="shares of the data, of one pass each")
    asked = parser.parse_args()
    work = asked.work.resolve()
    start = prepared(told, work)
    untrained, weights = asked.results / "start.json", hashed(start)
    if not untrained.exists():
        scores = scored(start, told["size"], work)
        write_text(json.dumps({"arm": "start", "weights": weights, "scores": scores}, indent=1) + "\n", untrained)
    if (other := json.loads(untrained.read_text("utf-8"))["weights"]) != weights:
        parser.error(f"{asked.results} holds runs from the weights {other}, not {weights}: give other --results.")
    for part in asked.parts:
        for seed in asked.seeds:
            for name in asked.arms:
                path = asked.results / f"{name}-{seed}{'' if part == 1 else f'-{part:g}'}.json"
                if path.exists():
                    continue
                found = result(told, name, seed, work, work / path.stem, part)
                shutil.rmtree(work / path.stem)
                write_text(json.dumps(found, indent=1) + "\n", path)
                say(f"{path.stem}: {found['seconds']['processor']} s, mean {sum(found['scores'].values()) / 16:.3f}")


if __name__ == "__main__":
    main()
