"""Several rankings of the same things → one: reciprocal rank fusion (Cormack, Clarke, Büttcher; SIGIR 2009).

Scores of different models, views or signals are never compared; only the places they give.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Protocol, TypeVar

from reelspace.errors import ReelspaceError

DAMPING = 60.0
"""How little the first places outweigh the next; the value of the paper."""


class Sortable(Hashable, Protocol):
    """An id: what ties are ordered by."""

    def __lt__(self, other: Any, /) -> bool: ...


Id = TypeVar("Id", bound=Sortable)


def fuse(
    rankings: Sequence[Sequence[Id]], weights: Sequence[float] | None = None, damping: float = DAMPING
) -> list[tuple[Id, float]]:
    """Ids with their fused scores, best first; ties by id ascending.

    Each ranking gives an id `weight / (damping + place)`, places counted from 1; one that does not hold it gives
    nothing, so a ranking may be cut off anywhere.

    Args:
        rankings: ids, best first, each at most once in a ranking.
        weights: one for each ranking; all 1 by default.

    Raises:
        ReelspaceError: an id stands twice in one ranking, or there are not as many weights as rankings.
    """
    weights = [1.0] * len(rankings) if weights is None else weights
    if len(weights) != len(rankings):
        raise ReelspaceError(
            f"{len(rankings)} rankings cannot be fused with {len(weights)} weights; give one for each."
        )
    scores: dict[Id, float] = {}
    for ranking, weight in zip(rankings, weights, strict=True):
        if len(set(ranking)) != len(ranking):
            raise ReelspaceError("A ranking names something twice; give every id one place in it.")
        for place, key in enumerate(ranking, start=1):
            scores[key] = scores.get(key, 0.0) + weight / (damping + place)
    return sorted(scores.items(), key=lambda row: (-row[1], row[0]))
