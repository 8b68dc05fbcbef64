"""Items → vectors for a run: what is known is read, the rest is decoded in other processes, embedded, and kept."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from reelspace.embed.base import Embedder, Vectors, checked
from reelspace.errors import EncodeError, ReelspaceError
from reelspace.item import Item, Span
from reelspace.media.reader import Reader
from reelspace.uvrb.cache import Contents, VectorCache, key
from reelspace.uvrb.protocol import Protocol

Step = Callable[[int], None]


@dataclass
class Encoded:
    """What came of items.

    Attributes:
        ids: those that have a vector, in the order given.
        vectors: float32 `[len(ids), d]`.
        failures: id → reason, of the others.
        made: how many were embedded now; the others were known.
    """

    ids: list[str]
    vectors: Vectors
    failures: dict[str, str] = field(default_factory=dict)
    made: int = 0


@dataclass
class Encoder:
    """Embeds items by one model under one protocol.

    Attributes:
        embedder: the model.
        protocol: what of it is the harness's to keep: which frames the model gets to see.
        cache: of its vectors.
        contents: digests of items.
        reader: decodes in processes of its own; a file that hangs or crashes its decoder fails alone.
        batch: how many items the model gets at once.
        workers: how many items are decoded at the same time.
    """

    embedder: Embedder
    protocol: Protocol
    cache: VectorCache
    contents: Contents
    reader: Reader
    batch: int = 16
    workers: int = 2

    def keys(self, items: Mapping[str, Item], side: str, instruction: str | None) -> dict[str, bytes | str]:
        """Id → key, or why there is none: the file cannot be read."""
        found: dict[str, bytes | str] = {}
        for name, item in items.items():
            if item.modality not in self.embedder.modalities:
                takes = ", ".join(sorted(self.embedder.modalities))
                found[name] = f"the model takes {takes}; this item is {item.modality}"
                continue
            try:
                found[name] = key(side, instruction, self.contents.of(item))
            except (OSError, ReelspaceError) as error:
                found[name] = f"{getattr(error, 'filename', None) or name}: {getattr(error, 'strerror', None) or error}"
        return found

    def encode(
        self,
        items: Mapping[str, Item],
        keys: Mapping[str, bytes | str],
        side: str,
        instruction: str | None = None,
        step: Step = lambda count: None,
    ) -> Encoded:
        """Vectors of items, in their order.

        Args:
            items: id → item.
            keys: of the items, from `keys`.
            side: `query` or `candidate`.
            instruction: goes with queries.
            step: called with the number of items done since the last call.
        """
        failures = {name: made for name, made in keys.items() if isinstance(made, str)}
        wanted: dict[bytes, str] = {}  # the same content twice is embedded once
        for name, made in keys.items():
            if isinstance(made, bytes) and made not in self.cache:
                wanted.setdefault(made, name)
        step(len(items) - len(wanted))
        reasons = self._make(wanted, items, side, instruction, step)
        ids, rows = [], []
        for name in items:
            made = keys[name]
            if isinstance(made, str):
                continue
            vector = self.cache.get(made)
            if vector is not None:
                ids.append(name)
                rows.append(vector)
            elif made in reasons:
                failures[name] = reasons[made]
            else:  # its record was damaged
                again = self._make({made: name}, items, side, instruction, lambda count: None)
                vector = self.cache.get(made)
                if vector is None:
                    failures[name] = again[made]
                else:
                    ids.append(name)
                    rows.append(vector)
        vectors = np.stack(rows) if rows else np.empty((0, self.embedder.dim), dtype=np.float32)
        ordered = {name: failures[name] for name in items if name in failures}
        return Encoded(ids, vectors, ordered, len(wanted) - len(reasons))

    def _make(
        self, wanted: Mapping[bytes, str], items: Mapping[str, Item], side: str, instruction: str | None, step: Step
    ) -> dict[bytes, str]:
        """Embeds and keeps; returns the reasons of those that failed."""
        reasons: dict[bytes, str] = {}
        ready = self._prepared(list(wanted), [items[name] for name in wanted.values()], reasons, step)
        while batch := list(islice(ready, self.batch)):
            names, prepared = [name for name, _ in batch], [item for _, item in batch]
            positions: Sequence[int] = range(len(batch))
            try:
                if side == "query":
                    vectors = checked(self.embedder, self.embedder.encode_query, prepared, instruction)
                else:
                    vectors = checked(self.embedder, self.embedder.encode_candidate, prepared)
            except EncodeError as error:
                positions, vectors = error.positions, error.vectors
                reasons |= {names[position]: reason for position, reason in error.failures.items()}
            self.cache.add([names[position] for position in positions], vectors)
            step(len(batch))
        return reasons

    def _prepared(
        self, names: Sequence[bytes], items: Sequence[Item], reasons: dict[bytes, str], step: Step
    ) -> Iterator[tuple[bytes, Item]]:
        """Items with their media decoded, in order, a few ahead of who takes them."""
        source = iter(zip(names, items, strict=True))
        running: deque[tuple[bytes, Future[Item]]] = deque()
        with ThreadPoolExecutor(self.workers) as pool:
            try:
                while True:
                    for name, item in islice(source, self.workers + self.batch - len(running)):
                        running.append((name, pool.submit(self._decoded, item)))
                    if not running:
                        return
                    name, future = running.popleft()
                    try:
                        yield name, future.result()
                    except (ReelspaceError, OSError) as error:
                        reasons[name] = str(error)
                        step(1)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _decoded(self, item: Item) -> Item:
        if item.video is None and item.image is None:
            return item
        parts: dict[str, Any] = {"text": item.text, "image": item.image, "video": item.video}
        if isinstance(item.image, Path):
            parts["image"] = self.reader.image(item.image)
        # A model that decodes for itself gets the file, unless the protocol says which frames.
        own = getattr(self.embedder, "decodes", False) and self.protocol.frames is None
        if isinstance(item.video, Span) and not own:
            parts["video"] = self.reader.sample(item.video, self.protocol.sampling(self.embedder))
        return Item(**parts)
