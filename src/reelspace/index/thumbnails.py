"""Thumbnails of windows: JPEG files in a cache that can be deleted and comes back."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


class Thumbnails:
    """Files under names of content and time, so that a replaced file never shows an old picture."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, hash: str, start: float, end: float) -> bytes | None:
        """The JPEG of a window, if it is there."""
        try:
            return self._file(hash, start, end).read_bytes() or None
        except OSError:
            return None

    def put(self, hash: str, start: float, end: float, jpeg: bytes) -> None:
        """Keeps the JPEG of a window; where that fails, it is made again when it is wanted."""
        file = self._file(hash, start, end)
        aside = file.with_suffix(f".{os.getpid()}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            aside.write_bytes(jpeg)
            aside.replace(file)
        except OSError:
            with suppress(OSError):
                aside.unlink()

    def _file(self, hash: str, start: float, end: float) -> Path:
        return self._folder / hash[:2] / f"{hash}-{round(start * 1000)}-{round(end * 1000)}.jpg"
