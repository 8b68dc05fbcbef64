"""Makes the talks of the worked example in docs/signals.md: slides and footage, with synthetic speech.

    python docs/talks/make.py

It needs what the tests need, and FFmpeg's encoders as PyAV brings them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.path.insert(0, str(ROOT / "src"))

from speech import RATE, at_times, speak  # noqa: E402
from talks import slide, write_talk  # noqa: E402

SIZE = (480, 270)
HERE = Path(__file__).parent

Picture = Callable[[float], NDArray[np.uint8]]


def footage(path: Path) -> Picture:
    """Time → the frame of a sample at that time, over and over."""
    import av

    with av.open(str(path)) as container:
        frames = [(frame.time or 0.0, frame) for frame in container.decode(video=0)]
        pictures = [
            (time, np.asarray(Image.fromarray(frame.to_ndarray(format="rgb24")).resize(SIZE)))
            for time, frame in frames[:: max(1, len(frames) // 40)]
        ]
    length = pictures[-1][0] + 0.1

    def at(time: float) -> NDArray[np.uint8]:
        return next(picture for start, picture in reversed(pictures) if start <= time % length + pictures[0][0])

    return at


def talk(
    name: str, seconds: float, shows: list[tuple[float, Picture]], says: list[tuple[float, str]], **more: str
) -> None:
    """One talk: what it shows from when on, and what is said when."""

    def picture(time: float) -> NDArray[np.uint8]:
        start, show = next((start, show) for start, show in reversed(shows) if start <= time)
        return show(time - start)

    sound = at_times([(start, speak(text)) for start, text in says], seconds)
    path = HERE / name
    write_talk(path, seconds, picture=picture, sound=sound, sound_rate=RATE, size=SIZE, fps=5, crf=36, metadata=more)
    print(f"{name}: {path.stat().st_size / 1000:.0f} kB")


def still(*lines: str) -> Picture:
    """A slide that stays."""
    picture = slide(*lines, size=SIZE)
    return lambda time: picture


if __name__ == "__main__":
    talk(
        "2026-03 quarterly review.mp4",
        24.0,
        [
            (0.0, still("Quarterly review", "Results and outlook")),
            (8.0, still("Pricing", "Students pay half", "No change for schools")),
            (16.0, still("Roadmap", "Offline maps in June")),
        ],
        [
            (0.5, "Welcome to the quarterly review. We had a very good winter."),
            (8.5, "Let us talk about what it costs. From April on students pay half."),
            (16.5, "And this summer you can read your maps without a network."),
        ],
        title="Quarterly review",
    )
    talk(
        "living with dogs.mp4",
        20.0,
        [
            (0.0, still("Living with dogs", "An evening at the library")),
            (7.0, footage(ROOT / "samples" / "samoyed.mp4")),
            (14.0, still("Feeding", "Two meals a day")),
        ],
        [
            (0.5, "Good evening. Tonight we talk about life with a large dog."),
            (7.5, "Their thick white fur must be brushed every week."),
            (14.5, "A grown dog eats twice a day, in the morning and in the evening."),
        ],
    )
    talk(
        "cities at night.mp4",
        16.0,
        [
            (0.0, footage(ROOT / "samples" / "towers-at-night.mkv")),
            (8.0, still("Street lighting", "What it costs a town")),
        ],
        [
            (0.5, "This is the view from our office when it is dark."),
            (8.5, "Every lamp uses as much power as ten families."),
        ],
    )
