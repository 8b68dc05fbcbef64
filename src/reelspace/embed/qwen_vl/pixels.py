"""Frames → what a Qwen2/2.5-VL vision tower takes: resized, normalised, cut into patches.

Equal to the bit to what transformers' `Qwen2VLImageProcessorPil` makes of the same pictures; its video processor needs
torchvision, this does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import ReelspaceError

CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
MOST_SLENDER = 200
"""Ratio of a picture's sides beyond which it is refused, as the models' own processors do."""


@dataclass(frozen=True)
class Patches:
    """How a vision tower cuts its input.

    Attributes:
        patch: edge of a patch in pixels.
        temporal: frames a patch is deep; a single picture is repeated.
        merge: patches along an edge that become one visual token.
    """

    patch: int = 14
    temporal: int = 2
    merge: int = 2

    @property
    def factor(self) -> int:
        """Pixels along an edge of what one visual token sees."""
        return self.patch * self.merge


def smart_resize(height: int, width: int, factor: int, least: int, most: int) -> tuple[int, int]:
    """Height and width, multiples of `factor`, about the same shape, with between `least` and `most` pixels.

    Raises:
        ReelspaceError: one side is more than 200 times the other.
    """
    if max(height, width) / min(height, width) > MOST_SLENDER:
        raise ReelspaceError(f"A picture of {width} × {height} pixels is too slender for this model; crop it first.")
    rows, columns = round(height / factor) * factor, round(width / factor) * factor
    if rows * columns > most:
        shrink = math.sqrt(height * width / most)
        rows = max(factor, math.floor(height / shrink / factor) * factor)
        columns = max(factor, math.floor(width / shrink / factor) * factor)
    elif rows * columns < least:
        grow = math.sqrt(least / (height * width))
        rows, columns = math.ceil(height * grow / factor) * factor, math.ceil(width * grow / factor) * factor
    return rows, columns


def resized(frames: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Frames uint8 `[T, H, W, 3]` → uint8 `[T, height, width, 3]`, bicubic with antialiasing as Pillow does it."""
    from PIL import Image

    if frames.shape[1:3] == (height, width):
        return frames
    images = (Image.fromarray(frame).resize((width, height), Image.Resampling.BICUBIC) for frame in frames)
    return np.stack([np.asarray(image) for image in images])


def normalised(
    frames: NDArray[np.uint8], mean: tuple[float, ...] = CLIP_MEAN, std: tuple[float, ...] = CLIP_STD
) -> NDArray[np.float32]:
    """Frames uint8 `[T, H, W, 3]` → float32 `[T, 3, H, W]`."""
    # Rescaled in float64, then cast: any other order differs from transformers in the last bit.
    scaled = (frames.astype(np.float64) * (1 / 255)).astype(np.float32)
    done = (scaled - np.asarray(mean, dtype=np.float32)) / np.asarray(std, dtype=np.float32)
    return np.ascontiguousarray(done.transpose(0, 3, 1, 2))


def patchified(pixels: NDArray[np.float32], cut: Patches) -> tuple[NDArray[np.float32], tuple[int, int, int]]:
    """Normalised frames float32 `[T, 3, H, W]` → rows float32 `[t·h·w, 3·temporal·patch²]` and their grid `(t, h, w)`.

    H and W are multiples of `cut.factor`; where T is no multiple of `cut.temporal` the last frame is repeated. The
    `merge`² patches of one visual token stand beside each other.
    """
    missing = -len(pixels) % cut.temporal
    if missing:
        pixels = np.concatenate([pixels, np.repeat(pixels[-1:], missing, axis=0)])
    t, h, w = len(pixels) // cut.temporal, pixels.shape[2] // cut.patch, pixels.shape[3] // cut.patch
    merge = cut.merge
    shape = (t, cut.temporal, 3, h // merge, merge, cut.patch, w // merge, merge, cut.patch)
    rows = pixels.reshape(shape).transpose(0, 3, 6, 4, 7, 2, 1, 5, 8)
    return np.ascontiguousarray(rows.reshape(t * h * w, -1)), (t, h, w)
