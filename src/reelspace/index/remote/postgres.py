"""Windows in PostgreSQL with the extension pgvector: three tables in a schema named as the collection."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, LiteralString
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np

from reelspace.errors import LibraryError
from reelspace.index.base import Ids, Vectors
from reelspace.index.remote.base import (
    BLOCK,
    PlacedFile,
    RemoteStore,
    Row,
    StoreError,
    TransientError,
    Where,
    patiently,
    read_path,
    stored_path,
)
from reelspace.index.searcher import Range

if TYPE_CHECKING:
    import psycopg
    from psycopg.sql import Composed

DEFAULT = "reelspace"
_INLINE = 1900  # numbers that fit into a page: kept there, scans need not fetch them from elsewhere
_HALVED = 2000  # above so many numbers pgvector indexes half-precision vectors only
_MOST = 1000  # pgvector's largest ef_search
_BATCH = 500


class PostgresStore(RemoteStore):
    """Tables `windows`, `files` and `notes`."""

    @classmethod
    def at(cls, url: str, patience: tuple[float, ...]) -> PostgresStore:
        """The store of a URL as libpq takes it, with `collection=NAME` among its parameters or not."""
        try:
            import pgvector.psycopg  # noqa: F401
            import psycopg  # noqa: F401
        except ImportError:
            raise LibraryError("A store in PostgreSQL needs two packages: pip install 'reelspace[postgres]'.") from None
        parts = urlsplit(url)
        parameters = dict(parse_qsl(parts.query))
        collection = parameters.pop("collection", DEFAULT)
        shown = {key: value for key, value in parameters.items() if "password" not in key} | {"collection": collection}
        user, host = parts.netloc.rpartition("@")[::2]
        user = f"{user.partition(':')[0]}@" if user else ""
        conninfo = f"postgresql://{parts.netloc}{parts.path}?{urlencode(parameters)}"
        return cls(
            conninfo, collection, f"postgresql://{user}{host}{parts.path}?{urlencode(shown, safe='/')}", patience
        )

    def __init__(self, conninfo: str, collection: str, name: str, patience: tuple[float, ...] = ()) -> None:
        """Use `at`."""
        self.name, self.patience = name, patience
        self._conninfo, self._schema = conninfo, collection
        self._connected: psycopg.Connection[Any] | None = None
        self._lock = threading.RLock()

    # The conversation

    @contextmanager
    def _talking(self) -> Iterator[psycopg.Connection[Any]]:
        """The connection, made if there is none, for one thread at a time; says what errors mean."""
        import psycopg

        with self._lock:
            try:
                yield self._connection()
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                state = error.sqlstate or ""
                message = _line(error)
                if self._connected is not None and (self._connected.broken or self._connected.closed):
                    self._connected = None
                if state.startswith("28") or "password" in message:
                    raise StoreError(
                        f"{self.name}: the server refuses: {message}. Give user and password in the URL, or in "
                        "$PGUSER and $PGPASSWORD, or in ~/.pgpass."
                    ) from error
                if state.startswith("3D") or "does not exist" in message:
                    raise StoreError(f"{self.name}: {message}. Create it with `createdb`.") from error
                raise TransientError(
                    f"{self.name} cannot be reached: {message}. Is the server running, and the address right?"
                ) from error
            except psycopg.Error as error:
                raise StoreError(f"{self.name}: {_line(error)}.") from error

    def _connection(self) -> psycopg.Connection[Any]:
        if self._connected is None:
            import psycopg
            from pgvector.psycopg import register_vector
            from psycopg.conninfo import conninfo_to_dict

            settings: dict[str, Any] = {"connect_timeout": 10, "application_name": "reelspace"} | conninfo_to_dict(
                self._conninfo
            )
            connection = psycopg.connect(**settings, autocommit=True)
            if connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone():
                register_vector(connection)
            self._connected = connection
        return self._connected

    def _sql(self, text: LiteralString) -> Composed:
        """A statement in which `{s}` is the schema."""
        from psycopg.sql import SQL, Identifier

        return SQL(text).format(s=Identifier(self._schema))

    @property
    def _there(self) -> bool:
        with self._talking() as db:
            return bool(
                db.execute(
                    "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'windows'", (self._schema,)
                ).fetchone()
            )

    # The contract

    @patiently
    def prepare(self, dim: int) -> None:
        from pgvector.psycopg import register_vector
        from psycopg import Error

        with self._talking() as db:
            try:
                db.execute("CREATE EXTENSION IF NOT EXISTS vector")
            except Error as error:
                raise StoreError(
                    f"{self.name}: the extension pgvector is not to be had: {_line(error)}. Have it installed on the "
                    "server, and an administrator run CREATE EXTENSION vector in this database."
                ) from error
            register_vector(db)
            with db.transaction():
                for statement in _TABLES.split(";\n"):
                    db.execute(self._sql(statement.replace("DIM", str(int(dim)))))
                if dim <= _INLINE:
                    db.execute(self._sql("ALTER TABLE {s}.windows ALTER COLUMN vector SET STORAGE PLAIN"))
            declared = self._dim(db)
            if declared != dim:
                raise StoreError(
                    f"{self.name} holds vectors of {declared} numbers, the library's have {dim}: they are of another "
                    "model. Push to another collection."
                )

    def _dim(self, db: psycopg.Connection[Any]) -> int:
        row = db.execute(
            "SELECT atttypmod FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid "
            "JOIN pg_namespace ON pg_namespace.oid = relnamespace "
            "WHERE nspname = %s AND relname = 'windows' AND attname = 'vector'",
            (self._schema,),
        ).fetchone()
        return int(row[0]) if row else 0

    @patiently
    def note(self, name: str) -> str | None:
        if not self._there:
            return None
        with self._talking() as db:
            row = db.execute(self._sql("SELECT value FROM {s}.notes WHERE name = %s"), (name,)).fetchone()
            return None if row is None else str(row[0])

    @patiently
    def notes(self) -> dict[str, str]:
        with self._talking() as db:
            return dict(db.execute(self._sql("SELECT name, value FROM {s}.notes")).fetchall())

    @patiently
    def set_note(self, name: str, value: str | None) -> None:
        with self._talking() as db:
            if value is None:
                db.execute(self._sql("DELETE FROM {s}.notes WHERE name = %s"), (name,))
            else:
                db.execute(
                    self._sql(
                        "INSERT INTO {s}.notes VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
                    ),
                    (name, value),
                )

    @patiently
    def put(self, rows: Sequence[Row], vectors: Vectors | None) -> None:
        with self._talking() as db, db.transaction(), db.cursor() as cursor:
            told = [(row.video, row.start, row.end, row.duration, row.digest) for row in rows]
            if vectors is None:
                cursor.executemany(
                    self._sql(
                        'UPDATE {s}.windows SET (video, start, "end", duration, digest) = (%s, %s, %s, %s, %s) '
                        "WHERE id = %s"
                    ),
                    [(*values, row.id) for values, row in zip(told, rows, strict=True)],
                )
            else:
                cursor.executemany(
                    self._sql(
                        'INSERT INTO {s}.windows (id, video, start, "end", duration, digest, vector) '
                        "VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET video = excluded.video, "
                        'start = excluded.start, "end" = excluded."end", duration = excluded.duration, '
                        "digest = excluded.digest, vector = excluded.vector"
                    ),
                    [(row.id, *values, vector) for row, values, vector in zip(rows, told, vectors, strict=True)],
                )
            files = {row.video: row.files for row in rows}
            cursor.execute(self._sql("DELETE FROM {s}.files WHERE video = ANY(%s)"), (list(files),))
            cursor.executemany(
                self._sql("INSERT INTO {s}.files (video, path, date) VALUES (%s, %s, %s)"),
                [(video, stored_path(file.path), file.date) for video, placed in files.items() for file in placed],
            )

    @patiently
    def remove(self, ids: Sequence[int] | Ids) -> None:
        with self._talking() as db, db.transaction():
            gone = db.execute(
                self._sql("DELETE FROM {s}.windows WHERE id = ANY(%s) RETURNING video"), ([int(id) for id in ids],)
            ).fetchall()
            db.execute(
                self._sql(
                    "DELETE FROM {s}.files WHERE video = ANY(%s) AND NOT EXISTS "
                    "(SELECT 1 FROM {s}.windows WHERE windows.video = files.video)"
                ),
                (list({video for (video,) in gone}),),
            )

    @patiently
    def block(self, number: int) -> dict[int, str]:
        with self._talking() as db:
            return dict(
                db.execute(
                    self._sql("SELECT id, digest FROM {s}.windows WHERE id >= %s AND id < %s"),
                    (number * BLOCK, (number + 1) * BLOCK),
                ).fetchall()
            )

    @patiently
    def nearest(self, query: Vectors, k: int, where: Where, approximate: bool) -> tuple[list[Row], Vectors]:
        from psycopg.sql import SQL

        conditions, values = self._conditions(where)
        dim = len(query)
        column = f"vector::halfvec({dim})" if approximate and dim > _HALVED else "vector"
        sign = "%s::halfvec" if approximate and dim > _HALVED else "%s"
        with self._talking() as db, db.transaction(), db.cursor(binary=True) as cursor:
            if approximate:
                cursor.execute(f"SET LOCAL hnsw.ef_search = {min(_MOST, max(2 * k, 100))}")
                cursor.execute("SET LOCAL hnsw.iterative_scan = strict_order")
            else:
                cursor.execute("SET LOCAL enable_indexscan = off")  # an index on vectors is approximate
            cursor.execute(
                SQL(" ").join(
                    [
                        self._sql('SELECT id, video, start, "end", duration, vector FROM {s}.windows'),
                        conditions,
                        SQL(f"ORDER BY {column} <#> {sign} LIMIT %s"),
                    ]
                ),
                (*values, query, k),
            )
            found = cursor.fetchall()
            cursor.execute(
                self._sql("SELECT video, path, date FROM {s}.files WHERE video = ANY(%s)"),
                (list({row[1] for row in found}),),
            )
            files: dict[str, list[PlacedFile]] = {}
            for video, path, date in cursor.fetchall():
                files.setdefault(video, []).append(PlacedFile(read_path(path), date))
        rows = [
            Row(id, video, start, end, duration, tuple(sorted(files.get(video, ()))))
            for id, video, start, end, duration, _ in found
        ]
        return rows, _stacked([row[-1] for row in found], dim)

    def _conditions(self, where: Where) -> tuple[Composed, list[Any]]:
        """The WHERE clause and its values."""
        from psycopg.sql import SQL, Composed

        placed, values = _bounds("date", where.dated)
        if where.paths is not None:
            placed.append("path = ANY(%s)")
            values.append([stored_path(path) for path in where.paths])
        conditions: list[Any] = []
        if placed or where.present:
            inner = SQL(" AND ").join([SQL(one) for one in placed]) if placed else SQL("true")
            conditions.append(self._sql("video IN (SELECT video FROM {s}.files WHERE ") + inner + SQL(")"))
        lasting, bounds = _bounds("duration", where.duration)
        conditions += [SQL(one) for one in lasting]
        values += bounds
        if where.ids is not None:
            conditions.append(SQL("id = ANY(%s)"))
            values.append(where.ids.tolist())
        clause = SQL("WHERE ") + SQL(" AND ").join(conditions) if conditions else Composed([])
        return clause, values

    @patiently
    def vectors(self, ids: Ids) -> Vectors:
        with self._talking() as db, db.cursor(binary=True) as cursor:
            cursor.execute(self._sql("SELECT id, vector FROM {s}.windows WHERE id = ANY(%s)"), (ids.tolist(),))
            found = dict(cursor.fetchall())
            return _stacked([found[id] for id in ids.tolist() if id in found], self._dim(db))

    @patiently
    def paths(self) -> list[str]:
        with self._talking() as db:
            return [read_path(path) for (path,) in db.execute(self._sql("SELECT DISTINCT path FROM {s}.files"))]

    @patiently
    def approximate(self, wanted: bool) -> None:
        with self._talking() as db:
            if not wanted:
                db.execute(self._sql("DROP INDEX IF EXISTS {s}.windows_near"))
                return
            dim = self._dim(db)
            form = f"((vector::halfvec({dim})) halfvec_ip_ops)" if dim > _HALVED else "(vector vector_ip_ops)"
            db.execute(self._sql("CREATE INDEX IF NOT EXISTS windows_near ON {s}.windows USING hnsw " + form))

    @patiently
    def _count(self) -> int:
        with self._talking() as db:
            row = db.execute(self._sql("SELECT count(*) FROM {s}.windows")).fetchone()
            return int(row[0]) if row else 0

    def __len__(self) -> int:
        return self._count()

    def close(self) -> None:
        with self._lock:
            if self._connected is not None:
                self._connected.close()
                self._connected = None


_TABLES = """CREATE SCHEMA IF NOT EXISTS {s};
CREATE TABLE IF NOT EXISTS {s}.notes (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE IF NOT EXISTS {s}.windows (
    id bigint PRIMARY KEY, video text NOT NULL, start float8 NOT NULL, "end" float8 NOT NULL,
    duration float8 NOT NULL, digest text NOT NULL, vector vector(DIM) NOT NULL
);
CREATE INDEX IF NOT EXISTS windows_video ON {s}.windows (video);
CREATE TABLE IF NOT EXISTS {s}.files (
    video text NOT NULL, path text NOT NULL, date float8 NOT NULL, PRIMARY KEY (video, path)
);
CREATE INDEX IF NOT EXISTS files_path ON {s}.files (path)"""


def _bounds(column: str, bounds: Range) -> tuple[list[str], list[Any]]:
    given = [(sign, value) for sign, value in zip((">=", "<="), bounds, strict=True) if value is not None]
    return [f"{column} {sign} %s" for sign, _ in given], [value for _, value in given]


def _stacked(vectors: Sequence[Any], dim: int) -> Vectors:
    """Rows float32 `[n, dim]` of what pgvector's adapter returns."""
    if not vectors:
        return np.empty((0, dim), np.float32)
    return np.stack([np.asarray(v.to_numpy() if hasattr(v, "to_numpy") else v, np.float32) for v in vectors])


def _line(error: Exception) -> str:
    """An error's message in one line, without what would give a password away."""
    text = " ".join(str(error).split()).rstrip(".")
    return re.sub(r"password=\S+|//[^@/\s]*@", "…", text)
