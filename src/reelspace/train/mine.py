"""Hard negatives: for every query of a task, candidates that a prober finds near it (GVE §3.3): those of other rows,
and of a corpus where the task has one.

Candidates are embedded once each into a store of the engine's own, so that mining can be stopped and gone on with, and
a store of many is searched exactly. What is right is never a negative: whatever has the content of the positive, shows
its video, is a copy of it, or answers the same query in another row is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import Embedder, Vectors
from reelspace.errors import ExitCode, ReelspaceError
from reelspace.index.base import Found
from reelspace.index.exact import MatrixStore
from reelspace.shard import Shard, parse_shard
from reelspace.synth.shards import aside, write_json, write_text
from reelspace.train.mixture import Task
from reelspace.train.probe import Cost, Encoder, encoded_candidates, encoded_queries, measured
from reelspace.train.rows import Row, content, key, letters, wording

if TYPE_CHECKING:
    from reelspace.synth.schema import Part

AT_ONCE = 256
"""Items embedded between two commits."""
COPY = 0.9999
"""Cosine of two candidates that are one: the same file by another name, say."""


class WaitingError(ReelspaceError):
    """Other shares have to be done first."""

    exit_code = ExitCode.SOME_FAILED


@dataclass(frozen=True)
class Mining:
    """Which of the near ones are taken.

    Attributes:
        count: K, how many a query is given.
        skip: how many of the nearest are passed over: they are the likeliest to be right after all.
        margin: a candidate must score at least this much less than the positive; `None`: any score will do.
        depth: how many of the nearest are looked at.
    """

    count: int = 1
    skip: int = 0
    margin: float | None = None
    depth: int = 64


WHOLE = Shard()


Tick = Callable[[int, int], None]
"""Told how many items are done, and of how many."""


def _silent(done: int, of: int) -> None: ...


def embed(prober: Encoder, task: Task, folder: Path, share: Shard = WHOLE, tick: Tick = _silent) -> None:
    """Embeds a share of the task's candidates, each once; what is in the folder already is not embedded again."""
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / f"{share.name}.done"
    if marker.exists():
        return
    store = MatrixStore(folder / f"candidates-{share.name}", prober.dim)
    places = _distinct(task)[share.number - 1 :: share.of]
    missing = places[~np.isin(places, store.ids)]
    for start in range(0, len(missing), AT_ONCE):
        part = missing[start : start + AT_ONCE]
        good, vectors = encoded_candidates(prober, task, [task.candidate(int(place)) for place in part])
        if good:
            store.add(part[good], vectors)
        tick(len(places) - len(missing) + start + len(part), len(places))
    marker.touch()


def search(
    prober: Encoder, task: Task, mining: Mining, folder: Path, share: Shard = WHOLE, tick: Tick = _silent
) -> NDArray[np.int64]:
    """The places of the candidates that are hard negatives of each row's query: int64 `[rows, K]`, −1 where there is
    none; only the rows of the share are filled.

    Raises:
        WaitingError: other shares have to embed their candidates first.
    """
    store = _gathered(folder, prober.dim, share)
    known = _Known(task, store)
    found = np.full((len(task.rows), mining.count), -1, dtype=np.int64)
    places = np.arange(len(task.rows))[share.number - 1 :: share.of]
    for start in range(0, len(places), AT_ONCE):
        part = places[start : start + AT_ONCE]
        rows = [task.row(int(place)) for place in part]
        good, queries = encoded_queries(prober, task, rows)
        answers = store.search(queries, mining.depth + mining.skip) if good else []
        for position, query, answer in zip(good, queries, answers, strict=True):
            picked = known.picked(rows[position], query, answer, mining)
            found[part[position], : len(picked)] = picked
        tick(start + len(part), len(places))
    return found


def _distinct(task: Task) -> NDArray[np.int64]:
    """The place of the first of each candidate, by content; of the corpus those that are of the task's form."""
    forms = {formats.partition(">")[2] for formats in task.rows.formats}
    seen: dict[int, int] = {}
    for place in range(len(task.rows) + (0 if task.corpus is None else len(task.corpus))):
        part = task.candidate(place)
        if place < len(task.rows) or letters(part) in forms:
            seen.setdefault(content(part), place)
    return np.array(sorted(seen.values()), dtype=np.int64)


def _gathered(folder: Path, dim: int, share: Shard) -> MatrixStore:
    """All candidates in one store; where there is a single share, its own."""
    parts = share.all()
    waiting = [part for part in parts if not (folder / f"{part.name}.done").exists()]
    if waiting:
        raise WaitingError(
            f"{folder}: {len(waiting)} of {share.of} shares have not embedded their candidates yet; "
            "run this one again when they have."
        )
    if share.of == 1:
        return MatrixStore(folder / f"candidates-{share.name}", dim)
    whole = MatrixStore(folder / f"all-for-{share.name}", dim)
    for part in parts:
        held = MatrixStore(folder / f"candidates-{part.name}", dim)
        fresh = held.ids[~np.isin(held.ids, whole.ids)]
        if len(fresh):
            whole.add(fresh, held.vectors(fresh))
    return whole


class _Known:
    """What is known to be right for a query, so that it is no negative."""

    def __init__(self, task: Task, store: MatrixStore) -> None:
        self._task, self._store = task, store
        self._first = {content(task.candidate(int(place))): int(place) for place in store.ids}
        asked = np.array([content(task.rows[place].query) for place in range(len(task.rows))])
        order = np.argsort(asked, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(asked[order])) + 1)
        # Of what is asked once, its own row is all there is.
        self._places = {int(asked[group[0]]): group.tolist() for group in groups if len(group) > 1}

    def picked(self, row: Row, query: Vectors, answer: Found, mining: Mining) -> list[int]:
        """The nearest that are neither right nor the query itself."""
        same = self._places.get(content(row.query), ())
        right = [row.candidate, *(self._task.rows[place].candidate for place in same)]
        names = set().union(*map(_names, right)) | {content(row.query), wording(row.query)}
        own = self._vectors(right)
        candidates = self._store.vectors(answer.ids)
        copies = (candidates @ own.T).max(axis=1, initial=-1.0) >= COPY
        others = [
            (place, score)
            for place, score, copy in zip(answer.ids.tolist(), answer.scores.tolist(), copies, strict=True)
            if not copy and not _names(self._task.candidate(place)) & names
        ]
        near = others[mining.skip :]
        if mining.margin is not None and (positive := self._vectors([row.candidate])).size:
            most = float(query @ positive[0]) - mining.margin
            near = [(place, score) for place, score in near if score <= most]
        return [place for place, _ in near[: mining.count]]

    def _vectors(self, parts: Sequence[Part]) -> Vectors:
        places = [self._first[content(part)] for part in parts if content(part) in self._first]
        return self._store.vectors(np.array(places, dtype=np.int64))


def _names(part: Part) -> set[int]:
    """What a candidate may be recognised by: what it shows, what it is, what it says."""
    return {key(part), content(part), wording(part)}


def write(task: Task, found: NDArray[np.int64], path: Path) -> None:
    """The task's rows with these hard negatives, as JSONL that a mixture reads as it lies there: paths begin at its own
    folder. Whole or not at all.
    """
    lines = []
    plain = partial(_plain, root=task.rows.root.resolve(), folder=path.parent.resolve())
    for place in range(len(task.rows)):
        row = task.rows[place]
        negatives = [{"part": plain(task.candidate(int(other)))} for other in found[place] if other >= 0]
        told: dict[str, Any] = {
            "id": row.id,
            "query": plain(row.query),
            "candidate": plain(row.candidate),
            "negatives": negatives,
        }
        if row.instruction:
            told["instruction"] = row.instruction
        lines.append(json.dumps(told, ensure_ascii=False, sort_keys=True) + "\n")
    write_text("".join(lines), path)


def _plain(part: Any, root: Path, folder: Path) -> dict[str, Any]:
    """A part whose relative paths began at `root`, with paths that begin at `folder`."""
    told: dict[str, Any] = part.model_dump(exclude_none=True)
    for name in ("image", "clip"):
        if name in told and not Path(told[name]["path"]).is_absolute():
            told[name]["path"] = os.path.relpath(root / told[name]["path"], folder)
    return {name: value for name, value in told.items() if value != ""}


def claim(folder: Path, what: dict[str, Any]) -> None:
    """Says what a folder's embeddings are of; a folder that is of something else is refused.

    Raises:
        ReelspaceError: the folder holds the work of another model, source or setting.
    """
    path = folder / "mining.json"
    if path.exists() and json.loads(path.read_text("utf-8")) != what:
        raise ReelspaceError(
            f"{folder} holds what was mined with another model, source or setting; choose another folder."
        )
    write_json(what, path)


def declared(mining: Mining, task: Task, prober: str) -> dict[str, Any]:
    """What `claim` compares."""
    corpus = {} if task.corpus is None else {"corpus": task.corpus.fingerprint}
    return {"prober": prober, "source": task.rows.fingerprint, "mining": asdict(mining), **corpus}


def filled(found: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The answers of all shares as one."""
    return np.asarray(np.maximum.reduce(list(found)), dtype=np.int64)


def mined(
    prober: Embedder,
    task: Task,
    mining: Mining,
    output: Path,
    shard: str | None = None,
    tick: Callable[[float], None] = lambda part: None,
) -> Path:
    """Mines a task, or a share of it, into `output/TASK.jsonl`; what is there of an earlier try is used.

    Args:
        shard: `i/n`, counted from 1.
        tick: told how much more is done, in thousandths.

    Returns:
        The rows' file, or of a share the part that it wrote. What it took is in `output/TASK.parts/cost-….json`.

    Raises:
        WaitingError: other shares are not as far.
        ReelspaceError: the folder holds other work.
    """
    share = WHOLE if shard is None else parse_shard(shard)
    folder, path = output / f"{task.file}.parts", output / f"{task.file}.jsonl"
    claim(folder, declared(mining, task, prober.fingerprint))
    told, cost = _Halves(tick), Cost()
    part, took = folder / f"found-{share.name}.npy", folder / f"cost-{share.name}.json"
    try:
        with measured(cost):
            embed(prober, task, folder, share, told.first)
            if not part.exists():
                with aside(part) as file, file.open("wb") as raw:
                    np.save(raw, search(prober, task, mining, folder, share, told.second))
    finally:
        before = Cost(**json.loads(took.read_text("utf-8"))) if took.exists() else Cost()
        write_json(asdict(before + cost), took)
    parts = [folder / f"found-{one.name}.npy" for one in share.all()]
    if not all(file.exists() for file in parts):
        return part
    write(task, filled([np.load(file) for file in parts]), path)
    return path


def spent(output: Path, task: Task) -> Cost:
    """What all shares and tries of mining a task have taken so far."""
    files = sorted((output / f"{task.file}.parts").glob("cost-*.json"))
    return sum((Cost(**json.loads(file.read_text("utf-8"))) for file in files), Cost())


class _Halves:
    """Two countings as one that goes up to a thousand."""

    def __init__(self, tick: Callable[[float], None]) -> None:
        self._tick, self._told = tick, 0.0

    def first(self, done: int, of: int) -> None:
        self._to(500 * done / of)

    def second(self, done: int, of: int) -> None:
        self._to(500 + 500 * done / of)

    def _to(self, part: float) -> None:
        self._tick(part - self._told)
        self._told = part
