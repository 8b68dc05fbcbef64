"""How fast worlds are made on one core: drawn at random, rendered, encoded, written; and what captions add.

    python benchmarks/worlds.py [--count 400]

There is no peer to compare with: the floor given is the time that H.264 encoding alone takes for the same frames.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from reelspace.worlds.captions import captions
from reelspace.worlds.film import cached, encode
from reelspace.worlds.render import frames
from reelspace.worlds.sample import generator, scenes


def main() -> None:
    """Prints the speeds, in CPU seconds of this process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400, help="clips")
    count = parser.parse_args().count
    start = time.process_time()
    drawn = list(islice(scenes(0), count))
    sampled = time.process_time()
    pixels = sum(scene.frames * scene.size**2 for scene in drawn) / 1e6
    total = sum(scene.frames for scene in drawn)
    print(f"{count} clips, {total} frames ({total / count:.0f} a clip), {pixels:.0f} million pixels, one process")
    print(f"sampling           {count / (sampled - start):8.0f} clips/s")
    with TemporaryDirectory() as folder:
        for label in ("made, cold", "made, warm"):
            begin = time.process_time()
            for scene in drawn:
                cached(scene, Path(folder) / label)
            spent = time.process_time() - begin
            print(f"{label:18} {count / spent:8.0f} clips/s {total / spent:8.0f} frames/s")
        begin = time.process_time()
        for scene in drawn:
            cached(scene, Path(folder) / label)
        print(f"from the cache     {count / (time.process_time() - begin):8.0f} clips/s")
    held = [frames(scene) for scene in drawn]
    begin = time.process_time()
    for scene, shown in zip(drawn, held, strict=True):
        encode(shown, size=scene.size, rate=scene.rate, quantiser=scene.quantiser)
    print(f"encoding alone     {count / (time.process_time() - begin):8.0f} clips/s")
    begin = time.process_time()
    for number, scene in enumerate(drawn):
        captions(scene, generator(number))
    print(f"all 11 captions    {count / (time.process_time() - begin):8.0f} clips/s")


if __name__ == "__main__":
    main()
