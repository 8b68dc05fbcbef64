"""Training: GradCache against direct at growing batch, micro-batches by tokens against fixed, waiting for data.

    python benchmarks/train.py [--batches 8 16 32 64] [--steps 5]

Each arm is a process of its own, so that its peak memory is its own. The model is a small random Qwen2.5-VL.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))


def arm(batch: int, tokens: int | None, size: int | None, steps: int) -> dict[str, float]:
    """Processor seconds a step and peak memory in MB of texts of 8 to 256 words."""
    import torch

    from reelspace.embed.qwen_vl.module import QwenVL, composed
    from reelspace.embed.qwen_vl.readout import Readout
    from reelspace.item import Item
    from reelspace.train.losses import InfoNCE, make_loss
    from tinies import backbone, tokenizer

    readout = Readout.of({"template": "{instruction} {user}<|endoftext|>", "max_length": 512})
    model = composed(QwenVL(backbone(layers=6), tokenizer(), readout))
    model.train()
    loss = make_loss(model, InfoNCE(), tokens)
    if size is not None:
        loss.mini_batch_size, loss.mini_batch_num_tokens = size, None
    dice = torch.Generator().manual_seed(0)
    lengths = [8 * 2 ** int(torch.randint(6, (), generator=dice)) for _ in range(batch)]
    texts = [
        " ".join(["dog", "cat", "runs", "sleeps"][k % 4] for k in range(n)) + f" {i}" for i, n in enumerate(lengths)
    ]
    keys = torch.arange(2 * batch).reshape(batch, 2)
    seconds = []
    for _ in range(steps + 1):
        columns = [model.preprocess([Item(text) for text in texts]) for _ in range(2)]
        began = time.process_time()
        loss(columns, keys).backward()
        seconds.append(time.process_time() - began)
        model.zero_grad()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": sorted(seconds[1:])[steps // 2], "peak": peak}


def measured(**options: Any) -> dict[str, float]:
    """An arm in a process of its own, forked from one that has imported everything and done nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "sentence_transformers", "reelspace.embed.qwen_vl.module", "tinies"])
    with context.Pool(1, maxtasksperchild=1) as pool:
        return pool.apply(arm, kwds=options)


def waiting(steps: int) -> float:
    """Share of a run's time that it waits for frames: clips of worlds, one worker."""
    from reelspace.train.config import Config
    from reelspace.train.trainer import run
    from reelspace.train.worlds import write
    from tinies import write as model

    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        write(base, "text to video", 64, seed=0)
        tasks = [{"name": "text to video", "source": "text-to-video.jsonl", "batch_size": 16}]
        plain = {"precision": "fp32", "gradient_checkpointing": False, "lora": None, "schedule": {"kind": "uniform"}}
        config = {
            "model": str(model(base / "m")),
            "output": "out",
            "mixture": {"tasks": tasks},
            "max_steps": steps,
            **plain,
        }
        run(Config.model_validate(config), base, lambda line: None)
        rows = [json.loads(line) for line in (base / "out" / "log.jsonl").read_text().splitlines()]
        return [row for row in rows if row["event"] == "step"][-1]["waiting_for_data"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--steps", type=int, default=5)
    asked = parser.parse_args()
    print(f"{'batch':>5}  {'direct':>17}  {'pieces, 2048 tokens':>26}  {'pieces of 8 texts':>26}")
    empty = measured(batch=2, tokens=None, size=None, steps=1)["peak"]
    for batch in asked.batches:
        whole = measured(batch=batch, tokens=None, size=None, steps=asked.steps)
        cells = [f"{whole['seconds']:6.2f} s {whole['peak'] - empty:5.0f} MB"]
        for options in ({"tokens": 2048, "size": None}, {"tokens": 2048, "size": 8}):
            found = measured(batch=batch, steps=asked.steps, **options)
            ratio = found["seconds"] / whole["seconds"], (found["peak"] - empty) / max(whole["peak"] - empty, 1)
            cells.append(f"{ratio[0]:5.2f}× time {ratio[1]:5.2f}× memory")
        print(
            f"{batch:>5}  " + "  ".join(f"{cell:>26}" if n else f"{cell:>17}" for n, cell in enumerate(cells)),
            flush=True,
        )
    print(f"waiting for frames: {waiting(asked.steps * 2):.0%} of the time, one worker")


if __name__ == "__main__":
    main()
