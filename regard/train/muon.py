"""Muon: momentum whose matrix is made orthogonal before it is taken as a step (Jordan et al. 2024).

The gradient of a matrix is mostly a few directions. A step that moves all directions alike learns as much from fewer
pictures or sentences. A step is as large as Adam's would be (Liu et al. 2025), so that rates and decays carry over.
What is no matrix, and tables and heads, whose rows are met one by one, is moved by AdamW.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.core.matrix import matmuls
from regard.train.adam import move

# a, b and c of x → a x + b x³ + c x⁵, by which five rounds bring all of 0.001 … 1 to 0.5 … 1.2; from the authors' code
QUINTIC = (3.4445, -4.7750, 2.0315)
ROUNDS = 5
ADAMS = 0.2  # the usual root mean square of Adam's steps, in units of the rate


class OrthogonalMomentum(torch.optim.Optimizer):
    """Groups of `maps` move by Muon, the others by AdamW."""

    def __init__(
        self, groups: list[dict[str, Any]], rate: float, momentum: float, betas: tuple[float, float], epsilon: float
    ) -> None:
        defaults = {"lr": rate, "momentum": momentum, "betas": betas, "eps": epsilon, "decoupled": True, "fused": True}
        super().__init__(groups, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if group["maps"]:
                self.turn(weights, group)
            else:
                move(weights, self.state, group)

    def turn(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Move matrices; those of one shape together, since many are small."""
        alike: dict[tuple[int, ...], list[Tensor]] = {}
        for weight in weights:
            alike.setdefault(tuple(weight.shape), []).append(weight)
        for shape, matrices in alike.items():
            steps = make_orthogonal(torch.stack([self.push(weight, group["momentum"]) for weight in matrices]))
            size = ADAMS * max(steps.shape[-2:]) ** 0.5
            for weight, step in zip(matrices, steps, strict=True):
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(step.view(shape), alpha=-group["lr"] * size)

    def push(self, weight: Tensor, momentum: float) -> Tensor:
        """Nesterov's momentum as a matrix; a kernel of a convolution is a row for each of its outputs."""
        assert weight.grad is not None
        state = self.state[weight]
        if not state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        state["momentum_buffer"].lerp_(weight.grad, 1 - momentum)
        return weight.grad.lerp(state["momentum_buffer"], momentum).flatten(1)


def make_orthogonal(matrices: Tensor) -> Tensor:
    """U Vᵀ of each U S Vᵀ, roughly: singular values that aren't tiny come near 1. (count, rows, columns) to the same.

    Newton and Schulz's rounds multiply from the left by polynomials of X Xᵀ. These are gathered in one square matrix of
    the shorter side, and the long matrix is touched twice instead of three times a round.
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if tall else matrices
    x = x.float() / x.float().norm(dim=(-2, -1), keepdim=True).clamp(min=1e-20)
    gram = matmuls(x, x.mT)  # (count, shorter, shorter)
    gathered = find_factor(gram)
    factor = gathered
    for _ in range(ROUNDS - 1):
        gram = matmuls(matmuls(factor, gram), factor)
        factor = find_factor(gram)
        gathered = matmuls(factor, gathered)
    y = matmuls(gathered, x)
    return (y.mT if tall else y).to(matrices.dtype)


def find_factor(gram: Tensor) -> Tensor:
    """a + b G + c G², by which a round multiplies."""
    a, b, c = QUINTIC
    factor = torch.add(b * gram, matmuls(gram, gram), alpha=c)
    factor.diagonal(dim1=-2, dim2=-1).add_(a)
    return factor
