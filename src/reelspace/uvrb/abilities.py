"""From scores of tasks to the nine abilities and the two averages.

S, T, PR, CG, LC, CMP and VIS are means of their tasks; FG is the mean of S, T, PR; TXT of CG, FG, LC. AVG-A is the mean
of TXT, CMP, VIS, CG, FG, LC; AVG-D that of all tasks. Each is a sum of task scores with fixed weights, and all
statistics are made of these weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from reelspace.uvrb.tasks import ABILITIES, HIERARCHY, suite

AVERAGED = ("TXT", "CMP", "VIS", "CG", "FG", "LC")
"""What AVG-A is the mean of."""

AVERAGES = ("AVG-D", "AVG-A")
COLUMNS = (*AVERAGES, *ABILITIES)
"""Both averages, and the abilities."""


@cache
def weights(ability: str, suite_name: str = "uvrb") -> dict[str, float]:
    """Task → its share in an ability or average; the shares sum to 1. Empty where the suite has no such ability."""
    tasks = suite(suite_name)
    if ability == "AVG-D":
        return dict.fromkeys(tasks, 1 / len(tasks))
    parts = AVERAGED if ability == "AVG-A" else HIERARCHY.get(ability, ())
    if not parts:
        own = [name for name, task in tasks.items() if task.ability == ability]
        return dict.fromkeys(own, 1 / len(own)) if own else {}
    found: dict[str, float] = {}
    for part in parts:
        below = weights(part, suite_name)
        if not below:
            return {}
        for task, share in below.items():
            found[task] = found.get(task, 0.0) + share / len(parts)
    return {task: found[task] for task in tasks if task in found}


def columns(suite_name: str) -> tuple[str, ...]:
    """The averages and abilities that a suite has."""
    return tuple(column for column in COLUMNS if weights(column, suite_name))


def abilities(scores: Mapping[str, float], suite_name: str = "uvrb") -> dict[str, float | None]:
    """Every ability and average of a suite; `None` where a task of it has no score."""
    found: dict[str, float | None] = {}
    for column in columns(suite_name):
        shares = weights(column, suite_name)
        whole = all(task in scores for task in shares)
        found[column] = sum(share * scores[task] for task, share in shares.items()) if whole else None
    return found


def matrix(tasks: list[str], wanted: list[str], suite_name: str) -> NDArray[np.float64]:
    """Weights `[tasks, abilities]`: task scores times it are the abilities."""
    return np.array([[weights(column, suite_name).get(task, 0.0) for column in wanted] for task in tasks])
