"""What is written in the picture: slides, signs, captions, read by RapidOCR's packaged models (PP-OCR on ONNX Runtime).

One frame of every window is read, and further ones where the text changes within it. Frames are decoded in a worker
that may be killed; what comes here are pixels.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import MediaError
from reelspace.media.policy import Centres, Sampling
from reelspace.media.reader import Closed, Failed, Reader, ScanJob, WindowRead
from reelspace.media.windows import Window
from reelspace.signals.base import Found, Line, Mark, Part, Passage, Report, installed

VERSION = "2"
SOURCE = "PP-OCRv6"
EDGE = 720  # pixels of the shorter side that frames are read at
DETECTED = 960  # pixels of the longer side that text is looked for at; it is then read at full size
STEP = 2.0  # seconds between the frames looked at,
MOST = 30  # but no more frames of one window: a long one is a picture that stands still
LEAST, SURE = 0.6, 0.8  # confidence of a line that is kept, and of one that is not marked
SAME = 0.7  # of the words two frames share from which on they show the same text
CELLS = (18, 32)  # rows, columns of the grid on which changes are noticed
CHANGE = 0.25  # of a cell's detail, from which on it has changed
STILL = 0.5  # of the cells of a text may change while a picture moves behind it
FEW, MANY = 0.01, 0.3  # of the cells: what changes in fewer is noise, in more the picture moves

Pixels = NDArray[np.uint8]
Detail = NDArray[np.float32]


class _Look(NamedTuple):
    """The text of one frame: lines with the boxes of their words."""

    lines: list[Line]

    @property
    def words(self) -> frozenset[str]:
        return frozenset(re.findall(r"\w+", " ".join(line.text for line in self.lines).casefold()))


class Ocr:
    """Finds what is written."""

    def __init__(self) -> None:
        """Looks for what it needs.

        Raises:
            SignalError: it is not installed.
        """
        installed("rapidocr", "ocr")
        self._engine: Any = None

    def version(self, path: Path) -> str:
        return f"{VERSION}; {SOURCE}"

    def prefers(self, path: Path) -> bool:
        return False

    def find(self, path: Path, duration: float, windows: Sequence[Window], reader: Reader, report: Report) -> Found:
        shown: list[tuple[Window, _Look]] = []
        note = None
        pieces = list(_pieces(windows or [Window(0.0, duration)]))
        begins = {window.start for window in windows}
        job = ScanJob(path, pieces, Sampling(Centres(1), edge=EDGE))
        last: _Look | None = None
        detail: Detail | None = None
        for event in reader.scan([job]):
            match event:
                case WindowRead():
                    piece, now = Window(event.start, event.end), detail_of(event.frames.pixels[0])
                    if last is None or detail is None or _to_be_read(last, detail, now, piece.start in begins):
                        last, detail = self.read(event.frames.pixels[0], piece), now
                    _show(shown, piece, last)
                    report(event.end / duration)
                case Closed():
                    note = event.partial
                case Failed():
                    raise MediaError(event.reason)
        lines = [line for _, look in shown for line in look.lines]
        passages = [_passage(window, look) for window, look in shown if look.lines]
        return Found(lines, passages, None, note)

    def read(self, pixels: Pixels, piece: Window) -> _Look:
        """The text of a picture `[H, W, 3]` that is shown during `piece`."""
        found = self._model(np.ascontiguousarray(pixels[:, :, ::-1]), return_word_box=True)
        if found.txts is None:
            return _Look([])
        height, width = pixels.shape[:2]
        lines = []
        for text, score, words in zip(found.txts, found.scores, found.word_results, strict=True):
            confidence = round(float(score), 3)
            if confidence < LEAST or not re.search(r"\w", text):
                continue
            parts = tuple(
                Part(str(word), None, None, _box(box, width, height), round(float(sure), 3))
                for word, sure, box in words
                if box is not None
            )
            mark: Mark | None = None if confidence >= SURE else "unsure"
            lines.append(Line(piece.start, piece.end, " ".join(text.split()), SOURCE, None, confidence, mark, parts))
        return _Look(lines)

    @property
    def _model(self) -> Any:
        if self._engine is None:
            from rapidocr import RapidOCR

            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
            self._engine = RapidOCR(
                params={
                    "Global.log_level": "error",
                    "Global.use_cls": False,  # text that stands on its head is not looked for
                    "Det.limit_type": "max",
                    "Det.limit_side_len": DETECTED,
                    # Waiting threads of this runtime spin; the other cores decode.
                    "EngineConfig.onnxruntime.intra_op_num_threads": max(1, min(4, cores // 2)),
                    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                }
            )
        return self._engine


def _pieces(windows: Sequence[Window]) -> Iterator[Window]:
    """Windows in parts of `STEP` seconds, `MOST` parts at most."""
    for window in sorted(windows):
        parts = min(MOST, max(1, math.ceil((window.end - window.start) / STEP - 1e-9)))
        edges = np.linspace(window.start, window.end, parts + 1).tolist()
        yield from (Window(start, end) for start, end in pairwise(edges))


def detail_of(pixels: Pixels) -> Detail:
    """How much detail there is in each cell of a picture `[H, W, 3]`: where there is text, there is much."""
    rows, columns = CELLS
    grey = pixels[:, :, 1].astype(np.float32)  # green is nearly brightness, and text shows in it
    steps = np.abs(np.diff(grey, axis=1, prepend=grey[:, :1])) + np.abs(np.diff(grey, axis=0, prepend=grey[:1]))
    height, width = steps.shape
    if height < rows or width < columns:
        return steps
    cells = steps[: height // rows * rows, : width // columns * columns]
    sums: Detail = cells.reshape(rows, height // rows, columns, width // columns).mean(axis=(1, 3))
    return sums


def changed(before: Detail, now: Detail) -> NDArray[np.bool_]:
    """The cells whose detail has changed."""
    least = 2.0  # grey levels a pixel: noise
    return np.asarray(np.abs(now - before) > np.maximum(least, CHANGE * np.maximum(before, now)))


def _to_be_read(last: _Look, before: Detail, now: Detail, begins: bool) -> bool:
    """Whether a frame is read again: at the beginning of a window unless it shows the same picture; within one where
    some of it has changed, or where the picture moves, unless a text that was read stands still in it.
    """
    cells = changed(before, now)
    share = float(cells.mean())
    if begins or share <= MANY:
        return share > FEW
    text = _covered(last.lines, cells.shape)
    return not text.any() or float(cells[text].mean()) > STILL


def _covered(lines: Sequence[Line], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """The cells in which words stand."""
    covered = np.zeros(shape, bool)
    rows, columns = shape
    for box in (part.box for line in lines for part in line.parts if part.box is not None):
        left, top, right, bottom = box
        vertical = slice(int(top * rows), math.ceil(bottom * rows))
        covered[vertical, int(left * columns) : math.ceil(right * columns)] = True
    return covered


def _show(shown: list[tuple[Window, _Look]], piece: Window, look: _Look) -> None:
    """Adds what a piece shows: to the one before, if that ends where it begins and shows the same text."""
    if shown:
        before, text = shown[-1]
        if abs(before.end - piece.start) < 1e-6 and _alike(text, look):
            whole = Window(before.start, piece.end)
            better = max(text, look, key=lambda one: sum(line.confidence or 0.0 for line in one.lines))
            shown[-1] = whole, _Look([replace(line, start=whole.start, end=whole.end) for line in better.lines])
            return
    shown.append((piece, _Look([replace(line, start=piece.start, end=piece.end) for line in look.lines])))


def _alike(one: _Look, other: _Look) -> bool:
    first, second = one.words, other.words
    if not first or not second:
        return first == second
    return len(first & second) >= SAME * len(first | second)


def _passage(window: Window, look: _Look) -> Passage:
    unsure = sum(line.mark == "unsure" for line in look.lines) * 2 > len(look.lines)
    text = " / ".join(line.text for line in look.lines)
    return Passage(*window, text, SOURCE, "unsure" if unsure else None)


def _box(corners: Any, width: int, height: int) -> tuple[float, float, float, float]:
    """Corners in pixels → left, top, right, bottom as shares of the picture."""
    points = np.asarray(corners, dtype=np.float64).reshape(-1, 2) / (width, height)
    left, top = points.min(axis=0).clip(0, 1).round(4).tolist()
    right, bottom = points.max(axis=0).clip(0, 1).round(4).tolist()
    return left, top, right, bottom
