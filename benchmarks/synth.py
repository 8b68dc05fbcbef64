"""Speed of synthesis: stage by stage on one core, one process against two, and the floor: decoding alone.

    python benchmarks/synth.py [--count 120]

Worlds with an oracle as the model, which costs nothing: what is left is our own work. The floor is PyAV decoding every
frame of the same files in one thread, which no filter that looks at videos can do without (`look` and `embed` decode
what they sample).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import defaultdict
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")


def decoded(videos: list[Path]) -> None:
    """Decodes all of them."""
    import av

    for path in videos:
        with av.open(str(path)) as container:
            container.streams.video[0].thread_type = "NONE"
            for frame in container.decode(video=0):
                frame.to_ndarray(format="rgb24")


def used() -> float:
    """Processor time so far, of this process and of those that it has waited for, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--shards", type=int, default=8)
    asked = parser.parse_args()

    from reelspace.synth.config import Config
    from reelspace.synth.run import run

    config = Config.model_validate(
        {
            "shards": asked.shards,
            "source": {"kind": "worlds", "count": asked.count},
            "mllm": {"kind": "oracle"},
            "filter": {"consistency": -1.0},
            "enrich": {"consistency": -1.0, "long": 20},
        }
    )
    seconds: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for processes in (1, 2):
            out = Path(folder) / str(processes)
            begun, before = time.perf_counter(), used()
            job = run(config, out, processes)
            seconds[processes], work = time.perf_counter() - begun, used() - before
            steps: dict[str, float] = defaultdict(float)
            for line in (job.run / "log.jsonl").read_text().splitlines():
                record = json.loads(line)
                steps[record["step"]] += record["seconds"]
            each = f"{work:.1f} s of processor time, {60 * asked.count / work:.0f} videos a minute and core"
            print(f"processes: {processes}: {seconds[processes]:.1f} s for {asked.count} videos; {each}")
            for step, took in steps.items():
                print(f"  {step:8} {took:6.1f} s of work, {asked.count / took:8.1f} videos/s")
        before = used()
        decoded(sorted((Path(folder) / "1" / "videos").glob("*.mp4")))
        floor = used() - before
    print(f"decoding alone (PyAV, one thread): {floor:.2f} s of processor time, {asked.count / floor:.0f} videos/s")
    print(f"two processes against one: ×{seconds[1] / seconds[2]:.2f} of at most {min(2, os.cpu_count() or 1)}")


if __name__ == "__main__":
    main()
