"""How well a model aligns each task: R_k, the mean cosine of N of its pairs (GVE §3.3), and what it cost to know."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import Vectors
from reelspace.errors import EncodeError, ReelspaceError
from reelspace.item import Item
from reelspace.train.mixture import Task
from reelspace.train.rows import Row
from reelspace.train.schedule import Alignment
from reelspace.worlds.sample import generator

if TYPE_CHECKING:
    from reelspace.synth.schema import Part


class Encoder(Protocol):
    """What a prober needs of an embedder."""

    @property
    def dim(self) -> int: ...

    def encode_query(self, items: Sequence[Item], instruction: str | None = None) -> Vectors: ...

    def encode_candidate(self, items: Sequence[Item]) -> Vectors: ...


@dataclass
class Cost:
    """What a piece of work took.

    Attributes:
        seconds: on the clock.
        flops: floating-point operations of matrix products, convolutions and attention, as PyTorch counts them; 0 of a
            model that runs outside of it.
    """

    seconds: float = 0.0
    flops: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.seconds + other.seconds, self.flops + other.flops)


@contextmanager
def measured(cost: Cost) -> Iterator[None]:
    """Adds to `cost` what the work inside takes. The models run in this process and thread."""
    from torch.utils.flop_counter import FlopCounterMode

    began = time.perf_counter()
    with FlopCounterMode(display=False) as counter:
        yield
    cost.seconds += time.perf_counter() - began
    cost.flops += int(counter.get_total_flops())


def probe(
    prober: Encoder, task: Task, pairs: int, seed: int, epoch: int = 0, share: tuple[int, int] = (0, 1)
) -> NDArray[np.float64]:
    """Sums from which `alignment` makes R_k: float64 `[6]`, to be added up over shares.

    Args:
        pairs: N; all rows where there are fewer. Which they are depends on seed, epoch and task alone.
        share: `(i, n)`: only every n-th of them, from the i-th, so that n processes have all.

    Raises:
        ReelspaceError: fewer than two pairs could be read.
    """
    places = np.unique(task.chosen)
    drawn = generator("probe", seed, epoch, task.name).permutation(len(places))[:pairs]
    rows = [task.row(int(places[place])) for place in np.sort(drawn)[share[0] :: share[1]]]
    query, candidate = encoded(prober, task, rows)
    if len(query) < 2:
        raise ReelspaceError(f"Task {task.name} has too few readable pairs to probe; there were {len(query)}.")
    scores = query.astype(np.float64) @ candidate.astype(np.float64).T
    matched = np.diagonal(scores)
    others = scores[~np.eye(len(scores), dtype=bool)]
    return np.array([len(matched), matched.sum(), (matched**2).sum(), len(others), others.sum(), (others**2).sum()])


def alignment(sums: NDArray[np.float64]) -> Alignment:
    """R_k and what pairs that do not belong together have in common, from the sums of all shares."""
    pairs, matched, _, others, mean, square = sums
    usual = mean / others
    return Alignment(
        matched=float(matched / pairs),
        mismatched=float(usual),
        spread=float(np.sqrt(max(square / others - usual**2, 0.0))),
    )


def encoded(encoder: Encoder, task: Task, rows: Sequence[Row]) -> tuple[Vectors, Vectors]:
    """Unit rows `[n, d]` of queries and candidates; pairs of which a part cannot be read are left out of both."""
    asking, queries = encoded_queries(encoder, task, rows)
    answering, candidates = encoded_candidates(encoder, task, [row.candidate for row in rows])
    both = np.intersect1d(asking, answering)
    return queries[np.isin(asking, both)], candidates[np.isin(answering, both)]


def encoded_queries(encoder: Encoder, task: Task, rows: Sequence[Row]) -> tuple[list[int], Vectors]:
    """The positions of the rows whose queries could be embedded, ascending, and their unit rows `[n, d]`."""
    found: list[tuple[int, Vectors]] = []
    for instruction in sorted({row.instruction for row in rows}):
        places = [place for place, row in enumerate(rows) if row.instruction == instruction]
        asked = [rows[place].query for place in places]
        good, vectors = _encoded(partial(_asking, encoder, instruction or None), task, asked)
        found += zip([places[position] for position in good], vectors, strict=True)
    found.sort(key=lambda entry: entry[0])
    return [place for place, _ in found], _stacked([vector for _, vector in found])


def _asking(encoder: Encoder, instruction: str | None, items: Sequence[Item]) -> Vectors:
    return encoder.encode_query(items, instruction)


def encoded_candidates(encoder: Encoder, task: Task, parts: Sequence[Part]) -> tuple[list[int], Vectors]:
    """The positions of the candidates that could be embedded, ascending, and their unit rows `[n, d]`."""
    return _encoded(encoder.encode_candidate, task, parts)


def _stacked(vectors: Sequence[Vectors]) -> Vectors:
    return np.stack(vectors) if vectors else np.empty((0, 0), dtype=np.float32)


def _encoded(
    encode: Callable[[Sequence[Item]], Vectors], task: Task, parts: Sequence[Part]
) -> tuple[list[int], Vectors]:
    """The positions of the parts that could be read and embedded, and their vectors."""
    items: dict[int, Item] = {}
    for position, part in enumerate(parts):
        with suppress(ReelspaceError, OSError):
            items[position] = task.rows.item(part)
    there = list(items)
    if not there:
        return [], _stacked([])
    try:
        return there, encode(list(items.values()))
    except EncodeError as error:
        return [there[position] for position in error.positions], error.vectors
