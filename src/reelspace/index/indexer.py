"""One run of `index`: survey, read, embed, write — one transaction a file, so that it can be ended anywhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from reelspace.answers import IndexReport, Problem, Progress, shown
from reelspace.embed.base import Embedder, Vectors, checked
from reelspace.errors import EncodeError, ModelError
from reelspace.index import canaries
from reelspace.index.catalogue import Catalogue, FileRow, SpaceRow
from reelspace.index.identity import ChangedWhileRead, Stamp, check_unchanged, content_hash
from reelspace.index.sharing import space_of, tolerance_of
from reelspace.index.survey import Candidate, Share, Survey, survey
from reelspace.index.thumbnails import Thumbnails
from reelspace.index.walk import Root
from reelspace.item import Frames, Item
from reelspace.media.windows import Window, Windowing, is_fast

if TYPE_CHECKING:
    from reelspace.media.probe import VideoInfo
    from reelspace.media.reader import Reader, ScanJob, WindowRead

BATCH = 16  # windows embedded together while as many again are read,
BATCH_BYTES = 64 << 20  # or this much of frames


@dataclass(frozen=True)
class Options:
    """What was asked of a run; see `Library.index`."""

    retry: bool = False
    rehash: bool = False
    prune: bool = False
    named: bool = False
    """The roots were named, so that pruning an absent one is meant."""
    progress: Callable[[Progress], None] | None = None


@dataclass
class Tally:
    """What was done ahead of a run, by shards. Counts are of files."""

    embedded: int = 0
    """Whose content was read and embedded."""
    reused: int = 0
    """New names of contents that were known."""
    partial: int = 0
    failed: int = 0
    windows: int = 0
    seconds: float = 0.0
    placed: set[int] = field(default_factory=set)
    """Contents known before that were found under a new name."""
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Elsewhere(Share, Protocol):
    """For a run that does a share of the files: what another catalogue knows of contents, by their hashes."""

    done: dict[str, bool]
    """Those that need nothing more in the space that is being built → whether they are partial."""

    def lend(self, part: Catalogue, hash: str) -> None:
        """Writes what is known of a content into the catalogue of this run."""

    def has_vectors(self, hash: str) -> bool:
        """Whether a content can be found in some space."""


def good_enough(windowing: Windowing) -> list[str]:
    """Declared forms that need not be cut anew: what was looked at whole is not looked at again for its key frames."""
    return sorted({str(windowing), windowing.form})


def open_space(catalogue: Catalogue, embedder: Embedder) -> tuple[SpaceRow, list[str]]:
    """The space of this embedder, made if it is not there, and what the user should know about it.

    Raises:
        ModelError: the model is broken.
    """
    spaces = catalogue.spaces()
    used = space_of(catalogue, embedder.fingerprint)
    for space in spaces:
        if space.fingerprint == used:
            return space, []
    song = canaries.sing(embedder)
    with catalogue.transaction():
        id = catalogue.put_space(embedder.name, embedder.fingerprint, embedder.dim, song.items())
        if not spaces:
            catalogue.activate(id)  # searches may begin while the first run goes on
    notes = []
    if any(space.model == embedder.name for space in spaces):
        notes.append(
            f"{embedder.name} has changed since this library was indexed (now {embedder.fingerprint}): its vectors "
            "are made again, and searches cut over when all are there."
        )
    return next(space for space in catalogue.spaces() if space.id == id), notes


def check_canaries(catalogue: Catalogue, space: SpaceRow, embedder: Embedder) -> None:
    """Before anything is added to a space: the model is what it was when the space was begun.

    Raises:
        ModelError: it is not, or it is broken.
    """
    drift = canaries.drift(catalogue.canaries(space.id), canaries.sing(embedder))
    if drift is not None and drift > tolerance_of(catalogue, embedder.fingerprint):
        raise ModelError(
            f"{embedder.name} now gives other vectors than those stored (its canaries have drifted by {drift:.3f}) "
            "although it declares to be the same. Restore the runtime it was indexed with, or start a new library."
        )


@dataclass(eq=False)
class _Reading:
    """A content that is being read."""

    hash: str
    files: list[tuple[Candidate, Stamp]]
    """The one that is read, then others with the same bytes."""
    stored: list[tuple[float, float]] | None
    """The windows asked for; `None`: cut anew."""
    info: VideoInfo | None = None
    windows: list[tuple[float, float]] = field(default_factory=list)
    vectors: dict[int, Vectors] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    progress: float = 0.0
    closed: bool = False
    partial: str | None = None

    @property
    def path(self) -> str:
        return self.files[0][0].path

    @property
    def complete(self) -> bool:
        return self.closed and len(self.vectors) + len(self.failures) == len(self.windows)

    @property
    def reason(self) -> str | None:
        """Why windows have no vector."""
        reasons = list(self.failures.values())
        if self.stored is not None and (unread := len(self.stored) - len(self.windows)):
            reasons = [self.partial or "they could not be read"] * unread + reasons
        if not reasons:
            return None
        total = len(self.stored if self.stored is not None else self.windows)
        return f"{len(reasons)} of {total} windows have no vector: {reasons[0]}"


Embedded = tuple[dict[int, Vectors], dict[int, str]]
"""By positions in a batch: vectors, and why others have none."""


def _embedded(embedder: Embedder, items: Sequence[Item]) -> Embedded:
    try:
        return dict(enumerate(checked(embedder, embedder.encode_candidate, items))), {}
    except EncodeError as error:
        return dict(zip(error.positions, error.vectors, strict=True)), error.failures


class Indexer:
    """Brings one space of a catalogue up to date. Made for one run; its caller holds the right to write."""

    def __init__(
        self,
        catalogue: Catalogue,
        embedder: Embedder,
        reader: Reader,
        thumbnails: Thumbnails,
        windowing: Windowing,
        options: Options,
        share: Elsewhere | None = None,
    ) -> None:
        self._catalogue, self._embedder, self._reader = catalogue, embedder, reader
        self._thumbnails, self._windowing, self._options = thumbnails, windowing, options
        self._good_enough, self._share = good_enough(windowing), share
        self._space, self._notes = open_space(catalogue, embedder)
        self._counts = dict.fromkeys(("unchanged", "embedded", "reused", "partial", "failed", "windows"), 0)
        self._seconds = 0.0
        self._problems: list[Problem] = []
        self._readings: dict[str, _Reading] = {}  # by path of the file that is read
        self._batch: list[tuple[_Reading, int, Frames]] = []
        self._thread: ThreadPoolExecutor
        self._embedding: tuple[list[tuple[_Reading, int]], Future[Embedded]] | None = None
        self._changed: list[Candidate] = []
        self._placed: set[int] = set()  # contents known before that were found under a new name
        self._begun = time.monotonic()
        self._files_total = self._files_done = self._bytes_total = self._bytes_done = 0

    def run(self, roots: Sequence[Root], ahead: Tally | None = None) -> IndexReport:
        """Surveys `roots`, reads and embeds what needs it, and cuts over or prunes at the end.

        Args:
            roots: where to look.
            ahead: what has just come into the catalogue from shards; it is reported as this run's.
        """
        ahead = ahead or Tally()
        for name in ("embedded", "reused", "partial", "windows"):
            self._counts[name] += getattr(ahead, name)
        self._seconds += ahead.seconds
        self._problems += ahead.problems
        self._notes += ahead.notes
        self._placed |= ahead.placed
        state = self.survey(roots)
        self._note(state)
        self._files_total, self._bytes_total = len(state.work), sum(one.size for one in state.work)
        self._read(state.work)
        again, self._changed = self._changed, []
        self._read(again)  # once more for those that did not hold still
        for candidate in self._changed:
            self._fail_file(candidate, None, "keeps changing while it is being read; the next run tries again")
        if self._windowing.fast and self._counts["embedded"]:
            self._notes.append("Only key frames were looked at; `reelspace index` without --fast looks at the rest.")
        cut_over(self._catalogue, self._space)
        forget_moved(self._catalogue, state, self._placed)
        pruned = self._prune(state, roots) if self._options.prune else 0
        return IndexReport(
            model=self._embedder.name,
            unchanged=self._counts["unchanged"] + max(0, state.unchanged - ahead.embedded - ahead.reused),
            embedded=self._counts["embedded"],
            reused=self._counts["reused"] + state.returned,
            partial=self._counts["partial"],
            failed=self._counts["failed"] + len(state.failed),
            excluded=state.excluded,
            missing=len(state.missing) - pruned,
            pruned=pruned,
            windows=self._counts["windows"],
            seconds=self._seconds,
            notes=self._notes,
            problems=self._problems,
        )

    def survey(self, roots: Sequence[Root]) -> Survey:
        """What there is to do; what needs no reading is written down."""
        options = self._options
        return survey(self._catalogue, roots, self._done(), options.retry, options.rehash, self._share)

    def _done(self, video: int | None = None) -> dict[int, bool]:
        """Contents (or one of them) that need nothing more → whether they are partial."""
        done = self._catalogue.done(self._space.id, self._good_enough, video)
        if self._share is not None:
            elsewhere = self._share.done
            for id, content in self._catalogue.contents(video).items():
                if content.hash in elsewhere:
                    done.setdefault(id, elsewhere[content.hash])
        return done

    def _note(self, state: Survey) -> None:
        self._problems += [
            Problem(path=one.path, state="failed", reason=one.reason or "cannot be read") for one in state.unreadable
        ]
        self._notes += [
            f"{root.path} is not there or empty: its files are hidden, and come back with it. "
            "`--prune` forgets them only where this path is named."
            for root in state.absent
        ]

    # Reading

    def _read(self, candidates: Sequence[Candidate]) -> None:
        from reelspace.media.reader import Closed, Failed, Opened, WindowRead

        if candidates:
            check_canaries(self._catalogue, self._space, self._embedder)
        with ThreadPoolExecutor(1, "embed") as self._thread:
            try:
                for event in self._reader.scan(self._jobs(candidates)):
                    reading = self._readings[str(event.path)]
                    match event:
                        case Opened():
                            reading.info, reading.partial = event.info, event.info.partial
                        case WindowRead():
                            self._window(reading, event)
                        case Closed():
                            reading.closed, reading.partial = True, event.partial or reading.partial
                            self._finish_complete()
                        case Failed():
                            self._fail(reading, event.reason.removeprefix(f"{shown(reading.path)}: "))
                self._finish_batches()
            except KeyboardInterrupt:
                self._finish_batches()  # keep what has been read
                raise

    def _jobs(self, candidates: Sequence[Candidate]) -> Iterator[ScanJob]:
        """What must be decoded; contents that are known already are linked on the way."""
        from reelspace.media.reader import ScanJob

        for candidate in candidates:
            try:
                hash, stamp = content_hash(candidate.path)
            except ChangedWhileRead:
                self._changed.append(candidate)
                continue
            except OSError as error:
                self._fail_file(candidate, None, f"cannot be read: {error.strerror or error}")
                continue
            if same := next((reading for reading in self._readings.values() if reading.hash == hash), None):
                same.files.append((candidate, stamp))
                continue
            if self._share is not None:
                self._share.lend(self._catalogue, hash)
            if not self._link(candidate, stamp, hash):
                stored, keys = self._stored_windows(hash)
                self._readings[candidate.path] = _Reading(hash, [(candidate, stamp)], stored)
                windows = [Window(*window) for window in stored] if stored else self._windowing
                yield ScanJob(Path(candidate.path), windows, self._embedder.sampling, thumbnails=True, keys=keys)

    def _link(self, candidate: Candidate, stamp: Stamp, hash: str) -> bool:
        """Whether the content is done already; then the file only needs to be said to hold it."""
        video = self._catalogue.video(hash)
        partial = self._done(video) if video else {}
        if video not in partial or (self._options.retry and partial[video]):
            return False
        with self._catalogue.transaction():
            self._catalogue.put_file(FileRow(candidate.path, "indexed", None, video, stamp))
        self._count_link(candidate, video)
        return True

    def _count_link(self, candidate: Candidate, video: int) -> None:
        known = candidate.known
        if known is None:
            self._placed.add(video)
        same = known is not None and (known.state, known.video) == ("indexed", video)
        self._counts["unchanged" if same else "reused"] += 1
        self._file_done(candidate)

    def _stored_windows(self, hash: str) -> tuple[list[tuple[float, float]] | None, bool]:
        """The windows another model's vectors were made of: they spare looking for cuts again. And whether they are
        of key frames alone.
        """
        video = self._catalogue.video(hash)
        if video is None or self._options.retry or self._catalogue.windowing_of(video) not in self._good_enough:
            return None, False
        return self._catalogue.windows_of(video) or None, is_fast(self._catalogue.windowing_of(video))

    def _window(self, reading: _Reading, event: WindowRead) -> None:
        if reading.stored is not None and (event.start, event.end) not in reading.stored:
            return  # cut short: not the window that was asked for
        reading.windows.append((event.start, event.end))
        if event.thumbnail is not None:
            self._thumbnails.put(reading.hash, event.start, event.end, event.thumbnail)
        self._batch.append((reading, len(reading.windows) - 1, event.frames))
        if len(self._batch) >= BATCH or sum(frames.pixels.nbytes for _, _, frames in self._batch) >= BATCH_BYTES:
            self._flush()
        if reading.info is not None:
            reading.progress = min(event.end / reading.info.duration, 1.0)
        self._report(reading.path)

    def _flush(self) -> None:
        """Has what is waiting embedded while reading goes on, and takes what was embedded before."""
        self._collect()
        if self._batch:
            items = [Item(video=frames) for _, _, frames in self._batch]
            where = [(reading, window) for reading, window, _ in self._batch]
            self._embedding, self._batch = (where, self._thread.submit(_embedded, self._embedder, items)), []

    def _finish_batches(self) -> None:
        self._flush()
        self._collect()

    def _collect(self) -> None:
        """Waits for what is being embedded, and writes the contents that are complete."""
        if self._embedding is not None:
            where, made = self._embedding
            vectors, failures = made.result()  # an interrupt while it is waited for loses nothing
            for position, vector in vectors.items():
                reading, window = where[position]
                reading.vectors[window] = vector
            for position, reason in failures.items():
                reading, window = where[position]
                reading.failures[window] = reason
            self._embedding = None
        self._finish_complete()

    def _finish_complete(self) -> None:
        for reading in [reading for reading in self._readings.values() if reading.complete]:
            self._finish(reading)

    # Writing

    def _finish(self, reading: _Reading) -> None:
        if not reading.vectors:
            self._fail(reading, reading.reason or reading.partial or "no window could be read")
            return
        if not self._held_still(reading):
            return
        candidate = reading.files[0][0]
        with self._catalogue.transaction():
            self._store(reading)
        self._counts["embedded"] += 1
        self._counts["windows"] += len(reading.vectors)
        self._seconds += reading.info.duration if reading.info else 0.0
        if reason := "; ".join(filter(None, (reading.partial, reading.reason))):
            self._counts["partial"] += 1
            self._problems.append(Problem(path=candidate.path, state="partial", reason=reason))
        self._file_done(candidate)
        video = self._catalogue.video(reading.hash)
        for copy, _ in reading.files[1:]:
            assert video is not None
            self._count_link(copy, video)

    def _held_still(self, reading: _Reading) -> bool:
        """Ends a reading; whether its file is still the one whose bytes were hashed. If not, it is tried again."""
        del self._readings[reading.path]
        self._batch = [waiting for waiting in self._batch if waiting[0] is not reading]
        candidate, stamp = reading.files[0]
        try:
            check_unchanged(candidate.path, stamp)
        except OSError:
            self._changed += [candidate for candidate, _ in reading.files]
            return False
        return True

    def _store(self, reading: _Reading) -> None:
        catalogue, windowing = self._catalogue, str(self._windowing)
        if reading.stored is None:
            assert reading.info is not None
            known = catalogue.video(reading.hash)
            if known is not None and is_fast(catalogue.windowing_of(known)) != self._windowing.fast:
                catalogue.put_windows(known, [])  # vectors of other frames, be they of the same stretches
            video = catalogue.put_video(reading.hash, reading.info, reading.partial, windowing)
            ids = catalogue.put_windows(video, reading.windows)
        else:
            known = catalogue.video(reading.hash)
            assert known is not None
            video, ids = known, catalogue.window_ids(known, reading.windows)
        rows = sorted(reading.vectors)
        vectors = np.stack([reading.vectors[row] for row in rows])
        catalogue.put_vectors(self._space.id, video, [ids[row] for row in rows], vectors, reading.reason)
        for candidate, stamp in reading.files:
            catalogue.put_file(FileRow(candidate.path, "indexed", None, video, stamp))

    def _fail(self, reading: _Reading, reason: str) -> None:
        """A content that cannot be read now. If it is in another space, it stays searchable there."""
        if not self._held_still(reading):
            return
        video = self._catalogue.video(reading.hash)
        elsewhere = self._share is not None and self._share.has_vectors(reading.hash)
        if video is None or not (elsewhere or self._catalogue.has_vectors(video)):
            for candidate, stamp in reading.files:
                self._fail_file(candidate, stamp, reason)
            return
        with self._catalogue.transaction():
            self._catalogue.set_windowing(video, str(self._windowing))
            self._catalogue.put_vectors(self._space.id, video, [], np.empty((0, self._space.dim), np.float32), reason)
            for candidate, stamp in reading.files:
                self._catalogue.put_file(FileRow(candidate.path, "indexed", None, video, stamp))
        for candidate, _ in reading.files:
            self._counts["partial"] += 1
            self._problems.append(Problem(path=candidate.path, state="partial", reason=reason))
            self._file_done(candidate)

    def _fail_file(self, candidate: Candidate, stamp: Stamp | None, reason: str) -> None:
        with self._catalogue.transaction():
            self._catalogue.put_file(FileRow(candidate.path, "failed", reason, None, stamp))
        self._counts["failed"] += 1
        self._problems.append(Problem(path=candidate.path, state="failed", reason=reason))
        self._file_done(candidate)

    # The end

    def _prune(self, state: Survey, roots: Sequence[Root]) -> int:
        """Forgets what is missing, but for roots that may only be unmounted; how many files that were."""
        kept = [] if self._options.named else state.absent
        gone = [path for path in state.missing if not any(root.covers(path) for root in kept)]
        with self._catalogue.transaction():
            for path in gone:
                self._catalogue.forget_file(path)
            for root in roots:
                if root not in kept and not os.path.lexists(root.path):
                    self._catalogue.forget_root(root.path)
            self._catalogue.prune()
        return len(gone)

    # Progress

    def _file_done(self, candidate: Candidate) -> None:
        self._files_done += 1
        self._bytes_done += candidate.size
        self._report(candidate.path)

    def _report(self, path: str) -> None:
        if self._options.progress is None:
            return
        underway = self._readings.values()
        self._options.progress(
            Progress(
                path=path,
                files_done=self._files_done,
                files_total=self._files_total,
                bytes_done=self._bytes_done + round(sum(r.progress * r.files[0][0].size for r in underway)),
                bytes_total=self._bytes_total,
                seconds=self._seconds + sum(r.progress * r.info.duration for r in underway if r.info),
                elapsed=time.monotonic() - self._begun,
            )
        )


def cut_over(catalogue: Catalogue, space: SpaceRow) -> None:
    """A model that has changed under its name takes over once its new space is complete."""
    active = next((space for space in catalogue.spaces() if space.active), None)
    supersedes = active is None or (active.model == space.model and active.id != space.id)
    if supersedes and catalogue.coverage(space.id)[2]:
        with catalogue.transaction():
            catalogue.activate(space.id)


def forget_moved(catalogue: Catalogue, state: Survey, placed: Container[int]) -> None:
    """A missing file whose content has turned up under a new name was moved: its old name means nothing more."""
    files = catalogue.files()
    moved = {path for path in state.missing if files[path].video in placed}
    with catalogue.transaction():
        for path in moved:
            catalogue.forget_file(path)
    state.missing = [path for path in state.missing if path not in moved]
