"""Muon (Jordan et al., 2024): steps along matrices whose singular values are all about one.

PyTorch's own does its Newton–Schulz iteration in bfloat16, which a CPU without instructions for it does a hundred times
slower than float32; and it does it matrix by matrix, where those of one shape can go together.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import torch

_A, _B, _C = 3.4445, -4.7750, 2.0315


class Muon(torch.optim.Optimizer):  # type: ignore[misc]
    """Momentum with Nesterov's look ahead, made orthogonal, with decoupled weight decay.

    For matrices, and for filters as rows of one.
    The learning rate of a matrix grows with the square root of rows over columns where there are more rows.
    """

    def __init__(self, weights: Any, lr: float, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        super().__init__(weights, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def step(self, closure: Any = None) -> None:
        """One step."""
        with torch.no_grad():
            for group in self.param_groups:
                alike: dict[torch.Size, list[torch.Tensor]] = defaultdict(list)
                for weight in group["params"]:
                    if weight.grad is not None:
                        alike[weight.shape].append(weight)
                for weights in alike.values():
                    self._together(weights, group)

    def _together(self, weights: list[torch.Tensor], group: dict[str, Any]) -> None:
        moved = torch.stack([self._moved(weight, group["momentum"]).flatten(1) for weight in weights])
        rate = group["lr"] * max(1.0, moved.shape[1] / moved.shape[2]) ** 0.5
        for weight, way in zip(weights, orthogonal(moved), strict=True):
            weight.mul_(1 - group["lr"] * group["weight_decay"]).sub_(way.view(weight.shape), alpha=rate)

    def _moved(self, weight: torch.Tensor, momentum: float) -> torch.Tensor:
        gradient, state = weight.grad, self.state[weight]
        assert gradient is not None
        held = state.setdefault("momentum", torch.zeros_like(weight))
        held.lerp_(gradient, 1 - momentum)
        return gradient.lerp(held, momentum)


def orthogonal(matrices: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Matrices `[n, rows, columns]` with singular values near one and the directions they had (Newton–Schulz)."""
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.transpose(1, 2) if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return x.transpose(1, 2) if tall else x
