"""Subtitles, inside a file or beside it: what somebody has written down of what is said. They come first."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, zip_longest
from pathlib import Path
from typing import NamedTuple

from reelspace.media.about import LONGEST_TEXT, MOST_CUES, Cue, Track, plain
from reelspace.signals.base import Line, Mark

ENDINGS = (".srt", ".vtt", ".ass", ".ssa")
LARGEST = 32 << 20  # bytes of a file that is read
BUSIEST, SPARE = 20, 1000  # cues a second on the whole, and some more for a short video: beyond that nobody reads
MOST_COLUMNS = 100
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:[-_][a-z0-9]{2,8})?", re.IGNORECASE)
# What the name of a subtitle file says beside the language.
_REMARKS = frozenset(("forced", "sdh", "cc", "hi", "default", "full", "sub", "subs", "subtitle", "subtitles"))
_CLOCK = r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2})[.,](\d{1,3})"
# Blanks of one line only: patterns that go over many take a damaged file's length squared.
_TIMES = re.compile(rf"^[ \t]*{_CLOCK}[ \t]*-->[ \t]*{_CLOCK}", re.MULTILINE)


class Beside(NamedTuple):
    """A subtitle file beside a video."""

    path: Path
    language: str | None
    forced: bool
    stamp: str
    """Changes when the file does."""


class Folder:
    """The subtitle files of a folder, by the videos they may belong to; one look serves all videos in it."""

    def __init__(self, path: Path) -> None:
        self._by_stem: dict[str, list[tuple[os.DirEntry[str], os.stat_result]]] = {}
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    if entry.name.lower().endswith(ENDINGS):
                        self._add(entry)
        except OSError:
            return

    def _add(self, entry: os.DirEntry[str]) -> None:
        try:
            status = entry.stat()
        except OSError:
            return
        if stat.S_ISREG(status.st_mode) and 0 < status.st_size <= LARGEST:
            words = entry.name.split(".")
            for count in range(1, len(words)):
                self._by_stem.setdefault(".".join(words[:count]), []).append((entry, status))

    def of(self, video: Path) -> list[Beside]:
        """Those that belong to a video by their names (`talk.srt`, `talk.en.vtt`, `talk.mp4.srt`), by name."""
        found = []
        for entry, status in self._by_stem.get(video.stem, []):
            name = Path(entry.name)
            words = [one for one in name.stem[len(video.stem) :].removeprefix(video.suffix).split(".") if one]
            remarks = [word.lower() for word in words if word.lower() in _REMARKS]
            rest = [word for word in words if word.lower() not in _REMARKS]
            if len(rest) > 1 or (rest and not _LANGUAGE.fullmatch(rest[0])):
                continue  # of another video, whose name begins with this one's
            language = rest[0].lower().replace("_", "-") if rest else None
            stamp = f"{_printed(entry.name)}:{status.st_size}:{status.st_mtime_ns}"
            found.append(Beside(Path(entry.path), language, "forced" in remarks, stamp))
        return sorted(found, key=lambda one: os.fsencode(one.path))


def beside(video: Path) -> list[Beside]:
    """The subtitle files that belong to a video now."""
    return Folder(video.parent).of(video)


def lines_of(besides: Sequence[Beside], tracks: Sequence[Track], duration: float) -> dict[str, list[Line]]:
    """Source → its lines in order of time: of every language the file beside, else the track inside; none that holds
    only what a viewer of the original needs translated.
    """
    found: dict[str, list[Line]] = {}
    languages: set[str | None] = set()
    most = SPARE + round(BUSIEST * duration)
    for one in besides:
        if one.forced or _same(one.language) in languages:
            continue
        if lines := list(_lines(read(one.path, duration, one.language)[:most], one.path.name, one.language)):
            languages.add(_same(one.language))
            found[_printed(one.path.name)] = lines
    for track in tracks:
        if track.forced or _same(track.language) in languages or not track.cues:
            continue
        source = f"subtitles {track.number}" + (f" ({track.language})" if track.language else "")
        if lines := list(_lines(track.cues[:most], source, track.language)):
            languages.add(_same(track.language))
            found[source] = lines
    return found


def read(path: Path, duration: float, language: str | None = None) -> list[Cue]:
    """The cues of a subtitle file in order of time, as far as they lie in the video; none if it cannot be read.

    `language` is what its name says it is in.
    """
    try:
        # A pipe put in its place must not make this wait for ever.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return []
            text = _decoded(file.read(LARGEST), language)
    except OSError:
        return []
    cues = _ass(text) if path.suffix.lower() in (".ass", ".ssa") else _srt(text)
    inside = (Cue(cue.start, min(cue.end, duration), cue.text) for cue in cues)
    return sorted((cue for cue in inside if cue.start < cue.end and cue.text), key=lambda cue: (cue.start, cue.end))


# Language → how its subtitles were written before Unicode. Others: as Western Europe.
_USUAL: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("ru", "uk", "bg", "be", "sr", "mk"), ("cp1251",)),
    **dict.fromkeys(("pl", "cs", "sk", "hu", "ro", "sl", "hr"), ("cp1250",)),
    **dict.fromkeys(("lt", "lv", "et"), ("cp1257",)),
    **dict.fromkeys(("ar", "fa", "ur"), ("cp1256",)),
    **{"el": ("cp1253",), "tr": ("cp1254",), "he": ("cp1255",), "vi": ("cp1258",), "th": ("cp874",)},
    **{"ja": ("cp932", "euc_jp"), "ko": ("cp949",), "zh": ("gb18030", "big5")},
}
# Where nobody says the language: an encoding, and the share of what is not ASCII that these signs have if it is right.
_GUESSES = (
    ("cp932", "[\u3041-\u3096\u30a1-\u30fa]", 0.25),
    ("euc_jp", "[\u3041-\u3096\u30a1-\u30fa]", 0.25),
    ("cp949", "[\uac00-\ud7a3]", 0.8),
    ("gb18030", "[\u4e00-\u9fff]", 0.5),
    ("cp1251", "[\u0430-\u044f]", 0.5),
)


def _decoded(raw: bytes, language: str | None) -> str:
    """Text of a file that does not say how it is written: by its mark, else UTF-8 or UTF-16, else as its language was
    written before; if that is not known, by whether most of its letters are Western ones, and what the others can be.
    """
    for mark, encoding in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig")):
        if raw.startswith(mark):
            return raw.decode(encoding, "replace")
    for first, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):  # of its clocks every other byte is a zero
        if raw[first:200:2].count(0) > 50 and not raw[1 - first : 200 : 2].count(0):
            return raw.decode(encoding, "replace")
    with suppress(UnicodeDecodeError):
        return raw.decode("utf-8")
    return _legacy(raw, language)


def _legacy(raw: bytes, language: str | None) -> str:
    usual = _USUAL.get(_same(language) or "", ())
    if language is not None and re.search("tw|hk|hant", language):
        usual = ("big5",)
    for encoding in usual:
        with suppress(UnicodeDecodeError):
            return raw.decode(encoding)
    if usual:
        return raw.decode(usual[0], "replace")
    if language is None and len(re.findall(rb"[\x80-\xff]", raw)) > len(re.findall(rb"[A-Za-z]", raw)):
        for encoding, signs, share in _GUESSES:
            with suppress(UnicodeDecodeError):
                text = raw.decode(encoding)
                if len(re.findall(signs, text)) > share * len(re.findall(r"[^\x00-\x7f]", text)):
                    return text
    return raw.decode("cp1252", "replace")


def _srt(text: str) -> Iterator[Cue]:
    """SubRip and WebVTT: a line of times, then lines of text up to an empty one."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found = list(islice(_TIMES.finditer(text), MOST_CUES))
    for match, following in zip_longest(found, found[1:]):
        start, end = _seconds(match.groups()[:4]), _seconds(match.groups()[4:])
        first = text.find("\n", match.end()) + 1 or len(text)
        last = following.start() if following else len(text)  # where no empty line parts them, either
        body = text[first : min(last, first + 2 * LONGEST_TEXT)]
        yield Cue(start, end, plain(re.split(r"\n[ \t]*\n", f"{body}\n\n", maxsplit=1)[0])[:LONGEST_TEXT])


def _ass(text: str) -> Iterator[Cue]:
    """SubStation Alpha: its events; which column is which, it says itself."""
    columns = ["layer", "start", "end", "style", "name", "marginl", "marginr", "marginv", "effect", "text"]
    left = MOST_CUES
    for line in text.splitlines():
        kind, _, rest = line.partition(":")
        if kind.strip().lower() == "format" and "text" in rest.lower():
            columns = [column.strip().lower() for column in rest.split(",", MOST_COLUMNS)]
        elif kind.strip().lower() == "dialogue" and left > 0 and {"start", "end", "text"} <= set(columns):
            values = dict(zip(columns, rest.split(",", len(columns) - 1), strict=False))
            clocks = [re.fullmatch(_CLOCK, values.get(edge, "").strip()) for edge in ("start", "end")]
            if clocks[0] and clocks[1]:
                left -= 1
                start, end = (_seconds(clock.groups()) for clock in clocks if clock)
                yield Cue(start, end, plain(values.get("text", ""))[:LONGEST_TEXT])


def _seconds(clock: Sequence[str | None]) -> float:
    hours, minutes, seconds, rest = clock
    return int(hours or 0) * 3600 + int(minutes or 0) * 60 + int(seconds or 0) + float(f"0.{rest}")


def _lines(cues: Iterable[Cue], source: str, language: str | None) -> Iterator[Line]:
    """Cues as lines; those that say again what the one before said (captions that roll) are told once."""
    before: set[str] = set()
    for cue in cues:
        rows = cue.text.splitlines()
        text = " ".join(row for row in rows if row not in before)
        before = set(rows)
        if text:
            yield Line(cue.start, cue.end, text, _printed(source), language, None, sounds(text))


def sounds(text: str) -> Mark | None:
    """What a text is that notes a sound: `[applause]`, `(upbeat music)`; or that is sung: `♪ … ♪`."""
    bare = text.strip()
    if re.fullmatch(r"[\[(*][^\])*]*[\])*][.!]?", bare):
        return "music" if re.search(r"music|song|singing|♪", bare, re.IGNORECASE) else "sound"
    if any(note in bare for note in "♪♫"):
        return "sung" if re.search(r"\w", bare) else "music"
    return None if re.search(r"\w", bare) else "sound"


def _same(language: str | None) -> str | None:
    """A language without its region; three letters for the commonest two, as files are not of one mind."""
    if language is None:
        return None
    base = re.split("[-_]", language.lower())[0]
    return _THREE.get(base, base)


_THREE = {
    **{"eng": "en", "deu": "de", "ger": "de", "fra": "fr", "fre": "fr", "spa": "es", "ita": "it", "por": "pt"},
    **{"nld": "nl", "dut": "nl", "jpn": "ja", "zho": "zh", "chi": "zh", "kor": "ko", "rus": "ru", "pol": "pl"},
    **{"ukr": "uk", "bul": "bg", "ces": "cs", "cze": "cs", "hun": "hu", "tur": "tr", "ell": "el", "gre": "el"},
    **{"heb": "he", "ara": "ar", "tha": "th", "vie": "vi", "ron": "ro", "rum": "ro"},
}


def _printed(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
