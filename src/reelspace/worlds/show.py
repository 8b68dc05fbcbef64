"""Worlds for the eye: contact sheets, and GIFs with their captions."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from reelspace.worlds.render import frames
from reelspace.worlds.scene import Scene

_INK, _PAPER = (30, 30, 30), (255, 255, 255)
_LETTERS = 13
_EDGE = 112


def strip(scene: Scene, text: str, count: int = 8) -> Image.Image:
    """`count` frames of a scene side by side, first and last among them, above its caption."""
    drawn = frames(scene)
    chosen = np.round(np.linspace(0, len(drawn) - 1, count)).astype(int)
    lines = _wrapped(text, count * _EDGE)
    image = Image.new("RGB", (count * (_EDGE + 2), _EDGE + 6 + (_LETTERS + 4) * len(lines)), _PAPER)
    for column, number in enumerate(chosen):
        image.paste(_scaled(drawn[number]), (column * (_EDGE + 2), 0))
    _write(image, lines, _EDGE + 2)
    return image


def sheet(rows: Iterable[tuple[Scene, str]], count: int = 8) -> bytes:
    """A contact sheet, a strip a scene, as a PNG file."""
    strips = [strip(scene, text, count) for scene, text in rows]
    image = Image.new("RGB", (strips[0].width, sum(part.height for part in strips)), _PAPER)
    top = 0
    for part in strips:
        image.paste(part, (0, top))
        top += part.height
    return _saved(image.quantize(192, Image.Quantize.FASTOCTREE), "PNG", optimize=True)


def gif(scene: Scene, text: str, edge: int = 160) -> bytes:
    """The scene with its caption below, as a looping GIF file."""
    lines = _wrapped(text, edge)
    pictures = []
    for pixels in frames(scene):
        image = Image.new("RGB", (edge, edge + 6 + (_LETTERS + 4) * len(lines)), _PAPER)
        image.paste(_scaled(pixels, edge), (0, 0))
        _write(image, lines, edge + 2)
        pictures.append(image.quantize(96, Image.Quantize.FASTOCTREE))
    step = 1000 // scene.rate
    rest = {"save_all": True, "append_images": pictures[1:], "duration": [step] * (len(pictures) - 1) + [step + 600]}
    return _saved(pictures[0], "GIF", loop=0, **rest)


def _scaled(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], edge: int = _EDGE) -> Image.Image:
    return Image.fromarray(pixels).resize((edge, edge), Image.Resampling.BICUBIC)


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(12, int(width / (_LETTERS * 0.5))))


def _write(image: Image.Image, lines: Sequence[str], top: int) -> None:
    drawing, font = ImageDraw.Draw(image), ImageFont.load_default(_LETTERS)
    for number, line in enumerate(lines):
        drawing.text((2, top + number * (_LETTERS + 4)), line, fill=_INK, font=font)


def _saved(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()
