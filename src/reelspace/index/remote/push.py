"""Keeps a store in step with a catalogue.

Ids are compared in blocks. A block whose rows all are as the last push left them is known by one note, a digest of its
rows, and costs nothing. For any other the store is asked what it holds, and gets what it lacks. The note is taken away
before anything in its block is touched and written when all of it is there: however a push ends, the next one finds
what is left to do, and nothing that has arrived travels again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from reelspace.answers import PushProgress, PushReport
from reelspace.index.ann import AnnStore
from reelspace.index.base import Ids
from reelspace.index.catalogue import Catalogue, SpaceRow
from reelspace.index.remote.base import BLOCK, PlacedFile, RemoteStore, Row, StoreError, digest
from reelspace.index.remote.head import Head, read_head, write_head, write_sample
from reelspace.index.searcher import SAMPLE

PATIENCE = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0)  # seconds: a server that restarts is waited for
BATCH = 256  # rows that travel together: some 2 MB as JSON
_BLOCK_NOTE = "block "


def identity(writer: Catalogue) -> str:
    """What tells this catalogue from others; made when first asked for."""
    known = writer.setting("identity")
    if known is None:
        known = uuid.uuid4().hex
        with writer.transaction():
            writer.set("identity", known)
    return known


class _Block(NamedTuple):
    """How many rows, and a digest of them all; `None` where there are none."""

    size: int
    digest: str | None

    @classmethod
    def of(cls, rows: Iterable[Row]) -> _Block:
        digests = [f"{row.id}:{row.digest}" for row in rows]
        return cls(len(digests), digest(",".join(digests)))


class Pusher:
    """Brings one store in step with one state of a space. Made for one push; its caller sees to it that it is alone."""

    def __init__(
        self,
        catalogue: Catalogue,
        space: SpaceRow,
        library: str,
        local: AnnStore,
        store: RemoteStore,
        progress: Callable[[PushProgress], None] | None = None,
    ) -> None:
        """`local` is the space's own store, whose sample of what is usual the remote one shares."""
        self._catalogue, self._space, self._store = catalogue, space, store
        self._head = Head(library, space.model, space.fingerprint, space.dim)
        self._sample: Ids = local.exact.sample_ids(SAMPLE)
        self._source = catalogue.vectors(space)
        self._progress = progress
        self._counts = dict.fromkeys(("added", "updated", "removed", "unchanged"), 0)
        self._total = self._source.state()[0]

    def run(self, approximate: bool | None = None, recheck: bool = False) -> PushReport:
        """Pushes what the store lacks.

        Args:
            approximate: have the server make or drop an index; `None`: as it is.
            recheck: list all that the store holds instead of trusting its notes.

        Raises:
            StoreError: it holds something else, or cannot be used.
        """
        before = self._prepared()
        noted = self._noted(recheck)
        blocks = {number: _Block.of(rows) for number, rows in groupby(self._rows(), lambda row: row.id // BLOCK)}
        if noted == {number: block.digest for number, block in blocks.items()} and len(self._store) != self._total:
            noted = dict.fromkeys(noted, "")  # somebody else has added or taken rows: only a look tells which
        for number in sorted(blocks.keys() | noted.keys()):
            block = blocks.get(number, _Block(0, None))
            if noted.get(number) == block.digest:
                self._count("unchanged", block.size)
            else:
                self._bring(number, block)
        write_sample(self._store, self._sample)
        wanted = before.approximate if approximate is None else approximate
        if wanted != before.approximate:
            self._store.approximate(wanted)
        text = f"{sorted(blocks.items())}{self._sample.tolist()}{wanted}"
        after = self._head._replace(complete=True, approximate=wanted, revision=digest(text))
        if after != before:
            write_head(self._store, after)
        return PushReport(
            store=self._store.name,
            model=self._space.model,
            fingerprint=self._space.fingerprint,
            windows=self._total,
            approximate=wanted,
            **self._counts,
        )

    def _prepared(self) -> Head:
        """The head of the store, which is made where there is none."""
        head = read_head(self._store)
        self._check(head)
        self._store.prepare(self._space.dim)
        if head is None:
            if len(self._store):
                raise StoreError(f"{self._store.name} holds something else already: push to another collection.")
            head = self._head
            write_head(self._store, head)
        return head

    def _check(self, head: Head | None) -> None:
        if head is None:
            return
        if head.library != self._head.library:
            raise StoreError(
                f"{self._store.name} holds the windows of another library: push to another collection, or delete "
                "this one."
            )
        if head.fingerprint != self._head.fingerprint:
            raise StoreError(
                f"{self._store.name} holds vectors of {head.model} ({head.fingerprint}), the library searches with "
                f"{self._head.model} ({self._head.fingerprint}): push to another collection and let searches use that."
            )

    def _noted(self, recheck: bool) -> dict[int, str]:
        """Block → the digest that it had when it was last seen to be whole."""
        notes = {
            int(name.removeprefix(_BLOCK_NOTE)): value
            for name, value in self._store.notes().items()
            if name.startswith(_BLOCK_NOTE)
        }
        return dict.fromkeys(notes, "") if recheck else notes

    @cached_property
    def _files(self) -> dict[int, tuple[PlacedFile, ...]]:
        """The searchable files of every content."""
        placed: dict[int, list[PlacedFile]] = {}
        for path, video, _, date in self._catalogue.dated_files():
            placed.setdefault(video, []).append(PlacedFile(path, date))
        return {video: tuple(sorted(of_one)) for video, of_one in placed.items()}

    def _rows(self, *between: int) -> Iterator[Row]:
        """What the catalogue has, by id; those with ids in `[between)`, if given."""
        for id, video, hash, start, end, duration in self._catalogue.lasting_windows(self._space.id, *between):
            yield Row(id, hash, start, end, duration, self._files.get(video, ()))

    def _bring(self, number: int, block: _Block) -> None:
        """Makes the store hold the rows of one block."""
        note = f"{_BLOCK_NOTE}{number}"
        rows = list(self._rows(number * BLOCK, (number + 1) * BLOCK))
        self._store.set_note(note, None)
        held = self._store.block(number)
        wanted = {row.id for row in rows}
        gone = [id for id in held if id not in wanted]
        for part in _batches(gone):
            self._store.remove(part)
            self._count("removed", len(part))
        for part in _batches([row for row in rows if row.id not in held]):
            ids = np.array([row.id for row in part], np.int64)
            self._store.put(part, self._source.vectors(ids))
            self._count("added", len(part))
        for part in _batches([row for row in rows if row.id in held and held[row.id] != row.digest]):
            self._store.put(part, None)
            self._count("updated", len(part))
        self._count("unchanged", sum(held.get(row.id) == row.digest for row in rows))
        if block.digest is not None:
            self._store.set_note(note, block.digest)

    def _count(self, what: str, number: int) -> None:
        self._counts[what] += number
        if self._progress is not None and number:
            done = sum(self._counts[what] for what in ("added", "updated", "unchanged"))
            self._progress(PushProgress(done=done, total=self._total))


def _batches(of: list[Any]) -> Iterator[list[Any]]:
    for start in range(0, len(of), BATCH):
        yield of[start : start + BATCH]
