"""What signals found, in the catalogue: lines as they are, and the passages of them that are searched."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reelspace.errors import LibraryError
from reelspace.index.base import Ids, Vectors
from reelspace.index.identity import Stamp
from reelspace.signals.base import SIGNALS, Found, Line, Part

SCHEMA = """
CREATE TABLE signals (             -- contents that were looked through for a signal
    video INTEGER NOT NULL REFERENCES videos ON DELETE CASCADE,
    signal TEXT NOT NULL,          -- 'names', 'speech' or 'ocr'
    version TEXT NOT NULL,         -- with what, and (speech) which subtitles lay beside the file
    failed INTEGER NOT NULL,       -- 1: it could not be; the rest of the video is indexed all the same
    note TEXT,                     -- why, or what else a person should know
    language TEXT,                 -- ISO 639
    PRIMARY KEY (video, signal)
) STRICT, WITHOUT ROWID;
CREATE TABLE lines (               -- timed text as it was found
    id INTEGER PRIMARY KEY,
    video INTEGER NOT NULL REFERENCES videos ON DELETE CASCADE,
    file INTEGER REFERENCES files ON DELETE CASCADE, -- where it is of one file only: its name
    signal TEXT NOT NULL,
    source TEXT NOT NULL,          -- 'whisper tiny.en', 'talk.srt', 'title', …
    start REAL NOT NULL,           -- seconds from the first displayed frame
    "end" REAL NOT NULL,
    text TEXT NOT NULL,
    language TEXT,
    confidence REAL,               -- 0 to 1
    mark TEXT,                     -- 'unsure', 'sung', 'music' or 'sound'
    parts TEXT                     -- JSON: its words with their times or boxes
) STRICT;
CREATE INDEX lines_by_video ON lines (video, signal);
CREATE INDEX lines_by_file ON lines (file) WHERE file IS NOT NULL;
CREATE TABLE passages (            -- what is searched: lines that belong together
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: caches follow by it
    video INTEGER NOT NULL REFERENCES videos ON DELETE CASCADE,
    file INTEGER REFERENCES files ON DELETE CASCADE,
    signal TEXT NOT NULL,
    source TEXT NOT NULL,
    start REAL NOT NULL,
    "end" REAL NOT NULL,
    text TEXT NOT NULL,
    mark TEXT,
    vector BLOB NOT NULL           -- its meaning: float32, little-endian, length 1
) STRICT;
CREATE INDEX passages_by_video ON passages (video, signal);
CREATE INDEX passages_by_signal ON passages (signal);
CREATE INDEX passages_by_file ON passages (file) WHERE file IS NOT NULL;
CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter unicode61 remove_diacritics 2');
CREATE TRIGGER passage_gone AFTER DELETE ON passages BEGIN DELETE FROM words WHERE rowid = old.id; END;
"""
_EDGES = re.compile(r"(?<=[^\W\d_])(?=\d)|(?<=\d)(?=[^\W\d_])")
DIM = 384  # of the vectors of passages
WORDS = "2"  # how the words of passages are kept: when it changes, those of a library are made anew

# Written without spaces between words: every sign is a word of its own.
_SIGNS = re.compile(r"([\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")


class Todo(NamedTuple):
    """A content, and where it can be read."""

    video: int
    duration: float
    files: list[tuple[str, Stamp]]


class State(NamedTuple):
    """A row of `signals`."""

    version: str
    failed: bool


class PassageRow(NamedTuple):
    """A row of `passages` without its vector, and the hash of its content."""

    id: int
    video: int
    hash: str
    file: int | None
    signal: str
    source: str
    start: float
    end: float
    text: str
    mark: str | None


class Texts:
    """The part of a catalogue that holds text. Use `Catalogue.texts`; what writes is called inside a transaction."""

    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self._path, self._db = path, db

    # Writing

    def todo(self) -> list[Todo]:
        """Every searchable content, each with the files it is in; by content."""
        found: dict[int, Todo] = {}
        rows = self._db.execute(
            "SELECT videos.id, videos.duration, path, size, mtime_ns, inode FROM files "
            "JOIN videos ON videos.id = files.video WHERE state = 'indexed' ORDER BY videos.id, files.id"
        )
        for video, duration, path, *stamp in rows:
            todo = found.setdefault(video, Todo(video, duration, []))
            todo.files.append((os.fsdecode(path), Stamp(*stamp)))
        return list(found.values())

    def states(self, signal: str) -> dict[int, State]:
        """Content → how far it is with a signal."""
        rows = self._db.execute("SELECT video, version, failed FROM signals WHERE signal = ?", (signal,))
        return {video: State(version, bool(failed)) for video, version, failed in rows}

    def put(self, video: int, signal: str, version: str, found: Found, vectors: Vectors) -> None:
        """Makes this what a signal found in a content, instead of what it found before. File names stay.

        Args:
            vectors: of the passages, float32 `[n, DIM]`.
        """
        self._forget(video, signal)
        self._add(video, None, signal, found, vectors)
        self._state(video, signal, version, False, found.note, found.language)

    def fail(self, video: int, signal: str, version: str, note: str) -> None:
        """Notes that a signal cannot be had of a content. What it found before goes."""
        self._forget(video, signal)
        self._state(video, signal, version, True, note, None)

    def put_name(self, video: int, file: int, found: Found, vectors: Vectors) -> None:
        """Makes this what one file is called."""
        for table in ("lines", "passages"):
            self._db.execute(f"DELETE FROM {table} WHERE file = ?", (file,))
        self._add(video, file, "names", found, vectors)

    def nameless(self) -> list[tuple[int, int, str | bytes, float]]:
        """(file, content, path, duration) of files that have no name here, or that of another content."""
        return self._db.execute(
            "SELECT files.id, files.video, files.path, videos.duration FROM files "
            "JOIN videos ON videos.id = files.video WHERE files.state = 'indexed' AND NOT EXISTS "
            "(SELECT 1 FROM passages WHERE passages.file = files.id AND passages.video = files.video) ORDER BY files.id"
        ).fetchall()

    def _state(
        self, video: int, signal: str, version: str, failed: bool, note: str | None, language: str | None
    ) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO signals VALUES (?, ?, ?, ?, ?, ?)",
            (video, signal, version, failed, note, language),
        )

    def _forget(self, video: int, signal: str) -> None:
        for table in ("lines", "passages"):
            self._db.execute(f"DELETE FROM {table} WHERE video = ? AND signal = ? AND file IS NULL", (video, signal))

    def _add(self, video: int, file: int | None, signal: str, found: Found, vectors: Vectors) -> None:
        self._db.executemany(
            'INSERT INTO lines (video, file, signal, source, start, "end", text, language, confidence, mark, parts) '
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(video, file, signal, *_line_values(line)) for line in found.lines],
        )
        rows = [
            (video, file, signal, passage.source, passage.start, passage.end, _sound(passage.text), passage.mark)
            for passage in found.passages
        ]
        self._insert(list(zip(rows, vectors, strict=True)))

    def _insert(self, rows: list[tuple[tuple[Any, ...], Vectors]]) -> None:
        for values, vector in rows:
            inserted = self._db.execute(
                'INSERT INTO passages (video, file, signal, source, start, "end", text, mark, vector) '
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*values, vector.astype("<f4").tobytes()),
            )
            words = inserted.lastrowid, folded(spaced(values[6]))
            self._db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", words)

    def renew_meanings(self, embed: Callable[[list[str]], Vectors]) -> None:
        """Makes the vectors of all passages anew, by another model. They get new ids, as caches hold vectors by id."""
        rows = self._db.execute(
            'SELECT video, file, signal, source, start, "end", text, mark FROM passages ORDER BY id'
        ).fetchall()
        self._db.execute("DELETE FROM passages")
        for start in range(0, len(rows), 256):
            part = rows[start : start + 256]
            self._insert([(row, vector) for row, vector in zip(part, embed([row[6] for row in part]), strict=True)])

    # Reading

    def signals(self) -> list[str]:
        """The signals that anything was found by."""
        exists = "SELECT EXISTS (SELECT 1 FROM passages WHERE signal = ?)"
        return [signal for signal in SIGNALS if self._db.execute(exists, (signal,)).fetchone()[0]]

    def summary(self) -> dict[str, tuple[int, int, int]]:
        """Signal → searchable contents looked through, those it failed for, passages found in all."""
        rows = self._db.execute(
            "SELECT signal, sum(NOT failed), sum(failed) FROM signals WHERE EXISTS "
            "(SELECT 1 FROM files WHERE files.video = signals.video AND files.state = 'indexed') GROUP BY signal"
        ).fetchall()
        counts = dict(self._db.execute("SELECT signal, count(*) FROM passages GROUP BY signal"))
        return {signal: (done, failed, counts.get(signal, 0)) for signal, done, failed in rows}

    def notes(self) -> list[tuple[str | bytes, str, bool, str]]:
        """(path, signal, whether it failed, note) of searchable files, by path."""
        return self._db.execute(
            "SELECT files.path, signal, failed, note FROM signals JOIN files ON files.video = signals.video "
            "WHERE files.state = 'indexed' AND note IS NOT NULL ORDER BY CAST(files.path AS BLOB), signal"
        ).fetchall()

    def lines(self, video: int, signal: str, path: str | None = None) -> list[Line]:
        """The lines of a content in order of time; of names of files only that of `path`, all if it is left out."""
        rows = self._db.execute(
            'SELECT start, "end", text, source, language, confidence, mark, parts FROM lines '
            "WHERE video = ? AND signal = ? AND (file IS NULL OR ? IS NULL OR file = "
            '(SELECT id FROM files WHERE path = ?)) ORDER BY start, "end", id',
            (video, signal, *((None, None) if path is None else (stored(path), stored(path)))),
        )
        return [
            Line(start, end, text, source, language, confidence, mark, tuple(map(_part, json.loads(parts or "[]"))))
            for start, end, text, source, language, confidence, mark, parts in rows
        ]

    def state_of(self, video: int, signal: str) -> tuple[bool, str | None] | None:
        """Whether a signal failed for a content, and what is to be said of it; None: it was not looked for."""
        row = self._db.execute(
            "SELECT failed, note FROM signals WHERE video = ? AND signal = ?", (video, signal)
        ).fetchone()
        return None if row is None else (bool(row[0]), row[1])

    def language(self, video: int, signal: str) -> str | None:
        """The language most of what a signal found in a content is in."""
        row = self._db.execute(
            "SELECT language FROM signals WHERE video = ? AND signal = ?", (video, signal)
        ).fetchone()
        return None if row is None else row[0]

    def passages(self, ids: Iterable[int]) -> dict[int, PassageRow]:
        """Passages by id; those that are gone, or of no searchable file, are left out."""
        found: dict[int, PassageRow] = {}
        for chunk in _chunks(list(ids)):
            rows = self._db.execute(
                "SELECT passages.id, passages.video, videos.hash, passages.file, signal, source, passages.start, "
                'passages."end", text, mark FROM passages JOIN videos ON videos.id = passages.video '
                f"WHERE passages.id IN ({', '.join('?' * len(chunk))})",
                chunk,
            )
            found |= {row[0]: PassageRow(*row) for row in rows}
        return found

    def holding(self, term: str, signal: str) -> list[int]:
        """Ids of the passages that hold a term (see `terms`), ascending."""
        rows = self._db.execute(
            "SELECT words.rowid FROM words JOIN passages ON passages.id = words.rowid "
            "WHERE words MATCH ? AND signal = ? ORDER BY words.rowid",
            (quoted(term), signal),
        )
        return [row[0] for row in rows]

    def count(self, signal: str) -> int:
        """How many passages a signal has."""
        return int(self._db.execute("SELECT count(*) FROM passages WHERE signal = ?", (signal,)).fetchone()[0])

    def of_signal(self, signal: str) -> Ids:
        """The ids of a signal's passages, ascending int64."""
        rows = self._db.execute("SELECT id FROM passages WHERE signal = ? ORDER BY id", (signal,))
        return np.fromiter((id for (id,) in rows), dtype=np.int64)

    def path_of(self, file: int) -> str | None:
        """The path of a file."""
        row = self._db.execute("SELECT path FROM files WHERE id = ?", (file,)).fetchone()
        return None if row is None else os.fsdecode(row[0])

    # What a store of vectors follows: see `index/exact.py`

    def state(self, until: int | None = None) -> tuple[int, int]:
        """How many passages there are, and the newest id of them; of those up to `until`, if given."""
        upto = 2**63 - 1 if until is None else until
        sql = "SELECT count(*), coalesce(max(id), 0) FROM passages WHERE id <= ?"
        count, newest = self._db.execute(sql, (upto,)).fetchone()
        return count, newest

    def ids(self, after: int = 0) -> Ids:
        """The ids of passages greater than `after`, ascending int64."""
        rows = self._db.execute("SELECT id FROM passages WHERE id > ? ORDER BY id", (after,))
        return np.fromiter((id for (id,) in rows), dtype=np.int64)

    def vectors(self, ids: Ids) -> Vectors:
        """Vectors float32 `[n, DIM]` of these passages, in this order.

        Raises:
            LibraryError: one is not there, or of another length.
        """
        found = np.empty((len(ids), DIM), dtype=np.float32)
        for row, id in enumerate(ids.tolist()):
            blob = self._db.execute("SELECT vector FROM passages WHERE id = ?", (id,)).fetchone()
            if blob is None or len(blob[0]) != 4 * DIM:
                raise LibraryError(f"{self._path}: the vector of passage {id} is damaged; restore a copy of it.")
            found[row] = np.frombuffer(blob[0], "<f4")
        return found

    def origins(self, ids: Ids) -> Ids:
        """The contents these passages are of, and 0, as they are of no window: int64 `[n, 2]`, in this order."""
        rows = dict(
            row
            for chunk in _chunks(ids.tolist())
            for row in self._db.execute(
                f"SELECT id, video FROM passages WHERE id IN ({', '.join('?' * len(chunk))})", chunk
            )
        )
        return np.array([(rows[id], 0) for id in ids.tolist()], np.int64).reshape(-1, 2)


def stored(path: str) -> str | bytes:
    """A path as SQLite can keep it: text, or its bytes where they are no text."""
    raw = os.fsencode(path)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def spaced(text: str) -> str:
    """The text with spaces around signs of scripts that are written without them, and between letters and digits:
    “PLATFORM9” is read off a sign where “platform 9” is asked for.
    """
    return _EDGES.sub(" ", _SIGNS.sub(r" \1 ", unicodedata.normalize("NFC", text)))


def folded(text: str) -> str:
    """In lower case (ß is ss, and ς is σ) and without accents, in every script: what counts as the same word."""
    parts = unicodedata.normalize("NFD", text.casefold())
    return unicodedata.normalize("NFC", "".join(c for c in parts if not unicodedata.combining(c)))


def terms(text: str) -> list[str]:
    """The words of a text, in order, `folded`; signs written without spaces are words of their own."""
    return re.findall(r"[^\W_]+", folded(spaced(text)))


def quoted(term: str) -> str:
    """A term or phrase as SQLite's full-text search takes it literally."""
    return '"' + term.replace('"', '""') + '"'


def _line_values(line: Line) -> tuple[object, ...]:
    parts = json.dumps(line.parts_data, ensure_ascii=False) if line.parts else None
    return (
        *(line.source, line.start, line.end, _sound(line.text)),
        *(line.language, line.confidence, line.mark, None if parts is None else _sound(parts)),
    )


def _part(data: dict[str, object]) -> Part:
    box = data.get("box")
    return Part(**{**data, "box": tuple(box) if isinstance(box, list) else None})  # type: ignore[arg-type]


def _sound(text: str) -> str:
    """Text that SQLite can keep: lone surrogates and the zero byte, which would end it, are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")


def _chunks(values: list[int], size: int = 500) -> Iterator[list[int]]:
    for start in range(0, len(values), size):
        yield values[start : start + size]
