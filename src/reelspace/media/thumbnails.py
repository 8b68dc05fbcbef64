"""Small JPEG pictures of frames, for lists of results."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray

from reelspace.item import Frames

EDGE = 180


def thumbnail(frames: Frames) -> bytes:
    """JPEG bytes of the middle one of the frames: first frames are often black."""
    return jpeg(frames.pixels[len(frames) // 2])


def jpeg(pixels: NDArray[np.uint8], edge: int = EDGE) -> bytes:
    """JPEG bytes of a picture uint8 `[H, W, 3]`, scaled so that its shorter side is `edge` pixels (never enlarged)."""
    import PIL.Image

    image = PIL.Image.fromarray(pixels)
    scale = min(1.0, edge / min(image.size))
    if scale < 1:
        width, height = (max(1, round(side * scale)) for side in image.size)
        image = image.resize((width, height), PIL.Image.Resampling.BICUBIC)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=85)
    return out.getvalue()
