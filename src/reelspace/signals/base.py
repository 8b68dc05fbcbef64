"""What signals have in common: their names, and the timed text they find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from reelspace.errors import ReelspaceError

Signal = Literal["names", "speech", "ocr"]
SIGNALS: tuple[Signal, ...] = ("names", "speech", "ocr")
"""In the order they are looked for: the cheap one first."""

BY: dict[str, Signal | None] = {"seen": None, "said": "speech", "written": "ocr", "named": "names"}
"""What a search calls them; `seen` is the picture itself."""

Mark = Literal["unsure", "sung", "music", "sound"]
WORDLESS: tuple[Mark, ...] = ("music", "sound")
"""Marks of lines that only note what is heard: they are kept, and not searched."""

USUAL_COST: dict[Signal, float] = {"names": 0.0005, "speech": 0.2, "ocr": 0.2}
"""Seconds of work a second of video on one ordinary core, `speech` where somebody speaks all the time; what a library
has measured itself counts more. See benchmarks/signals/cost.py."""


class SignalError(ReelspaceError):
    """A signal that cannot be looked for here, or not in this file."""


@dataclass(frozen=True)
class Part:
    """One word (or a run of them) of a line, where and when it is.

    Attributes:
        text: of the word.
        start, end: seconds; None where the line's own times are all that is known.
        box: left, top, right, bottom as shares of the displayed picture, 0 to 1; None for what is heard.
        confidence: 0 to 1, or None.
    """

    text: str
    start: float | None = None
    end: float | None = None
    box: tuple[float, float, float, float] | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class Line:
    """A timed text as it was found: a sentence, a subtitle, a line on a slide, a title.

    Attributes:
        start, end: `[start, end)` in seconds from the first displayed frame.
        text: the words.
        source: where they come from, for a person: `whisper tiny.en`, `talk.srt`, `title`, …
        language: ISO 639, or None where nobody knows.
        confidence: 0 to 1, or None where the source is not a guess.
        mark: `unsure`: likely misheard or misread; `sung`; `music` and `sound`: a note on what is heard, no words.
        parts: its words, as far as they are known one by one.
    """

    start: float
    end: float
    text: str
    source: str
    language: str | None = None
    confidence: float | None = None
    mark: Mark | None = None
    parts: tuple[Part, ...] = field(default=())

    @property
    def parts_data(self) -> list[dict[str, Any]]:
        """The parts as plain data, without what is not known of them."""
        return [{key: value for key, value in asdict(part).items() if value is not None} for part in self.parts]


@dataclass(frozen=True)
class Passage:
    """What is searched: lines that belong together, as one text."""

    start: float
    end: float
    text: str
    source: str
    mark: Mark | None = None


@dataclass(frozen=True)
class Found:
    """What a signal found in one content.

    Attributes:
        lines: in order of time; none is an answer too.
        passages: of these lines.
        language: most of them are in, or None.
        note: what a person should know: why there are none, or not all.
    """

    lines: Sequence[Line]
    passages: Sequence[Passage]
    language: str | None = None
    note: str | None = None


Report = Callable[[float], None]
"""Told how much of a video is done, 0 to 1."""


def parse_signals(names: str | Sequence[str]) -> tuple[Signal, ...]:
    """Signals of their names, each once, in the order they are looked for: `"speech,ocr"`, or several strings.

    Raises:
        SignalError: there is no such signal.
    """
    given = [names] if isinstance(names, str) else list(names)
    wanted = {one.strip() for name in given for one in name.split(",")} - {""}
    if unknown := sorted(wanted - set(SIGNALS)):
        raise SignalError(f"There is no signal “{unknown[0]}”; there are {', '.join(SIGNALS)}.")
    return tuple(signal for signal in SIGNALS if signal in wanted)


def parse_by(names: str | Sequence[str]) -> tuple[str, ...]:
    """What a search goes by, each once: of `seen`, `said`, `written`, `named`, as one string with commas or several.

    Raises:
        SignalError: one is none of them, or none is given.
    """
    given = [names] if isinstance(names, str) else list(names)
    wanted = {one.strip() for name in given for one in name.split(",")} - {""}
    if (unknown := sorted(wanted - set(BY))) or not wanted:
        said = f"“{unknown[0]}”" if unknown else "nothing"
        raise SignalError(f"A search goes by {', '.join(BY)}, not by {said}.")
    return tuple(name for name in BY if name in wanted)


def installed(package: str, extra: str) -> str:
    """The version of a package that a signal needs.

    Raises:
        SignalError: it is not there; the message says how to get it.
    """
    try:
        return version(package)
    except PackageNotFoundError:
        raise SignalError(f'{package} is not installed: pip install "reelspace[{extra}]"') from None
