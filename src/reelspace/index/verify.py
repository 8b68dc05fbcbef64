"""Looks for anything wrong in a library, and says what to do about it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reelspace.answers import Finding, VerifyReport
from reelspace.embed.base import Embedder, Vectors, checked
from reelspace.errors import EncodeError, LibraryError, ModelError
from reelspace.index import canaries
from reelspace.index.ann import RECALL, AnnStore, probes
from reelspace.index.base import Ids
from reelspace.index.catalogue import Catalogue, SpaceRow, WindowRow
from reelspace.item import Item
from reelspace.media.reader import Failed, Reader, ScanJob, WindowRead
from reelspace.media.windows import Window, is_fast

_CHUNK = 4096
_SHARED = 0.5  # of the videos with one and the same vector: no footage is that uniform, but broken models are


class Verifier:
    """Checks one space and what it was made of.

    `store` is its cache, `None` where a damaged vector keeps it from being; `state` the `data_version` of the
    catalogue that it follows.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        space: SpaceRow,
        store: AnnStore | None,
        state: int,
        embedder: Embedder,
        reader: Reader,
    ) -> None:
        self._catalogue, self._space, self._store, self._state = catalogue, space, store, state
        self._vectors = catalogue.vectors(space)
        self._embedder, self._reader = embedder, reader
        self._findings: list[Finding] = []

    def run(self, sample: int, seed: int = 0) -> VerifyReport:
        """Every check; the windows that are embedded again are chosen by `seed`."""
        self._check_database()
        files = self._check_files()
        ids = self._vectors.ids()
        good = np.setdiff1d(ids, self._check_vectors(ids))
        canary_drift = self._check_canaries()
        recall = self._check_recall()
        sampled, drift = self._embed_again(np.random.default_rng(seed).permutation(good)[:sample])
        return VerifyReport(
            model=self._space.model,
            ok=not self._findings,
            files=files,
            vectors=len(ids),
            sampled=sampled,
            drift=drift,
            canary_drift=canary_drift,
            recall=recall,
            findings=self._findings,
        )

    def _find(self, what: str, where: str, remedy: str) -> None:
        self._findings.append(Finding(what=what, where=where, remedy=remedy))

    def _check_database(self) -> None:
        for what in self._catalogue.damage():
            self._find(what, str(self._catalogue.path), "restore a copy of the catalogue, or index anew")

    def _check_files(self) -> int:
        count = 0
        for file in self._catalogue.files().values():
            if file.state != "indexed" or file.stamp is None:
                continue
            count += 1
            try:
                same = os.stat(file.path).st_size == file.stamp.size
                what = "the file has changed since it was indexed"
            except OSError as error:
                same, what = False, f"the file is gone: {error.strerror}"
            if not same:
                self._find(what, file.path, "run `reelspace index`")
        return count

    def _check_vectors(self, ids: Ids) -> list[int]:
        """Every vector in the catalogue, and the cache's copy of it; the ids of the damaged ones."""
        damaged: list[int] = []
        seen: list[NDArray[np.int64]] = []  # [·, 2]: what a vector is known by, and its video
        differs = self._store is not None and len(self._store) != len(ids)
        for part, vectors in self._chunks(ids, damaged):
            norms = np.linalg.norm(vectors, axis=1)
            damaged += part[~np.isclose(norms, 1, atol=1e-3)].tolist()
            if self._store is not None and not differs:
                complete = len(self._store.exact.known(part)) == len(part)
                differs = not complete or not np.array_equal(self._store.vectors(part), vectors)
            videos = {window.id: window.video for window in self._catalogue.windows(part)}
            pairs = zip(map(hash, map(bytes, vectors)), (videos.get(id, 0) for id in part.tolist()), strict=True)
            seen.append(np.array(list(pairs), np.int64))
        for window in self._catalogue.windows(np.array(damaged, np.int64)):
            self._find(
                f"the vector of {window.start:g}–{window.end:g} s is damaged",
                self._path(window),
                "`reelspace remove` this file and index it again",
            )
        apart = np.unique(np.concatenate([np.empty((0, 2), np.int64), *seen]), axis=0)
        count = len(np.unique(apart[:, 1]))
        most = int(np.unique(apart[:, 0], return_counts=True)[1].max(initial=0))
        if most >= 5 and most > _SHARED * count:
            self._find(f"{most} of {count} videos share one vector", self._space.model, "index with another model")
        # Where others write meanwhile, it is the catalogue that went on.
        if self._store is not None and differs and self._catalogue.data_version == self._state:
            self._find(
                "the cache of vectors differs from the catalogue", str(self._store.exact.folder), "delete this folder"
            )
        return damaged

    def _chunks(self, ids: Ids, damaged: list[int]) -> Iterator[tuple[Ids, Vectors]]:
        """Chunk by chunk; where a chunk holds a damaged blob, row by row."""
        for start in range(0, len(ids), _CHUNK):
            part = ids[start : start + _CHUNK]
            try:
                yield part, self._vectors.vectors(part)
            except LibraryError:
                if len(part) == 1:
                    damaged.append(int(part[0]))
                    continue
                for row in range(len(part)):
                    yield from self._chunks(part[row : row + 1], damaged)

    def _check_canaries(self) -> float | None:
        try:
            drift = canaries.drift(self._catalogue.canaries(self._space.id), canaries.sing(self._embedder))
        except (ModelError, EncodeError) as error:
            self._find(str(error), self._space.model, "reinstall the model")
            return None
        if drift is not None and drift > canaries.TOLERANCE:
            self._find(
                f"the model gives other vectors than when it was indexed: its canaries have drifted by {drift:.3f}",
                self._space.model,
                "restore the runtime it was indexed with, or index anew",
            )
        return drift

    def _check_recall(self) -> float | None:
        if self._store is None:
            return None
        recall = self._store.recall(probes(self._embedder, self._store.exact, seed=1))
        if recall is not None and recall < RECALL - 0.04:
            self._find(
                f"the approximate index finds only {recall:.3f} of the ten best",
                str(self._store.exact.folder),
                "delete this folder and run `reelspace index`",
            )
        return recall

    def _embed_again(self, ids: Ids) -> tuple[int, float | None]:
        """Reads these windows from their files again; how many could be, and the greatest cosine distance."""
        wanted: dict[str, list[WindowRow]] = {}
        for window in self._catalogue.windows(np.sort(ids)):
            if path := self._path(window):
                wanted.setdefault(path, []).append(window)
        jobs = [
            ScanJob(
                Path(path),
                [Window(w.start, w.end) for w in windows],
                self._embedder.sampling,
                keys=is_fast(self._catalogue.windowing_of(windows[0].video)),
            )
            for path, windows in wanted.items()
        ]
        sampled, worst = 0, None
        for event in self._reader.scan(iter(jobs)):
            match event:
                case Failed():
                    self._find(f"cannot be read any more: {event.reason}", str(event.path), "run `reelspace index`")
                case WindowRead():
                    for stored in wanted[str(event.path)]:
                        if (stored.start, stored.end) == (event.start, event.end):
                            sampled, worst = sampled + 1, max(worst or 0.0, self._distance(stored, event))
        return sampled, worst

    def _distance(self, stored: WindowRow, event: WindowRead) -> float:
        kept = self._vectors.vectors(np.array([stored.id]))[0]
        try:
            again = checked(self._embedder, self._embedder.encode_candidate, [Item(video=event.frames)])[0]
            distance = max(0.0, 1 - float(kept @ again))
        except EncodeError as error:
            distance, again = 1.0, None
            self._find(f"cannot be embedded any more: {error}", str(event.path), "run `reelspace doctor`")
        if again is not None and not distance <= canaries.TOLERANCE:
            self._find(
                f"{stored.start:g}–{stored.end:g} s embedded again differs by {distance:.3f}",
                str(event.path),
                "`reelspace remove` this file and index it again",
            )
        return distance

    def _path(self, window: WindowRow) -> str:
        """A file of this content that is there; else an empty string."""
        paths = (file.path for file in self._catalogue.files_of(window.video))
        return next((path for path in paths if os.path.exists(path)), "")
