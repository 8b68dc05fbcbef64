"""Do two back ends give one space? Both embed the same fixed inputs, and their vectors are compared item by item.

The same weights served elsewhere need not give the same vectors: another chat template, another pooled token, frames
resampled on the way, half precision. A search whose query comes from one and whose index from the other is wrong
without a sign of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reelspace.embed.base import Embedder, Vectors, checked
from reelspace.errors import EncodeError, ModelError
from reelspace.item import Frames, Item

TOLERANCE = 1e-3
"""Cosine distance: what the canaries of a library allow, too."""
NEAREST = 3
SIDE = 160

_TEXTS = (
    *("a dog", "a red lorry on a wet road at night", "two people shake hands", "nothing moves"),
    *("The camera pans left over a harbour, then a gull lands on the rail in front of it.", "é 猫 🐈 — ½"),
    *("someone pours milk into a cup and stirs it", "a cup of milk is poured out by someone", "waves", "snow at dusk"),
    "First a door opens, then the light goes on, then a child runs in and out again. " * 12,
    *("a street in the rain, seen from above", "a close-up of hands that tie a knot"),
)


@dataclass(frozen=True)
class Compared:
    """An item and the cosine of its two vectors."""

    side: str
    item: str
    cosine: float


@dataclass(frozen=True)
class Parity:
    """How well two back ends agree.

    Attributes:
        reasons: why they cannot be of one space whatever the tolerance; empty if they can.
        compared: every item, worst first.
        neighbours: of the nearest three pictures and clips of each text, the share that both name; `None`: no text or
            nothing to find.
    """

    reasons: tuple[str, ...]
    compared: tuple[Compared, ...]
    neighbours: float | None

    @property
    def distance(self) -> float:
        """Cosine distance of the worst item; infinite where nothing could be compared."""
        return max(0.0, 1 - self.compared[0].cosine) if self.compared else float("inf")

    def holds(self, tolerance: float = TOLERANCE) -> bool:
        """Whether they may share an index."""
        return not self.reasons and self.distance <= tolerance


def fixed_items(modalities: frozenset[str]) -> list[Item]:
    """The same inputs every time: texts short and long, drawn pictures and clips of several shapes, and mixes."""
    random = np.random.default_rng(20)
    sizes = ((90, SIDE), (SIDE, 90), (64, 64), (SIDE, SIDE), (48, 144), (224, 224))
    pictures = [_drawn(random, *size, 0.0) for size in sizes]
    clips = []
    for count, (height, width) in zip((8, 5, 16, 2, 9, 1), sizes, strict=True):
        seed = int(random.integers(1 << 30))
        frames = [_drawn(np.random.default_rng(seed), height, width, at / 4) for at in range(count)]
        clips.append(Frames(np.stack(frames), np.arange(count) / 4, 0.0, count / 4))
    items = [Item(text=text) for text in _TEXTS] if "text" in modalities else []
    items += [Item(image=picture) for picture in pictures] if "image" in modalities else []
    items += [Item(video=clip) for clip in clips] if "video" in modalities else []
    for modality in sorted(modality for modality in modalities if "+" in modality):
        for row in range(2):
            parts = {"text": _TEXTS[row], "image": pictures[row], "video": clips[row]}
            items.append(Item(**{part: parts[part] for part in modality.split("+")}))  # type: ignore[arg-type]
    return items


def compare(first: Embedder, second: Embedder, items: Sequence[Item] | None = None) -> Parity:
    """Embeds `items` (default: `fixed_items` of what both take) with both, as queries and as candidates.

    Raises:
        ModelError: they have no kind of input in common, or one of them cannot be used at all.
    """
    both = first.modalities & second.modalities
    if not both:
        raise ModelError(f"{first.name} and {second.name} take no kind of input in common: nothing can be compared.")
    items = fixed_items(both) if items is None else list(items)
    if first.dim != second.dim:
        return Parity((f"{first.name} gives {first.dim} numbers, {second.name} {second.dim}",), (), None)
    reasons: list[str] = []
    compared: list[Compared] = []
    rows: dict[str, list[NDArray[np.float32]]] = {}
    for side in ("query", "candidate"):
        pair = [_encoded(one, side, items, reasons) for one in (first, second)]
        rows[side] = pair
        one, other = (made.astype(np.float64) for made in pair)
        lengths = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
        cosines = np.round((one * other).sum(axis=1) / lengths, 12)  # one and the same vector: exactly 1
        compared += [
            Compared(side, _named(item), float(cosine))
            for item, cosine in zip(items, cosines, strict=True)
            if np.isfinite(cosine)
        ]
    compared.sort(key=lambda one: one.cosine)
    return Parity(tuple(reasons), tuple(compared), _neighbours(items, rows["query"], rows["candidate"]))


def _encoded(embedder: Embedder, side: str, items: Sequence[Item], reasons: list[str]) -> Vectors:
    """Rows float32 `[n, d]`, nan where an item failed."""
    encode = embedder.encode_query if side == "query" else embedder.encode_candidate
    try:
        return checked(embedder, encode, items)
    except EncodeError as error:
        position, reason = next(iter(error.failures.items()))
        reasons.append(
            f"{embedder.name} failed at {len(error.failures)} of {len(items)} items as {side}: "
            f"{_named(items[position])}: {reason}"
        )
        rows = np.full((len(items), embedder.dim), np.nan, dtype=np.float32)
        rows[error.positions] = error.vectors
        return rows


def _neighbours(items: Sequence[Item], queries: Sequence[Vectors], candidates: Sequence[Vectors]) -> float | None:
    """Share of the nearest pictures and clips of each text that both back ends name."""
    texts = [row for row, item in enumerate(items) if item.modality == "text"]
    seen = [row for row, item in enumerate(items) if item.modality in ("image", "video")]
    if not texts or len(seen) <= NEAREST:
        return None
    tops = []
    for query, candidate in zip(queries, candidates, strict=True):
        scores = np.nan_to_num(query[texts] @ candidate[seen].T, nan=-2.0)
        tops.append(np.argsort(-scores, axis=1, kind="stable")[:, :NEAREST])
    shared = [len(set(one) & set(other)) / NEAREST for one, other in zip(*(top.tolist() for top in tops), strict=True)]
    return float(np.mean(shared))


def _drawn(random: np.random.Generator, height: int, width: int, at: float) -> NDArray[np.uint8]:
    """A picture uint8 `[H, W, 3]`: a gradient with discs that drift as time goes on, and a little noise."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64) / SIDE
    ends = random.uniform(0, 255, (2, 3))
    picture = ends[0] + (ends[1] - ends[0]) * ((x + y) / (x + y).max())[..., None]
    for _ in range(4):
        place, drift, radius = random.uniform(0, 1, 2), random.uniform(-0.4, 0.4, 2), random.uniform(0.05, 0.25)
        inside = (y - place[0] - at * drift[0]) ** 2 + (x - place[1] - at * drift[1]) ** 2 < radius**2
        picture[inside] = random.uniform(0, 255, 3)
    picture += random.normal(0, 4, picture.shape)
    return np.asarray(np.clip(picture, 0, 255), dtype=np.uint8)


def _named(item: Item) -> str:
    """An item in few words."""
    parts = []
    for part in item.parts:
        value = getattr(item, part)
        if part == "text":
            parts.append(f"“{value if len(value) <= 40 else value[:39] + '…'}”")
        elif isinstance(value, Frames):
            height, width = value.pixels.shape[1:3]
            parts.append(f"a clip of {len(value)} frames, {width}×{height}")
        elif isinstance(value, np.ndarray):
            parts.append(f"a picture, {value.shape[1]}×{value.shape[0]}")
        else:
            parts.append(str(value))
    return " with ".join(parts)
