"""What every embedder must hold to, as checks that return the violations they find.

Tests assert that the list is empty; `reelspace models check` prints it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from reelspace.embed.base import Embedder, Vectors
from reelspace.errors import EncodeError
from reelspace.item import Frames, Item

TOLERANCE = 1e-5


def probe_items(modalities: frozenset[str], seed: int = 0) -> list[Item]:
    """A few unlike items of every modality in `modalities`, made of noise and colour fields; sizes vary."""
    random = np.random.default_rng(seed)
    texts = ("a dog", "Two red lorries pass each other on a wet road at night, seen from a bridge. " * 8, "é 猫 🐈")
    pictures = [random.integers(0, 256, size, dtype=np.uint8) for size in ((48, 64, 3), (97, 33, 3), (224, 224, 3))]
    clips = [
        Frames(np.stack([np.roll(255 - picture, 3 * shift, axis=1) for shift in range(count)]), np.arange(count) / 8)
        for picture, count in zip(pictures, (1, 5, 12), strict=True)
    ]
    parts: dict[str, Sequence[object]] = {"text": texts, "image": pictures, "video": clips}
    return [
        Item(**{part: parts[part][row] for part in modality.split("+")})  # type: ignore[arg-type]
        for modality in sorted(modalities)
        for row in range(3)
    ]


def violations(embedder: Embedder, items: Sequence[Item] | None = None, tolerance: float = TOLERANCE) -> list[str]:
    """Every promise of the `Embedder` contract that `embedder` breaks on `items` (default: `probe_items`).

    A model that computes in a shorter type than float32 needs a wider tolerance (`checkup.tolerance`).
    """
    items = list(items) if items is not None else probe_items(embedder.modalities)
    found: list[str] = []
    sides: dict[str, Callable[[Sequence[Item]], Vectors]] = {
        "encode_query": embedder.encode_query,
        "encode_candidate": embedder.encode_candidate,
    }
    for side, encode in sides.items():
        found += [f"{side}: {problem}" for problem in _side(encode, items, embedder.dim, tolerance)]
        found += [f"{side}: {problem}" for problem in _failures(encode, items, embedder.dim, tolerance)]
    if not embedder.fingerprint:
        found.append("the fingerprint is empty")
    return found


def _side(encode: Callable[[Sequence[Item]], Vectors], items: list[Item], dim: int, tolerance: float) -> list[str]:
    found = []
    vectors = encode(items)
    if vectors.shape != (len(items), dim) or vectors.dtype != np.float32:
        return [f"returned {vectors.dtype} {vectors.shape}, not float32 {(len(items), dim)}"]
    if not np.isfinite(vectors).all() or abs(np.linalg.norm(vectors, axis=1) - 1).max() > 1e-4:
        found.append("rows are not unit vectors")
    if encode([]).shape != (0, dim):
        found.append("no items do not give an empty [0, d] array")
    variants = {
        "batch size": np.concatenate([encode([item]) for item in items]),
        "order in the batch": encode(items[::-1])[::-1],
        "time (a second call)": encode(items),
    }
    for what, again in variants.items():
        drift = float(abs(again - vectors).max())
        if drift > tolerance:
            found.append(f"vectors depend on {what}: they differ by {drift:.2g}")
    same = vectors @ vectors.T - 2 * np.eye(len(items), dtype=np.float32)
    if same.max() > 1 - 1e-6:
        row, column = np.unravel_index(same.argmax(), same.shape)
        found.append(f"different inputs have one vector: {items[row]} and {items[column]}")
    return found


def _failures(encode: Callable[[Sequence[Item]], Vectors], items: list[Item], dim: int, tolerance: float) -> list[str]:
    """A missing file in the middle of good items must be named, and cost nothing else."""
    good = items[0]
    files = {"image": Item(image="/no/such/file"), "video": Item(video="/no/such/file")}
    bad = next((files[item.modality] for item in items if item.modality in files), None)
    if bad is None:
        return []  # a text-only model opens no file
    try:
        encode([good, bad, good])
    except EncodeError as error:
        if list(error.failures) != [1] or error.positions != [0, 2] or error.vectors.shape != (2, dim):
            return [f"a failure is misreported: {error.failures}, {error.positions}, {error.vectors.shape}"]
        if abs(error.vectors - encode([good, good])).max() > tolerance:
            return ["a failure changes the other rows"]
        return []
    return ["a missing file raises no EncodeError"]
