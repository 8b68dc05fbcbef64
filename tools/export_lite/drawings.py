"""Drawings with transparent ground, as the network should see them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def on_white(drawing: Image.Image) -> NDArray[np.uint8]:
    """The drawing in the middle of a white square, uint8 `[S, S, 3]`."""
    side = max(drawing.size)
    square = Image.new("RGBA", (side, side), "white")
    square.alpha_composite(drawing.convert("RGBA"), ((side - drawing.width) // 2, (side - drawing.height) // 2))
    return np.asarray(square.convert("RGB"))
