"""Clips for the benchmarks, made once and kept in `.cache/benchmarks`: 1080p H.264 with a barcode on every frame."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from clips import Picture, Scene, write_clip  # noqa: E402

FOLDER = Path(os.environ.get("REELSPACE_BENCHMARKS") or ROOT / ".cache" / "benchmarks")
SIZE = (1920, 1080)
SHOT = 6  # seconds
# As people encode for the web: three B-frames, key frames at cuts and up to 250 frames apart.
WEB = {"preset": "veryfast", "crf": "23", "sc_threshold": "40", "keyint_min": "25"}


def easy(seconds: int = 60) -> Path:
    """Plain textures that move slowly: half a megabit a second, as a talk or a screen recording."""
    scenes = [Scene(SHOT, seed=number, pan=0.05) for number in range(-(-seconds // SHOT))]
    return _made(f"easy-{seconds}.mp4", seconds, lambda number, time: _scene(scenes, time).copy())


def busy(seconds: int = 60) -> Path:
    """Grain over fast pans: some twenty megabits a second, as a camera outdoors."""
    scenes = [Scene(SHOT, seed=100 + number, pan=0.3) for number in range(-(-seconds // SHOT))]
    grain = np.random.default_rng(0).normal(0, 9, (SIZE[1] + 64, SIZE[0] + 64, 1)).astype(np.int16)
    places = np.random.default_rng(1).integers(0, 64, (seconds * 30, 2))

    def draw(number: int, time: float) -> Picture:
        y, x = places[number]
        picture = _scene(scenes, time) + grain[y : y + SIZE[1], x : x + SIZE[0]]
        return np.clip(picture, 0, 255).astype(np.uint8)

    return _made(f"busy-{seconds}.mp4", seconds, draw)


def _scene(scenes: list[Scene], time: float) -> Picture:
    return scenes[int(time // SHOT)].draw(time % SHOT, *SIZE)


def _made(name: str, seconds: int, draw) -> Path:  # noqa: ANN001
    path = FOLDER / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        print(f"making {name} …", file=sys.stderr)
        unfinished = path.with_name(f"unfinished-{name}")
        write_clip(unfinished, seconds=seconds, size=SIZE, draw=draw, gop=250, bframes=3, options=WEB)
        unfinished.rename(path)
    return path
