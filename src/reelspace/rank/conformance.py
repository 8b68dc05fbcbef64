"""What every pair scorer must hold to, as checks that return the violations they find."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reelspace.errors import ModelError
from reelspace.item import Item
from reelspace.rank.base import PairScorer

TOLERANCE = 1e-5


def violations(scorer: PairScorer, query: Item, candidates: Sequence[Item]) -> list[str]:
    """Every promise of the `PairScorer` contract that `scorer` breaks on these items (2 ≤ n ≤ budget)."""
    found = []
    scores = scorer.score(query, candidates)
    if scores.shape != (len(candidates),) or scores.dtype != np.float32 or not np.isfinite(scores).all():
        return [f"returned {scores.dtype} {scores.shape}, not {len(candidates)} finite float32 scores"]
    variants = {
        "the other candidates": np.concatenate([scorer.score(query, [candidate]) for candidate in candidates]),
        "order": scorer.score(query, list(reversed(candidates)))[::-1],
    }
    for what, again in variants.items():
        if abs(again - scores).max() > TOLERANCE:
            found.append(f"scores depend on {what}: they differ by {abs(again - scores).max():.2g}")
    if scorer.score(query, []).shape != (0,):
        found.append("no candidates do not give an empty array")
    try:
        scorer.score(query, [candidates[0]] * (scorer.budget + 1))
        found.append(f"more candidates than its budget of {scorer.budget} are not refused")
    except ModelError:
        pass
    return found
