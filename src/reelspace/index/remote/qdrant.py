"""Windows in Qdrant: a point each. Notes are points without a vector, in block −1, so that one collection is all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

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

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
    from qdrant_client.models import Condition, Filter

_VECTOR = "window"  # a named vector, as points may lack such a one
_NOTES = -1
_TIMEOUT = 60  # seconds, for one request
_LINKS = 16  # of an HNSW graph
_PAGE = 10_000
_MANY = 1 << 30


class QdrantStore(RemoteStore):
    """A collection."""

    @classmethod
    def at(cls, url: str, patience: tuple[float, ...]) -> QdrantStore:
        """The store at `qdrant://[:KEY@]HOST[:PORT]/COLLECTION[?tls=true]`; the key else in `$QDRANT_API_KEY`."""
        try:
            import qdrant_client
        except ImportError:
            raise LibraryError("A store in Qdrant needs its client: pip install 'reelspace[qdrant]'.") from None
        parts = urlsplit(url)
        collection = unquote(parts.path.strip("/"))
        if not parts.hostname or not collection or "/" in collection:
            raise LibraryError("A collection of Qdrant is named qdrant://HOST[:PORT]/COLLECTION.")
        key = unquote(parts.password or parts.username or "") or os.environ.get("QDRANT_API_KEY") or None
        tls = parse_qs(parts.query).get("tls", ["false"])[0].lower() in ("true", "1", "yes")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        address = f"{host}:{parts.port or 6333}"
        client = qdrant_client.QdrantClient(
            url=f"{'https' if tls else 'http'}://{address}", api_key=key, timeout=_TIMEOUT, check_compatibility=False
        )
        return cls(client, collection, f"qdrant://{address}/{collection}", patience)

    def __init__(self, client: QdrantClient, collection: str, name: str, patience: tuple[float, ...] = ()) -> None:
        """Use `at`."""
        self.name, self.patience = name, patience
        self._client, self._collection = client, collection

    @contextmanager
    def _talking(self) -> Iterator[None]:
        """Says what errors mean."""
        from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        try:
            yield
        except ResourceExhaustedResponse as error:
            raise TransientError(f"{self.name} asks to be left alone: {error}.", error.retry_after_s) from error
        except ResponseHandlingException as error:
            if isinstance(error.source, ValueError):
                raise StoreError(
                    f"{self.name} answers what this client does not understand: {error.source}."
                ) from error
            raise TransientError(
                f"{self.name} cannot be reached: {error.source or error}. Is the server running, and the address right?"
            ) from error
        except UnexpectedResponse as error:
            said = _said(error.content)
            if error.status_code in (401, 403):
                raise StoreError(
                    f"{self.name}: the server refuses: {said}. Give a key with the rights in $QDRANT_API_KEY, or in "
                    "the URL."
                ) from error
            if error.status_code is None or error.status_code >= 500 or error.status_code in (408, 429):
                raise TransientError(f"{self.name} fails: {error.status_code} {said}.") from error
            raise StoreError(f"{self.name}: {error.status_code} {said}.") from error

    # The contract

    def prepare(self, dim: int) -> None:
        self._create(dim)
        for field, kind in _INDEXED.items():
            self._index(field, kind)

    @patiently
    def _create(self, dim: int) -> None:
        from qdrant_client import models

        with self._talking():
            if not self._client.collection_exists(self._collection):
                self._client.create_collection(
                    self._collection,
                    vectors_config={_VECTOR: models.VectorParams(size=dim, distance=models.Distance.DOT)},
                    hnsw_config=models.HnswConfigDiff(m=0),  # no graph is built before one is wanted
                )
            declared = self._client.get_collection(self._collection).config.params.vectors
        one = declared.get(_VECTOR) if isinstance(declared, dict) else None
        if one is None or one.distance is not models.Distance.DOT:
            raise StoreError(f"{self.name} is a collection of something else: push to another one.")
        if one.size != dim:
            raise StoreError(
                f"{self.name} holds vectors of {one.size} numbers, the library's have {dim}: they are of another "
                "model. Push to another collection."
            )

    @patiently
    def _index(self, field: str, kind: str) -> None:
        from qdrant_client import models

        with self._talking():
            self._client.create_payload_index(self._collection, field, models.PayloadSchemaType(kind), wait=True)

    @patiently
    def note(self, name: str) -> str | None:
        from qdrant_client.http.exceptions import UnexpectedResponse

        with self._talking():
            try:
                found = self._client.retrieve(self._collection, [_note_id(name)], with_payload=True)
            except UnexpectedResponse as error:
                if error.status_code == 404:
                    return None
                raise
        return str((found[0].payload or {})["value"]) if found else None

    @patiently
    def notes(self) -> dict[str, str]:
        return {str(payload["note"]): str(payload["value"]) for _, payload in self._listed(_NOTES, ["note", "value"])}

    @patiently
    def set_note(self, name: str, value: str | None) -> None:
        from qdrant_client import models

        with self._talking():
            if value is None:
                self._client.delete(self._collection, models.PointIdsList(points=[_note_id(name)]), wait=True)
                return
            payload = {"block": _NOTES, "note": name, "value": value}
            point = models.PointStruct(id=_note_id(name), vector={}, payload=payload)
            self._client.upsert(self._collection, [point], wait=True)

    @patiently
    def put(self, rows: Sequence[Row], vectors: Vectors | None) -> None:
        from qdrant_client import models

        if not rows:
            return
        with self._talking():
            if vectors is None:
                self._client.batch_update_points(
                    self._collection,
                    [
                        models.OverwritePayloadOperation(
                            overwrite_payload=models.SetPayload(payload=_payload(row), points=[row.id])
                        )
                        for row in rows
                    ],
                    wait=True,
                )
                return
            points = models.Batch(
                ids=[row.id for row in rows],
                vectors={_VECTOR: vectors.tolist()},
                payloads=[_payload(row) for row in rows],
            )
            self._client.upsert(self._collection, points, wait=True)

    @patiently
    def remove(self, ids: Sequence[int] | Ids) -> None:
        from qdrant_client import models

        if not len(ids):
            return
        with self._talking():
            points = models.PointIdsList(points=[int(id) for id in ids])
            self._client.delete(self._collection, points, wait=True)

    @patiently
    def block(self, number: int) -> dict[int, str]:
        return {id: str(payload["digest"]) for id, payload in self._listed(number, ["digest"])}

    def _listed(self, block: int, fields: list[str]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """The points of a block, with these fields."""
        from qdrant_client import models

        of_block = models.Filter(must=[models.FieldCondition(key="block", match=models.MatchValue(value=block))])
        offset: Any = None
        while True:
            with self._talking():
                points, offset = self._client.scroll(
                    self._collection, of_block, limit=_PAGE, offset=offset, with_payload=fields
                )
            for point in points:
                yield point.id, point.payload or {}
            if offset is None:
                return

    @patiently
    def nearest(self, query: Vectors, k: int, where: Where, approximate: bool) -> tuple[list[Row], Vectors]:
        from qdrant_client import models

        with self._talking():
            points = self._client.query_points(
                self._collection,
                query=query.tolist(),
                using=_VECTOR,
                query_filter=_filter(where),
                search_params=models.SearchParams(exact=not approximate),
                limit=k,
                with_payload=True,
                with_vectors=[_VECTOR],
            ).points
        return [_row(point.id, point.payload or {}) for point in points], _vectors(points, len(query))

    @patiently
    def vectors(self, ids: Ids) -> Vectors:
        with self._talking():
            points = self._client.retrieve(self._collection, ids.tolist(), with_payload=False, with_vectors=[_VECTOR])
        found = {point.id: point for point in points}
        there = [found[id] for id in ids.tolist() if id in found]
        return _vectors(there, 0)

    @patiently
    def paths(self) -> list[str]:
        with self._talking():
            hits = self._client.facet(self._collection, "files[].path", limit=_MANY, exact=True).hits
        return [read_path(str(hit.value)) for hit in hits]

    @patiently
    def approximate(self, wanted: bool) -> None:
        from qdrant_client import models

        with self._talking():
            graph = models.HnswConfigDiff(m=_LINKS if wanted else 0)
            self._client.update_collection(self._collection, hnsw_config=graph)

    @patiently
    def _count(self) -> int:
        from qdrant_client import models

        windows = models.Filter(must=[models.FieldCondition(key="block", range=models.Range(gte=0))])
        with self._talking():
            return self._client.count(self._collection, windows, exact=True).count

    def __len__(self) -> int:
        return self._count()

    def close(self) -> None:
        self._client.close()


_INDEXED = {
    "block": "integer",
    "video": "keyword",
    "duration": "float",
    "files[].path": "keyword",
    "files[].date": "float",
}


def _payload(row: Row) -> dict[str, Any]:
    files = [{"path": stored_path(file.path), "date": file.date} for file in row.files]
    return {key: value for key, value in row._asdict().items() if key != "id"} | {
        "files": files,
        "digest": row.digest,
        "block": row.id // BLOCK,
    }


def _row(id: Any, payload: dict[str, Any]) -> Row:
    files = tuple(PlacedFile(read_path(file["path"]), float(file["date"])) for file in payload["files"])
    start, end, duration = (float(payload[key]) for key in ("start", "end", "duration"))
    return Row(int(id), str(payload["video"]), start, end, duration, files)


def _filter(where: Where) -> Filter:
    from qdrant_client import models

    conditions: list[Condition] = [
        models.FieldCondition(key=key, range=models.Range(gte=bounds[0], lte=bounds[1]))
        for key, bounds in (("duration", where.duration),)
        if bounds != (None, None)
    ]
    placed: list[Condition] = []
    if where.paths is not None:
        paths = [stored_path(path) for path in where.paths]
        placed.append(models.FieldCondition(key="path", match=models.MatchAny(any=paths)))
    if where.dated != (None, None):
        placed.append(models.FieldCondition(key="date", range=models.Range(gte=where.dated[0], lte=where.dated[1])))
    if placed:
        inside = models.Nested(key="files", filter=models.Filter(must=placed))
        conditions.append(models.NestedCondition(nested=inside))
    if where.ids is not None:
        conditions.append(models.HasIdCondition(has_id=where.ids.tolist()))
    absent: list[Condition] = [models.IsEmptyCondition(is_empty=models.PayloadField(key="files"))]
    return models.Filter(must=conditions, must_not=absent if where.present else None)


def _vectors(points: Sequence[Any], dim: int) -> Vectors:
    return np.array([point.vector[_VECTOR] for point in points], np.float32).reshape(len(points), -1 if points else dim)


def _note_id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"reelspace/{name}"))


def _said(content: bytes) -> str:
    """What the server said, in one line."""
    import json

    try:
        status = json.loads(content)["status"]
        text = str(status["error"] if isinstance(status, dict) else status)
    except (ValueError, KeyError, TypeError):
        text = content[:200].decode("utf-8", "replace")
    return " ".join(text.split()).rstrip(".") or "without a reason"
