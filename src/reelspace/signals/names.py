"""What a video is called: its file and folders, its tags, its chapters, when and where it was recorded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import PurePath

from reelspace.media.about import About
from reelspace.signals.base import Found, Line, Passage

VERSION = "1"

# Tag → what it is called here. Programs' own remarks (encoder, brands, handlers) are no names.
_TAGS = {
    "title": "title",
    "com.apple.quicktime.title": "title",
    "com.apple.quicktime.displayname": "title",
    "show": "show",
    "episode_id": "episode",
    "album": "album",
    "artist": "artist",
    "album_artist": "artist",
    "author": "artist",
    "com.apple.quicktime.author": "artist",
    "performer": "artist",
    "composer": "artist",
    "director": "director",
    "com.apple.quicktime.director": "director",
    "actor": "cast",
    "genre": "genre",
    "keywords": "keywords",
    "com.apple.quicktime.keywords": "keywords",
    "subject": "subject",
    "network": "network",
    "comment": "comment",
    "com.apple.quicktime.comment": "comment",
    "description": "description",
    "com.apple.quicktime.description": "description",
    "synopsis": "description",
    "location": "place",
    "location-eng": "place",
    "com.apple.quicktime.location.iso6709": "place",
    "com.apple.quicktime.location.name": "place",
    "com.apple.quicktime.location.body": "place",
    "com.apple.quicktime.make": "camera",
    "com.apple.quicktime.model": "camera",
    "make": "camera",
    "model": "camera",
}
_DATES = ("com.apple.quicktime.creationdate", "creation_time", "date", "com.apple.quicktime.year", "year")
_POINT = re.compile(r"([+-]\d+(?:\.\d+)?)([+-]\d+(?:\.\d+)?)(?:[+-]\d+(?:\.\d+)?)?(?:CRS[^/]*)?/?")
_EARLIEST = 1972  # cameras without a clock write 1904 or 1970


def names_of(about: About, duration: float) -> Found:
    """What a content calls itself: the same for all of its copies."""
    lines = [Line(0.0, duration, text, source) for source, text in _told(about.tags)]
    lines += [Line(chapter.start, chapter.end, _tidy(chapter.text), "chapter") for chapter in about.chapters]
    return Found(lines, [_passage(line) for line in lines])


def name_of_file(path: str, root: str | None, duration: float) -> Found:
    """What one file is called, with the folders from `root` (the folder that was indexed) down to it."""
    pure = PurePath(path)
    folders: Sequence[str] = [pure.parent.name]
    if root is not None and pure.is_relative_to(root) and PurePath(root) != pure:
        folders = [PurePath(root).name, *pure.parent.relative_to(root).parts]
    words = [spelt(name) for name in (*folders, pure.stem)]
    exact = printed(pure.stem)
    text = " / ".join(filter(None, words))
    line = Line(0.0, duration, printed(pure.name), "file name")
    # Searched by its words and by itself: “IMG_2034” is asked for as it is written.
    return Found([line], [Passage(0.0, duration, text if exact in text else f"{text} ({exact})", "file name")])


def spelt(name: str) -> str:
    """The words of a name: `IMG_2034-holidayInRome` → `IMG 2034 holiday In Rome`."""
    text = re.sub(r"[_\W]+", " ", printed(name))
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[^\W\d_])(?=\d{2,})|(?<=\d{2})(?=[^\W\d_]{2,})", " ", text)
    return " ".join(text.split())


def printed(name: str) -> str:
    r"""A name as text: bytes of it that are none appear as `\xff`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _told(tags: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(source, text) of the tags that name something, each text once."""
    seen: set[tuple[str, str]] = set()
    for tag, source in _TAGS.items():
        text = _tidy(tags.get(tag, ""))
        if source == "place":
            text = place(text)
        if text and (source, text.casefold()) not in seen:
            seen.add((source, text.casefold()))
            yield source, text
    for tag in _DATES:
        if day := date(tags.get(tag, "")):
            yield "date", day
            return


def place(text: str) -> str:
    """A place as it is written; coordinates (ISO 6709) as degrees: `48.8577° N 2.2950° E`."""
    match = _POINT.fullmatch(text.replace(" ", ""))
    if match is None:
        return text
    north, east = (float(number) for number in match.groups())
    if not (abs(north) <= 90 and abs(east) <= 180):  # degrees and minutes run together: as they are
        return text
    return f"{abs(north):.4f}° {'N' if north >= 0 else 'S'} {abs(east):.4f}° {'E' if east >= 0 else 'W'}"


def date(text: str) -> str | None:
    """A date in the words that people use: `Saturday 5 June 2021 (2021-06-05)`; None where it is none."""
    text = text.strip()
    if re.fullmatch(r"\d{4}", text):
        return text if int(text) >= _EARLIEST else None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).year < _EARLIEST:
        return None
    return f"{_DAYS[moment.weekday()]} {moment.day} {_MONTHS[moment.month - 1]} {moment.year} ({moment:%Y-%m-%d})"


_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)  # not by strftime: that asks the locale


def _passage(line: Line) -> Passage:
    return Passage(line.start, line.end, line.text, line.source)


def _tidy(text: str) -> str:
    return " ".join(text.split())
