"""`--not`: push down what the answer should not be.

What is asked for and what is not wanted overlap: “a dog” and “a dog on a sofa” are both about dogs. So a candidate
pays only for what the unwanted has beyond the query (its part at right angles to it), and only for being nearer to that
than candidates usually are: being unlike the unwanted earns nothing, and the query is not bent away from what was
asked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
Scores = NDArray[np.float32]
WEIGHT = 3.0  # chosen on the half `choose` of benchmarks/footage: excluded far down, relevant hardly touched


def beyond(query: Vectors, unwanted: Vectors) -> Vectors:
    """What a unit vector `[d]` has beyond another, as a unit vector; zeros if it has nothing."""
    rest = unwanted - (unwanted @ query) * query
    length = float(np.linalg.norm(rest))
    return np.asarray(rest / length if length > 1e-3 else 0 * rest, dtype=np.float32)


def exclude(scores: Scores, likeness: Scores, usual: float, weight: float = WEIGHT) -> Scores:
    """Scores float32 `[n]` after exclusion, never above what they were.

    Args:
        scores: of n candidates for the query.
        likeness: `[n]`, of the same candidates to what is `beyond` the query.
        usual: the mean likeness of all candidates, or of a fair sample of them.
        weight: how much a candidate pays for each unit it is above that.
    """
    return np.asarray(scores - weight * np.maximum(0, likeness - usual), dtype=np.float32)
