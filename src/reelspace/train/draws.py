"""Which rows make up each batch: a function of the seed alone, so that a run that goes on draws what it would have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import ReelspaceError
from reelspace.train.schedule import Epoch, Schedule
from reelspace.worlds.sample import generator


class Deck:
    """The rows of one task, shuffled and used up before any comes again; no batch holds a row twice."""

    def __init__(self, rows: int, batch: int, *names: object) -> None:
        """Args:
            rows: n, how many there are.
            batch: how many each batch takes.
            names: what its order depends on: the seed and the task.

        Raises:
            ReelspaceError: there are fewer rows than a batch takes.
        """
        if rows < batch:
            raise ReelspaceError(f"A batch of {batch} needs as many rows; there are {rows}. Lower the batch size.")
        self._rows, self._batch, self._names = rows, batch, names
        self._passes: list[NDArray[np.int64]] = []

    def batch(self, number: int) -> NDArray[np.int64]:
        """The rows of the batch of that number, from 0: int64 `[batch]`."""
        start = number * self._batch
        first, last = start // self._rows, (start + self._batch - 1) // self._rows
        dealt = np.concatenate([self._pass(index) for index in range(first, last + 1)])
        begin = start - first * self._rows
        return dealt[begin : begin + self._batch]

    def _pass(self, index: int) -> NDArray[np.int64]:
        while len(self._passes) <= index:
            number = len(self._passes)
            order = generator("deck", *self._names, number).permutation(self._rows)
            left = number * self._rows % self._batch  # dealt from the pass before into the batch both share
            if left:
                order = _kept_apart(order, self._passes[-1][-left:], self._batch - left)
            self._passes.append(order)
        return self._passes[index]


def _kept_apart(order: NDArray[np.int64], dealt: NDArray[np.int64], first: int) -> NDArray[np.int64]:
    """The order with none of `dealt` among its first places; what stood there comes right after them."""
    again = np.isin(order, dealt)
    fresh = np.flatnonzero(~again)[:first]
    rest = np.setdiff1d(np.arange(len(order)), fresh)
    return np.asarray(order[np.concatenate([fresh, rest])], dtype=np.int64)


@dataclass(frozen=True)
class Plan:
    """An epoch, drawn.

    Attributes:
        epoch: which.
        tasks: int64 `[steps]`: the task of each step, by its place in the mixture.
        dealt: how many batches each task had given when the epoch began.
    """

    epoch: int
    tasks: NDArray[np.int64]
    dealt: tuple[int, ...]

    def place(self, step: int) -> tuple[int, int]:
        """The task of a step of this epoch, and which of the task's batches it is, counted over all epochs."""
        task = int(self.tasks[step])
        return task, self.dealt[task] + int((self.tasks[:step] == task).sum())

    def after(self) -> tuple[int, ...]:
        """`dealt` of the epoch that follows."""
        drawn = np.bincount(self.tasks, minlength=len(self.dealt))
        return tuple(int(before + now) for before, now in zip(self.dealt, drawn, strict=True))


def plan(schedule: Schedule, epoch: Epoch, dealt: Sequence[int], seed: int) -> Plan:
    """The tasks of an epoch's steps: the same for the same seed and what was measured."""
    tasks = schedule.draw(epoch, generator("schedule", seed, epoch.number))
    return Plan(epoch.number, np.asarray(tasks, dtype=np.int64), tuple(dealt))


def counts(drawn: Plan, tasks: Sequence[str]) -> Mapping[str, int]:
    """How many steps of the epoch each task has."""
    return {task: int((drawn.tasks == place).sum()) for place, task in enumerate(tasks)}
