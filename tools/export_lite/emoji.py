"""Noto Color Emoji: about 1100 pictures named by the Unicode standard, offline."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from drawings import on_white
from fontTools.ttLib import TTFont
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

_SIZE = 109  # the only size the font's bitmaps come in
# Emoji whose names say nothing of what is seen.
_SKIP = ("squared", "sign", "symbol", "input", "mark", "arrow", "clock face", "circled", "button", "triangle", "circle")
_RANGES = [(0x2300, 0x1F1E5), (0x1F200, 0x1F3FA), (0x1F400, 0xDFFFF)]  # without flags and skin tones


def pictures(cache: Path) -> Iterator[tuple[NDArray[np.uint8], str]]:
    """Each emoji, on a white square, with its name."""
    path = cache / "fonts-noto-color-emoji/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf"
    font = ImageFont.truetype(path, _SIZE)
    for code in sorted(TTFont(path).getBestCmap()):
        name = unicodedata.name(chr(code), "").lower()
        if not name or any(word in name for word in _SKIP) or not any(a <= code <= b for a, b in _RANGES):
            continue
        canvas = Image.new("RGBA", (136, 128))
        ImageDraw.Draw(canvas).text((0, 0), chr(code), font=font, embedded_color=True)
        if box := canvas.getbbox():
            yield on_white(canvas.crop(box)), name
