"""Open Clip Art (public domain, about 2700 drawings used): pictures with titles and keywords, offline."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from drawings import on_white
from numpy.typing import NDArray
from PIL import Image

# Folders whose pictures show no thing: signs, icons, patterns.
_SKIP = {
    "cards", "computer", "flags", "flowchart", "icons", "jigsaw", "patterns", "shapes", "signs_and_symbols", "special",
}  # fmt: skip
_SIDE = 512  # drawings reach 25,000 pixels; the network sees 224


def pictures(cache: Path) -> Iterator[tuple[NDArray[np.uint8], str]]:
    """Each drawing, on a white square, with its text: “title, keyword, keyword, folder”."""
    drawings = cache / "openclipart-png/usr/share/openclipart/png"
    sources = cache / "openclipart-svg/usr/share/openclipart/svg"
    for path in sorted(drawings.rglob("*.png")):
        place = path.relative_to(drawings)
        source = (sources / place).with_suffix(".svg")
        if not _SKIP & set(place.parts) and source.exists():
            drawing = _open(path)
            if drawing is not None:
                yield on_white(drawing), _text(source.read_text(encoding="utf-8", errors="replace"), place)


def _open(path: Path) -> Image.Image | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            drawing = Image.open(path).convert("RGBA")
        except Image.DecompressionBombError:
            return None
    drawing.thumbnail((_SIDE, _SIDE))
    return drawing


def _text(svg: str, place: Path) -> str:
    title = re.search(r"<dc:title>([^<]*)</dc:title>", svg)
    words = [title[1] if title else "", *re.findall(r"<rdf:li>([^<]*)</rdf:li>", svg), *place.parts[:-1]]
    kept = [word.strip().replace("_", " ") for word in words if "Nicu" not in word and word.strip() not in ("", "hash")]
    return ", ".join(dict.fromkeys(kept))
