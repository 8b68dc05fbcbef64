"""Several processes index at once, each its shard: on this machine, or on a Ray cluster.

`python -m reelspace.index.jobs` is such a process: it reads a `ShardJob` as a line of JSON, tells by such lines how it
gets on, and ends when its stdin does, keeping what it has: whatever ends the one who asked ends it too.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from reelspace.answers import Progress
from reelspace.errors import LibraryError, ReelspaceError
from reelspace.index.merge import Merger
from reelspace.index.shards import ShardJob, index_shard, part_of
from reelspace.index.survey import Candidate
from reelspace.shard import Shard

_LOOK = 5.0  # seconds between merges of what is new
PATIENCE = 60.0  # seconds that a process may take to keep what it has, when it must end
_TELL = 0.25  # seconds between its signs of progress


@dataclass
class Told:
    """What is heard of a job."""

    number: int
    """Its position in what was asked for."""
    progress: Progress | None = None
    failed: str | None = None
    """Why it ended before it was done. Where neither is given, it is done."""


Running = Generator[Told | None, None, None]
Runner = Callable[[Sequence[ShardJob]], Running]
"""Runs jobs and tells how they get on; `None` now and then, so that the listener can do other things. When it is closed
before its end, it has the jobs keep what they have, and end."""


def divided(work: Sequence[Candidate], count: int) -> list[list[Candidate]]:
    """At most `count` shares of about as many bytes, none of them empty. The same for the same files."""
    shares: list[list[Candidate]] = [[] for _ in range(min(count, len(work)))]
    sizes = [0] * len(shares)
    for one in sorted(work, key=lambda one: (-one.size, os.fsencode(one.path))):
        least = sizes.index(min(sizes))
        shares[least].append(one)
        sizes[least] += max(one.size, 1)
    return shares


class Jobs:
    """Indexes files in several processes, and merges what they make into the catalogue of the library meanwhile."""

    def __init__(self, merger: Merger, progress: Callable[[Progress], None] | None) -> None:
        self._merger, self._progress = merger, progress
        self._begun = time.monotonic()
        self._states: dict[int, Progress] = {}

    def run(self, asked: ShardJob, work: Sequence[Candidate], count: int, runner: Runner, live: bool) -> None:
        """Does all of it.

        Args:
            asked: how; its shard and files are set here.
            work: the files.
            count: of processes.
            runner: what runs them.
            live: the parts are made on this machine, so that they can be read meanwhile.

        Raises:
            LibraryError: a process ended before it was done; what it and the others did is kept.
        """
        shares = divided(work, count)
        jobs = [
            replace(asked, shard=Shard(number, len(shares)), files=tuple(one.path for one in share))
            for number, share in enumerate(shares, 1)
        ]
        if not jobs:
            return
        running, failures, looked = runner(jobs), [], time.monotonic()
        try:
            for told in running:
                if told is not None and told.progress is not None:
                    self._states[told.number] = told.progress
                    self._report(told.progress.path, work)
                elif told is not None:
                    if told.failed is not None:
                        failures.append(f"Shard {jobs[told.number].shard}: {told.failed}")
                    self._take(jobs[told.number])
                if live and time.monotonic() - looked > _LOOK:
                    for job in jobs:
                        self._merger.look(part_of(job))
                    looked = time.monotonic()
        finally:
            running.close()
            for job in jobs:
                self._take(job)
        if failures:
            more = f" ({len(failures) - 1} more failed.)" if failures[1:] else ""
            raise LibraryError(f"{failures[0]}{more} What was done is kept; run the same command again to go on.")

    def _take(self, job: ShardJob) -> None:
        if (part_of(job) / "catalogue.sqlite").is_file():
            self._merger.take(job.shard, part_of(job))

    def _report(self, path: str, work: Sequence[Candidate]) -> None:
        if self._progress is not None:
            states = self._states.values()
            self._progress(
                Progress(
                    path=path,
                    files_done=sum(one.files_done for one in states),
                    files_total=len(work),
                    bytes_done=sum(one.bytes_done for one in states),
                    bytes_total=sum(one.size for one in work),
                    seconds=sum(one.seconds for one in states),
                    elapsed=time.monotonic() - self._begun,
                )
            )


# On this machine


@dataclass
class _Process:
    process: subprocess.Popen[bytes]
    complaints: IO[bytes]
    heard: bytearray = field(default_factory=bytearray)
    told: bool = False
    """It has said how it ended."""


def on_this_machine(jobs: Sequence[ShardJob]) -> Running:
    """A process a job. See `Runner`."""
    started: list[_Process] = []
    with selectors.DefaultSelector() as selector:
        try:
            for number, job in enumerate(jobs):
                started.append(_started(job, len(jobs)))
                out = started[-1].process.stdout
                assert out is not None
                selector.register(out, selectors.EVENT_READ, number)
            while selector.get_map():
                ready = selector.select(1.0)
                if not ready:
                    yield None
                for key, _ in ready:
                    one = started[key.data]
                    read = os.read(key.fd, 1 << 16)
                    one.heard += read
                    yield from _heard(key.data, one)
                    if not read:
                        selector.unregister(key.fileobj)
                        if not one.told:
                            yield Told(key.data, failed=_death(one))
        finally:
            _ended(started)


def _started(job: ShardJob, count: int) -> _Process:
    package = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH")
    threads = str(max(1, (os.cpu_count() or 1) // count))
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 — closed in `_ended`
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "reelspace.index.jobs"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=complaints,
        start_new_session=True,  # Ctrl-C is for the one who asked, who then has this one end
        env={"OMP_NUM_THREADS": threads} | os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (package, known)))},
    )
    assert process.stdin is not None
    with suppress(OSError):  # it is dead: that is heard
        process.stdin.write(json.dumps(job.to_json()).encode("ascii") + b"\n")
        process.stdin.flush()
    return _Process(process, complaints)


def _heard(number: int, one: _Process) -> Iterator[Told]:
    *lines, rest = one.heard.split(b"\n")
    one.heard = rest
    for line in lines:
        message = json.loads(line)
        if "progress" in message:
            yield Told(number, progress=Progress(**message["progress"]))
        else:
            one.told = True
            yield Told(number, failed=message["failed"])


def _death(one: _Process) -> str:
    code = one.process.wait()
    if code < 0:
        name = signal.Signals(-code).name
        return f"it was ended by {name}{', perhaps for want of memory' if name == 'SIGKILL' else ''}."
    one.complaints.seek(0)
    lines = one.complaints.read().decode("utf-8", "replace").strip().splitlines()
    return f"it ended unexpectedly (exit code {code}): {lines[-1] if lines else 'no message'}"


def _ended(started: Sequence[_Process]) -> None:
    """Has the processes keep what they have; those that do not end are killed."""
    try:
        for one in started:
            assert one.process.stdin is not None
            with suppress(OSError):
                one.process.stdin.close()
        until = time.monotonic() + PATIENCE
        for one in started:
            assert one.process.stdout is not None
            one.process.stdout.close()
            with suppress(subprocess.TimeoutExpired):
                one.process.wait(max(0.0, until - time.monotonic()))
    finally:  # also where somebody does not want to wait
        for one in started:
            one.process.kill()
            one.process.wait()
            one.complaints.close()


def run(job: ShardJob, progress: Callable[[Progress], None] | None = None) -> str | None:
    """Does a job; why it could not be done, if so."""
    try:
        index_shard(job, progress, patience=PATIENCE)
    except ReelspaceError as error:
        return str(error)
    return None


def main() -> None:
    """Does the one job that stdin names."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints goes to stderr
    requests = os.fdopen(os.dup(0), "rb")
    job = ShardJob.from_json(json.loads(requests.readline()))
    ending = threading.Event()

    def listen() -> None:
        requests.read()
        ending.set()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def tell(message: dict[str, Any]) -> None:
        with suppress(OSError):  # nobody listens any more
            out.write(json.dumps(message).encode("ascii") + b"\n")
            out.flush()

    last = 0.0

    def show(state: Progress) -> None:
        nonlocal last
        if time.monotonic() - last > _TELL or state.files_done == state.files_total:
            last = time.monotonic()
            tell({"progress": state.model_dump()})

    threading.Thread(target=listen, daemon=True).start()
    try:
        tell({"failed": run(job, show)})
    except KeyboardInterrupt:
        if not ending.is_set():
            tell({"failed": "it was interrupted."})
        sys.exit(130)


if __name__ == "__main__":
    main()
