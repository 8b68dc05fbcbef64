"""Item: what can be embedded — a text, an image, a video span, or a mix. The one currency of the project."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import ItemError

if TYPE_CHECKING:
    from PIL.Image import Image

QueryFormat = Literal["TXT", "VIS", "CMP"]

_SPAN = re.compile(r"^(?P<path>.+)@(?P<start>[\d:.]*)-(?P<end>[\d:.]*)$", re.DOTALL)


def parse_seconds(text: str) -> float:
    """Seconds from `12`, `12.5`, `1:02.5` or `1:01:02.5`.

    Raises:
        ItemError: it is none of these.
    """
    parts = text.split(":")
    whole, last = parts[:-1], parts[-1]
    if len(parts) > 3 or not all(part.isdecimal() for part in whole) or not re.fullmatch(r"\d+(\.\d*)?|\.\d+", last):
        raise ItemError(f"“{text}” is not a time: write seconds (12.5) or h:mm:ss (1:02.5).")
    seconds = 0.0
    for part in parts:
        seconds = seconds * 60 + float(part)
    return seconds


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one video file, `[start, end)` in seconds from its first displayed frame.

    `end=None` means the end of the video.
    """

    path: Path
    start: float = 0.0
    end: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        start, end = self.start, self.end
        if not math.isfinite(start) or start < 0 or (end is not None and not start < end < math.inf):
            raise ItemError(
                f"{self.path}: the span {start}–{end} is empty or not a time; "
                "give a start ≥ 0 and an end after it, in seconds."
            )

    @classmethod
    def parse(cls, text: str | os.PathLike[str]) -> Span:
        """A span from `FILE` or `FILE@START-END` (either time may be left out).

        A file whose whole name looks like a span is that file. Times as in `parse_seconds`.

        Raises:
            ItemError: the times cannot be read, or the end is not after the start.
        """
        name = os.fspath(text)
        match = _SPAN.match(name)
        if match is None or match["start"] == match["end"] == "" or os.path.lexists(name):
            return cls(Path(name))
        start = parse_seconds(match["start"]) if match["start"] else 0.0
        end = parse_seconds(match["end"]) if match["end"] else None
        return cls(Path(match["path"]), start, end)

    def __str__(self) -> str:
        if self.start == 0 and self.end is None:
            return str(self.path)
        return f"{self.path}@{self.start:g}-{'' if self.end is None else f'{self.end:g}'}"


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """Decoded frames of one stretch of video.

    Attributes:
        pixels: uint8 `[T, H, W, 3]`, RGB, upright.
        times: float64 `[T]`, seconds, not decreasing: when each frame is first shown.
        start, end: the stretch `[start, end)` the frames stand for, in seconds. Left out, it is from the first
            frame to one frame length (the median step; 0.04 s for a single frame) after the last.
    """

    pixels: NDArray[np.uint8]
    times: NDArray[np.float64]
    start: float = math.nan
    end: float = math.nan

    def __post_init__(self) -> None:
        times = np.asarray(self.times, dtype=np.float64)
        object.__setattr__(self, "times", times)
        pixels = self.pixels
        if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim != 4:
            raise ItemError("Frames.pixels must be a uint8 array [T, H, W, 3].")
        if pixels.shape[3] != 3 or 0 in pixels.shape:
            raise ItemError(f"Frames.pixels must be [T, H, W, 3] with no empty side, not {list(pixels.shape)}.")
        if times.shape != (len(pixels),) or not np.isfinite(times).all() or (np.diff(times) < 0).any():
            raise ItemError(f"Frames.times must be {len(pixels)} finite seconds that never run backwards.")
        if math.isnan(self.start):
            object.__setattr__(self, "start", float(times[0]))
        if math.isnan(self.end):
            steps = np.diff(times)
            step = float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.04
            object.__setattr__(self, "end", float(times[-1]) + step)
        if not self.start < self.end:
            raise ItemError(f"Frames stand for an empty stretch: {self.start}–{self.end} s.")

    def __len__(self) -> int:
        return len(self.pixels)


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """What can be embedded: at least one of text, image and video.

    Parts have one canonical order — video, image, text — whatever the order they are given in. An instruction
    is no part of an item; it belongs to the call that embeds it.

    Attributes:
        text: any non-blank text.
        image: a path, a PIL image, or uint8 `[H, W, 3]` RGB.
        video: a `Span` or `Frames`. A path is taken as the span of the whole file, a string also as
            `FILE@START-END`.

    Raises:
        ItemError: no part was given, or a part has the wrong type or shape.
    """

    text: str | None = None
    image: Path | Image | NDArray[np.uint8] | None = None
    video: Span | Frames | None = None

    def __init__(
        self,
        text: str | None = None,
        image: str | os.PathLike[str] | Image | NDArray[np.uint8] | None = None,
        video: str | os.PathLike[str] | Span | Frames | None = None,
    ) -> None:
        object.__setattr__(self, "text", _text(text))
        object.__setattr__(self, "image", _image(image))
        object.__setattr__(self, "video", _video(video))
        if not self.parts:
            raise ItemError("An Item needs at least one part: text, image or video.")

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts present, in canonical order."""
        return tuple(name for name in ("video", "image", "text") if getattr(self, name) is not None)

    @property
    def modality(self) -> str:
        """The parts joined in canonical order: `text`, `image`, `video`, `image+text`, `video+text`, …"""
        return "+".join(self.parts)

    @property
    def format(self) -> QueryFormat:
        """The query format of the benchmark: TXT, VIS or CMP (GVE §2)."""
        if self.parts == ("text",):
            return "TXT"
        return "CMP" if self.text is not None else "VIS"

    def __repr__(self) -> str:
        shown = (f"{part}={_describe(getattr(self, part))}" for part in reversed(self.parts))
        return f"Item({', '.join(shown)})"


def _text(text: object) -> str | None:
    if text is None:
        return None
    if not isinstance(text, str):
        raise ItemError(f"Item.text must be a string, not {type(text).__name__}.")
    if not text.strip():
        raise ItemError("The text is blank; leave it out instead.")
    return text


def _image(image: object) -> object:
    if image is None:
        return None
    if isinstance(image, str | os.PathLike):
        return Path(image)
    if isinstance(image, np.ndarray):
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
            raise ItemError(f"Item.image must be uint8 [H, W, 3], not {image.dtype} {list(image.shape)}.")
        return image
    if hasattr(image, "convert") and hasattr(image, "size"):  # a PIL image, without importing PIL here
        return image
    raise ItemError(f"Item.image must be a path, a PIL image or a uint8 array, not {type(image).__name__}.")


def _video(video: object) -> Span | Frames | None:
    if video is None or isinstance(video, Span | Frames):
        return video
    if isinstance(video, str):
        return Span.parse(video)
    if isinstance(video, os.PathLike):
        return Span(Path(video))
    raise ItemError(f"Item.video must be a path, a Span or Frames, not {type(video).__name__}.")


def _describe(part: object) -> str:
    if isinstance(part, Frames):
        return f"<{len(part)} frames {part.start:g}–{part.end:g} s>"
    if isinstance(part, np.ndarray):
        return f"<{part.shape[1]}×{part.shape[0]} image>"
    return repr(str(part)) if isinstance(part, str | Path | Span) else f"<{type(part).__name__}>"
