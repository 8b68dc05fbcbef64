"""Takes what shards have made into the library: the one writer.

Content by content, a few hundred in a transaction, by the rules by which `index` writes. What the library has already
is passed over, so a merge that was killed is simply run again. A part is deleted when all of it is in the library.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reelspace.answers import MergeReport, Problem, ShardWork
from reelspace.embed.base import Vectors
from reelspace.errors import LibraryError
from reelspace.index import canaries
from reelspace.index.catalogue import Catalogue, ContentRow, FileRow, SpaceRow, unusable
from reelspace.index.identity import Stamp
from reelspace.index.indexer import Tally, cut_over, forget_moved
from reelspace.index.lock import HeldError, is_sharding, sharding
from reelspace.index.shards import parts
from reelspace.index.survey import survey
from reelspace.media.windows import is_fast
from reelspace.shard import Shard

_CONTENTS, _WINDOWS = 256, 4096  # in one transaction, whichever is reached first
_GONE = ".gone-"  # parts that are being deleted


@dataclass
class Merged(Tally):
    """What came into the library."""

    shards: list[Shard] = field(default_factory=list)
    """Whose parts are wholly in the library."""
    running: list[Shard] = field(default_factory=list)
    """Whose parts are still being made."""
    spaces: set[int] = field(default_factory=set)
    """What they were made for."""


class _Embedded(NamedTuple):
    """A content's vectors of one space of the library."""

    space: SpaceRow
    reason: str | None
    windows: list[tuple[float, float]]
    vectors: Vectors


class _Content(NamedTuple):
    """All that a part knows of a content."""

    row: ContentRow
    windows: list[tuple[float, float]]
    embedded: list[_Embedded]
    files: list[FileRow]


class _RefusedError(Exception):
    """A part cannot be used; the message says why and what to do."""


class Merger:
    """Its caller holds the right to write to the library."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._folder = catalogue.path.parent
        self._marks: dict[Path, int] = {}  # the newest vector that has been looked at
        self.merged = Merged()

    def take_all(self) -> Merged:
        """Takes every part that nobody is making."""
        for gone in (self._folder / "shards").glob(f"{_GONE}*"):
            shutil.rmtree(gone, ignore_errors=True)
        for shard, folder in parts(self._folder):
            self.take(shard, folder)
        return self.merged

    def take(self, shard: Shard, folder: Path) -> None:
        """Takes a part as a whole and deletes it; if it is being made, it is left alone."""
        with ExitStack() as held:
            try:
                held.enter_context(sharding(folder))
                with _part(folder) as part:
                    self._take_settings(part)
                    self._take_contents(part, None)
                    self._take_failures(part)
            except HeldError:
                self.merged.running.append(shard)
                return
            except _RefusedError as refused:
                self.merged.notes.append(str(refused))
                return
            gone = folder.with_name(f"{_GONE}{folder.name}-{os.getpid()}")
            folder.rename(gone)  # at once: half a catalogue would be worse than none
            shutil.rmtree(gone, ignore_errors=True)
            self.merged.shards.append(shard)

    def look(self, folder: Path) -> None:
        """Takes what is new of a part that another process of this machine is making."""
        if not (folder / "catalogue.sqlite").is_file():
            return
        try:
            with _part(folder) as part:
                with _reading(part):
                    contents, newest = part.embedded_since(self._marks.get(folder, 0))
                self._take_contents(part, contents)
                self._marks[folder] = newest
        except _RefusedError:
            return  # that is said when it is taken as a whole

    def _take_settings(self, part: Catalogue) -> None:
        catalogue, known = self._catalogue, self._catalogue.roots()
        with _reading(part):
            roots, windowing = part.roots(), part.setting("windowing")
        with catalogue.transaction():
            for root in roots:
                if not any(above.includes(root) for above in known):
                    catalogue.put_root(root)
            if windowing is not None:
                catalogue.set("windowing", windowing)

    def _spaces(self, part: Catalogue) -> Mapping[int, SpaceRow]:
        """The spaces of a part → the library's."""
        catalogue, found = self._catalogue, {}
        with _reading(part):
            theirs = [(space, part.canaries(space.id)) for space in part.spaces()]
        for space, song in theirs:
            mine = self._space(space.fingerprint)
            if mine is None:
                with catalogue.transaction():
                    first = not catalogue.spaces()
                    id = catalogue.put_space(space.model, space.fingerprint, space.dim, song.items())
                    if first:
                        catalogue.activate(id)
                mine = self._space(space.fingerprint)
                assert mine is not None
            drift = canaries.drift(catalogue.canaries(mine.id), song)
            if mine.dim != space.dim or (drift is not None and drift > canaries.TOLERANCE):
                raise _RefusedError(
                    f"{part.path.parent}: its {space.model} gave other vectors than the library's (the canaries differ "
                    f"by {drift or 1:.3f}) although it declares to be the same. Delete this folder, and run the shard "
                    "again with the runtime that the library was indexed with."
                )
            found[space.id] = mine
        self.merged.spaces |= {space.id for space in found.values()}
        return found

    def _space(self, fingerprint: str) -> SpaceRow | None:
        return next((space for space in self._catalogue.spaces() if space.fingerprint == fingerprint), None)

    def _take_contents(self, part: Catalogue, some: Iterable[int] | None) -> None:
        for batch in _batches(part, self._spaces(part), some):
            with self._catalogue.transaction():
                for content in batch:
                    self._take_content(content)

    def _take_content(self, content: _Content) -> None:
        """Writes windows, vectors and the files that hold them."""
        known = self._catalogue.video(content.row.hash) is not None
        taken = [embedded for embedded in content.embedded if self._take_vectors(content, embedded)]
        video = self._catalogue.video(content.row.hash)
        if video is None or not self._catalogue.embedded(video):
            return  # lent to the part and forgotten by the library since: such files are work again
        self.merged.seconds += content.row.duration if taken else 0.0
        partial = "; ".join(filter(None, (content.row.partial, *(embedded.reason for embedded in taken))))
        first = bool(taken)
        for file in content.files:
            before = self._catalogue.file(file.path)
            if before is not None and not _newer(file, before):
                continue
            self._catalogue.put_file(FileRow(file.path, "indexed", None, video, file.stamp))
            if first:
                self.merged.embedded += 1
                if partial:
                    self.merged.partial += 1
                    self.merged.problems.append(Problem(path=file.path, state="partial", reason=partial))
            elif before is None or (before.state, before.video) != ("indexed", video):
                self.merged.reused += 1
                if known and before is None:
                    self.merged.placed.add(video)
            first = False

    def _take_vectors(self, content: _Content, new: _Embedded) -> bool:
        """Whether they are better than what the library has; then it has them now."""
        catalogue, row, space = self._catalogue, content.row, new.space
        video = catalogue.video(row.hash)
        if video is None:
            if not new.windows:
                return False
        else:
            good = sorted({row.windowing, row.windowing.removeprefix("fast ")})
            done, there = catalogue.done(space.id, good, video), catalogue.windowing_of(video)
            if video in done and (row.partial or new.reason or not done[video]):
                return False
            if not new.windows:  # it could not be read for this model; others find it
                if not catalogue.has_vectors(video):
                    return False
                catalogue.set_windowing(video, row.windowing)
                catalogue.put_vectors(space.id, video, [], new.vectors, new.reason)
                return True
            if is_fast(row.windowing) != is_fast(there):
                if there in good and catalogue.has_vectors(video):
                    return False  # it was looked at whole meanwhile
                catalogue.put_windows(video, [])  # vectors of other frames, be they of the same stretches
        video = catalogue.put_video(row.hash, row, row.partial, row.windowing)
        catalogue.put_windows(video, content.windows)
        catalogue.put_vectors(space.id, video, catalogue.window_ids(video, new.windows), new.vectors, new.reason)
        self.merged.windows += len(new.windows)
        return True

    def _take_failures(self, part: Catalogue) -> None:
        with _reading(part):
            failed = part.failed_files()
        with self._catalogue.transaction():
            for file in failed:
                before = self._catalogue.file(file.path)
                if before is not None and (before == file or not _newer(file, before)):
                    continue
                self._catalogue.put_file(file)
                self.merged.failed += 1
                reason = file.reason or "cannot be read"
                self.merged.problems.append(Problem(path=file.path, state="failed", reason=reason))


@contextmanager
def _part(folder: Path) -> Iterator[Catalogue]:
    try:
        part = Catalogue(folder / "catalogue.sqlite", create=False)
    except LibraryError as error:
        raise _RefusedError(str(error)) from error
    with closing(part):
        yield part


@contextmanager
def _reading(part: Catalogue) -> Iterator[None]:
    """What is wrong with a part must not look like damage of the library."""
    try:
        yield
    except sqlite3.Error as error:
        raise _RefusedError(str(unusable(part.path, error))) from error
    except LibraryError as error:
        raise _RefusedError(str(error)) from error


def _newer(row: FileRow, before: FileRow) -> bool:
    """Whether `row` is the better knowledge of a file: of the same bytes an index is, of others those on disk."""
    if row.stamp == before.stamp:
        return row.video is not None or before.video is None
    try:
        return before.stamp != Stamp.of(os.stat(row.path))
    except OSError:
        return before.video is None


def _batches(part: Catalogue, spaces: Mapping[int, SpaceRow], some: Iterable[int] | None) -> Iterator[list[_Content]]:
    """The contents of a part, or some, read before anything is written."""
    batch: list[_Content] = []
    with _reading(part):
        some = part.contents() if some is None else some
    for video in some:
        with _reading(part):
            embedded = [
                _Embedded(spaces[space], reason, *part.vectors_of(space, video))
                for space, reason in part.embedded(video).items()
            ]
            files = [file for file in part.files_with(video) if file.state in ("indexed", "missing")]
            batch.append(_Content(part.contents(video)[video], part.windows_of(video), embedded, files))
        if len(batch) >= _CONTENTS or sum(len(content.windows) for content in batch) >= _WINDOWS:
            yield batch
            batch = []
    if batch:
        yield batch


def merge(catalogue: Catalogue) -> MergeReport:
    """Takes every part that nobody is making, and compares with what is on disk; no video is read."""
    merged = Merger(catalogue).take_all()
    spaces = [space for space in catalogue.spaces() if space.id in merged.spaces] or [
        space for space in catalogue.spaces() if space.active
    ]
    left = 0
    if spaces:
        form = catalogue.setting("windowing") or ""
        done = catalogue.done(spaces[-1].id, [form, f"fast {form}"])
        state = survey(catalogue, catalogue.roots(), done)
        forget_moved(catalogue, state, merged.placed)
        left = len(state.work)
        for space in spaces:
            cut_over(catalogue, space)
    return MergeReport(
        shards=list(map(str, merged.shards)),
        running=list(map(str, merged.running)),
        embedded=merged.embedded,
        reused=merged.reused,
        partial=merged.partial,
        failed=merged.failed,
        windows=merged.windows,
        seconds=merged.seconds,
        left=left,
        notes=merged.notes,
        problems=merged.problems,
    )


def waiting(library: Path) -> list[ShardWork]:
    """The parts that wait to be merged, and those that are being made."""
    found = []
    for shard, folder in parts(library):
        counts: dict[str, int | None] = dict.fromkeys(("indexed", "failed", "windows"))
        if not (running := is_sharding(folder)):
            try:
                with _part(folder) as part, _reading(part):
                    totals = part.totals()
                    counts = {name: int(totals[name]) for name in counts}
            except _RefusedError:
                pass  # `merge` says why
        found.append(ShardWork(shard=str(shard), running=running, **counts))
    return found
