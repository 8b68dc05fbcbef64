"""A stage is a list of blocks; a block takes assets, changes them, and lets pass those that are fit.

What a block works with is `Work`: the configuration, the folders, the model that embeds, the desk where a model is
asked, the reader that decodes, and the vectors that are known. It also keeps what blocks turn down, with the reason.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import Embedder, Vectors, checked
from reelspace.errors import EncodeError, ReelspaceError
from reelspace.item import Frames, Item, Span
from reelspace.media.policy import Sampling, Uniform
from reelspace.synth.asset import Asset
from reelspace.synth.config import Config
from reelspace.synth.schema import Clip, Picture, Rejection, Row

if TYPE_CHECKING:
    from reelspace.media.reader import Reader
    from reelspace.synth.mllm.desk import Desk

T = TypeVar("T")
R = TypeVar("R")
LEAST_JUDGED = 20
"""Items before the share of those given up means anything."""


class BudgetError(ReelspaceError):
    """A run has used up what it may use; what is done is kept."""


class Block(Protocol):
    """One small thing that is done to every asset."""

    @property
    def name(self) -> str:
        """As it is counted, and as `skip` calls it."""

    def run(self, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
        """The assets that pass, in order; the others are given to `work.reject` or `work.bury`."""


@dataclass(frozen=True)
class Step:
    """A stretch of work between two points where everything has to be there.

    Attributes:
        number: its place among the steps.
        gathered: its blocks see the assets of all shards at once, and run in one process.
    """

    number: int
    name: str
    blocks: tuple[Block, ...]
    gathered: bool = False


class Tools(Protocol):
    """What is costly to make and outlasts a shard: the models, and the process that decodes."""

    @property
    def embedder(self) -> Embedder:
        """The model that embeds."""

    @property
    def reader(self) -> Reader:
        """Decodes in a process apart."""

    def desk(self, work: Work, name: str) -> Desk:
        """Where the model that writes (`mllm`) or judges (`verifier`) is asked about a shard."""


class Known:
    """Unit vectors by name of a kind and id: those of earlier steps, and those that this step finds."""

    def __init__(self, files: Sequence[Path] = ()) -> None:
        self._places: dict[tuple[str, str], tuple[Vectors, int]] = {}
        self.new: dict[str, dict[str, NDArray[np.float32]]] = {}
        for file in files:
            with np.load(file, allow_pickle=False) as kept:
                for kind in [name for name in kept.files if not name.endswith(" ids")]:
                    rows = kept[kind]
                    self._places |= {(kind, str(id_)): (rows, row) for row, id_ in enumerate(kept[f"{kind} ids"])}

    def __call__(self, kind: str, id_: str) -> NDArray[np.float32]:
        """The vector `[d]`, which must be known."""
        if id_ in self.new.get(kind, {}):
            return self.new[kind][id_]
        rows, row = self._places[kind, id_]
        return np.asarray(rows[row])

    def all(self, kind: str, ids: Sequence[str]) -> Vectors:
        """The vectors `[n, d]` of these ids, which must be known."""
        return np.stack([self(kind, id_) for id_ in ids]) if ids else np.empty((0, 0), np.float32)

    def add(self, kind: str, id_: str, vector: NDArray[np.float32]) -> None:
        """Keeps one for later steps."""
        self.new.setdefault(kind, {})[id_] = vector

    def save(self, path: Path) -> None:
        """Writes what this step has found."""
        arrays: dict[str, NDArray[np.generic]] = {}
        for kind, rows in sorted(self.new.items()):
            arrays[kind], arrays[f"{kind} ids"] = np.stack(list(rows.values())), np.asarray(list(rows))
        with path.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]


@dataclass
class Work:
    """What blocks work with. It is not shared between processes.

    Attributes:
        config: what is to be done.
        out: the dataset's folder, which holds only what can be made again.
        run: the folder beside it: what is between, timings, costs, logs.
        step, shard: what is being worked on.
        vectors: what is known.
        rejected: what was turned down here.
        rows: rows made here, by task.
        counts: block → how many assets went in and came out, how many calls it took, and the like.
    """

    config: Config
    out: Path
    run: Path
    step: str
    shard: int
    tools: Tools
    vectors: Known = field(default_factory=Known)
    rejected: list[Rejection] = field(default_factory=list)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._lock, self._decoding = threading.Lock(), threading.Lock()
        self._seen = self._dead = 0

    @cached_property
    def embedder(self) -> Embedder:
        """The model that embeds."""
        return self.tools.embedder

    @cached_property
    def desk(self) -> Desk:
        """Where the model that writes is asked."""
        return self.tools.desk(self, "mllm")

    @cached_property
    def verifier(self) -> Desk:
        """Where the model that judges is asked."""
        return self.tools.desk(self, "verifier")

    def sample(self, clip: Clip, sampling: Sampling) -> Frames:
        """Frames of a clip, decoded in a process apart.

        Raises:
            MediaError: it cannot be read.
        """
        with self._decoding:  # threads that wait for a model share one decoder
            return self.tools.reader.sample(Span(self.out / clip.path, clip.start, clip.end), sampling)

    def picture(self, picture: Picture, edge: int | None = None) -> Frames:
        """The frame that a picture names.

        Raises:
            MediaError: it cannot be read.
        """
        return self.sample(Clip(path=picture.path, start=picture.time or 0.0), Sampling(Uniform(1), edge))

    def close(self) -> None:
        """Puts the journals away."""
        for name in ("desk", "verifier"):
            if name in self.__dict__:
                getattr(self, name).close()

    def reject(
        self,
        asset: Asset,
        block: str,
        reason: str,
        detail: str = "",
        value: float | None = None,
        text: str = "",
        image: Picture | None = None,
        clip: Clip | None = None,
    ) -> None:
        """Keeps something that was turned down: the asset, or a text about it."""
        rounded = None if value is None else round(float(value), 4)
        record = Rejection(
            id=asset.raw.id,
            stage=self.step,
            block=block,
            reason=reason,
            detail=detail[:500],
            value=rounded,
            text=text or asset.caption or asset.raw.text,
            image=image,
            clip=clip or (asset.clip if image is None else None),
        )
        with self._lock:
            self.rejected.append(record)

    def bury(self, asset: Asset, block: str, why: str) -> None:
        """A dead letter: something failed for this item, again and again, and it is given up.

        Raises:
            BudgetError: so many have been given up that it cannot be for their own fault.
        """
        self.reject(asset, block, "given up", why)
        with self._lock:
            self._dead += 1
            share = self._dead / max(self._seen, 1)
            if self._seen >= LEAST_JUDGED and share > self.config.budget.dead:
                raise BudgetError(
                    f"{self._dead} of {self._seen} items of shard {self.shard} failed in {block}, the last with: {why} "
                    "Mend what is wrong and run again, or allow more (budget.dead); what is done is kept."
                )

    def see(self) -> None:
        """Counts an item that is being worked on, for the share of those given up."""
        with self._lock:
            self._seen += 1

    def count(self, block: str, what: str, times: int = 1) -> None:
        """Counts something that a block did."""
        with self._lock:
            self.counts.setdefault(block, Counter())[what] += times

    def each(self, function: Callable[[T], R], items: Iterable[T], together: int) -> Iterator[tuple[T, R]]:
        """Items with what the function makes of them, in order; up to `together` at once, and no more held ready."""
        if together <= 1:
            for item in items:
                yield item, function(item)
            return
        with ThreadPoolExecutor(together) as pool:
            waiting: deque[tuple[T, Future[R]]] = deque()
            try:
                for item in items:
                    waiting.append((item, pool.submit(function, item)))
                    if len(waiting) >= 2 * together:
                        first, future = waiting.popleft()
                        yield first, future.result()
                while waiting:
                    first, future = waiting.popleft()
                    yield first, future.result()
            except BaseException:
                for _, future in waiting:
                    future.cancel()
                raise


def encoded(
    embedder: Embedder, encode: Callable[[Sequence[Item]], Vectors], items: Sequence[Item]
) -> tuple[dict[int, NDArray[np.float32]], dict[int, str]]:
    """Vectors by position, and why there is none at the others. `encode` is one of the embedder's two."""
    try:
        return dict(enumerate(checked(embedder, encode, items))), {}
    except EncodeError as error:
        return dict(zip(error.positions, error.vectors, strict=True)), error.failures


def through(blocks: Sequence[Block], assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
    """Leads assets through blocks, one after the other, and counts them."""
    for block in blocks:
        assets = _counted(block, assets, work)
    yield from assets


def _counted(block: Block, assets: Iterable[Asset], work: Work) -> Iterator[Asset]:
    def entering() -> Iterator[Asset]:
        for asset in assets:
            work.count(block.name, "in")
            yield asset

    work.count(block.name, "in", 0)
    work.count(block.name, "out", 0)
    for asset in block.run(entering(), work):
        work.count(block.name, "out")
        yield asset


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of `size`, the last one shorter."""
    batch: list[T] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Ids by score descending, then id ascending."""
    return sorted(scores, key=lambda id_: (-scores[id_], id_))
