"""How fast a mixed corpus is embedded: batches by tokens and length, beside batches of so many items as they come.

    pip install reelspace[torch]
    python benchmarks/encode.py                     # a random Qwen2.5-VL of a few million parameters; minutes
    python benchmarks/encode.py --model gve-3b      # on a graphics card

The corpus is what an archive and its queries are: short texts, long texts, pictures, and clips of 2 to 8 frames, in
random order; clips and pictures are read from files. Three ways of encoding the same items with the same model:

* *reelspace*: items are prepared ahead, sorted by length, batched by tokens (padding counted);
* *fixed*: the same code, batches of so many items in the order they come, prepared between batches;
* *sentence-transformers*: `SentenceTransformer.encode` of the same model, which sorts by a guess of the length.

Of the batches that `--sizes` names, the two others have the fastest that takes no more memory than reelspace did at its
peak (the smallest, if none does): speed is compared at equal memory. Each way, at each size, runs in a process of its
own. `--budgets` compares budgets. Processor time is told too: on a busy machine it says more than the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

WORDS = "a the red dog cat runs sleeps on in street night boat harbour waves man reads while rain falls"


def corpus(folder: Path, count: int, seed: int = 0) -> list[dict[str, str]]:
    """Writes the files, and lists the items: `{"text": …}`, `{"image": path}`, `{"video": path}`."""
    from PIL import Image

    from clips import Scene, write_clip

    random = np.random.default_rng(seed)
    items: list[dict[str, str]] = []
    for number in range(count):
        kind = random.choice(["short", "long", "image", "clip"], p=[0.4, 0.2, 0.2, 0.2])
        if kind in ("short", "long"):
            length = random.integers(3, 12) if kind == "short" else random.integers(80, 240)
            items.append({"text": " ".join(random.choice(WORDS.split(), length))})
        elif kind == "image":
            height, width = (int(side) for side in random.integers(60, 200, 2))
            path = folder / f"{number}.png"
            Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(path)
            items.append({"image": str(path)})
        else:
            path = folder / f"{number}.mp4"
            seconds = float(random.integers(1, 5))
            write_clip(path, scenes=[Scene(seconds, seed=number)], size=(160, 96), fps=10, barcode=False, gop=10)
            items.append({"video": str(path)})
    return items


def model_folder(folder: Path) -> Path:
    """A random Qwen2.5-VL with GVE's prompts, on small pictures."""
    import tinies

    about = {"image_pixels": [4 * 28**2, 32 * 28**2], "frame_pixels": [4 * 28**2, 16 * 28**2], "max_length": 2048}
    return tinies.write(folder, readout=tinies.READOUT | about | {"frames": "fps(2, max=8)"}, layers=6, width=256)


def run(way: str, model: str, budget: int, items: Sequence[dict[str, str]]) -> dict[str, float]:
    """Seconds and bytes of one way; a warm-up is not counted."""
    import torch

    from reelspace import Item, load

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    embedder = load(model, **({"budget": budget} if way == "reelspace" and budget else {}))
    given = [Item(**item) for item in items]
    inputs = [item.get("text") or Item(**item) for item in items]
    module = embedder.module

    def fixed() -> None:
        with torch.inference_mode():
            for start in range(0, len(given), budget):
                part = [module.preparer(item, "candidate") for item in given[start : start + budget]]
                features = module.collate(part)
                module.states({name: x.to(embedder.device) for name, x in features.items()}, [module.tap])

    encode: Callable[[], object] = {
        "reelspace": lambda: embedder.encode_candidate(given),
        "fixed": fixed,
        "sentence-transformers": lambda: embedder.model.encode_document(
            inputs, batch_size=budget, show_progress_bar=False
        ),
    }[way]
    embedder.encode_candidate(given[:4])
    before = peak(embedder.device, reset=True)
    waiting, worked, began = embedder.tally.waiting, time.process_time(), time.perf_counter()
    encode()
    seconds = time.perf_counter() - began
    found = {"seconds": seconds, "processor": time.process_time() - worked, "memory": peak(embedder.device) - before}
    if way == "reelspace":
        found["waiting"] = (embedder.tally.waiting - waiting) / seconds
        found["padding"] = embedder.tally.padding / (embedder.tally.padding + embedder.tally.tokens)
    return found


def peak(device: str, reset: bool = False) -> int:
    if device.startswith("cuda"):
        import torch

        if reset:
            torch.cuda.reset_peak_memory_stats()
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def apart(way: str, model: str, budget: int, items: Path) -> dict[str, float]:
    """`run` in a process of its own: memory is never given back."""
    order = [sys.executable, __file__, "--run", way, "--model", model, "--budget", str(budget), "--items", str(items)]
    done = subprocess.run(order, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def best(way: str, model: str, items: Path, memory: float, sizes: Sequence[int]) -> tuple[int, dict[str, float]]:
    """The fastest batch of so many items that takes no more memory; the smallest, if all take more."""
    tried: dict[int, dict[str, float]] = {}
    for size in sizes:
        tried[size] = apart(way, model, size, items)
        if tried[size]["memory"] > memory:
            break
    fitting = {size: row for size, row in tried.items() if row["memory"] <= memory} or {sizes[0]: tried[sizes[0]]}
    size = min(fitting, key=lambda size: fitting[size]["processor"])
    return size, fitting[size]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--count", type=int, default=400)
    arguments.add_argument("--model", default="", help="left out: a random one")
    arguments.add_argument("--budgets", default="", help="token budgets to compare, such as 256,512,2048,8192")
    arguments.add_argument("--sizes", default="1,2,4,8,16,32", help="of the others' batches, ascending")
    arguments.add_argument("--run", help=argparse.SUPPRESS)
    arguments.add_argument("--budget", type=int, default=0, help=argparse.SUPPRESS)
    arguments.add_argument("--items", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.run:
        print(json.dumps(run(given.run, given.model, given.budget, json.loads(Path(given.items).read_text()))))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = given.model or str(model_folder(folder / "model"))
        listed = folder / "items.json"
        listed.write_text(json.dumps(corpus(folder, given.count)))
        for budget in map(int, filter(None, given.budgets.split(","))):
            report(f"reelspace, {budget} tokens", apart("reelspace", model, budget, listed))
        ours = apart("reelspace", model, 0, listed)
        report("reelspace", ours)
        for way in ("fixed", "sentence-transformers"):
            size, row = best(way, model, listed, ours["memory"], [int(size) for size in given.sizes.split(",")])
            report(f"{way}, {size} items", row, ours)


def report(what: str, row: dict[str, float], ours: dict[str, float] | None = None) -> None:
    extra = f"; waiting {row['waiting']:.0%}, padding {row['padding']:.0%}" if "waiting" in row else ""
    if ours:
        faster, less = (row[key] / ours[key] for key in ("seconds", "processor"))
        extra = f"; reelspace is {faster:.2f} times as fast, by processor time {less:.2f}"
    print(
        f"{what:32} {row['seconds']:7.1f} s, processor {row['processor']:7.1f} s, {row['memory'] / 1e6:6.0f} MB{extra}",
        flush=True,
    )


if __name__ == "__main__":
    main()
