"""Fixed probes whose vectors are kept beside a space: a model that changes undeclared, or gone blind, is noticed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from reelspace.embed.base import Embedder, Vectors, checked
from reelspace.embed.conformance import probe_items
from reelspace.errors import ModelError

TOLERANCE = 1e-3  # cosine distance: more than runtimes and processors differ by, less than another model would


def sing(embedder: Embedder, among: frozenset[str] = frozenset({"text", "image", "video"})) -> dict[str, Vectors]:
    """Probe → vector `[d]`, for one probe of every modality of `among`.

    Raises:
        ModelError: the model cannot tell them apart, so it would find everything for every query.
    """
    parts = embedder.modalities & among
    probes = probe_items(frozenset(parts))[::3] if parts else []
    vectors = checked(embedder, embedder.encode_candidate, probes)
    alike = vectors @ vectors.T - 2 * np.eye(len(probes), dtype=np.float32)
    if len(probes) > 1 and not alike.max() < 1 - 1e-6:
        raise ModelError(
            f"{embedder.name} gives one vector to different inputs: its files or its runtime are broken. Reinstall it."
        )
    return {probe.modality: vector for probe, vector in zip(probes, vectors, strict=True)}


def drift(kept: Mapping[str, Vectors], now: Mapping[str, Vectors]) -> float | None:
    """Greatest cosine distance between the kept vectors and those of now; `None` if none is kept."""
    distances = [1 - float(kept[probe] @ now[probe]) for probe in kept if probe in now]
    return max(0.0, *distances) if distances else None
