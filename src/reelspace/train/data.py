"""Steps → tensors: a whole batch is one sample of the loader, made in its workers from paths and spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reelspace.errors import ReelspaceError
from reelspace.item import Frames, Item
from reelspace.media.policy import Sampling
from reelspace.train.draws import Deck, Plan
from reelspace.train.mixture import Task
from reelspace.train.rows import Row, content, key

Prepare = Callable[..., dict[str, Any]]
"""`SentenceTransformer.preprocess`: items, `prompt` and `task` → features."""
Read = Callable[[Item], Item]
"""Makes sure that an item's media can be read, before a batch is made of it."""


@dataclass(frozen=True)
class Seat:
    """Which process this is, of how many: each takes its own rows of a step's task."""

    rank: int = 0
    world: int = 1


class Steps:
    """The batches of an epoch by step, as a map-style dataset.

    Attributes:
        plan: the epoch's; to be set before it is read.
        tasks: the mixture's; replaced where hard negatives are mined anew.
    """

    column_names = ("step",)

    def __init__(self, tasks: Sequence[Task], prepare: Prepare, read: Read, seed: int, steps: int, seat: Seat) -> None:
        self.tasks = tuple(tasks)
        self.plan: Plan | None = None
        self._prepare, self._read, self._steps, self._seat = prepare, read, steps, seat
        # A batch of all processes is dealt at once, so that no two of them are given one row.
        self._decks = [
            Deck(len(task.chosen), task.config.batch_size * seat.world, seed, task.name) for task in self.tasks
        ]

    def __len__(self) -> int:
        return self._steps

    def __getitem__(self, step: int) -> dict[str, Any]:
        if self.plan is None:
            raise ReelspaceError("The epoch has not been planned.")
        which, number = self.plan.place(step)
        task = self.tasks[which]
        size = task.config.batch_size
        dealt = self._decks[which].batch(number)
        mine = dealt[self._seat.rank * size : (self._seat.rank + 1) * size]
        rows, failed = self._readable(task, mine, set(dealt.tolist()))
        return {**self._features(rows, task.config.hard_negatives), "task": which, "failed": failed}

    def _readable(
        self, task: Task, dealt: np.ndarray, taken: set[int]
    ) -> tuple[list[tuple[Row, list[Item]]], list[str]]:
        """The rows with their items; a row that cannot be read gives its place to the next one that can and that is not
        in the batch.
        """
        found: list[tuple[Row, list[Item]]] = []
        failed: list[str] = []
        for place in dealt.tolist():
            for other in (place, *_after(place, len(task.chosen), taken)):
                row = task.row(int(task.chosen[other]))
                try:
                    items = [self._read(task.rows.item(part)) for part in _parts(row, task.config.hard_negatives)]
                except (ReelspaceError, OSError) as error:
                    failed.append(f"{task.name}, row {row.id or int(task.chosen[other]) + 1}: {error}")
                    continue
                taken.add(other)
                found.append((row, items))
                break
            else:
                raise ReelspaceError(f"Task {task.name} has no readable row left to fill a batch: {failed[-1]}")
        return found, failed

    def _features(self, rows: Sequence[tuple[Row, list[Item]]], hard: int) -> dict[str, Any]:
        """Columns `query_…`, `positive_…`, `negative0_…` …, and the keys as `label`."""
        import torch

        columns = ["query", "positive", *(f"negative{n}" for n in range(hard))]
        batch: dict[str, Any] = {}
        instructions = {row.instruction for row, _ in rows}
        if len(instructions) > 1:
            raise ReelspaceError(f"A batch has one instruction; these rows have {len(instructions)}: split the task.")
        asked = next(iter(instructions)) or None
        for place, column in enumerate(columns):
            items = [items[place] for _, items in rows]
            role = {"prompt": asked, "task": "query"} if place == 0 else {"prompt": None, "task": "document"}
            batch |= {f"{column}_{name}": value for name, value in self._prepare(items, **role).items()}
        batch["label"] = torch.tensor([_keys(row, hard) for row, _ in rows])
        return batch


def _after(place: int, rows: int, taken: set[int]) -> Iterator[int]:
    return (other % rows for other in range(place + 1, place + rows) if other % rows not in taken)


def _parts(row: Row, hard: int) -> list[Any]:
    """Query, candidate and hard negatives; where there are too few the candidate stands in: the loss leaves it out."""
    return [row.query, row.candidate, *row.negatives[:hard], *[row.candidate] * (hard - len(row.negatives))]


def _keys(row: Row, hard: int) -> list[tuple[int, int]]:
    """What each part is, and what it shows. Queries are told apart by what they are alone: many ask for one video."""
    query, *others = _parts(row, hard)
    return [(content(query), content(query)), *((content(part), key(part)) for part in others)]


def decoded(item: Item, sampling: Sampling) -> Item:
    """The item with its media decoded."""
    from reelspace.media.decode import sample
    from reelspace.media.image import load_image

    image = None if item.image is None else load_image(item.image)
    video = item.video if item.video is None or isinstance(item.video, Frames) else sample(item.video, sampling)
    return Item(item.text, image, video)


def collate(steps: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The one sample of a loader's batch is the batch."""
    (step,) = steps
    return step
