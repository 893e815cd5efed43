"""Muon: momentum whose matrix is made orthogonal before it is taken as a step (Jordan et al. 2024).

The gradient of a matrix is mostly a few directions. A step that moves all directions alike learns as much from fewer
pictures or sentences. A step is as large as Adam's would be (Liu et al. 2025), so that rates and decays carry over.
What is no matrix, and tables and heads, whose rows are met one by one, is moved by AdamW.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
        pushed = [torch.stack([self.push(weight, group["momentum"]) for weight in each]) for each in alike.values()]
        for (shape, matrices), steps in zip(alike.items(), make_orthogonal(pushed), strict=True):
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


def make_orthogonal(stacks: Sequence[Tensor]) -> list[Tensor]:
    """U Vᵀ of each U S Vᵀ, roughly: singular values that aren't tiny come near 1. (count, rows, columns) to the same.

    Newton and Schulz's rounds multiply from the left by polynomials of X Xᵀ. These are gathered in one square matrix of
    the shorter side, and the long matrix is touched twice instead of three times a round. Squares of one side go
    through the rounds together, whatever they were made of.
    """
    lying = [lay_down(stack) for stack in stacks]  # (count, shorter, longer)
    squares = [matmuls(x, x.mT) for x in lying]
    alike: dict[int, list[int]] = {}
    for place, square in enumerate(squares):
        alike.setdefault(square.shape[-1], []).append(place)
    for places in alike.values():
        gathered = gather_rounds(torch.cat([squares[place] for place in places]))
        for place, part in zip(places, gathered.split([len(squares[place]) for place in places]), strict=True):
            squares[place] = part
    turned = [matmuls(square, x) for square, x in zip(squares, lying, strict=True)]
    return [
        (y.mT if stack.shape[-2] > stack.shape[-1] else y).to(stack.dtype)
        for y, stack in zip(turned, stacks, strict=True)
    ]


def lay_down(matrices: Tensor) -> Tensor:
    """No taller than wide, and of norm 1."""
    x = (matrices.mT if matrices.shape[-2] > matrices.shape[-1] else matrices).float()
    return x / x.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-20)


def gather_rounds(gram: Tensor) -> Tensor:
    """What all rounds together multiply by, from X Xᵀ: (count, shorter, shorter)."""
    gathered = factor = find_factor(gram)
    for _ in range(ROUNDS - 1):
        gram = matmuls(matmuls(factor, gram), factor)
        factor = find_factor(gram)
        gathered = matmuls(factor, gathered)
    return gathered


def find_factor(gram: Tensor) -> Tensor:
    """a + b G + c G², by which a round multiplies."""
    a, b, c = QUINTIC
    factor = torch.add(b * gram, matmuls(gram, gram), alpha=c)
    factor.diagonal(dim1=-2, dim2=-1).add_(a)
    return factor
