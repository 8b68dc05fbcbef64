"""Media read in processes apart, that may hang, crash or swell without harm.

A file is hostile until it is decoded. `Reader` gives each to a worker process (`python -m reelspace.media.worker`),
watches that it gets on, and kills and replaces it when it does not; only that one file fails, with the reason. Workers
are ordinary child processes, neither forked nor spawned by `multiprocessing`: a script needs no `__main__` guard.
"""

from __future__ import annotations

import io
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import MediaError
from reelspace.item import Frames, Span
from reelspace.media import wire
from reelspace.media.about import About, Cue, Track
from reelspace.media.files import shown
from reelspace.media.policy import Sampling
from reelspace.media.probe import VideoInfo
from reelspace.media.windows import Window, Windowing

PATIENCE = 60.0  # seconds
MEMORY = 4 << 30  # bytes
EFFORT = 600.0  # seconds of processor time
START = 0.3  # seconds, about: what starting a worker takes of a processor


@dataclass(frozen=True)
class ScanJob:
    """One file to read window by window.

    Attributes:
        path: the file.
        windows: how to divide it, or the windows themselves (what lies after the end of the video is left out).
        sampling: which frames of each window.
        thumbnails: make a JPEG of each window.
        keys: look at the first frame and the key frames alone. A windowing that is `fast` says so itself.
    """

    path: Path
    windows: Windowing | Sequence[Window]
    sampling: Sampling
    thumbnails: bool = False
    keys: bool = False


@dataclass(frozen=True)
class Opened:
    """A file was opened: what it is."""

    path: Path
    info: VideoInfo


@dataclass(frozen=True)
class WindowRead:
    """One window `[start, end)` of it, in order of time."""

    path: Path
    start: float
    end: float
    frames: Frames
    thumbnail: bytes | None = None


@dataclass(frozen=True)
class Closed:
    """It was read to the end, or as far as it can be: then `partial` says why."""

    path: Path
    partial: str | None = None


@dataclass(frozen=True)
class Failed:
    """It cannot be read; `reason` is for a human. Windows read before are void."""

    path: Path
    reason: str


Event = Opened | WindowRead | Closed | Failed


@dataclass(eq=False)
class Heard:
    """What is heard in a file.

    Attributes:
        present: whether there is sound that can be decoded.
        language: as the file says, or None.
        samples: int16 mono at 16 kHz in blocks of 30 s; sample n is heard n / 16000 s after the first displayed frame
            appears.
        damaged: parts could not be decoded; known when all samples have been read.
    """

    present: bool
    language: str | None
    samples: Iterator[NDArray[np.int16]] = field(default_factory=lambda: iter(()))
    damaged: bool = False


class Reader:
    """Reads media in worker processes. A context manager; `close` ends the workers.

    Args:
        workers: processes at most, 2 or as many as there are cores up to 4 if left out. Each reads one file at a time.
        patience: seconds without any progress after which a worker is taken to hang and is killed.
        memory: bytes of address space that a worker may use (enforced by Linux; macOS takes no notice).
        effort: seconds of processor time that opening a file may take, and as much again for every 10 s of video (but
            not more often than for every 300 frames); a worker that takes more is killed.
    """

    def __init__(
        self,
        workers: int | None = None,
        patience: float = PATIENCE,
        memory: int = MEMORY,
        effort: float = EFFORT,
    ) -> None:
        self._most = workers or max(2, min(4, os.cpu_count() or 1))
        self._patience, self._memory, self._effort = patience, memory, effort
        self._idle: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers. The reader can be used again; it starts new ones."""
        while self._idle:
            self._idle.pop().kill()

    def scan(self, jobs: Iterable[ScanJob]) -> Iterator[Event]:
        """Reads files and yields what is found: for each, in the order of `jobs`, `Opened`, its `WindowRead`s and
        `Closed`; or, at any point, `Failed`.

        Files and windows to come are read while the caller works on an event, a few ahead and no more: memory does
        not grow with the length of a film. `jobs` is drawn from as needed. Another worker is started when the
        first has been at work for as long as that takes: a few short files are done by then.
        """
        source, running = iter(jobs), deque[tuple[ScanJob, _Worker]]()
        worth_it = math.inf  # when

        def start_more() -> None:
            while len(running) < self._most and (self._idle or not running or time.monotonic() > worth_it):
                if (job := next(source, None)) is None:
                    return
                running.append((job, self._start(_scan_request(job))))

        try:
            while True:
                start_more()
                if not running:
                    return
                job, worker = running[0]
                for event, last in _events(job, worker):
                    if last:
                        running.popleft()
                        self._release(worker)
                    worth_it = min(worth_it, time.monotonic() + START)
                    start_more()
                    if event is not None:
                        yield event
        finally:
            for _, worker in running:
                worker.kill()

    def sample(self, span: Span, sampling: Sampling) -> Frames:
        """The frames that `sampling` chooses from a span, the same to the bit as a scan with that window gives.

        Raises:
            MediaError: the file cannot be read, or the span lies beyond its end.
        """
        head, body = self._ask(
            span.path, {"do": "sample", "start": span.start, "end": span.end, **_sampling_request(sampling)}
        )
        return wire.frames_of(head, body)[0]

    def image(self, path: str | os.PathLike[str]) -> NDArray[np.uint8]:
        """Pixels of a picture, uint8 `[H, W, 3]`, RGB, upright.

        Raises:
            MediaError: it is no picture that can be read.
        """
        head, body = self._ask(Path(path), {"do": "image"})
        return np.frombuffer(body, np.uint8).reshape(head["shape"])

    def check(self, path: Path) -> tuple[VideoInfo, str | None, str]:
        """What a file is, why it is not whole if it is not, and FFmpeg's names of its container; all of it is decoded.

        Raises:
            MediaError: it cannot be read.
        """
        head, _ = self._ask(path, {"do": "check"})
        return VideoInfo(**head["info"]), head["damage"], head["container"]

    def cut(self, span: Span, path: Path, exact: bool) -> tuple[float, float]:
        """Writes a stretch of a video straight into `path`; use `reelspace.media.cut.cut`.

        Raises:
            MediaError: see there.
        """
        request = {"do": "cut", "start": span.start, "end": span.end, "to": str(path), "exact": exact}
        head, _ = self._ask(span.path, request)
        return head["start"], head["end"]

    def about(self, path: Path, subtitles: bool = False) -> About:
        """What a file says in words: tags, chapters, and its subtitles if they are asked for.

        Raises:
            MediaError: it cannot be read.
        """
        told = self._ask(path, {"do": "about", "subtitles": subtitles})[0]["about"]
        tracks = [Track(**track | {"cues": [Cue(**cue) for cue in track["cues"]]}) for track in told["tracks"]]
        return About(told["tags"], [Cue(**chapter) for chapter in told["chapters"]], told["sound"], tracks)

    @contextmanager
    def sound(self, path: Path) -> Iterator[Heard]:
        """What is heard in a file, decoded while it is read: `with reader.sound(path) as heard: …`.

        Raises:
            MediaError: it cannot be read; also while `heard.samples` is read.
        """
        worker = self._start({"do": "sound", "path": str(path)})
        done = False
        heard = Heard(False, None)

        def samples() -> Iterator[NDArray[np.int16]]:
            nonlocal done
            while True:
                head, body = _told(worker, path)
                if head["event"] == "closed":
                    heard.damaged, done = head["damaged"], True
                    return
                yield np.frombuffer(body, np.int16)

        try:
            head, _ = _told(worker, path)
            heard.present, heard.language, heard.samples = head["present"], head["language"], samples()
            yield heard
        finally:
            if done:
                self._release(worker)
            else:
                worker.kill()

    def _ask(self, path: Path, request: dict[str, Any]) -> wire.Message:
        """Has one request answered by one message."""
        worker = self._start(request | {"path": str(path)})
        try:
            head, body = worker.answer()
        except _WorkerError as death:
            worker.kill()
            raise MediaError(f"{shown(path)}: {death}") from None
        except BaseException:
            worker.kill()
            raise
        self._release(worker)
        if head["event"] == "failed":
            raise MediaError(head["reason"])
        return head, body

    def _start(self, request: dict[str, Any]) -> _Worker:
        try:
            worker = self._idle.pop()  # not asked first whether there is one: threads may share a reader
        except IndexError:
            worker = _Worker(self._patience, self._memory)
        worker.ask(request | {"effort": self._effort})
        return worker

    def _release(self, worker: _Worker) -> None:
        if worker.fit and len(self._idle) < self._most:
            self._idle.append(worker)
        else:
            worker.kill()


def _told(worker: _Worker, path: Path) -> wire.Message:
    """The next message of a worker, if it is no failure."""
    try:
        head, body = worker.answer()
    except _WorkerError as death:
        raise MediaError(f"{shown(path)}: {death}") from None
    if head["event"] == "failed":
        raise MediaError(head["reason"])
    return head, body


def _scan_request(job: ScanJob) -> dict[str, Any]:
    windows: str | list[list[float]]
    if isinstance(job.windows, Windowing):
        windows, keys = str(job.windows), job.windows.fast
    else:
        windows, keys = [list(window) for window in job.windows], job.keys
    request = {"do": "scan", "path": str(job.path), "windows": windows, "thumbnails": job.thumbnails, "keys": keys}
    return request | _sampling_request(job.sampling)


def _sampling_request(sampling: Sampling) -> dict[str, Any]:
    return {"policy": str(sampling.policy), "edge": sampling.edge}


def _events(job: ScanJob, worker: _Worker) -> Iterator[tuple[Event | None, bool]]:
    """What a worker tells of a file, None where that is only that it lives, and whether that is the last of it."""
    while True:
        try:
            head, body = worker.message()
        except _WorkerError as death:
            yield Failed(job.path, f"{shown(job.path)}: {death}"), True
            return
        match head["event"]:
            case "tick":
                yield None, False
            case "opened":
                yield Opened(job.path, VideoInfo(**head["info"])), False
            case "window":
                frames, thumbnail = wire.frames_of(head, body)
                yield WindowRead(job.path, frames.start, frames.end, frames, thumbnail or None), False
            case "closed":
                yield Closed(job.path, head["partial"]), True
                return
            case "failed":
                yield Failed(job.path, head["reason"]), True
                return


class _WorkerError(Exception):
    """A worker is no more, or must be no more; the message is a human's reason."""


class _Worker:
    """A worker process and the pipes to it. `fit` tells whether it can take another request."""

    def __init__(self, patience: float, memory: int) -> None:
        self._patience, self._memory = patience, memory
        self._launch()

    def _launch(self) -> None:
        self.fit, self._asked = True, 0
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 — closed in `kill`
        package = str(Path(__file__).parents[2])
        known = os.environ.get("PYTHONPATH")
        self._process = subprocess.Popen(
            # -P: a folder of videos that is the working directory must not become a place to import from.
            [sys.executable, "-P", "-m", "reelspace.media.worker", str(self._memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for the reader's process, which then ends this one
            env=os.environ
            | {
                "PYTHONPATH": os.pathsep.join(filter(None, (package, known))),
                # Address space is what is limited: spend none of it on arenas and threads that do not help here.
                "MALLOC_ARENA_MAX": "2",
                "OPENBLAS_NUM_THREADS": "1",
            },
        )
        assert self._process.stdin and self._process.stdout
        self._in, self._out = io.BufferedWriter(self._process.stdin), self._process.stdout

    def ask(self, request: dict[str, Any]) -> None:
        """Sends a request. If the worker is dead, `answer` will say so."""
        self._request, self._silent = request, True
        self._asked += 1
        with suppress(OSError):
            wire.send(self._in, request)

    def answer(self) -> wire.Message:
        """The next message that is no mere sign of life.

        Raises:
            _WorkerError: it crashed, or gave no sign of life for as long as the patience lasts.
        """
        while (message := self.message())[0]["event"] == "tick":
            pass
        return message

    def message(self) -> wire.Message:
        """The next message. Raises as `answer` does."""
        while True:
            message = wire.receive(self)
            if message is None:
                if not self._silent or self._asked == 1:
                    raise self._died()
                # Dead before it said a word: the file before may be to blame. Once more, with a clean slate.
                self.kill()
                self._launch()
                self.ask(self._request)
                continue
            self._silent = False
            self.fit = self.fit and not message[0].get("unfit", False)
            return message

    def read(self, size: int) -> bytearray:
        """Exactly `size` bytes from the worker, fewer at its end."""
        got, at = bytearray(size), 0
        view, poll = memoryview(got), select.poll()
        poll.register(self._out, select.POLLIN)
        while at < size:
            if not poll.poll(self._patience * 1000):
                self.fit = False
                raise _WorkerError(f"reading it made no progress for {self._patience:g} s and was stopped.")
            count = self._out.readinto(view[at : at + (1 << 20)])  # type: ignore[attr-defined]
            if not count:
                view.release()
                del got[at:]
                break
            at += count
        return got

    def _died(self) -> _WorkerError:
        self.fit = False
        code = self._process.wait()
        if code < 0:
            name = signal.Signals(-code).name
            if name == "SIGXCPU":
                return _WorkerError("reading it took more work than a file of its length can need, and was stopped.")
            memory = ", perhaps for want of memory" if name == "SIGKILL" else ""
            return _WorkerError(f"the decoder crashed on it ({name}{memory}).")
        self._complaints.seek(0)
        lines = self._complaints.read().decode("utf-8", "replace").strip().splitlines()
        return _WorkerError(
            f"the decoder ended unexpectedly (exit code {code}): {lines[-1] if lines else 'no message'}"
        )

    def kill(self) -> None:
        """Ends it at once and leaves nothing behind."""
        self._process.kill()
        self._process.wait()
        for stream in (self._in, self._out, self._complaints):
            with suppress(OSError):  # what a dead worker was never told
                stream.close()
