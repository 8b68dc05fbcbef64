"""What it costs to look through an hour of video for each signal, beside decoding every frame of it once.

    python benchmarks/signals/cost.py FOOTAGE [--cores N] [--files N]

FOOTAGE is what `benchmarks/footage/gather.py` has fetched. Files in which somebody speaks nearly all the time (a
talk, a film scene, two introductions, a lecture) and files with hardly a word (views, a tree, an airport, a cartoon,
a campus) are told apart: what `speech` costs hangs on how much is spoken, what `ocr` costs on how much changes. Each
set is indexed in a library of its own, then looked through for one signal after another, processor time of all
processes counted: five minutes and three and a half, in about three of one core. `--files 4` is a minute and a half
of each; loading the models weighs more there.

The limit is what looking at all of a video costs at least: every frame of the same files decoded once, by one thread.
On a machine that does something else at the time only processor time tells anything. `USUAL_COST` in
`reelspace.signals.base` is about what it said.
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
from pathlib import Path

import av

from reelspace import Library

SETS = {
    "spoken": ("talk.mp4", "megamind.avi", "office-man.mp4", "office-man-2.mp4", "lecture.webm"),
    "hardly": ("night-earth.mp4", "tree.avi", "terminal-video.mp4", "towers.mpg", "minions.mp4", "campus.avi"),
}
SIGNALS = ("names", "ocr", "speech")


def processor() -> float:
    """Seconds of processor time of this process and of those that it has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def decoded(files: list[Path]) -> float:
    """Processor seconds of decoding every frame once."""
    begun = processor()
    for path in files:
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            stream.thread_count = 1
            for _ in container.decode(stream):
                pass
    return processor() - begun


def measure(folder: Path) -> None:
    """One set, in a process of its own: a line of JSON for each thing that was done."""
    with tempfile.TemporaryDirectory() as library:
        with Library.open(library) as opened:
            opened.index(folder)
            seconds = opened.status().seconds
        spent = {"what": "decode", "seconds": seconds, "processor": decoded(sorted(folder.iterdir())), "wall": None}
        print(json.dumps(spent), flush=True)
        for number, signal in enumerate(SIGNALS, start=1):
            begun, used = time.monotonic(), processor()
            with Library.open(library) as opened:  # closed again: only workers that have ended are counted
                opened.index(folder, signals=",".join(SIGNALS[:number]))
            wall = time.monotonic() - begun
            spent = {"what": signal, "seconds": seconds, "processor": processor() - used, "wall": wall}
            print(json.dumps(spent), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("footage", type=Path, metavar="FOOTAGE")
    parser.add_argument("--cores", type=int, help="only so many")
    parser.add_argument("--files", type=int, help="only the first N files of a set")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
    if arguments.measure:
        measure(arguments.footage)
        return
    print(f"{len(os.sched_getaffinity(0))} cores; minutes an hour of video")
    for title, names in SETS.items():
        with tempfile.TemporaryDirectory() as folder:
            for name in names[: arguments.files]:
                (Path(folder) / name).symlink_to((arguments.footage / "clips" / name).resolve())
            command = [sys.executable, __file__, folder, "--measure"]
            told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        lines = [json.loads(line) for line in told.splitlines()]
        for line in lines:
            minutes = 60 / line["seconds"]
            clock = f"{line['wall'] * minutes:>8.2f} on the clock" if line["wall"] is not None else ""
            ratio = line["processor"] / lines[0]["processor"]
            used = f"{line['processor'] * minutes:>8.2f} of a processor ({ratio:6.2f} × decoding)"
            print(f"{title:<11}{line['seconds']:>5.0f} s  {line['what']:<8}{used}{clock}", flush=True)


if __name__ == "__main__":
    main()
