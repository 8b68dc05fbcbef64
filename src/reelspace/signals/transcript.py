"""Timed text in the forms that players and editing programs read: SubRip, WebVTT."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from reelspace.errors import ReelspaceError
from reelspace.signals.base import Line

FORMATS = ("srt", "vtt")
WIDTH = 42  # characters of a row, as broadcasters have it


def transcript(lines: Iterable[Line], form: str) -> str:
    """Lines in one of `FORMATS`; their marks are said in brackets.

    Raises:
        ReelspaceError: there is no such form.
    """
    if form not in _WRITERS:
        raise ReelspaceError(f"“{form}” is no form of transcript; there are {', '.join(FORMATS)} and json.")
    return _WRITERS[form](lines)


def _srt(lines: Iterable[Line]) -> str:
    cues = (
        f"{number}\n{_clock(line.start, ',')} --> {_clock(line.end, ',')}\n{_rows(line)}\n"
        for number, line in enumerate(lines, start=1)
    )
    return "\n".join(cues)


def _vtt(lines: Iterable[Line]) -> str:
    cues = (f"\n{_clock(line.start, '.')} --> {_clock(line.end, '.')}\n{_escaped(_rows(line))}\n" for line in lines)
    return "WEBVTT\n" + "".join(cues)


def _rows(line: Line) -> str:
    """The text in rows. No row is empty, and none can be taken for a line of times."""
    import textwrap

    text = " ".join(line.text.split()).replace("-->", "→")
    if line.mark == "unsure":
        text += " [?]"
    return "\n".join(textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)) or "[…]"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _clock(seconds: float, point: str) -> str:
    milliseconds = round(seconds * 1000)
    whole, rest = divmod(milliseconds, 1000)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}{point}{rest:03d}"


_WRITERS: dict[str, Callable[[Iterable[Line]], str]] = {"srt": _srt, "vtt": _vtt}
