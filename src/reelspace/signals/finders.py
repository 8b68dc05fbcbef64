"""The finders of signals: given a video's file, each finds the timed text of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from reelspace.media.reader import Reader
from reelspace.media.windows import Window
from reelspace.signals import names
from reelspace.signals.base import Found, Report, Signal


class Finder(Protocol):
    """Looks for one signal."""

    def version(self, path: Path) -> str:
        """What a file is looked through with. When it changes, the file is looked through again."""

    def prefers(self, path: Path) -> bool:
        """Whether this copy of a content tells more than the content alone."""

    def find(self, path: Path, duration: float, windows: Sequence[Window], reader: Reader, report: Report) -> Found:
        """What the signal finds in a file.

        Args:
            path: the file.
            duration: of the video, in seconds.
            windows: how it is divided; about one a shot.
            reader: decodes it, in processes that may be killed.
            report: told how far it is.

        Raises:
            MediaError, SignalError: it cannot be had of this file.
        """


class Names:
    """What a video is called. What one file is called is added where files are known: see `names.name_of_file`."""

    def version(self, path: Path) -> str:
        return names.VERSION

    def prefers(self, path: Path) -> bool:
        return False

    def find(self, path: Path, duration: float, windows: Sequence[Window], reader: Reader, report: Report) -> Found:
        return names.names_of(reader.about(path), duration)


def load(signal: Signal) -> Finder:
    """The finder of a signal.

    Raises:
        SignalError: what it needs is not installed; the message says how to get it.
    """
    if signal == "names":
        return Names()
    if signal == "speech":
        from reelspace.signals.speech import Speech

        return Speech()
    from reelspace.signals.ocr import Ocr

    return Ocr()
