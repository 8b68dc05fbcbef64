"""The second half of `index`: what is said, written and named in the videos that are there, one transaction a file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reelspace.answers import Problem, Progress, SignalCost, SignalReport, shown
from reelspace.embed.lite.text import TextEncoder
from reelspace.errors import ReelspaceError
from reelspace.index.base import Vectors
from reelspace.index.catalogue import Catalogue
from reelspace.index.identity import Stamp, check_unchanged
from reelspace.index.texts import DIM, Todo
from reelspace.media.reader import Reader
from reelspace.media.windows import Window
from reelspace.signals.base import USUAL_COST, Signal
from reelspace.signals.finders import Finder, load
from reelspace.signals.names import name_of_file

_MEASURED = 60.0  # seconds of video from which on a library's own measurement of the cost is believed


class _Work(NamedTuple):
    """A content to look through: in which file, and with what."""

    video: int
    duration: float
    path: Path
    stamp: Stamp
    version: str


class Signaller:
    """Brings signals of a catalogue up to date. Made for one run; its caller holds the right to write."""

    def __init__(
        self,
        catalogue: Catalogue,
        reader: Reader,
        text_model: tuple[str, Callable[[], TextEncoder]],
        retry: bool,
        announce: Callable[[list[SignalCost]], None] | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        """`text_model` is its fingerprint and what loads it."""
        assert catalogue.texts is not None
        self._catalogue, self._reader, self._texts = catalogue, reader, catalogue.texts
        self._text_model, self._retry = text_model, retry
        self._announce, self._progress = announce, progress
        self._encoder: TextEncoder | None = None
        self._files_total = self._files_done = self._bytes_total = self._bytes_done = 0
        self._seconds, self._begun = 0.0, time.monotonic()

    def run(self, signals: Sequence[Signal], finders: dict[Signal, Finder]) -> list[SignalReport]:
        """Looks for these signals in every searchable content that lacks them."""
        self._same_meanings()
        work = {signal: self._lacking(signal, finders[signal]) for signal in signals}
        self._say_costs(work)
        self._files_total = sum(map(len, work.values()))
        self._bytes_total = sum(one.stamp.size for every in work.values() for one in every)
        self._begun = time.monotonic()
        return [self._run(signal, finders[signal], work[signal]) for signal in signals]

    def _same_meanings(self) -> None:
        """Vectors of passages that another text model made are made anew."""
        fingerprint = self._text_model[0]
        kept = self._catalogue.setting("text-model")
        if kept == fingerprint:
            return
        with self._catalogue.transaction():
            if kept is not None:
                self._texts.renew_meanings(self._meanings)
            self._catalogue.set("text-model", fingerprint)

    def _lacking(self, signal: Signal, finder: Finder) -> list[_Work]:
        """What is to be looked through: new contents, and those looked through with something else."""
        states, work = self._texts.states(signal), []
        for todo in self._texts.todo():
            if not (there := _there(todo)):
                continue
            path, stamp = next((one for one in there if finder.prefers(Path(one[0]))), there[0])
            version = finder.version(Path(path))
            state = states.get(todo.video)
            if state is None or state.version != version or (state.failed and self._retry):
                work.append(_Work(todo.video, todo.duration, Path(path), stamp, version))
        return work

    # Cost

    def _say_costs(self, work: dict[Signal, list[_Work]]) -> None:
        if self._announce is None or not any(work.values()):
            return
        costs = []
        for signal, every in work.items():
            if every:
                rate, measured = self._cost(signal)
                costs.append(
                    SignalCost(
                        signal=signal,
                        videos=len(every),
                        seconds=sum(one.duration for one in every),
                        an_hour=3600 * rate,
                        measured=measured,
                    )
                )
        self._announce(costs)

    def _cost(self, signal: Signal) -> tuple[float, bool]:
        """Seconds of work a second of video, and whether that was measured here."""
        worked, heard = self._spent(signal)
        return (worked / heard, True) if heard >= _MEASURED else (USUAL_COST[signal], False)

    def _spent(self, signal: Signal) -> tuple[float, float]:
        """Seconds of work so far, and the seconds of video it was spent on."""
        kept = self._catalogue.setting(f"spent-{signal}")
        worked, heard = map(float, kept.split()) if kept else (0.0, 0.0)
        return worked, heard

    # One signal

    def _run(self, signal: Signal, finder: Finder, work: Sequence[_Work]) -> SignalReport:
        videos = failed = passages = 0
        seconds = 0.0
        problems: list[Problem] = []
        notes: list[Problem] = []
        for one in work:
            begun = time.monotonic()
            windows = [Window(*window) for window in self._catalogue.windows_of(one.video)]
            told: str | None = None
            try:
                found = finder.find(one.path, one.duration, windows, self._reader, self._reporter(one))
                vectors = self._meanings([passage.text for passage in found.passages])
                check_unchanged(str(one.path), one.stamp)
            except OSError:  # it has changed, or is gone: the next run sees to it
                self._done(one)
                continue
            except (
                Exception
            ) as error:  # whatever a recogniser raises over one file is no reason to leave out the others
                told = _reason(error, one.path)
                with self._catalogue.transaction():
                    self._texts.fail(one.video, signal, one.version, told)
                failed += 1
                problems.append(Problem(path=str(one.path), state="partial", reason=f"{signal}: {told}"))
                self._done(one)
                continue
            worked, heard = self._spent(signal)
            with self._catalogue.transaction():
                self._texts.put(one.video, signal, one.version, found, vectors)
                worked, heard = worked + time.monotonic() - begun, heard + one.duration
                self._catalogue.set(f"spent-{signal}", f"{worked:.3f} {heard:.3f}")
            if found.note:
                notes.append(Problem(path=str(one.path), state="partial", reason=f"{signal}: {found.note}"))
            videos, passages, seconds = videos + 1, passages + len(found.passages), seconds + one.duration
            self._done(one)
        if signal == "names":
            passages += self._name_files()
        return SignalReport(
            signal=signal,
            videos=videos,
            failed=failed,
            passages=passages,
            seconds=seconds,
            problems=problems,
            notes=notes,
        )

    def _name_files(self) -> int:
        """What files are called: that is theirs alone, and costs no reading. How many were given their names."""
        roots = sorted((root.path for root in self._catalogue.roots()), key=len, reverse=True)
        nameless = self._texts.nameless()
        for start in range(0, len(nameless), 256):
            named = []
            for file, video, stored, duration in nameless[start : start + 256]:
                path = os.fsdecode(stored)
                root = next((root for root in roots if Path(path).is_relative_to(root)), None)
                named.append((video, file, name_of_file(path, root, duration)))
            vectors = self._meanings([found.passages[0].text for _, _, found in named])
            with self._catalogue.transaction():
                for (video, file, found), vector in zip(named, vectors, strict=True):
                    self._texts.put_name(video, file, found, vector[None])
        return len(nameless)

    def _meanings(self, texts: list[str]) -> Vectors:
        if not texts:
            return np.empty((0, DIM), np.float32)
        if self._encoder is None:
            self._encoder = self._text_model[1]()
        return self._encoder(texts)

    # Progress

    def _reporter(self, one: _Work) -> Callable[[float], None]:
        def report(share: float) -> None:
            self._report(one, min(max(share, 0.0), 1.0))

        return report

    def _done(self, one: _Work) -> None:
        self._files_done += 1
        self._bytes_done += one.stamp.size
        self._seconds += one.duration
        self._report(one, 0.0)

    def _report(self, one: _Work, share: float) -> None:
        if self._progress is not None:
            self._progress(
                Progress(
                    path=str(one.path),
                    files_done=self._files_done,
                    files_total=self._files_total,
                    bytes_done=self._bytes_done + round(share * one.stamp.size),
                    bytes_total=self._bytes_total,
                    seconds=self._seconds + share * one.duration,
                    elapsed=time.monotonic() - self._begun,
                )
            )


def finders_of(signals: Sequence[Signal], asked: Sequence[Signal]) -> tuple[dict[Signal, Finder], list[str]]:
    """The finders of these signals, and notes on those that cannot be had here.

    Raises:
        SignalError: one that was just asked for cannot.
    """
    finders: dict[Signal, Finder] = {}
    notes = []
    for signal in signals:
        try:
            finders[signal] = load(signal)
        except ReelspaceError as error:
            if signal in asked:
                raise
            notes.append(f"{signal} is not looked for this time: {error}")
    return finders, notes


def _reason(error: Exception, path: Path) -> str:
    """Why a signal cannot be had of a file, for a person."""
    if isinstance(error, ReelspaceError):
        return str(error).removeprefix(f"{shown(str(path))}: ")
    return f"could not be done ({type(error).__name__}: {error})."


def _there(todo: Todo) -> list[tuple[str, Stamp]]:
    """The files of a content that are there and have not changed."""
    found = []
    for path, stamp in todo.files:
        with suppress(OSError):
            if os.stat(path).st_size == stamp.size:
                found.append((path, stamp))
    return found
