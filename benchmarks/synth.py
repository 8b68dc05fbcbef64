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


def decoded(videos: list[Path]) -> float:
    """Seconds to decode all of them."""
    import av

    begun = time.perf_counter()
    for path in videos:
        with av.open(str(path)) as container:
            container.streams.video[0].thread_type = "NONE"
            for frame in container.decode(video=0):
                frame.to_ndarray(format="rgb24")
    return time.perf_counter() - begun


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
            begun = time.perf_counter()
            job = run(config, out, processes)
            seconds[processes] = time.perf_counter() - begun
            steps: dict[str, float] = defaultdict(float)
            for line in (job.run / "log.jsonl").read_text().splitlines():
                record = json.loads(line)
                steps[record["step"]] += record["seconds"]
            print(f"processes: {processes}: {seconds[processes]:.1f} s for {asked.count} videos")
            for step, took in steps.items():
                print(f"  {step:8} {took:6.1f} s of work, {asked.count / took:8.1f} videos/s")
        floor = decoded(sorted((Path(folder) / "1" / "videos").glob("*.mp4")))
    print(f"decoding alone (PyAV, one thread): {floor:.1f} s, {asked.count / floor:.0f} videos/s")
    print(f"two processes against one: ×{seconds[1] / seconds[2]:.2f} of at most {min(2, os.cpu_count() or 1)}")


if __name__ == "__main__":
    main()
