"""A closer look at a model that is loaded: how far its vectors drift, and what they cost."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reelspace.embed.base import Embedder, Vectors
from reelspace.embed.conformance import TOLERANCE, probe_items
from reelspace.errors import ModelError
from reelspace.item import Frames, Item

if TYPE_CHECKING:
    from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder

COARSE = {"float32": TOLERANCE, "bfloat16": 0.05, "float16": 0.01}
"""Type → how far a vector of unit length may drift with the batch it is in. Sums in bfloat16 have 8 bits."""
TYPES = 0.1
"""How far it may drift from bfloat16 to float32."""


@dataclass(frozen=True)
class Drift:
    """How far vectors of the same items are apart.

    Attributes:
        what: what differed.
        by: greatest distance of two vectors of one item.
        most: how far it may be.
    """

    what: str
    by: float
    most: float

    @property
    def violation(self) -> str | None:
        """The promise that is broken, if any."""
        return f"vectors depend on {self.what}: they differ by {self.by:.2g}" if self.by > self.most else None


@dataclass(frozen=True)
class Cost:
    """What an item of a kind costs.

    Attributes:
        item: what it is.
        tokens: all of its tokens.
        visual: its visual tokens,
        patch: and how many of them a picture, or a pair of frames, becomes.
        seconds: for one, alone; preparation counted.
        memory: bytes it took at most on top of the model.
    """

    item: str
    tokens: int
    visual: int
    patch: float
    seconds: float
    memory: int

    def __str__(self) -> str:
        seen = f", {self.visual:,} visual ({self.patch:g} a temporal patch)" if self.visual else ""
        return f"{self.item}: {self.tokens:,} tokens{seen}; {self.seconds * 1e3:.0f} ms, {self.memory / 1e6:.0f} MB"


def tolerance(embedder: Embedder) -> float:
    """How far its vectors may drift with the batch they are in: what its type allows."""
    model = _torch_model(embedder)
    return TOLERANCE if model is None else COARSE[model.dtype]


def drifts(embedder: Embedder) -> list[Drift]:
    """How far vectors drift with the padding side and the type; empty for a model that has neither."""
    model = _torch_model(embedder)
    if model is None:
        return []
    items = probe_items(model.modalities, seed=1)
    vectors = model.encode_candidate(items)
    found = [Drift("the padding side", _apart(vectors, _other_side(model, items)), COARSE[model.dtype])]
    other = "float32" if model.dtype != "float32" else "bfloat16"
    try:
        found.append(Drift(f"{model.dtype} or {other}", _apart(vectors, _other_type(model, items, other)), TYPES))
    except (ModelError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error).lower():
            raise
    return found


def _torch_model(embedder: Embedder) -> QwenVLEmbedder | None:
    if not hasattr(embedder, "readout"):
        return None
    from reelspace.embed.qwen_vl.embedder import QwenVLEmbedder

    return embedder if isinstance(embedder, QwenVLEmbedder) else None


def _apart(one: Vectors, other: Vectors) -> float:
    return float(np.linalg.norm(one - other, axis=1).max())


def _other_side(model: QwenVLEmbedder, items: Sequence[Item]) -> Vectors:
    side = model.module.padding_side
    model.module.padding_side = "left" if side == "right" else "right"
    try:
        return model.encode_candidate(items)
    finally:
        model.module.padding_side = side


def _other_type(model: QwenVLEmbedder, items: Sequence[Item], kind: str) -> Vectors:
    """The vectors of a second copy, that lives no longer than this call."""
    return model.retyped(kind).encode_candidate(items)


def costs(embedder: Embedder) -> list[Cost]:
    """What a short and a long text, a picture and clips cost; empty for a model that does not run on torch."""
    model = _torch_model(embedder)
    if model is None:
        return []
    picture = np.random.default_rng(2).integers(0, 256, (720, 1280, 3), dtype=np.uint8)
    every = {
        "a text of 5 words": Item("a dog chases a ball"),
        "a text of 300 words": Item("a dog chases a ball " * 60),
        "a picture of 1280 × 720": Item(image=picture),
        "a clip of 4 s, 1280 × 720": Item(video=_clip(picture, 4)),
        "a clip of 16 s, 1280 × 720": Item(video=_clip(picture, 16)),
    }
    return [_cost(model, name, item) for name, item in every.items() if item.modality in model.modalities]


def _clip(picture: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], seconds: int) -> Frames:
    count = 2 * seconds
    return Frames(np.stack([np.roll(picture, 9 * n, axis=1) for n in range(count)]), np.arange(count) / 2, 0, seconds)


def _cost(model: QwenVLEmbedder, name: str, item: Item) -> Cost:
    made = model.module.preparer(item, "candidate")
    model.encode_candidate([item])  # the first time is no measure
    before, began = _peak(model.device, reset=True), time.perf_counter()
    model.encode_candidate([item])
    seconds = time.perf_counter() - began
    layers = [count for visual in (*made.images, *made.videos) for count in visual.tokens]
    visual = sum(layers)
    return Cost(name, len(made), visual, visual / max(len(layers), 1), seconds, max(0, _peak(model.device) - before))


def _peak(device: str, reset: bool = False) -> int:
    """Bytes used at most so far: of a graphics card since the last reset, of this process ever."""
    if device.startswith("cuda"):
        import torch

        if reset:
            torch.cuda.reset_peak_memory_stats()
            return int(torch.cuda.memory_allocated())
        return int(torch.cuda.max_memory_allocated())
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
