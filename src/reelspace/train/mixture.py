"""What is trained on: a set of tasks, each with its formats, rows, hard negatives, batch size and instruction."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from reelspace.errors import ReelspaceError
from reelspace.train.rows import Row, Rows, letters, rooted
from reelspace.worlds.sample import generator

if TYPE_CHECKING:
    from reelspace.synth.schema import Part

PRESETS = ("gve-3b", "gve-7b")


class TaskConfig(BaseModel):
    """A retrieval task of the mixture, as it stands in the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str
    source: Path
    """A .jsonl or .parquet file, or a folder of them."""
    root: Path | None = None
    """Where relative media paths begin; left out, the folder of the source."""
    formats: str | None = Field(default=None, pattern=r"^[TIV]+>[TIV]+$")
    """Query and candidate, as T>V or TI>V; checked against the rows where given."""
    batch_size: int = Field(default=32, ge=2)
    """Pairs a step and process. The other pairs are the negatives, so it is part of the loss."""
    hard_negatives: int = Field(default=0, ge=0)
    """How many of its own each query is given; rows that have fewer are given fewer."""
    corpus: Path | None = None
    """Further candidates to mine hard negatives among: rows, or candidates alone. Those of other formats are let be."""
    rows: int | None = Field(default=None, ge=1)
    """How many rows to train on: a fixed sample where there are more, repeated where there are fewer; left out, all."""
    instruction: str | None = None
    """Goes with every query; left out, the rows' own, else the model's."""


class MixtureConfig(BaseModel):
    """The mixture as it stands in the file: tasks written out, or a preset and where its sources lie."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    tasks: tuple[TaskConfig, ...] = ()
    preset: Literal["gve-3b", "gve-7b"] | None = None
    """The paper's mixture (its Tables 6 and 7), with its sizes for that model."""
    sources: Mapping[str, Path] = Field(default_factory=dict)
    """Task of the preset → its rows. Tasks without any are an error unless `partial`."""
    partial: bool = False
    """Leave out the tasks of the preset that have no source."""

    @model_validator(mode="after")
    def _one_of_both(self) -> MixtureConfig:
        if bool(self.tasks) == (self.preset is not None):
            raise ValueError("give either tasks or a preset with sources")
        return self

    def expanded(self) -> tuple[TaskConfig, ...]:
        """The tasks written out.

        Raises:
            ReelspaceError: a source of the preset is missing, or names no task of it.
        """
        if self.preset is None:
            return self.tasks
        known = {task.name: task for task in preset(self.preset)}
        if unknown := sorted(set(self.sources) - set(known)):
            raise ReelspaceError(f"{self.preset} has no task {', '.join(unknown)}; it has {', '.join(known)}.")
        missing = [name for name in known if name not in self.sources]
        if missing and not self.partial:
            raise ReelspaceError(
                f"{self.preset} also needs sources for {', '.join(missing)}; say where their rows are, or set partial."
            )
        return tuple(known[name].at(self.sources[name]) for name in known if name in self.sources)


@dataclass(frozen=True)
class Published:
    """A task of the paper's mixture, without its rows."""

    name: str
    formats: str
    rows: int
    hard_negatives: int
    batch_size: int

    def at(self, source: Path) -> TaskConfig:
        """The task with its rows."""
        return TaskConfig(
            name=self.name,
            source=source,
            formats=self.formats,
            rows=self.rows,
            hard_negatives=self.hard_negatives,
            batch_size=self.batch_size,
        )


def preset(name: str) -> tuple[Published, ...]:
    """The tasks of the paper's mixture for a model: the main one and UVRD (GVE Tables 6 and 7).

    A data set that serves several tasks has the formats in its name.
    """
    size = {"gve-3b": "samples_3b", "gve-7b": "samples_7b"}[name]
    table = [row for file in ("main.csv", "uvrd.csv") for row in _table(file)]
    names = [row["dataset"] for row in table]
    return tuple(
        Published(
            name=row["dataset"] if names.count(row["dataset"]) == 1 else f"{row['dataset']} {row['task']}",
            formats=row["task"],
            rows=int(row.get(size) or row["samples"]),
            hard_negatives=int(row["hard_negatives"]),
            batch_size=int(row["batch_size"]),
        )
        for row in table
    )


def _table(name: str) -> list[dict[str, str]]:
    text = files("reelspace.train").joinpath("presets", name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


@dataclass(frozen=True)
class Task:
    """A task with its rows open.

    Attributes:
        config: what was declared.
        rows: all its rows.
        chosen: int64 `[n]`: the places of those that are trained on; a place may come more than once.
        negatives: int64 `[rows, K]`: places of candidates that are hard negatives of the row's query, −1 where there is
            none; `None`: the rows' own.
        corpus: further candidates, whose places come after those of the rows.
    """

    config: TaskConfig
    rows: Rows
    chosen: NDArray[np.int64]
    negatives: NDArray[np.int64] | None = None
    corpus: Rows | None = None

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def file(self) -> str:
        """The name as a file may have it."""
        return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in self.name)

    @property
    def batches(self) -> float:
        """n_k / B_k."""
        return len(self.chosen) / self.config.batch_size

    def read(self, dealt: NDArray[np.int64]) -> list[Row]:
        """Rows by their places among those chosen, with the hard negatives that are to be used."""
        return [self.row(int(self.chosen[place])) for place in dealt]

    def candidate(self, place: int) -> Part:
        """A candidate by its place among those of all rows and of the corpus."""
        if place < len(self.rows):
            return self.rows[place].candidate
        assert self.corpus is not None
        return rooted(self.corpus[place - len(self.rows)].candidate, self.corpus.root)

    def row(self, place: int) -> Row:
        """A row by its place among all."""
        row = self.rows[place]
        if self.negatives is not None:
            mined = [self.candidate(int(other)) for other in self.negatives[place] if other >= 0]
            row = replace(row, negatives=tuple(mined))
        asked = row.instruction if self.config.instruction is None else self.config.instruction
        return replace(row, negatives=row.negatives[: self.config.hard_negatives], instruction=asked)


@dataclass(frozen=True)
class Mixture:
    """Tasks with their rows open. Relative sources begin at `base`.

    Raises:
        ReelspaceError: two tasks share a name; rows cannot be understood, are too few for a batch, or are of other
            formats than declared.
    """

    config: MixtureConfig
    base: Path = field(default_factory=Path)
    seed: int = 0

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks, in their order."""
        declared = self.config.expanded()
        names = [task.name for task in declared]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ReelspaceError(f"Two tasks are called {', '.join(twice)}; give each a name of its own.")
        return tuple(_opened(task, self.base, self.seed) for task in declared)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(task.name for task in self.tasks)


def _opened(config: TaskConfig, base: Path, seed: int) -> Task:
    rows = Rows(base / config.source, None if config.root is None else base / config.root)
    chosen = _chosen(len(rows), config.rows, seed, config.name)
    if len(set(chosen.tolist())) < config.batch_size:
        raise ReelspaceError(
            f"Task {config.name} has {len(rows)} rows where a batch takes {config.batch_size}; lower its batch_size."
        )
    if config.formats is not None and rows.formats != [config.formats]:
        place = rows.other_than(config.formats) or 0
        found = f"{letters(rows[place].query)}>{letters(rows[place].candidate)}"
        raise ReelspaceError(
            f"Task {config.name} is declared as {config.formats}; row {place + 1} of {rows.source} is {found}."
        )
    corpus = None if config.corpus is None else Rows(base / config.corpus, corpus=True)
    return Task(config, rows, chosen, corpus=corpus)


def _chosen(there: int, wanted: int | None, seed: int, name: str) -> NDArray[np.int64]:
    """All rows, a fixed sample of them, or all of them again and again: the last time a sample."""
    wanted = there if wanted is None else wanted
    whole, rest = divmod(wanted, there)
    sample = np.sort(generator("sample", seed, name).permutation(there)[:rest])
    return np.concatenate([*[np.arange(there)] * whole, sample]).astype(np.int64)


def described(tasks: Sequence[Task]) -> list[dict[str, object]]:
    """A line for each task, for the log and the model card."""
    return [
        {
            "task": task.name,
            "formats": ", ".join(task.rows.formats),
            "rows": len(task.chosen),
            "batch_size": task.config.batch_size,
            "hard_negatives": task.config.hard_negatives,
        }
        for task in tasks
    ]
