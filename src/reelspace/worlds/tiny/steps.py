"""What every stage of training does: steps at a pace, by two optimisers, from batches made aside, kept as it goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from reelspace.errors import ReelspaceError

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How a stage of training goes.

    Attributes:
        steps: optimiser steps.
        rate: highest learning rate; it rises for `warmup` steps, and falls to nothing over the last part `cooldown`.
        rounds: (steps, share of the highest rate) of each rise and fall; none: one, of all steps at all of it.
        muon: highest learning rate of the matrices inside the layers, by Muon.
        decay: weight decay.
        every: steps between two exams, and between two saved states.
    """

    steps: int
    rate: float = 2e-3
    muon: float = 0.02
    warmup: int = 50
    cooldown: float = 0.4
    decay: float = 0.02
    every: int = 100
    rounds: tuple[tuple[int, float], ...] = ()

    def factor(self, step: int) -> float:
        """The learning rate of a step as a share of the highest."""
        rounds = self.rounds or ((self.steps, 1.0),)
        for steps, share in rounds[:-1]:
            if step < steps:
                return share * self._risen(step, steps)
            step -= steps
        steps, share = rounds[-1]
        return share * self._risen(step, steps)

    def _risen(self, step: int, steps: int) -> float:
        left = (steps - step) / (steps * self.cooldown)
        return min(1.0, (step + 1) / self.warmup, left)


class Steps:
    """AdamW, and Muon for the matrices inside the layers, of some modules."""

    def __init__(self, pace: Pace, *modules: torch.nn.Module) -> None:
        import torch

        from reelspace.worlds.tiny.muon import Muon

        named = [pair for module in modules for pair in module.named_parameters() if pair[1].requires_grad]
        inner = [weight for name, weight in named if weight.ndim > 1 and not any(part in name for part in _OUTER)]
        chosen = set(map(id, inner))
        rest = [weight for _, weight in named if id(weight) not in chosen]
        self.pace = pace
        self.weights = [*inner, *rest]
        self.rated: list[tuple[torch.optim.Optimizer, float]] = [
            (torch.optim.AdamW(rest, lr=pace.rate, betas=(0.9, 0.98), weight_decay=pace.decay), pace.rate),
            (Muon(inner, lr=pace.muon, weight_decay=pace.decay), pace.muon),
        ]

    def take(self, loss: torch.Tensor, step: int) -> None:
        """One step down.

        Raises:
            ReelspaceError: the loss is not finite.
        """
        import torch

        loss.backward()
        if not math.isfinite(loss.item()):
            raise ReelspaceError(f"The loss is {loss.item()} at step {step + 1}; lower the learning rate.")
        torch.nn.utils.clip_grad_norm_(self.weights, 1.0)
        for optimiser, highest in self.rated:
            for group in optimiser.param_groups:
                group["lr"] = highest * self.pace.factor(step)
            optimiser.step()
            optimiser.zero_grad()

    def state(self) -> list[dict[str, Any]]:
        """What `restore` takes."""
        return [optimiser.state_dict() for optimiser, _ in self.rated]

    def restore(self, states: list[dict[str, Any]]) -> None:
        """Goes on from a state."""
        for (optimiser, _), held in zip(self.rated, states, strict=True):
            optimiser.load_state_dict(held)


_OUTER = ("embed_tokens", "lm_head", "tellers")


class _Numbered:
    def __init__(self, make: Callable[[int], Any], count: int) -> None:
        self.make, self.count = make, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        return self.make(number)


def numbered(make: Callable[[int], T], start: int, end: int) -> Iterator[tuple[int, T]]:
    """Batches by number, made by a process of their own."""
    from torch.utils.data import DataLoader

    numbers = range(start, end)
    loader = DataLoader(_Numbered(make, end), batch_size=None, sampler=numbers, num_workers=1, prefetch_factor=4)
    return zip(numbers, loader, strict=True)


def keep(state: dict[str, Any], path: Path) -> None:
    """Writes a state, whole or not at all."""
    import torch

    part = path.with_name(path.name + ".part")
    torch.save(state, part)
    part.replace(path)
