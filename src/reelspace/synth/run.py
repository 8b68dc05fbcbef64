"""Runs the steps over the shards: in this process, in several, as one of an array's tasks, or on Ray.

Two folders: the dataset's, which holds only what can be made again, byte for byte; and `NAME.run` beside it, with what
is between the steps, the models' answers, timings, costs and logs. A shard of a step is done when its mark is there;
whoever works on one holds its lock, which the kernel takes back from the dead. So any number of processes may work on a
run, be killed at any time, and started again: what is done stays done, and what comes out is the same.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Self

from reelspace import embed
from reelspace.errors import ReelspaceError
from reelspace.media.reader import Reader
from reelspace.shard import Shard
from reelspace.synth import enrich, extend
from reelspace.synth import filter as filtering
from reelspace.synth.asset import Asset
from reelspace.synth.blocks import Known, Step, Tools, Work, through
from reelspace.synth.config import Config
from reelspace.synth.mllm import Client, load
from reelspace.synth.mllm.desk import Desk, Journal, Ledger, Spent
from reelspace.synth.schema import TASKS, read_parquet, rejection_schema, row_schema, write_parquet
from reelspace.synth.shards import aside, claimed, digest, sweep, write_json
from reelspace.synth.source import Source

VERSION = 1
"""Of the work itself: a run of another version is not gone on with."""

# What may differ from one start to the next, because it does not decide what comes out.
_FREE = {"url", "key_variable", "concurrency", "retries", "patience", "longest_wait", "stream", "prices", "device"}


@dataclass(frozen=True)
class Job:
    """A run: what is to be done, and where.

    Attributes:
        config: what.
        out: the dataset's folder.
    """

    config: Config
    out: Path

    @property
    def run(self) -> Path:
        """The folder beside it."""
        return self.out.with_name(f"{self.out.name}.run")

    @cached_property
    def steps(self) -> list[Step]:
        """What is done, in order. The blocks of a stage are its list: leave some out, or put in your own."""
        source = Step(0, "source", (Source(),), gathered=True)
        return [source, *filtering.steps(self.config, 1), *enrich.steps(self.config, 3), *extend.steps(self.config, 4)]

    def prepare(self) -> None:
        """Makes the folders, or sees that they are of this very run.

        Raises:
            ReelspaceError: they hold something else.
        """
        wanted = {"version": VERSION, "config": _decisive(self.config.model_dump(mode="json"))}
        kept = self.run / "config.json"
        if kept.exists():
            if json.loads(kept.read_text("utf-8"))["decisive"] != wanted:
                raise ReelspaceError(
                    f"{self.out} was begun with another configuration; choose another output, or delete it and "
                    f"{self.run}."
                )
        elif self.out.exists() and any(self.out.iterdir()):
            raise ReelspaceError(f"{self.out} is not empty and holds no run of ours; choose an empty folder.")
        self.out.mkdir(parents=True, exist_ok=True)
        self.run.mkdir(parents=True, exist_ok=True)
        write_json({"decisive": wanted, "config": self.config.model_dump(mode="json")}, kept)

    @classmethod
    def of(cls, out: Path) -> Job:
        """The run that was prepared for a dataset's folder.

        Raises:
            ReelspaceError: there is none.
        """
        kept = out.with_name(f"{out.name}.run") / "config.json"
        if not kept.exists():
            raise ReelspaceError(f"{out}: there is no run of it ({kept.parent} is missing).")
        return cls(Config.model_validate(json.loads(kept.read_text("utf-8"))["config"]), out)

    def shards(self, step: Step) -> list[int]:
        """The pieces that a step is done in."""
        return [0] if step.gathered else list(range(self.config.shards))

    def mark(self, step: Step, shard: int) -> Path:
        """The file that says that a shard of a step is done."""
        return self.run / step.name / f"{shard:05d}.done.json"

    def done(self, step: Step) -> bool:
        """Whether all of a step is done."""
        return all(self.mark(step, shard).exists() for shard in self.shards(step))

    def passed(self, name: str) -> Iterator[Asset]:
        """What a step has let pass, in the order of the shards.

        Raises:
            ReelspaceError: there is no such step, or it is not done.
        """
        found = [step for step in self.steps if step.name == name]
        if not found or not self.done(found[0]):
            raise ReelspaceError(f"{self.out}: the step “{name}” is {'not done' if found else 'none of this run'}.")
        return _assets(self, found[0], range(self.config.shards))

    @property
    def finished(self) -> bool:
        """Whether all is done."""
        return (self.run / "published.json").exists() and all(map(self.done, self.steps))

    @property
    def rounds(self) -> int:
        """How often what was given up has been tried once more (`again`)."""
        kept = self.run / "rounds.json"
        return int(json.loads(kept.read_text("utf-8"))) if kept.exists() else 0

    def counts(self) -> dict[str, dict[str, dict[str, int]]]:
        """Step → block → what was counted, over all shards that are done."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for step in self.steps:
            blocks: dict[str, dict[str, int]] = {block.name: {} for block in step.blocks}
            for shard in self.shards(step):
                if self.mark(step, shard).exists():
                    for block, counted in json.loads(self.mark(step, shard).read_text("utf-8")).items():
                        kept = blocks.setdefault(block, {})
                        for what, times in counted.items():
                            kept[what] = kept.get(what, 0) + times
            found[step.name] = blocks
        return found

    def spent(self) -> dict[str, Spent]:
        """What has been used, by who was asked."""
        found = {}
        for name in ("mllm", "verifier"):
            path = self.run / "spent" / name
            if path.exists():
                ledger = Ledger(path)
                found[name] = ledger.spent()
                ledger.close()
        return found


def _decisive(config: Any) -> Any:
    """The configuration without what does not decide what comes out."""
    if isinstance(config, dict):
        return {key: _decisive(value) for key, value in config.items() if key not in _FREE | {"budget"}}
    return config


# One shard of one step.


class Toolbox:
    """The models that a configuration names and a decoder, each made once, when it is needed."""

    def __init__(self, job: Job) -> None:
        self._config, self._run, self._rounds = job.config, job.run, 1 + job.rounds
        self._clients: dict[str, Client] = {}

    @cached_property
    def embedder(self) -> embed.Embedder:
        """The model that embeds."""
        return embed.load(self._config.embedder)

    @cached_property
    def reader(self) -> Reader:
        """Decodes in a process apart."""
        return Reader(workers=1)

    def desk(self, work: Work, name: str) -> Desk:
        """Where the model of that name is asked about a shard."""
        config = self._config
        asked = config.mllm if name == "mllm" or config.verifier is None else config.verifier
        key = asked.model_dump_json()
        if key not in self._clients:
            self._clients[key] = load(asked, self._run)
        journal = Journal(self._run / "answers" / f"{work.step}-{work.shard:05d}-{name}.jsonl")
        ledger = Ledger(self._run / "spent" / name)
        return Desk(self._clients[key], journal, ledger, config.budget, asked.prices, asked.attempts * self._rounds)

    def close(self) -> None:
        """Ends the decoder."""
        if "reader" in self.__dict__:
            self.reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def execute(job: Job, step: Step, shard: int, tools: Tools) -> None:
    """Does one shard of a step, from beginning to end; doing it again gives the same.

    Raises:
        ReelspaceError: it cannot be done now; what the models have answered is kept.
    """
    begun = time.monotonic()
    before = [s for s in job.steps if s.number < step.number]
    shards = range(job.config.shards) if step.gathered else [shard]
    files = [job.run / s.name / f"{k:05d}.npz" for s in before for k in (shards if not s.gathered else [])]
    work = Work(
        job.config,
        job.out,
        job.run,
        step.name,
        shard,
        tools,
        Known([f for f in files if f.exists()]),
    )
    try:
        assets = _assets(job, before[-1], shards) if before else iter(())
        passed = list(through(step.blocks, assets, work))
    finally:
        work.close()
    folder = job.run / step.name
    for number in shards:
        own_assets = passed if not step.gathered else [a for a in passed if shard_of(a, job.config.shards) == number]
        with aside(folder / f"{number:05d}.jsonl") as part, part.open("w", encoding="utf-8") as file:
            file.writelines(asset.model_dump_json() + "\n" for asset in own_assets)
    if work.vectors.new:
        with aside(folder / f"{shard:05d}.npz") as part:
            work.vectors.save(part)
    _keep(job, step, shard, work)
    seconds = round(time.monotonic() - begun, 3)
    write_json({name: dict(sorted(counted.items())) for name, counted in work.counts.items()}, job.mark(step, shard))
    log(job, {"step": step.name, "shard": shard, "seconds": seconds, "passed": len(passed)})


def _keep(job: Job, step: Step, shard: int, work: Work) -> None:
    """Puts what a shard gives to the dataset there."""
    name = job.out / "rejected" / f"{step.number}-{step.name}-{shard:05d}.parquet"
    # Threads finish in any order; the file has one.
    order = sorted(work.rejected, key=lambda r: (r.id, r.block, r.reason, r.text, r.detail, str(r.image), str(r.clip)))
    if order:
        write_parquet(order, rejection_schema(), name)
    else:
        name.unlink(missing_ok=True)
    for task in TASKS:
        path = job.out / "data" / task / f"{shard:05d}.parquet"
        if work.rows.get(task):
            write_parquet(work.rows[task], row_schema(), path)
        elif step.name == "extend":
            path.unlink(missing_ok=True)


def _assets(job: Job, step: Step, shards: Iterable[int]) -> Iterator[Asset]:
    """What a step has let pass."""
    for shard in shards:
        with (job.run / step.name / f"{shard:05d}.jsonl").open(encoding="utf-8") as file:
            for line in file:
                yield Asset.model_validate_json(line)


def shard_of(asset: Asset, shards: int) -> int:
    """The shard that an asset belongs to, whatever else there is."""
    return int(digest("shard", asset.raw.id), 16) % shards


def log(job: Job, record: dict[str, Any]) -> None:
    """Adds a line to the log beside the dataset."""
    line = json.dumps({"time": round(time.time(), 3), "pid": os.getpid(), **record}, ensure_ascii=False)
    with (job.run / "log.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")


# Who does it.

Said = Callable[[str], None]


def _silent(line: str) -> None:
    pass


@dataclass
class Worker:
    """Works on a run until it is done, or until others have to come first.

    Attributes:
        part: does only the shards of this share.
        patience: seconds to wait for others at most; `None`: for ever.
        say: is told of every shard that is done.
    """

    job: Job
    part: Shard = Shard()  # noqa: RUF009
    patience: float | None = None
    say: Said = field(default=_silent)

    def work(self) -> bool:
        """Whether the whole run is done now.

        Raises:
            ReelspaceError: something cannot be done.
        """
        with Toolbox(self.job) as tools:
            return self._work(tools)

    def _work(self, tools: Toolbox) -> bool:
        waited = 0.0
        while True:
            state = self._pass(tools)
            if state == "finished":
                return True
            if state == "waiting":
                if self.patience is not None and waited >= self.patience:
                    return False
                pause = min(0.05 + waited / 20, 2.0)
                time.sleep(pause)
                waited += pause
            else:
                waited = 0.0

    def _pass(self, tools: Toolbox) -> str:
        """Does what can be done of the first step that is not done."""
        for step in self.job.steps:
            missing = [k for k in self.job.shards(step) if not self.job.mark(step, k).exists()]
            if not missing:
                continue
            worked = [self._try(step, k, tools) for k in missing if step.gathered or self.part.takes(k)]
            return "worked" if any(worked) else "waiting"
        return self._publish()

    def _try(self, step: Step, shard: int, tools: Toolbox) -> bool:
        with claimed(self.job.run / "locks" / f"{step.name}-{shard:05d}") as mine:
            if not mine or self.job.mark(step, shard).exists():
                return False
            self.say(f"{step.name} {shard + 1}/{len(self.job.shards(step))} …")
            execute(self.job, step, shard, tools)
            return True

    def _publish(self) -> str:
        from reelspace.synth.card import publish

        if self.job.finished:
            return "finished"
        with claimed(self.job.run / "locks" / "publish") as mine:
            if not mine:
                return "waiting"
            sweep(self.job.out)
            publish(self.job)
            write_json({"finished": True}, self.job.run / "published.json")
        return "finished"


def run(config: Config, out: Path, processes: int = 1, say: Said = _silent) -> Job:
    """Makes a dataset, with that many processes on this machine; goes on where it was left.

    Raises:
        ReelspaceError: it cannot be made, or not now: run it again when what is wrong has been mended.
    """
    job = Job(config, out.absolute())
    job.prepare()
    if processes <= 1:
        Worker(job, say=say).work()
        return job
    _processes(job, processes, say)
    return job


def _processes(job: Job, count: int, say: Said) -> None:
    """Runs workers as ordinary child processes: a script that calls this needs no `__main__` guard."""
    package = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-P", "-m", "reelspace.synth.worker", str(job.out)]
    children = []
    try:
        for _ in range(count):
            complaints = tempfile.TemporaryFile()  # noqa: SIM115 — closed below; a pipe could fill
            environment = os.environ | {"PYTHONPATH": paths}
            children.append((subprocess.Popen(command, env=environment, stderr=complaints), complaints))
        _watch(job, children, say)
    finally:
        for child, _ in children:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        for child, complaints in children:
            with suppress(subprocess.TimeoutExpired):
                child.wait(10)
            if child.poll() is None:
                child.kill()
                child.wait()
            complaints.close()


def _watch(job: Job, children: Sequence[tuple[subprocess.Popen[bytes], IO[bytes]]], say: Said) -> None:
    """Waits until all have ended; the first that fails ends the run. One that was killed does not: others go on."""
    left, last = list(children), ""
    while left:
        for child, complaints in [(child, file) for child, file in left if child.poll() is not None]:
            left.remove((child, complaints))
            if child.returncode > 0:
                complaints.seek(0)
                told = complaints.read().decode("utf-8", "replace").strip().splitlines()
                raise ReelspaceError(told[-1] if told else f"a worker ended with {child.returncode}.")
        state = " ".join(
            f"{step.name} {sum(job.mark(step, k).exists() for k in job.shards(step))}/{len(job.shards(step))}"
            for step in job.steps
        )
        if state != last:
            say(state)
            last = state
        time.sleep(0.05)
    if not job.finished:
        raise ReelspaceError(f"All workers of {job.out} were ended from outside; run it again to go on.")


def on_ray(config: Config, out: Path, address: str | None = None, say: Said = _silent, **options: Any) -> Job:
    """Makes a dataset on a Ray cluster, whose machines share the folders. Names and numbers travel, frames never.

    Args:
        address: of the cluster; left out, the one there is, or one on this machine.
        options: for `ray.remote`, such as `num_cpus` or `num_gpus` of a shard.

    Raises:
        ReelspaceError: as `run`; or Ray is not installed.
    """
    try:
        import ray
    except ImportError:
        raise ReelspaceError("Running on Ray needs it: pip install 'reelspace[synth,ray]'.") from None
    job = Job(config, out.absolute())
    job.prepare()
    begun = not ray.is_initialized()
    if begun:
        ray.init(address=address, log_to_driver=False)
    try:
        remote = ray.remote(_on_ray)
        remote = remote.options(**options) if options else remote
        for step in job.steps:
            waiting = [remote.remote(str(job.out), step.name, shard) for shard in job.shards(step)]
            try:
                ray.get(waiting)
            except ray.exceptions.RayTaskError as error:
                raise ReelspaceError(str(error.cause or error)) from None
            say(f"{step.name}: done")
        Worker(job, say=say).work()
    finally:
        if begun:
            ray.shutdown()
    return job


def _on_ray(out: str, name: str, shard: int) -> None:
    job = Job.of(Path(out))
    step = next(step for step in job.steps if step.name == name)
    with claimed(job.run / "locks" / f"{name}-{shard:05d}") as mine:
        if mine and not job.mark(step, shard).exists():
            with Toolbox(job) as tools:
                execute(job, step, shard, tools)


def again(job: Job) -> int:
    """Has the shards done once more that gave up items; returns how many.

    Good answers are not asked for again; where all were bad, as many more are allowed as before. Whatever rests on
    these shards is done once more as well.
    """
    write_json(job.rounds + 1, job.run / "rounds.json")
    files = sorted((job.out / "rejected").glob("*.parquet"))
    buried = {r["stage"] for file in files for r in read_parquet(file) if r["reason"] == "given up"}
    first = min((step.number for step in job.steps if step.name in buried), default=None)
    if first is None:
        return 0
    count = 0
    for step in job.steps:
        if step.number >= first:
            for shard in job.shards(step):
                job.mark(step, shard).unlink(missing_ok=True)
                count += step.number == first
    (job.run / "published.json").unlink(missing_ok=True)
    shutil.rmtree(job.out / "data", ignore_errors=True)
    return count
