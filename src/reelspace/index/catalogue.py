"""The catalogue: one SQLite file that is the truth about a library. Everything else can be made again from it.

`docs/index-format.md` describes the tables for people who open the file themselves.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import LibraryError, NoLibraryError
from reelspace.index import texts
from reelspace.index.base import Ids, Vectors
from reelspace.index.identity import Stamp
from reelspace.index.texts import stored
from reelspace.index.walk import Root

if TYPE_CHECKING:
    from reelspace.media.probe import VideoInfo

VERSION = 2
READABLE = 1  # the oldest version that can be searched as it is; writing brings it up to date
_APPLICATION = 0x5265656C  # “Reel”, in the file's header

_SCHEMA = """
CREATE TABLE settings (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;
CREATE TABLE roots (
    path ANY PRIMARY KEY NOT NULL, -- TEXT; a BLOB of the name's bytes where these are no UTF-8
    include TEXT NOT NULL,         -- JSON arrays of globs
    exclude TEXT NOT NULL,
    hidden INTEGER NOT NULL
) STRICT;
CREATE TABLE videos (              -- contents: one row for all files with the same bytes
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,     -- BLAKE2b-160 of the bytes, in hex
    duration REAL NOT NULL,        -- seconds
    width INTEGER NOT NULL,        -- pixels, as displayed
    height INTEGER NOT NULL,
    codec TEXT NOT NULL,
    created REAL,                  -- unix seconds, by the container
    partial TEXT,                  -- why it could be read only up to a point
    windowing TEXT NOT NULL
) STRICT;
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    path ANY NOT NULL UNIQUE,      -- absolute; TEXT or BLOB as in roots
    state TEXT NOT NULL CHECK (state IN ('indexed', 'failed', 'excluded', 'missing')),
    reason TEXT,
    video INTEGER REFERENCES videos ON DELETE SET NULL,
    size INTEGER,                  -- bytes; size, mtime_ns and inode tell whether a file has changed
    mtime_ns INTEGER,
    inode INTEGER
) STRICT;
CREATE INDEX files_by_video ON files (video);
CREATE TABLE windows (
    id INTEGER PRIMARY KEY,
    video INTEGER NOT NULL REFERENCES videos ON DELETE CASCADE,
    start REAL NOT NULL,           -- seconds from the first displayed frame
    "end" REAL NOT NULL,
    UNIQUE (video, start, "end")
) STRICT;
CREATE TABLE spaces (              -- the vectors of one model
    id INTEGER PRIMARY KEY,
    model TEXT NOT NULL,
    fingerprint TEXT NOT NULL UNIQUE,
    dim INTEGER NOT NULL,
    active INTEGER NOT NULL        -- 1: searches use it; at most one
) STRICT;
CREATE UNIQUE INDEX one_active_space ON spaces (active) WHERE active = 1;
CREATE TABLE embedded (            -- videos done in a space
    video INTEGER NOT NULL REFERENCES videos ON DELETE CASCADE,
    space INTEGER NOT NULL REFERENCES spaces ON DELETE CASCADE,
    reason TEXT,                   -- why some or all windows have no vector
    PRIMARY KEY (video, space)
) STRICT, WITHOUT ROWID;
CREATE TABLE vectors (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- never used twice: caches follow by it
    space INTEGER NOT NULL REFERENCES spaces ON DELETE CASCADE,
    window INTEGER NOT NULL REFERENCES windows ON DELETE CASCADE,
    vector BLOB NOT NULL,          -- float32, little-endian, length 1
    UNIQUE (space, window)
) STRICT;
CREATE INDEX vectors_by_window ON vectors (window);
CREATE TABLE canaries (            -- vectors of fixed probes, to notice a model that no longer is what it was
    space INTEGER NOT NULL REFERENCES spaces ON DELETE CASCADE,
    probe TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (space, probe)
) STRICT, WITHOUT ROWID;
CREATE VIEW overview AS
    SELECT files.path, files.state, coalesce(files.reason, videos.partial) AS reason, videos.duration,
           videos.width, videos.height, videos.codec, datetime(videos.created, 'unixepoch') AS created,
           (SELECT count(*) FROM windows WHERE windows.video = videos.id) AS windows
    FROM files LEFT JOIN videos ON videos.id = files.video;
"""


class FileRow(NamedTuple):
    """A row of `files`."""

    path: str
    state: str
    reason: str | None
    video: int | None
    stamp: Stamp | None


class SpaceRow(NamedTuple):
    """A row of `spaces`."""

    id: int
    model: str
    fingerprint: str
    dim: int
    active: bool


class WindowRow(NamedTuple):
    """A window that has a vector: the vector's id, and which stretch of which content it is."""

    id: int
    video: int
    hash: str
    start: float
    end: float


class ContentRow(NamedTuple):
    """A row of `videos`."""

    hash: str
    duration: float
    width: int
    height: int
    codec: str
    created: float | None
    partial: str | None
    windowing: str


class Catalogue:
    """One connection to the catalogue. Readers and one writer work at the same time (WAL).

    The connection may be shared by threads for reading; transactions belong to the one writer.
    """

    def __init__(self, path: Path, create: bool = True) -> None:
        """Opens the file, making it if `create`; if not, it can also be read where nothing can be written.

        Raises:
            LibraryError: there is none, it is of a newer version, or is no catalogue.
        """
        self.path = path
        if not create and not path.is_file():
            raise NoLibraryError(f"{path.parent}: there is no library here; `reelspace index FOLDER` makes one.")
        try:
            # What SQLite would put beside a file without permission to write had none either, and would stay.
            effective = os.access in os.supports_effective_ids
            locked = path.exists() and not os.access(path, os.W_OK, effective_ids=effective)
            if create and locked:
                raise LibraryError(f"{path} cannot be written: permission denied. Searching is possible all the same.")
            try:
                self._use((_untouched(path) if locked else None) or _connected(path), create)
            except sqlite3.OperationalError:
                if create or (db := _untouched(path)) is None:
                    raise
                self._use(db)
        except sqlite3.Error as error:
            raise unusable(path, error) from error

    def _use(self, db: sqlite3.Connection, update: bool = False) -> None:
        self._db = db
        try:
            db.execute("PRAGMA foreign_keys = ON")
            self._prepare(update)
        except BaseException:
            db.close()
            raise

    def _prepare(self, update: bool) -> None:
        version = self._version()
        if version == 0:
            self._db.execute("PRAGMA journal_mode = WAL")
            with self.transaction():
                if self._version() == 0:  # nobody was faster
                    self._make(_SCHEMA + texts.SCHEMA)
                    self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
                    self._db.execute(f"PRAGMA user_version = {VERSION}")
        elif READABLE <= version < VERSION and update:
            with self.transaction():
                if self._version() < VERSION:
                    self._make(texts.SCHEMA)  # nothing that was there is touched
                    self._db.execute(f"PRAGMA user_version = {VERSION}")
        elif version > VERSION:
            raise LibraryError(
                f"{self.path} was made by a newer Reelspace (format {version}; this one knows {VERSION}): "
                "upgrade Reelspace, or choose another library."
            )
        # Nothing is lost when the process dies; a power cut may cost the last files, never the catalogue.
        self._db.execute("PRAGMA synchronous = NORMAL")

    def _make(self, schema: str) -> None:
        for statement in schema.split(";\n"):
            self._db.execute(statement)

    @property
    def texts(self) -> texts.Texts | None:
        """What signals found; `None` in a library of an older version that has not been written to since."""
        return texts.Texts(self.path, self._db) if self._number("PRAGMA user_version") >= 2 else None

    def _version(self) -> int:
        tables = self._number("SELECT count(*) FROM sqlite_schema")
        if tables and self._number("PRAGMA application_id") != _APPLICATION:
            raise LibraryError(f"{self.path} is a database of something else; choose another folder for the library.")
        return self._number("PRAGMA user_version")

    def close(self) -> None:
        """Closes the connection."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, also when the process is killed.

        Raises:
            LibraryError: the catalogue could not be written (a full disk, a damaged file).
        """
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if not isinstance(error, sqlite3.OperationalError):
                raise unusable(self.path, error) from error
            raise LibraryError(
                f"{self.path} could not be written: {error}. What was there before is intact."
            ) from error

    def _one(self, sql: str, *values: str | float) -> object:
        row = self._db.execute(sql, values).fetchone()
        return None if row is None else row[0]

    def _number(self, sql: str, *values: str | float) -> int:
        found = self._one(sql, *values)
        assert isinstance(found, int | None)
        return found or 0

    @property
    def data_version(self) -> int:
        """Changes whenever another connection has written."""
        return self._number("PRAGMA data_version")

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file, and references that lead nowhere."""
        found = [str(row[0]) for row in self._db.execute("PRAGMA integrity_check") if row[0] != "ok"]
        return found + [
            f"row {row} of {table} refers to a row of {parent} that is not there"
            for table, row, parent, _ in self._db.execute("PRAGMA foreign_key_check")
        ]

    # Settings and roots

    def setting(self, name: str) -> str | None:
        """The value kept under `name`."""
        value = self._one("SELECT value FROM settings WHERE name = ?", name)
        return None if value is None else str(value)

    def set(self, name: str, value: str) -> None:
        """Keeps a value."""
        self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, value))

    def roots(self) -> list[Root]:
        """The folders and files the library was given, by path."""
        rows = self._db.execute("SELECT path, include, exclude, hidden FROM roots")
        found = [Root(_path(p), tuple(json.loads(i)), tuple(json.loads(e)), bool(h)) for p, i, e, h in rows]
        return sorted(found, key=lambda root: os.fsencode(root.path))

    def put_root(self, root: Root) -> None:
        """Adds a root, or changes what is wanted of it."""
        values = (stored(root.path), json.dumps(root.include), json.dumps(root.exclude), root.hidden)
        self._db.execute("INSERT OR REPLACE INTO roots VALUES (?, ?, ?, ?)", values)

    def forget_root(self, path: str) -> None:
        """Removes a root; its files stay known."""
        self._db.execute("DELETE FROM roots WHERE path = ?", (stored(path),))

    # Files

    def files(self) -> dict[str, FileRow]:
        """Every known file by path."""
        rows = self._db.execute("SELECT path, state, reason, video, size, mtime_ns, inode FROM files")
        return {
            _path(path): FileRow(_path(path), state, reason, video, None if size is None else Stamp(size, mtime, inode))
            for path, state, reason, video, size, mtime, inode in rows
        }

    def file(self, path: str) -> FileRow | None:
        """One file, if it is known."""
        return next(self._files("path = ?", stored(path)), None)

    def files_with(self, video: int) -> list[FileRow]:
        """The files that hold a content or, where they are missing or left out, held it."""
        return list(self._files("video = ?", video))

    def failed_files(self) -> list[FileRow]:
        """The files that failed."""
        return list(self._files("state = ?", "failed"))

    def _files(self, which: str, value: str | bytes | int) -> Iterator[FileRow]:
        rows = self._db.execute(
            f"SELECT path, state, reason, video, size, mtime_ns, inode FROM files WHERE {which}", (value,)
        )
        for path, state, reason, video, *stamp in rows:
            yield FileRow(_path(path), state, reason, video, None if stamp[0] is None else Stamp(*stamp))

    def put_file(self, file: FileRow) -> None:
        """Adds or changes a file."""
        stamp = file.stamp or (None, None, None)
        self._db.execute(
            "INSERT INTO files (path, state, reason, video, size, mtime_ns, inode) VALUES (?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (path) DO UPDATE SET state = excluded.state, reason = excluded.reason, "
            "video = excluded.video, size = excluded.size, mtime_ns = excluded.mtime_ns, inode = excluded.inode",
            (stored(file.path), file.state, file.reason, file.video, *stamp),
        )

    def forget_file(self, path: str) -> None:
        """Removes a file; its content stays until `prune`."""
        self._db.execute("DELETE FROM files WHERE path = ?", (stored(path),))

    def files_of(self, video: int) -> list[FileRow]:
        """The searchable files of one content, by path."""
        rows = self._db.execute(
            "SELECT path, size, mtime_ns, inode FROM files WHERE video = ? AND state = 'indexed'", (video,)
        )
        found = [FileRow(_path(path), "indexed", None, video, Stamp(*stamp)) for path, *stamp in rows]
        return sorted(found, key=lambda file: os.fsencode(file.path))

    def problems(self) -> list[tuple[str, str, str]]:
        """(path, state, reason) of every file that is not wholly indexed, by path."""
        rows = self._db.execute(
            "SELECT path, state, reason FROM files WHERE state IN ('failed', 'excluded') UNION ALL "
            "SELECT files.path, 'partial', coalesce(videos.partial || '; ' || embedded.reason, videos.partial, "
            "embedded.reason) FROM files JOIN videos ON videos.id = files.video "
            "LEFT JOIN embedded ON embedded.video = videos.id AND embedded.space = "
            "(SELECT id FROM spaces WHERE active) "
            "WHERE files.state = 'indexed' AND (videos.partial IS NOT NULL OR embedded.reason IS NOT NULL)"
        )
        return sorted(
            ((_path(path), state, reason) for path, state, reason in rows), key=lambda row: os.fsencode(row[0])
        )

    # Contents

    def video(self, hash: str) -> int | None:
        """The content of that hash."""
        found = self._number("SELECT id FROM videos WHERE hash = ?", hash)
        return found or None

    def contents(self, video: int | None = None) -> dict[int, ContentRow]:
        """Every known content (or one) by its id, in order of ids."""
        rows = self._db.execute(
            "SELECT id, hash, duration, width, height, codec, created, partial, windowing FROM videos "
            + ("ORDER BY id" if video is None else "WHERE id = ?"),
            () if video is None else (video,),
        )
        return {id: ContentRow(*row) for id, *row in rows}

    def hash_of(self, video: int) -> str:
        """The hash of a content."""
        return str(self._one("SELECT hash FROM videos WHERE id = ?", video))

    def put_video(self, hash: str, info: VideoInfo | ContentRow, partial: str | None, windowing: str) -> int:
        """Adds a content or replaces what is known of it; returns its id."""
        self._db.execute(
            "INSERT INTO videos (hash, duration, width, height, codec, created, partial, windowing) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (hash) DO UPDATE SET duration = excluded.duration, "
            "width = excluded.width, height = excluded.height, codec = excluded.codec, created = excluded.created, "
            "partial = excluded.partial, windowing = excluded.windowing",
            (hash, info.duration, info.width, info.height, info.codec, info.created, partial, windowing),
        )
        return self._number("SELECT id FROM videos WHERE hash = ?", hash)

    def windows_of(self, video: int) -> list[tuple[float, float]]:
        """The windows of one content, in order."""
        rows = self._db.execute('SELECT start, "end" FROM windows WHERE video = ? ORDER BY start, "end"', (video,))
        return [(start, end) for start, end in rows]

    def windowing_of(self, video: int) -> str:
        """How a content was cut into windows."""
        return str(self._one("SELECT windowing FROM videos WHERE id = ?", video))

    def set_windowing(self, video: int, windowing: str) -> None:
        """Notes that a content is as good as cut this way, although its windows are older."""
        self._db.execute("UPDATE videos SET windowing = ? WHERE id = ?", (windowing, video))

    def done(self, space: int, windowings: Sequence[str], video: int | None = None) -> dict[int, bool]:
        """Contents (or one of them) embedded in a space and cut by one of `windowings` → whether in part only."""
        rows = self._db.execute(
            "SELECT videos.id, videos.partial IS NOT NULL OR embedded.reason IS NOT NULL FROM embedded "
            "JOIN videos ON videos.id = embedded.video WHERE embedded.space = ? "
            "AND videos.windowing IN (SELECT value FROM json_each(?))"
            + ("" if video is None else " AND videos.id = ?"),
            (space, json.dumps(windowings), *([] if video is None else [video])),
        )
        return {id: bool(partial) for id, partial in rows}

    def put_windows(self, video: int, windows: Sequence[tuple[float, float]]) -> list[int]:
        """Makes these the windows of a content; returns their ids. Vectors of other windows of it are forgotten."""
        known = dict(self._window_ids(video))
        if others := set(known) - set(windows):
            self._db.executemany("DELETE FROM windows WHERE id = ?", [(known[window],) for window in others])
            self._db.execute("DELETE FROM embedded WHERE video = ?", (video,))
        rows = [(video, start, end) for start, end in windows if (start, end) not in known]
        self._db.executemany('INSERT OR IGNORE INTO windows (video, start, "end") VALUES (?, ?, ?)', rows)
        return self.window_ids(video, windows)

    def window_ids(self, video: int, windows: Sequence[tuple[float, float]]) -> list[int]:
        """The ids of some windows of a content, in this order."""
        ids = dict(self._window_ids(video))
        return [ids[window] for window in windows]

    def _window_ids(self, video: int) -> Iterator[tuple[tuple[float, float], int]]:
        for id, start, end in self._db.execute('SELECT id, start, "end" FROM windows WHERE video = ?', (video,)):
            yield (start, end), id

    def put_vectors(self, space: int, video: int, windows: Sequence[int], vectors: Vectors, reason: str | None) -> None:
        """Marks a content as done in a space, with its vectors; those it has are kept as they are."""
        blobs = [
            (space, window, vector.astype("<f4").tobytes()) for window, vector in zip(windows, vectors, strict=True)
        ]
        self._db.executemany("INSERT OR IGNORE INTO vectors (space, window, vector) VALUES (?, ?, ?)", blobs)
        self._db.execute("INSERT OR REPLACE INTO embedded VALUES (?, ?, ?)", (video, space, reason))

    def embedded(self, video: int) -> dict[int, str | None]:
        """The spaces in which a content is done → why windows of it have no vector there."""
        return dict(self._db.execute("SELECT space, reason FROM embedded WHERE video = ?", (video,)))

    def vectors_of(self, space: int, video: int) -> tuple[list[tuple[float, float]], Vectors]:
        """The windows of a content that have a vector in a space, in order of time, and the vectors `[n, d]`.

        Raises:
            LibraryError: they are of different lengths.
        """
        rows = self._db.execute(
            'SELECT start, "end", vector FROM windows JOIN vectors ON vectors.window = windows.id '
            'WHERE windows.video = ? AND space = ? ORDER BY start, "end"',
            (video, space),
        ).fetchall()
        dim = self._number("SELECT dim FROM spaces WHERE id = ?", space)
        if any(len(vector) != 4 * dim for *_, vector in rows):
            raise LibraryError(f"{self.path}: a vector is damaged; delete this file.")
        vectors = np.frombuffer(b"".join(vector for *_, vector in rows), "<f4").reshape(len(rows), dim)
        return [(start, end) for start, end, _ in rows], vectors

    def embedded_since(self, vector: int) -> tuple[list[int], int]:
        """The contents that have vectors with greater ids than this, and the newest id of all."""
        rows = self._db.execute(
            "SELECT DISTINCT windows.video FROM vectors JOIN windows ON windows.id = vectors.window "
            "WHERE vectors.id > ? ORDER BY windows.video",
            (vector,),
        )
        return [video for (video,) in rows], self._number("SELECT max(id) FROM vectors")

    def has_vectors(self, video: int) -> bool:
        """Whether a content can be found in any space."""
        return bool(
            self._number(
                "SELECT count(*) FROM vectors JOIN windows ON windows.id = vectors.window WHERE windows.video = ?",
                video,
            )
        )

    def prune(self) -> None:
        """Forgets contents that no wanted file has, and spaces that a newer one of their model has replaced."""
        self._db.execute("UPDATE files SET video = NULL WHERE state IN ('excluded', 'failed')")
        self.prune_contents()
        self._db.execute(
            "DELETE FROM spaces WHERE NOT active AND EXISTS "
            "(SELECT 1 FROM spaces AS newer WHERE newer.model = spaces.model AND newer.active)"
        )

    def prune_contents(self) -> None:
        """Forgets contents that no file has."""
        self._db.execute("DELETE FROM videos WHERE NOT EXISTS (SELECT 1 FROM files WHERE files.video = videos.id)")

    # Spaces and vectors

    def spaces(self) -> list[SpaceRow]:
        """The spaces, oldest first."""
        rows = self._db.execute("SELECT id, model, fingerprint, dim, active FROM spaces ORDER BY id")
        return [SpaceRow(id, model, fingerprint, dim, bool(active)) for id, model, fingerprint, dim, active in rows]

    def put_space(self, model: str, fingerprint: str, dim: int, canaries: Iterable[tuple[str, Vectors]]) -> int:
        """Adds a space with its canaries; returns its id."""
        self._db.execute(
            "INSERT INTO spaces (model, fingerprint, dim, active) VALUES (?, ?, ?, 0)", (model, fingerprint, dim)
        )
        space = self._number("SELECT id FROM spaces WHERE fingerprint = ?", fingerprint)
        self._db.executemany(
            "INSERT INTO canaries VALUES (?, ?, ?)",
            [(space, probe, vector.astype("<f4").tobytes()) for probe, vector in canaries],
        )
        return space

    def canaries(self, space: int) -> dict[str, NDArray[np.float32]]:
        """Probe → vector."""
        rows = self._db.execute("SELECT probe, vector FROM canaries WHERE space = ?", (space,))
        return {probe: np.frombuffer(vector, "<f4") for probe, vector in rows}

    def activate(self, space: int) -> None:
        """Makes searches use this space."""
        self._db.execute("UPDATE spaces SET active = 0 WHERE active")
        self._db.execute("UPDATE spaces SET active = 1 WHERE id = ?", (space,))

    def coverage(self, space: int) -> tuple[int, int, bool]:
        """Searchable contents and windows of a space, and whether it covers every indexed file."""
        searchable = "EXISTS (SELECT 1 FROM files WHERE files.video = {} AND files.state = 'indexed')"
        videos = self._number(
            f"SELECT count(*) FROM embedded WHERE space = ? AND {searchable.format('embedded.video')}", space
        )
        windows = self._number(
            "SELECT count(*) FROM vectors JOIN windows ON windows.id = vectors.window "
            f"WHERE vectors.space = ? AND {searchable.format('windows.video')}",
            space,
        )
        lacking = self._number(
            "SELECT count(*) FROM files WHERE state = 'indexed' AND video NOT IN "
            "(SELECT video FROM embedded WHERE space = ?)",
            space,
        )
        return videos, windows, lacking == 0

    def vectors(self, space: SpaceRow) -> SpaceVectors:
        """The vectors of a space."""
        return SpaceVectors(self, self._db, space)

    def windows(self, ids: Ids, windows: Ids | None = None) -> list[WindowRow]:
        """Which stretches these vectors stand for, in this order; a vector that is gone is left out.

        Args:
            ids: of vectors.
            windows: of which windows they are, where that is known: then no page of vectors is read, which in a large
                library is one more read from disk for each.
        """
        by, values = ("vectors", ids) if windows is None else ("windows", windows)
        wanted = set(ids.tolist())
        rows = {
            row[0]: WindowRow(*row)
            for chunk in _chunks(values.tolist())
            for row in self._db.execute(
                'SELECT vectors.id, videos.id, videos.hash, windows.start, windows."end" FROM vectors '
                "JOIN windows ON windows.id = vectors.window JOIN videos ON videos.id = windows.video "
                f"WHERE {by}.id IN ({', '.join('?' * len(chunk))})",
                chunk,
            )
            if row[0] in wanted  # a window has a vector in every space
        }
        return [rows[id] for id in ids.tolist() if id in rows]

    def lasting_windows(
        self, space: int, first: int = 0, end: int = 2**63 - 1
    ) -> Iterator[tuple[int, int, str, float, float, float]]:
        """(vector, content, its hash, start, end, its duration) of a space's windows, by the vector's id.

        Args:
            space: which one.
            first, end: only vectors with ids in `[first, end)`.
        """
        yield from self._db.execute(
            'SELECT vectors.id, videos.id, hash, start, "end", duration FROM vectors '
            "JOIN windows ON windows.id = vectors.window JOIN videos ON videos.id = windows.video "
            "WHERE vectors.space = ? AND vectors.id >= ? AND vectors.id < ? ORDER BY vectors.id",
            (space, first, end),
        )

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """What is read inside is of one state, whatever others write meanwhile."""
        self._db.execute("BEGIN")
        try:
            yield
        finally:
            self._db.execute("ROLLBACK")

    def dated_files(self) -> Iterator[tuple[str, int, float, float]]:
        """(path, content, duration, date) of every searchable file; date: when recorded, else the file's, in unix s."""
        rows = self._db.execute(
            "SELECT path, video, duration, coalesce(created, mtime_ns / 1e9) FROM files "
            "JOIN videos ON videos.id = files.video WHERE state = 'indexed'"
        )
        for path, video, duration, date in rows:
            yield _path(path), video, duration, date

    def totals(self) -> dict[str, float]:
        """Counts for `status`: files by state, partial ones, contents, their seconds and windows."""
        counts: dict[str, float] = dict.fromkeys(("indexed", "failed", "excluded", "missing"), 0)
        counts |= dict(self._db.execute("SELECT state, count(*) FROM files GROUP BY state"))
        indexed = "SELECT video FROM files WHERE state = 'indexed'"
        videos, seconds = self._db.execute(
            f"SELECT count(*), total(duration) FROM videos WHERE id IN ({indexed})"
        ).fetchone()
        windows = self._number(f"SELECT count(*) FROM windows WHERE video IN ({indexed})")
        return counts | {"videos": videos, "seconds": seconds, "windows": windows}


class SpaceVectors:
    """The vectors of one space: what caches of them follow (see `index/exact.py`)."""

    def __init__(self, catalogue: Catalogue, db: sqlite3.Connection, space: SpaceRow) -> None:
        """Use `Catalogue.vectors`."""
        self._path, self._db, self._space = catalogue.path, db, space

    def state(self, until: int | None = None) -> tuple[int, int]:
        """How many there are, and the newest id (0 if none); of those up to `until`, if given."""
        upto = 2**63 - 1 if until is None else until
        sql = "SELECT count(*), coalesce(max(id), 0) FROM vectors WHERE space = ? AND id <= ?"
        count, newest = self._db.execute(sql, (self._space.id, upto)).fetchone()
        return count, newest

    def ids(self, after: int = 0) -> Ids:
        """The ids greater than `after`, ascending int64."""
        by_id = "+" if after else ""  # look at the new rows only, not at an index of all
        rows = self._db.execute(f"SELECT id FROM vectors WHERE {by_id}space = ? AND id > ?", (self._space.id, after))
        return np.sort(np.fromiter((id for (id,) in rows), dtype=np.int64))

    def vectors(self, ids: Ids) -> Vectors:
        """The vectors of these ids, float32 `[n, dim]`, in this order.

        Raises:
            LibraryError: one is not there, or of another length.
        """
        found = np.empty((len(ids), self._space.dim), dtype=np.float32)
        for row, id in enumerate(ids.tolist()):
            blob = self._db.execute("SELECT vector FROM vectors WHERE id = ?", (id,)).fetchone()
            if blob is None or len(blob[0]) != 4 * self._space.dim:
                raise LibraryError(f"{self._path}: vector {id} is damaged; `reelspace verify` says more.")
            found[row] = np.frombuffer(blob[0], "<f4")
        return found

    def origins(self, ids: Ids) -> Ids:
        """The content and the window that the vectors of these ids are of, int64 `[n, 2]`, in this order.

        Raises:
            LibraryError: one is not there.
        """
        rows = {
            id: origin
            for chunk in _chunks(ids.tolist())
            for id, *origin in self._db.execute(
                "SELECT vectors.id, windows.video, windows.id FROM vectors JOIN windows ON windows.id = vectors.window "
                f"WHERE vectors.id IN ({', '.join('?' * len(chunk))})",
                chunk,
            )
        }
        if lost := set(ids.tolist()) - set(rows):
            raise LibraryError(f"{self._path}: vector {min(lost)} is damaged; `reelspace verify` says more.")
        return np.array([rows[id] for id in ids.tolist()], np.int64).reshape(-1, 2)


def _connected(name: Path | str) -> sqlite3.Connection:
    uri = isinstance(name, str)
    return sqlite3.connect(name, uri=uri, isolation_level=None, check_same_thread=False, timeout=60)


def _untouched(path: Path) -> sqlite3.Connection | None:
    """A file that nobody is writing, opened without the files beside it that readers share with writers.

    On a file system that is read-only it is read in place. Elsewhere somebody may come to write, and it is copied to
    memory: what they write is seen when it is opened again.
    """
    before = _written(path)
    if before is None:
        return None
    db = _connected(f"{path.absolute().as_uri()}?mode=ro&immutable=1")
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return db
    copy = _connected(":memory:")
    db.backup(copy)
    db.close()
    return copy if _written(path) == before else None


def _written(path: Path) -> Stamp | None:
    """Which state of the file this is; `None` where its log holds more."""
    with suppress(FileNotFoundError):
        if path.with_name(f"{path.name}-wal").stat().st_size:
            return None
    stat = path.stat()
    return Stamp(stat.st_size, stat.st_mtime_ns, stat.st_ino)


def unusable(path: Path, error: sqlite3.Error) -> LibraryError:
    """What an error of SQLite means for the catalogue at `path`. Only damage is a reason to give it up."""
    if isinstance(error, sqlite3.OperationalError):
        return LibraryError(f"{path} cannot be used: {error}. Is the disk full, or the folder not writable?")
    return LibraryError(f"{path} is damaged: {error}. Restore a copy of it, or move it away and index again.")


def _path(kept: str | bytes) -> str:
    return os.fsdecode(kept)


def _chunks(values: list[int], size: int = 500) -> Iterator[list[int]]:
    """SQLite takes a limited number of values in one statement."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
