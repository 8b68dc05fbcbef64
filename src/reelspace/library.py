"""The engine's one face: a folder in, moments out."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from reelspace import embed
from reelspace.answers import (
    Hit,
    IndexReport,
    MergeReport,
    Problem,
    Progress,
    PushProgress,
    PushReport,
    SignalCost,
    SignalState,
    Space,
    StatusReport,
    TimedText,
    TimedWord,
    TranscriptReport,
    VerifyReport,
    shown,
)
from reelspace.embed import parity
from reelspace.embed.base import Embedder
from reelspace.embed.served import is_address
from reelspace.errors import LibraryError, MediaError
from reelspace.index import canaries, sharing
from reelspace.index.ann import WORTHWHILE, AnnStore, available, need, probes
from reelspace.index.catalogue import Catalogue, SpaceRow, unusable
from reelspace.index.cluster import on_ray
from reelspace.index.exact import MatrixStore, ReadOnlyStore, UnwritableError, follow
from reelspace.index.indexer import Indexer, Options
from reelspace.index.jobs import Jobs, on_this_machine
from reelspace.index.lock import pushing, writing
from reelspace.index.merge import Merger, merge, waiting
from reelspace.index.remote import open_store
from reelspace.index.remote.push import PATIENCE, Pusher, identity
from reelspace.index.searchable import Searchable, globs
from reelspace.index.searcher import Corpus, Filters, LocalCorpus, Selections
from reelspace.index.shards import ShardJob, index_shard
from reelspace.index.signaller import Signaller, finders_of
from reelspace.index.texts import DIM, WORDS, Texts
from reelspace.index.thumbnails import Thumbnails
from reelspace.index.walk import Root, absolute
from reelspace.index.wording import Wording
from reelspace.media.policy import Centres, Sampling
from reelspace.media.windows import Shots, Window, Windowing, parse_windowing
from reelspace.shard import Shard, parse_shard
from reelspace.signals.base import BY, SIGNALS, Signal, SignalError, parse_signals
from reelspace.signals.finders import Finder

_CACHE_TAG = "Signature: 8a477f597d28d172789f06886806bc55\n# Reelspace makes what is in here again when it is gone.\n"

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _reporting_damage(
    method: Callable[Concatenate[Library, Arguments], Result],
) -> Callable[Concatenate[Library, Arguments], Result]:
    """Has a catalogue that cannot be read end a method with a `LibraryError`, whichever query came upon it."""

    @wraps(method)
    def guarded(self: Library, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return method(self, *args, **kwargs)
        except sqlite3.Error as error:
            raise unusable(self._catalogue.path, error) from error

    return guarded


class Library(Searchable):
    """An index of videos on disk. Open one with `Library.open`; it is a context manager."""

    @classmethod
    def open(
        cls, location: str | PathLike[str] | None = None, create: bool = True, model: str | None = None
    ) -> Library:
        """Opens the library at `location`, else `$REELSPACE_LIBRARY`, else in the user's data directory.

        Args:
            location: the library's folder.
            create: make it if it is not there. What exists is opened for reading also where nothing can be written.
            model: the model to index and search with. Left out, it is the one in use (see `use`), in a new
                library `lite`.

        Raises:
            LibraryError: there is none and `create` is false; it is damaged, or of a newer version.
        """
        where = Path(location or default_location()).absolute()
        if create:
            try:
                (where / "cache").mkdir(parents=True, exist_ok=True)
                (where / "cache" / "CACHEDIR.TAG").write_text(_CACHE_TAG, encoding="ascii")
            except OSError as error:
                raise LibraryError(f"{where}: the library cannot be made here: {error.strerror}.") from error
        return cls(where, Catalogue(where / "catalogue.sqlite", create), model)

    def __init__(self, path: Path, catalogue: Catalogue, model: str | None) -> None:
        """Use `Library.open`."""
        super().__init__()
        self.path = path
        self._catalogue, self._model = catalogue, model
        self._selections = Selections(catalogue)
        self._thumbnails = Thumbnails(path / "cache" / "thumbnails")
        self._heard: set[str] = set()  # fingerprints of served models that are what they were
        self._stores: dict[int, tuple[int, AnnStore]] = {}  # by space: the catalogue's state it follows
        self._passages: tuple[int | None, MatrixStore | None] = (None, None)  # likewise

    @_reporting_damage
    def index(
        self,
        *paths: str | PathLike[str],
        include: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        hidden: bool = False,
        retry: bool = False,
        rehash: bool = False,
        prune: bool = False,
        model: str | None = None,
        windowing: Windowing | None = None,
        fast: bool = False,
        approximate: bool | None = None,
        jobs: int = 1,
        ray: str | None = None,
        signals: str | Sequence[str] | None = None,
        announce: Callable[[list[SignalCost]], None] | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> IndexReport:
        """Brings the library up to date with folders and files (none given: those it knows).

        A bad file never ends the run. Ctrl-C ends it after what is done has been kept, and is raised again.

        Args:
            include: globs; files to take instead of all those with a video's extension.
            exclude: globs; files and folders to leave out. They win over `include`.
            hidden: also take files and folders whose names begin with a dot.
            retry: try failed and partial files again although they have not changed.
            rehash: read every file's bytes again instead of trusting its size, time and inode.
            prune: forget missing files and all vectors that no file needs.
            model: build this model's space beside the active one (`use` cuts over); default: the active one.
            windowing: how videos are cut into windows from now on; those cut otherwise are read again.
            fast: look at key frames alone, many times faster; windows begin and end where these do. What was indexed
                whole stays so; a later run that is not fast looks at the rest of what is new.
            approximate: search through an approximate index from now on (needs the extra `ann`), or exactly. Left
                out, it stays as it is; until it is said, searches are exact below 300,000 windows.
            jobs: processes that read and embed at once, each with the model loaded; this one then only writes.
            ray: run them as tasks of the Ray cluster at this address (needs the extra `ray`); `local` starts one here.
            signals: look for these too, from now on, in all that is indexed: any of `names`, `speech`, `ocr`, beside
                those looked for before; an empty sequence looks for none from now on, and keeps what was found. A
                signal that fails for a file leaves it indexed by the rest.
            announce: told what the signals are going to cost, before they are looked for.
            progress: called after every window and file, and again while signals are looked for.

        Raises:
            LibraryError: another process is writing to it; a path that is neither there nor known; one of the
                processes of `jobs` ended (what it did is kept).
            ModelError: the model cannot be loaded, or fails its self-test.
            SignalError: there is no such signal, or what it needs is not installed.
        """
        if jobs < 1:
            raise LibraryError("jobs count from 1.")
        if approximate:
            need()
        sought = None if signals is None else parse_signals(signals)
        with writing(self.path):
            writer = Catalogue(self._catalogue.path)
            try:
                finders, notes = self._finders(writer, sought)
                roots = self._roots(writer, paths, globs(include), globs(exclude), hidden)
                merger = Merger(writer)
                merger.take_all()  # what shards have left
                merger.merged.notes += [
                    f"Shard {shard} is at work; a later run takes in what it does." for shard in merger.merged.running
                ]
                name = model or self._model_in_use()
                embedder, cut = self._embedder(name), replace(self._windowing(writer, windowing), fast=fast)
                options = Options(retry, rehash, prune, named=bool(paths), progress=progress)
                if jobs > 1 or ray is not None:
                    indexer = Indexer(writer, embedder, self._reader, self._thumbnails, cut, options)
                    asked = ShardJob(str(self.path), Shard(1, 1), (), (), name, cut.form, fast, retry, rehash)
                    runner = on_ray(ray) if ray is not None else on_this_machine
                    work = indexer.survey(roots).work
                    if len(work) > 1 or ray is not None:
                        Jobs(merger, progress).run(asked, work, jobs, runner, live=ray is None)
                        options = replace(options, retry=False, rehash=False)  # that has been done
                indexer = Indexer(writer, embedder, self._reader, self._thumbnails, cut, options)
                report = indexer.run(roots, merger.merged)
                self._keep_approximate(writer, approximate)
                found = []
                if finders:
                    meaning = self._text_model, lambda: self._text_encoder
                    signaller = Signaller(writer, self._reader, meaning, retry, announce, progress)
                    found = signaller.run(list(finders), finders)
                return report.model_copy(update={"signals": found, "notes": report.notes + notes})
            finally:
                writer.close()

    @staticmethod
    def index_shard(
        shard: str,
        *paths: str | PathLike[str],
        location: str | PathLike[str] | None = None,
        include: str | Sequence[str] = (),
        exclude: str | Sequence[str] = (),
        hidden: bool = False,
        retry: bool = False,
        rehash: bool = False,
        model: str | None = None,
        windowing: Windowing | None = None,
        fast: bool = False,
        progress: Callable[[Progress], None] | None = None,
    ) -> IndexReport:
        """Reads and embeds one share of what `index` would, beside the library; `merge` takes it in.

        A file belongs to a shard by its path within the folder given, so shards may run anywhere at any time. The
        library is read at the beginning, if there is one, and never written.

        Args:
            shard: `2/8`: the second of eight.
            paths: folders and files, the same for every shard; none: those the library knows.
            location: the library's folder, as of `open`.
            include, exclude, hidden, retry, rehash, model, windowing, fast, progress: as of `index`.

        Raises:
            ReelspaceError: `shard` is none.
            LibraryError: another process does this shard; a path is not there; the library cannot be read.
            ModelError: the model cannot be loaded, or is another than the library was indexed with.
        """
        roots = tuple(Root(absolute(path), globs(include), globs(exclude), hidden) for path in paths)
        job = ShardJob(
            str(Path(location or default_location()).absolute()),
            parse_shard(shard),
            roots,
            None,
            model,
            None if windowing is None else windowing.form,
            fast,
            retry,
            rehash,
        )
        return index_shard(job, progress)

    @_reporting_damage
    def merge(self) -> MergeReport:
        """Takes in what shards have done, but for those that are still at work. No video is read.

        It may be interrupted or killed at any point: the next one goes on.

        Raises:
            LibraryError: another process is writing to the library.
        """
        with writing(self.path), closing(self._own()) as writer:
            return merge(writer)

    search = _reporting_damage(Searchable.search)

    def _finders(self, writer: Catalogue, asked: Sequence[Signal] | None) -> tuple[dict[Signal, Finder], list[str]]:
        """What finds the library's signals, with those just asked for (see `index`), and notes on what cannot."""
        kept = parse_signals(writer.setting("signals") or "")
        wanted = kept if asked is None else parse_signals([*kept, *asked]) if asked else ()
        found = finders_of(wanted, asked or ())
        if wanted != kept:
            with writer.transaction():
                writer.set("signals", ",".join(wanted))
        return found

    @property
    def _text_model(self) -> str:
        """Names the model that the vectors of passages are made by, and the form in which their words are kept."""
        from reelspace.embed.base import fingerprint
        from reelspace.embed.lite import weights

        sums = weights.declared()
        return fingerprint(text=sums["text.onnx"], tokenizer=sums["tokenizer.json"], words=WORDS)

    def _told(self) -> tuple[str, ...]:
        texts = self._catalogue.texts
        signals = texts.signals() if texts is not None else []
        return tuple(by for by, signal in BY.items() if signal in signals)

    def _looked_for(self, by: str) -> bool:
        texts, signal = self._catalogue.texts, BY[by]
        return texts is not None and signal is not None and bool(texts.states(signal))

    def _wording(self, by: str, filters: Filters, corpus: Corpus) -> Wording:
        texts = self._catalogue.texts
        assert texts is not None
        if self._catalogue.setting("text-model") != self._text_model:
            raise LibraryError(
                f"{self.path}: its texts were indexed by another Reelspace; run `reelspace index` to bring them up to "
                "date."
            )
        store, among = self._text_store(texts).frozen(), None
        if not filters.none:
            passing = self._selections.of(filters)
            among = store.of_videos(np.fromiter(passing, np.int64, len(passing)))
        return Wording(texts, store, by, among, corpus.files)

    def _text_store(self, texts: Texts) -> MatrixStore:
        """The vectors of passages, in step with the catalogue."""
        with self._lock:
            now = self._catalogue.data_version
            followed, store = self._passages
            if store is None or followed != now or store.outdated:
                folder = self.path / "cache" / f"texts-{self._text_model}"
                try:
                    store = store or MatrixStore(folder, DIM, self.path / "cache.lock")
                    follow(store, texts)
                except UnwritableError:
                    store = ReadOnlyStore(folder, DIM)
                    follow(store, texts)
                self._passages = now, store
            return store

    def _open(self, filters: Filters, model: str | None = None) -> tuple[Embedder, Corpus]:
        space = self._space() if model is None else self._named_space(model)
        embedder = self._matching_embedder(space, model or self._model)
        passing = None if filters.none else self._selections.of(filters)
        return embedder, LocalCorpus(self._catalogue, self._store(space).frozen(), passing)

    @_reporting_damage
    def push(
        self,
        store: str,
        approximate: bool | None = None,
        recheck: bool = False,
        progress: Callable[[PushProgress], None] | None = None,
    ) -> PushReport:
        """Brings a store on a server in step with this library, so that `RemoteLibrary.open(store)` answers as it does.

        Only what has changed since the last push travels. It may be interrupted or killed at any point: the next one
        goes on.

        Args:
            store: its URL; see `RemoteLibrary.open`.
            approximate: have the server build an index for approximate search, or drop it; left out, as it is.
            recheck: compare with all that the store holds instead of trusting what the last push noted there.
            progress: called after every batch of windows.

        Raises:
            LibraryError: nothing is indexed yet; the library is being pushed; the store cannot be reached or used, or
                holds something else.
        """
        space = self._space()
        with pushing(self.path), closing(open_store(store, PATIENCE)) as remote, closing(self._own()) as own:
            library, local = identity(own), self._store(space).frozen()
            with own.snapshot():
                return Pusher(own, space, library, local, remote, progress).run(approximate, recheck)

    def _own(self) -> Catalogue:
        """A connection of its own, for one thread's transactions."""
        return Catalogue(self._catalogue.path)

    @_reporting_damage
    def status(self) -> StatusReport:
        """What the library holds, and every file that is not wholly indexed."""
        totals = self._catalogue.totals()
        problems = [Problem(path=p, state=s, reason=r) for p, s, r in self._catalogue.problems()]  # type: ignore[arg-type]
        return StatusReport(
            library=str(self.path),
            roots=[root.path for root in self._catalogue.roots()],
            partial=sum(problem.state == "partial" for problem in problems),
            spaces=self.models(),
            shards=waiting(self.path),
            signals=self._signal_states(),
            problems=problems,
            **totals,  # type: ignore[arg-type]
        )

    @_reporting_damage
    def files(self) -> list[str]:
        """Absolute paths of the files that can be found, in order."""
        return sorted(path for path, *_ in self._catalogue.dated_files())

    @_reporting_damage
    def transcript(
        self, path: str | PathLike[str], signal: str = "speech", language: str | None = None
    ) -> TranscriptReport:
        """What is said (or by `signal`: `ocr`, `names`) in an indexed video, line by line.

        Args:
            path: of the file.
            signal: whose text.
            language: only lines in this language, as their sources say it.

        Raises:
            LibraryError: the file is not indexed.
            SignalError: it was not looked through for that signal, or could not be.
        """
        (wanted,) = parse_signals(signal) or ("speech",)
        name = absolute(path)
        file = self._catalogue.files().get(name)
        if file is None or file.video is None:
            raise LibraryError(f"{shown(name)}: not indexed in {self.path}; run `reelspace index` with it.")
        texts = self._catalogue.texts
        state = None if texts is None else texts.state_of(file.video, wanted)
        if texts is None or state is None:
            raise SignalError(f"{shown(name)}: run `reelspace index --signals {wanted}` first.")
        if state[0]:
            raise SignalError(f"{shown(name)}: no {wanted}: {state[1]}")
        lines = texts.lines(file.video, wanted, name)
        return TranscriptReport(
            path=name,
            video=self._catalogue.hash_of(file.video),
            signal=wanted,
            language=texts.language(file.video, wanted),
            lines=[
                TimedText(
                    start=line.start,
                    end=line.end,
                    text=line.text,
                    source=line.source,
                    language=line.language,
                    confidence=line.confidence,
                    mark=line.mark,
                    words=[TimedWord(**part) for part in line.parts_data],
                )
                for line in lines
                if language in (None, line.language)
            ],
        )

    def _signal_states(self) -> list[SignalState]:
        texts = self._catalogue.texts
        kept = parse_signals(self._catalogue.setting("signals") or "")
        summary = texts.summary() if texts is not None else {}
        failures: dict[str, list[Problem]] = {}
        for path, signal, failed, note in texts.notes() if texts is not None else ():
            if failed:
                problem = Problem(path=os.fsdecode(path), state="partial", reason=f"{signal}: {note}")
                failures.setdefault(signal, []).append(problem)
        return [
            SignalState(
                signal=signal,
                kept=signal in kept,
                videos=summary.get(signal, (0, 0, 0))[0],
                failed=summary.get(signal, (0, 0, 0))[1],
                passages=summary.get(signal, (0, 0, 0))[2],
                problems=failures.get(signal, []),
            )
            for signal in SIGNALS
            if signal in kept or signal in summary
        ]

    @_reporting_damage
    def verify(self, sample: int = 32) -> VerifyReport:
        """Looks for anything wrong: embeds `sample` windows again, checks vectors, canaries, caches and files."""
        from reelspace.index.verify import Verifier

        space = self._space()
        embedder = self._matching_embedder(space)
        state = self._catalogue.data_version
        try:
            store = self._store(space).frozen()
        except LibraryError:  # it follows no damaged vector; which one that is, is found below
            store = None
        return Verifier(self._catalogue, space, store, state, embedder, self._reader).run(sample)

    @_reporting_damage
    def remove(self, *paths: str | PathLike[str]) -> int:
        """Forgets files, and all beneath folders; returns how many files. The files themselves are not touched."""
        gone = [Root(absolute(path)) for path in paths]
        with writing(self.path):
            writer = Catalogue(self._catalogue.path)
            try:
                with writer.transaction():
                    files = [path for path in writer.files() if any(root.covers(path) for root in gone)]
                    for path in files:
                        writer.forget_file(path)
                    for root in writer.roots():
                        if any(above.covers(root.path) for above in gone):
                            writer.forget_root(root.path)
                    writer.prune_contents()
                return len(files)
            finally:
                writer.close()

    @_reporting_damage
    def models(self) -> list[Space]:
        """The spaces of this library."""
        reports = []
        for space in self._catalogue.spaces():
            videos, windows, complete = self._catalogue.coverage(space.id)
            reports.append(
                Space(
                    model=space.model,
                    fingerprint=space.fingerprint,
                    active=space.active,
                    complete=complete,
                    videos=videos,
                    windows=windows,
                )
            )
        return reports

    @_reporting_damage
    def use(self, model: str) -> None:
        """Searches with `model` (its name, or the beginning of a fingerprint) from now on.

        Raises:
            LibraryError: the library has no complete space of it.
        """
        space = self._named_space(model)
        writer = Catalogue(self._catalogue.path)
        try:
            with writer.transaction():
                writer.activate(space.id)
        finally:
            writer.close()
        self._model = None

    @_reporting_damage
    def thumbnail(self, hit: Hit) -> bytes:
        """A JPEG of the middle of `hit`.

        Raises:
            MediaError: the file is gone or cannot be read.
        """
        start, end = self._window_of(hit)
        if jpeg := self._thumbnails.get(hit.video, start, end):
            return jpeg
        from reelspace.media.reader import Failed, ScanJob, WindowRead

        job = ScanJob(Path(hit.path), [Window(start, end)], Sampling(Centres(1)), thumbnails=True)
        for event in self._reader.scan([job]):
            match event:
                case WindowRead(thumbnail=bytes() as jpeg):
                    self._thumbnails.put(hit.video, start, end, jpeg)
                    return jpeg
                case Failed():
                    raise MediaError(f"{hit.path}: no thumbnail: {event.reason}")
        raise MediaError(f"{hit.path}: no thumbnail: it has no picture at {start:g}–{end:g} s.")

    def _window_of(self, hit: Hit) -> tuple[float, float]:
        """The window in the middle of a hit."""
        video = self._catalogue.video(hit.video)
        middle = (hit.start + hit.end) / 2
        windows = self._catalogue.windows_of(video) if video is not None else []
        return min(
            windows or [(hit.start, hit.end)],
            key=lambda window: (max(window[0] - middle, middle - window[1]), abs(sum(window) / 2 - middle)),
        )

    def close(self) -> None:
        """Ends the decoding processes and closes the files."""
        super().close()
        self._catalogue.close()

    # Parts, made when first needed

    def _model_in_use(self) -> str:
        active = next((space.model for space in self._catalogue.spaces() if space.active), None)
        return self._model or active or embed.DEFAULT_MODEL

    def _space(self) -> SpaceRow:
        """The space to search."""
        spaces = self._catalogue.spaces()
        if not spaces:
            raise LibraryError(f"{self.path}: nothing is indexed yet; run `reelspace index FOLDER`.")
        active = next(space for space in spaces if space.active)
        return active if self._model is None or self._model == active.model else self._named_space(self._model)

    def _named_space(self, model: str) -> SpaceRow:
        """The newest complete space of a model, or that it shares, or the one whose fingerprint begins so."""
        if not model:
            raise LibraryError(f"{self.path}: name a model, or the beginning of a fingerprint; see `reelspace models`.")
        if is_address(model):
            model = self._embedder(model).name
        named = [s for s in self._catalogue.spaces() if s.model == model or s.fingerprint.startswith(model)]
        named = named or self._shared_spaces(model)
        for space in reversed(named):
            if self._catalogue.coverage(space.id)[2]:
                return space
        if not named and not embed.known(model):
            raise LibraryError(
                f"{self.path}: nothing here is indexed with {model}, and no model of that name is known."
            )
        state = "only a part of the library" if named else "nothing here"
        raise LibraryError(
            f"{self.path}: {state} is indexed with {model}; run `reelspace index --model {model}` to complete it."
        )

    def _shared_spaces(self, model: str) -> list[SpaceRow]:
        """The spaces that a model may use although another made them."""
        if not sharing.shares(self._catalogue):
            return []
        used = sharing.space_of(self._catalogue, self._embedder(model).fingerprint)
        return [space for space in self._catalogue.spaces() if space.fingerprint == used]

    def _matching_embedder(self, space: SpaceRow, model: str | None = None) -> Embedder:
        """What a space is asked with: `model` if it shares the space, else the model that made it."""
        embedder = self._embedder(model if model and self._shares(model, space) else space.model)
        if sharing.space_of(self._catalogue, embedder.fingerprint) != space.fingerprint:
            raise LibraryError(
                f"{self.path}: it was indexed with another version of {space.model} ({space.fingerprint}; installed is "
                f"{embedder.fingerprint}); run `reelspace index` to make its vectors again."
            )
        if is_address(embedder.name) and embedder.fingerprint not in self._heard:
            # Whatever answers under that name today: searching with another model's vectors would look alive.
            kept, now = self._catalogue.canaries(space.id), canaries.sing(embedder, frozenset({"text"}))
            drift = canaries.drift({"text": kept["text"]} if "text" in kept else {}, now)
            if drift is not None and drift > sharing.tolerance_of(self._catalogue, embedder.fingerprint):
                raise LibraryError(
                    f"{self.path}: what is served as {embedder.name} gives other vectors than those stored (cosine "
                    f"distance {drift:.3f}): serve the model it was indexed with, or index again in another library."
                )
            self._heard.add(embedder.fingerprint)
        return embedder

    def _shares(self, model: str, space: SpaceRow) -> bool:
        """Whether `model` is another one than the space's own, and may use it."""
        other = model != space.model and not space.fingerprint.startswith(model)
        return other and any(shared.id == space.id for shared in self._shared_spaces(model))

    @_reporting_damage
    def share(self, model: str, other: str, tolerance: float = parity.TOLERANCE) -> parity.Parity:
        """Compares `other` with `model`, and if they agree lets `other` use the vectors of `model` from now on.

        Then `search`, `index` and `open` take `other` by its name, and no second space is made for it.

        Args:
            model: one whose vectors are here.
            other: another back end of the same weights.
            tolerance: the greatest cosine distance between their vectors of one input.

        Raises:
            LibraryError: there are no vectors of `model` here.
            ModelError: one of them cannot be loaded or used.
        """
        space = self._named_space(model)
        agreed = parity.compare(self._matching_embedder(space), self._embedder(other))
        if agreed.holds(tolerance):
            with writing(self.path), closing(self._own()) as writer:
                with_ = sharing.Share(space.fingerprint, tolerance)
                sharing.share(writer, self._embedder(other).fingerprint, with_)
        return agreed

    def _store(self, space: SpaceRow) -> AnnStore:
        """The store of a space, in step with the catalogue."""
        with self._lock:
            now = self._catalogue.data_version
            followed, store = self._stores.get(space.id, (None, None))
            if store is None or followed != now or store.exact.outdated:
                folder, source = self.path / "cache" / f"vectors-{space.fingerprint}", self._catalogue.vectors(space)
                try:
                    store = store or AnnStore(MatrixStore(folder, space.dim, self.path / "cache.lock"))
                    follow(store.exact, source)
                except UnwritableError:
                    store = AnnStore(ReadOnlyStore(folder, space.dim))
                    follow(store.exact, source)
                self._stores[space.id] = now, store
            return store

    def _keep_approximate(self, writer: Catalogue, wanted: bool | None) -> None:
        """Makes or drops the approximate index of the active space, as asked for or as its size calls for."""
        kept = writer.setting("approximate")
        if wanted is not None and kept != str(wanted):
            kept = str(wanted)
            with writer.transaction():
                writer.set("approximate", kept)
        active = next((space for space in writer.spaces() if space.active), None)
        if active is None:
            return
        store = self._store(active)
        if not (kept == str(True) or (kept is None and len(store) >= WORTHWHILE)):
            store.drop()
        elif available() and (not store.built or store.stale):  # without faiss none is made
            embedder = self._embedder(active.model)
            if embedder.fingerprint == active.fingerprint:  # else it cannot ask this space anything
                store.build(probes(embedder, store.exact))

    def _windowing(self, writer: Catalogue, wanted: Windowing | None) -> Windowing:
        """The library's way of cutting videos; one that is asked for becomes it."""
        kept = writer.setting("windowing")
        windowing = wanted or (parse_windowing(kept) if kept else Shots())
        if kept != windowing.form:
            with writer.transaction():
                writer.set("windowing", windowing.form)
        return windowing

    def _roots(
        self,
        writer: Catalogue,
        paths: Sequence[str | PathLike[str]],
        include: tuple[str, ...],
        exclude: tuple[str, ...],
        hidden: bool,
    ) -> list[Root]:
        """The roots to look through; those that are new, or wanted otherwise than before, are remembered."""
        known = writer.roots()
        if not paths:
            if not known:
                raise LibraryError(f"{self.path} knows no folders yet; run `reelspace index FOLDER`.")
            return known
        roots = [Root(absolute(path), include, exclude, hidden) for path in paths]
        there = [*(above.path for above in known), *writer.files()]
        for root in roots:
            if not os.path.lexists(root.path) and not any(map(root.covers, there)):
                raise LibraryError(f"{root.path} is not there, and was never indexed.")
        with writer.transaction():
            for root in roots:
                if os.path.lexists(root.path) and not any(above.includes(root) for above in known):
                    writer.put_root(root)
        return roots


def default_location() -> Path:
    """Where a library is that no place was given for: `$REELSPACE_LIBRARY`, else in the user's data directory."""
    from platformdirs import user_data_path

    return Path(os.environ.get("REELSPACE_LIBRARY") or user_data_path("reelspace"))
