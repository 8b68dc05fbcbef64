r"""The results of a run, on disk.

    RESULTS/
      manifest.json          what was run, with what, and how
      tasks/MSRVTT.json      a `TaskResult` as mteb writes and reads it, a file a task
      queries/MSRVTT.jsonl   a line a query
      failures.jsonl         a line an item that could not be embedded; no file if there are none

All of it is the same bytes for the same data, model, versions and options. How long it took stands beside it, in
`RESULTS.log/`.

`manifest.json`: `format` (1), `suite`, `size` (of worlds; else null), `limit`, `model` (`name`, `fingerprint`, `dim`,
`sampling`, …), `protocol`, `versions`, and `tasks`: for each, in the suite's order, its `ability`, `metric`,
`instruction`, `queries` and `corpus` (how many), `among` (how many candidates a query has at most), `score`, `low`,
`high`, `chance`, `failures` (how many), `data` (a digest of what was asked, among what, and what is right) and
`revision` (the commit that its data were fetched from).

A line of `queries/`: `qid`; `score`, the task's metric for it; `low` and `high`, the least and most it could be if
candidates whose scores are within 1e-6 of each other had been ranked in another order (equal where nothing hangs on
that); `rank`, of its first right answer, from 1; `failed`, the reason, where the query itself could not be embedded:
then its score is 0 and its rank null. Lines are in the order of the queries.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

from reelspace.errors import ReelspaceError
from reelspace.uvrb.tasks import SUITES

FORMAT = 1


class QueryScore(NamedTuple):
    """What a task's metric says of one query; the fields are explained in the module's docstring."""

    qid: str
    score: float
    low: float
    high: float
    rank: int | None
    failed: str | None = None


class Failure(NamedTuple):
    """An item that could not be embedded.

    Attributes:
        task: its task's name.
        side: `query` or `candidate`.
        id: which one.
        reason: for a human.
    """

    task: str
    side: str
    id: str
    reason: str


@dataclass(frozen=True)
class Results:
    """A folder of results.

    Attributes:
        folder: where it is.
        manifest: what `manifest.json` says.
    """

    folder: Path
    manifest: Mapping[str, Any]

    @property
    def suite(self) -> str:
        """`uvrb`, `worlds`, …"""
        return str(self.manifest["suite"])

    @property
    def model(self) -> str:
        """The model's name."""
        return str(self.manifest["model"]["name"])

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks there are results of, in the suite's order."""
        return list(self.manifest["tasks"])

    @property
    def scores(self) -> dict[str, float]:
        """Task name → score, in the suite's order."""
        return {name: float(task["score"]) for name, task in self.manifest["tasks"].items()}

    def queries(self, task: str) -> list[QueryScore]:
        """The score of every query of a task, in the order of the queries.

        Raises:
            ReelspaceError: there are no results of that task, or its file is damaged.
        """
        path = self.folder / "queries" / f"{task}.jsonl"
        try:
            return [QueryScore(**{"failed": None, **line}) for line in _lines(path)]
        except FileNotFoundError:
            raise ReelspaceError(f"{self.folder} has no results of {task}; it has {', '.join(self.tasks)}.") from None
        except (ValueError, TypeError) as error:
            raise ReelspaceError(f"{path} is damaged ({error}); run the task again.") from None

    def failures(self) -> list[Failure]:
        """Every item that could not be embedded."""
        with suppress(FileNotFoundError):
            return [Failure(**line) for line in _lines(self.folder / "failures.jsonl")]
        return []


def read(folder: str | os.PathLike[str]) -> Results:
    """The results in a folder.

    Raises:
        ReelspaceError: there are none, or they are of another version.
    """
    path = Path(folder) / "manifest.json"
    try:
        manifest = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ReelspaceError(f"{folder}: no results here; `reelspace uvrb run` writes them.") from None
    except ValueError as error:
        raise ReelspaceError(f"{path} is damaged ({error}); run again.") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ReelspaceError(f"{path}: not results of this version of reelspace; run again.")
    return Results(Path(folder), manifest)


def write_task(folder: Path, name: str, queries: Iterable[QueryScore], result: Mapping[str, Any]) -> None:
    """Writes one task's two files, each whole or not at all."""
    lines = (
        {key: value for key, value in query._asdict().items() if not (key == "failed" and value is None)}
        for query in queries
    )
    write_text(folder / "queries" / f"{name}.jsonl", jsonl(lines))
    write_text(folder / "tasks" / f"{name}.json", json.dumps(result, indent=2, ensure_ascii=False) + "\n")


def write_manifest(folder: Path, manifest: Mapping[str, Any], failures: Sequence[Failure] = ()) -> Results:
    """Writes `manifest.json`, its tasks in the suite's order, and `failures.jsonl`."""
    order = list(SUITES.get(str(manifest["suite"]), ()))
    tasks = sorted(manifest["tasks"].items(), key=lambda task: order.index(task[0]) if task[0] in order else len(order))
    whole = {"format": FORMAT, **manifest, "tasks": dict(tasks)}
    if failures:
        write_text(folder / "failures.jsonl", jsonl(failure._asdict() for failure in failures))
    else:
        (folder / "failures.jsonl").unlink(missing_ok=True)
    write_text(folder / "manifest.json", json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    return Results(folder, whole)


def jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as lines of JSON."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def write_text(path: Path, text: str) -> None:
    """Writes a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, prefix=".", suffix=".part", delete=False, encoding="utf-8") as file:
        part = Path(file.name)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            part.chmod(0o644)
        except BaseException:
            part.unlink()
            raise
    part.replace(path)
