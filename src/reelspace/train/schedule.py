"""Which task each step of an epoch is given to: the Modality Pyramid (GVE §3.3) and its simpler siblings.

A schedule is asked once an epoch. What it may go by is measured before: how well each task is aligned, and what its
loss was. It answers with the share of every task, or, where order matters, with the tasks themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from reelspace.errors import ReelspaceError

Shares = NDArray[np.float64]
LEAST_CONTRAST = 0.1
"""Standard deviations that tell a pair from any other; less is chance."""
Measure = Literal["alignment", "loss"]


@dataclass(frozen=True)
class Alignment:
    """How near a prober puts the two sides of a task's pairs.

    Attributes:
        matched: R_k, the mean cosine of N positive pairs (GVE §3.3).
        mismatched: the mean cosine of the same queries with one another's candidates.
        spread: the standard deviation of those.
    """

    matched: float
    mismatched: float
    spread: float

    @property
    def contrast(self) -> float:
        """How many standard deviations a pair stands above what any two items of the task have in common."""
        return (self.matched - self.mismatched) / max(self.spread, 1e-6)


@dataclass(frozen=True)
class Epoch:
    """What is known when an epoch begins.

    Attributes:
        number: which it is, from 0.
        epochs: how many there are.
        tasks: names, in the order of the mixture.
        batches: how many batches each task's rows make, in that order.
        alignment: task → what the prober found; empty unless the schedule needs it.
        loss: task → its mean loss in the epoch before; empty in the first, and for tasks that were not drawn.
    """

    number: int
    epochs: int
    tasks: tuple[str, ...]
    batches: tuple[float, ...]
    alignment: Mapping[str, Alignment] = field(default_factory=dict)
    loss: Mapping[str, float] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Σ n_k / B_k: as many as it takes to see every row once if all were drawn alike."""
        return max(1, round(sum(self.batches)))


class Schedule(Protocol):
    """Gives every step of an epoch to one task."""

    @property
    def needs(self) -> Measure | None:
        """What has to be measured before an epoch."""

    def draw(self, epoch: Epoch, random: np.random.Generator) -> NDArray[np.int64]:
        """The task of each step, as its place in `epoch.tasks`: int64 `[epoch.steps]`."""


class _Shared(ABC):
    """Every step drawn by the same shares, whatever was drawn before."""

    needs: ClassVar[Measure | None] = None

    @abstractmethod
    def shares(self, epoch: Epoch) -> Shares:
        """The probability of each task: float64 `[tasks]`, sum 1."""

    def draw(self, epoch: Epoch, random: np.random.Generator) -> NDArray[np.int64]:
        return random.choice(len(epoch.tasks), size=epoch.steps, p=self.shares(epoch))


@dataclass(frozen=True)
class Pyramid(_Shared):
    """P(k) ∝ exp(R_k / σ): what is well aligned first, and everything nearly alike in the end (GVE §3.3).

    Attributes:
        first, last: σ of the first and of the last epoch; it rises linearly between them. A single epoch has the first.
        score: `cosine`: R_k itself, as in the paper. `contrast`: `Alignment.contrast`, with the highest of all tasks
            set to 1. Texts lie far nearer to texts than to pictures, matched or not, so that by raw cosines the tasks
            of texts alone can swallow the first epoch; a z-score against each task's own mismatched pairs cannot be
            raised by what all pairs of a kind have in common.
    """

    first: float = 0.1
    last: float = 1.0
    score: Literal["cosine", "contrast"] = "cosine"
    needs: ClassVar[Measure | None] = "alignment"

    def sigma(self, epoch: Epoch) -> float:
        """σ(t)."""
        passed = epoch.number / (epoch.epochs - 1) if epoch.epochs > 1 else 0.0
        return self.first + (self.last - self.first) * passed

    def shares(self, epoch: Epoch) -> Shares:
        missing = [task for task in epoch.tasks if task not in epoch.alignment]
        if missing:
            raise ReelspaceError(f"The Pyramid needs the alignment of every task; {', '.join(missing)} was not probed.")
        found = [epoch.alignment[task] for task in epoch.tasks]
        scores = np.array([row.matched if self.score == "cosine" else row.contrast for row in found])
        if self.score == "contrast":
            # Where no task's pairs stand out, none is preferred by more than it is worth.
            scores = scores / max(float(scores.max()), LEAST_CONTRAST)
        return _softmax(scores / self.sigma(epoch))


@dataclass(frozen=True)
class Uniform(_Shared):
    """All tasks alike."""

    def shares(self, epoch: Epoch) -> Shares:
        return _normalised(np.ones(len(epoch.tasks)))


@dataclass(frozen=True)
class Proportional(_Shared):
    """By size, so that every row is expected once an epoch."""

    def shares(self, epoch: Epoch) -> Shares:
        return _normalised(np.array(epoch.batches))


@dataclass(frozen=True)
class Fixed(_Shared):
    """By weights that were given."""

    weights: Mapping[str, float]

    def shares(self, epoch: Epoch) -> Shares:
        if set(self.weights) != set(epoch.tasks) or min(self.weights.values()) < 0 or not any(self.weights.values()):
            raise ReelspaceError(f"Give one weight ≥ 0 for each of {', '.join(epoch.tasks)}, and not only zeros.")
        return _normalised(np.array([self.weights[task] for task in epoch.tasks], dtype=np.float64))


@dataclass(frozen=True)
class LossWeighted(_Shared):
    """By the loss of the epoch before: what is learnt least is shown most. In the first epoch, and for a task that was
    not drawn, the mean of the others stands in.
    """

    needs: ClassVar[Measure | None] = "loss"

    def shares(self, epoch: Epoch) -> Shares:
        known = list(epoch.loss.values())
        usual = float(np.mean(known)) if known else 1.0
        return _normalised(np.array([max(epoch.loss.get(task, usual), 1e-6) for task in epoch.tasks]))


@dataclass(frozen=True)
class RoundRobin:
    """One after the other, in the order of the mixture."""

    needs: ClassVar[Measure | None] = None

    def draw(self, epoch: Epoch, random: np.random.Generator) -> NDArray[np.int64]:
        return np.arange(epoch.steps, dtype=np.int64) % len(epoch.tasks)


def _softmax(scores: NDArray[np.float64]) -> Shares:
    grown = np.exp(scores - scores.max())
    return _normalised(grown)


def _normalised(weights: NDArray[np.float64]) -> Shares:
    return np.asarray(weights / weights.sum(), dtype=np.float64)
