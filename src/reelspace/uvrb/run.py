"""A model over the tasks of a suite: cheap tasks first, every vector kept, every failure listed.

A run can be ended at any point and begun again: what was embedded is found again, what was scored is scored again from
there. Shards do nothing but embed their share of the items into the common cache; whoever runs without a shard
then finds all of it, embeds what a shard failed to, and scores. Nothing waits for anything, so nothing hangs.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from reelspace import __version__
from reelspace.embed.base import Embedder, declared_form
from reelspace.errors import ReelspaceError
from reelspace.media.reader import Reader
from reelspace.shard import Shard
from reelspace.uvrb.cache import Contents, VectorCache
from reelspace.uvrb.data import Loaded, Worlds, cost, dataset, digest, find, rows, worlds_cost
from reelspace.uvrb.encode import Encoded, Encoder
from reelspace.uvrb.fetch import fetched_commit
from reelspace.uvrb.metrics import Placed, means, placed, scored
from reelspace.uvrb.protocol import PAPER, Protocol
from reelspace.uvrb.results import Failure, QueryScore, Results, read, write_manifest, write_task
from reelspace.uvrb.tasks import TaskFacts, select
from reelspace.worlds.tasks import Size

VERSIONED = ("av", "numpy", "onnxruntime", "torch", "transformers", "sentence-transformers", "mteb")
PREFIX = {"uvrb": "UVRB-", "worlds": "UVRBWorlds-", "classification": "VideoClass-", "text-video": "TextVideo-"}
"""What the tasks' names begin with in mteb, where there are others of the same name."""


@dataclass(frozen=True)
class Suite:
    """What is run.

    Attributes:
        name: `uvrb`, `worlds`, `classification`, `text-video`.
        tasks: `all`, or names and abilities with commas.
        data: the folder of the tasks' folders; of no use to worlds.
        size, seed: of worlds.
        limit: queries a task at most; see `Loaded.limited`.
        present: use what is there of a partial download; see `Released`.
    """

    name: str
    tasks: str = "all"
    data: Path | None = None
    size: Size = "mini"
    seed: int = 0
    limit: int | None = None
    present: bool = False

    def facts(self) -> list[TaskFacts]:
        """The tasks, cheap ones first."""
        chosen = select(self.name, self.tasks)
        return sorted(chosen, key=lambda task: worlds_cost(task, self.size) if self.name == "worlds" else cost(task))

    def absent(self) -> dict[str, str]:
        """Task name → why it cannot be run: its data are not there."""
        if self.name == "worlds":
            return {}
        if self.data is None:
            raise ReelspaceError(f"Where are the data of {self.name}? Name their folder: --data DIR.")
        absent = {}
        for task in self.facts():
            try:
                find(self.data, task.name)
            except ReelspaceError as error:
                absent[task.name] = str(error)
        return absent

    def load(self, task: TaskFacts, cache: Path) -> Loaded:
        """A task's data."""
        if self.name == "worlds":
            loaded = Worlds(task, cache / "worlds", self.size, self.seed).load()
        else:
            assert self.data is not None
            loaded = dataset(task, self.data, self.present).load()
        return loaded.limited(self.limit)

    def revision(self, task: TaskFacts) -> str | None:
        """The commit that a task's data were fetched from; None if they came in another way."""
        return None if self.data is None else fetched_commit(self.data, task.name)

    @property
    def protocol(self) -> Protocol:
        """UVRB is run as the paper does; the others leave the frames to the model."""
        return PAPER if self.name == "uvrb" else Protocol()


@dataclass
class State:
    """How far a run is. Attributes: which task, of how many; items of it embedded, of how many."""

    task: str = ""
    number: int = 0
    of: int = 0
    done: int = 0
    total: int = 0


@dataclass
class Outcome:
    """What a run came to.

    Attributes:
        results: what was written; None of a shard.
        failures: items that could not be embedded.
        absent: tasks whose data are not there → why.
        made: how many items were embedded in this run; the others were known.
    """

    results: Results | None
    failures: list[Failure] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    made: int = 0


Watch = Callable[[State], None]


@dataclass
class Runner:
    """Runs a suite.

    Attributes:
        embedder: the model, opened under the protocol (`reelspace.uvrb.models.open_model`).
        suite: what is run.
        cache: the folder of vectors and drawn worlds.
        protocol: None: the suite's own.
        batch: items the model gets at once.
        workers: items decoded at the same time; None: 2, or as many as there are cores up to 4.
        keep: keep vectors for another run. Else they are forgotten, and a run cannot be resumed.
    """

    embedder: Embedder
    suite: Suite
    cache: Path
    protocol: Protocol | None = None
    batch: int = 16
    workers: int | None = None
    keep: bool = True

    def check(self, output: Path, overwrite: bool = False) -> None:
        """Says at once what would only be found out later; takes away other results if `overwrite`.

        Raises:
            ReelspaceError: data are missing, or the folder holds results of something else.
        """
        self._present()
        before = _earlier(output)
        if before is None:
            return
        with self._encoder() as encoder:
            other = _differing(before.manifest, self._head(encoder))
        if other is not None and overwrite:
            for path in (*output.glob("tasks/*.json"), *output.glob("queries/*.jsonl"), *output.glob("*.json*")):
                path.unlink()
        elif other is not None:
            raise ReelspaceError(
                f"{output} holds results of another run (its {other} differs); choose another folder, or --overwrite."
            )

    def run(self, output: Path, watch: Watch = lambda state: None) -> Outcome:
        """Runs all tasks and writes their results to `output`, each as it is done.

        Raises:
            ReelspaceError: the folder holds results of something else.
        """
        self.check(output)
        absent, facts = self._present()
        before = _earlier(output)
        with self._encoder() as encoder:
            head = self._head(encoder)
            told = {} if before is None else dict(before.manifest["tasks"])
            failures = [] if before is None else before.failures()
            outcome = Outcome(before, absent=absent)
            for number, task in enumerate(facts, 1):
                start = time.monotonic()
                state = State(task.name, number, len(facts))
                watch(state)
                encoder.cache.refresh()
                loaded = self.suite.load(task, self.cache)
                scores, found, made = self._task(loaded, encoder, state, watch)
                queries = scores.queries()
                told[task.name] = {**scores.told(queries), "revision": self.suite.revision(task)}
                write_task(output, task.name, queries, scores.result(self.suite.name, told[task.name]))
                failures = [failure for failure in failures if failure.task != task.name] + found
                outcome.results = write_manifest(output, {**head, "tasks": told}, failures)
                outcome.made += made
                _log(output, task.name, time.monotonic() - start, made)
        names = {task.name for task in facts}
        outcome.failures = [failure for failure in failures if failure.task in names]
        return outcome

    def shard(self, shard: Shard, watch: Watch = lambda state: None) -> Outcome:
        """Embeds one share of every task's items, and scores nothing.

        A share is of neighbours: those often have frames in common, which a model need not look at twice.
        """
        absent, facts = self._present()
        outcome = Outcome(None, absent=absent)
        with self._encoder() as encoder:
            for at, task in enumerate(facts, 1):
                state = State(task.name, at, len(facts))
                watch(state)
                encoder.cache.refresh()
                loaded = self.suite.load(task, self.cache)
                for side, items in (("query", loaded.queries), ("candidate", loaded.corpus)):
                    bounds = (len(items) * number // shard.of for number in (shard.number - 1, shard.number))
                    share = {name: items[name] for name in islice(items, *bounds)}
                    told = self._instruction(task) if side == "query" else None
                    keys = encoder.keys(share, side, told)
                    state.done, state.total = 0, len(share)
                    made = encoder.encode(share, keys, side, told, _stepping(state, watch))
                    outcome.made += made.made
                    outcome.failures += [Failure(task.name, side, name, why) for name, why in made.failures.items()]
        return outcome

    def _present(self) -> tuple[dict[str, str], list[TaskFacts]]:
        absent = self.suite.absent()
        facts = [task for task in self.suite.facts() if task.name not in absent]
        if not facts:
            raise ReelspaceError(next(iter(absent.values())))
        return absent, facts

    @contextmanager
    def _encoder(self) -> Iterator[Encoder]:
        protocol, embedder = self.protocol or self.suite.protocol, self.embedder
        space = {
            "fingerprint": embedder.fingerprint,
            "frames": str(protocol.sampling(embedder)),
            "reelspace": __version__,
            "av": version("av"),
        }
        with ExitStack() as stack:
            contents = Contents(self.cache)
            stack.callback(contents.close)
            cache = stack.enter_context(VectorCache(self.cache if self.keep else None, embedder.dim, space))
            reader = stack.enter_context(Reader(self.workers))
            workers = self.workers or max(2, min(4, os.cpu_count() or 1))
            yield Encoder(embedder, protocol, cache, contents, reader, self.batch, workers)

    def _instruction(self, task: TaskFacts) -> str | None:
        protocol = self.protocol or self.suite.protocol
        return task.instruction if protocol.instructions else None

    def _task(
        self, loaded: Loaded, encoder: Encoder, state: State, watch: Watch
    ) -> tuple[TaskScores, list[Failure], int]:
        told = self._instruction(loaded.task)
        state.done, state.total = 0, len(loaded.queries) + len(loaded.corpus)
        step = _stepping(state, watch)
        asked = encoder.keys(loaded.queries, "query", told)
        among = encoder.keys(loaded.corpus, "candidate", None)
        queries = encoder.encode(loaded.queries, asked, "query", told, step)
        candidates = encoder.encode(loaded.corpus, among, "candidate", None, step)
        failures = [*loaded.faults]
        for side, made in (("query", queries), ("candidate", candidates)):
            failures += [Failure(loaded.task.name, side, name, why) for name, why in made.failures.items()]
        scores = TaskScores(loaded, _placed(loaded, queries, candidates), failures, told, _digest(loaded, asked, among))
        return scores, failures, queries.made + candidates.made

    def _head(self, encoder: Encoder) -> dict[str, Any]:
        suite, embedder = self.suite, encoder.embedder
        return {
            "suite": suite.name,
            "size": suite.size if suite.name == "worlds" else None,
            "seed": suite.seed if suite.name == "worlds" else None,
            "limit": suite.limit,
            "partial": suite.present,
            "model": {**declared_form(embedder), **contract(embedder)},
            "protocol": {
                **encoder.protocol.declared(),
                "seen": str(encoder.protocol.sampling(embedder)),
                "similarity": "cosine",
                "space": encoder.cache.name,
            },
            "versions": {"reelspace": __version__} | {name: found for name in VERSIONED if (found := installed(name))},
        }


@dataclass
class TaskScores:
    """What a model got on a task.

    Attributes:
        loaded: the task's data.
        places: for each query, in order, where its right answers stand; None where it could not be embedded.
        failures: items that could not be embedded.
        instruction: what went with the queries.
        data: digest of what was asked, among what, and what is right.
    """

    loaded: Loaded
    places: dict[str, Placed | None]
    failures: list[Failure]
    instruction: str | None
    data: str

    def queries(self) -> list[QueryScore]:
        """The metric of every query. One that could not be embedded has found nothing."""
        reasons = {failure.id: failure.reason for failure in self.failures if failure.side == "query"}
        lines = []
        for query, stands in self.places.items():
            if stands is None:
                lines.append(QueryScore(query, 0.0, 0.0, 0.0, None, reasons[query]))
                continue
            rank = int(stands.at[0]) if len(stands.at) else None
            lines.append(QueryScore(query, *scored(self.loaded.task.metric, stands), rank))
        return lines

    def told(self, queries: list[QueryScore]) -> dict[str, Any]:
        """The manifest's lines about it."""
        task = self.loaded.task
        score, low, high = (sum(part) / len(queries) for part in list(zip(*queries, strict=True))[1:4])
        return {
            "ability": task.ability,
            "metric": task.metric,
            "instruction": self.instruction,
            "queries": len(self.loaded.right),
            "corpus": len(self.loaded.corpus),
            "among": max(map(len, pools.values())) if (pools := self.loaded.pools) else len(self.loaded.corpus),
            "score": score,
            "low": low,
            "high": high,
            "chance": self.loaded.chance,
            "failures": len(self.failures),
            "data": self.data,
        }

    def result(self, suite: str, told: Mapping[str, Any]) -> dict[str, Any]:
        """A `TaskResult` as mteb reads it; it says nothing of the time it took, which is not the same again."""
        nothing = np.empty(0, dtype=np.int64)
        whole = [
            Placed(nothing, nothing, nothing, len(self.loaded.right[query])) if stands is None else stands
            for query, stands in self.places.items()
        ]
        found = installed("mteb")
        scores = {
            **means(whole),
            "main_score": told["score"],
            "main_score_low": told["low"],
            "main_score_high": told["high"],
            "hf_subset": "default",
            "languages": ["eng-Latn"],
        }
        return {
            "dataset_revision": self.data,
            "task_name": PREFIX[suite] + self.loaded.task.name,
            "mteb_version": found,
            "scores": {"test": [scores]},
            "evaluation_time": None,
            "kg_co2_emissions": None,
        }


def contract(embedder: Embedder) -> dict[str, Any]:
    """What a model's preset declares beside: source, revision, readout; nothing of a model that has none."""
    declared = getattr(embedder, "contract", None)
    return {"contract": declared} if declared else {}


def installed(package: str) -> str | None:
    """The version of a package, None if it is not there."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _placed(loaded: Loaded, queries: Encoded, candidates: Encoded) -> dict[str, Placed | None]:
    column = {name: k for k, name in enumerate(candidates.ids)}
    right = [rows(loaded.right[query], column) for query in queries.ids]
    missing = [len(loaded.right[query]) - len(one) for query, one in zip(queries.ids, right, strict=True)]
    pools = None if loaded.pools is None else [rows(loaded.pools[query], column) for query in queries.ids]
    stands = placed(queries.vectors, candidates.vectors, right, candidates.ids, pools, missing)
    known = dict(zip(queries.ids, stands, strict=True))
    return {query: known.get(query) for query in loaded.right}


def _digest(loaded: Loaded, *sides: Mapping[str, bytes | str]) -> str:
    def parts() -> Iterator[bytes]:
        yield loaded.task.metric.encode()
        for keys in sides:
            yield str(len(keys)).encode()
            for name, made in keys.items():
                yield name.encode("utf-8", "surrogatepass")
                yield made if isinstance(made, bytes) else b"unreadable"
        for query, right in loaded.right.items():
            among = [] if loaded.pools is None else sorted(loaded.pools[query])
            yield json.dumps([query, sorted(right), among]).encode()

    return digest(parts())


def _stepping(state: State, watch: Watch) -> Callable[[int], None]:
    def step(count: int) -> None:
        state.done += count
        watch(state)

    return step


def _earlier(output: Path) -> Results | None:
    return read(output) if (output / "manifest.json").exists() else None


def _differing(before: Mapping[str, Any], head: Mapping[str, Any]) -> str | None:
    return next((key for key, value in head.items() if before.get(key) != value), None)


def _log(output: Path, name: str, seconds: float, made: int) -> None:
    """How long it took stands beside the results: they are the same bytes again, this is not."""
    folder = output.with_name(f"{output.name}.log")
    folder.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"task": name, "seconds": round(seconds, 3), "embedded": made, "ended": round(time.time(), 3)})
    with (folder / "tasks.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")
