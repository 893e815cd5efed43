"""The linear map and the table of vectors that all parts are built of.

Whoever multiplies by a matrix of weights does it here, so that packing, quantising or adapting those matrices is the
work of one place: another `forward`, and another `matrix` for the few who need the numbers themselves. Where the
same numbers are used twice (token vectors that are looked up by an embedding and scored by a head), it is one module
that both hold.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules import module as everywhere

from regard.core.matrix import SMALL, linear, linears


class Dense(nn.Linear):
    """x Wᵀ + b: (…, inputs) to (…, outputs). A torch module underneath, so that its tools find it."""

    exact = False  # whether its weights are never packed: a choice depends on them
    scores = False  # whether what it makes is an answer, and goes through no norm any more

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)

    def score(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """x Wᵀ, and a bias that somebody else owns."""
        return linear(x, self.matrix(), bias)

    def score_in_single(self, x: Tensor) -> Tensor:
        """x Wᵀ in single precision, whatever the weights and autocast say: for a choice that rounding would change."""
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(x.float(), self.matrix().float())

    def matrix(self) -> Tensor:
        """The weights as they count, (outputs, inputs), for who folds them into something else."""
        return self.weight


class Lookup(nn.Embedding):
    """A table of vectors: looked up by number, (…) to (…, size), or compared with a vector as a head does."""

    exact = False  # whether its vectors are never packed
    scores = True  # whether they are compared with a vector, or may be

    def forward(self, numbers: Tensor) -> Tensor:
        return F.embedding(numbers, self.weight)

    def score(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """How well each of its vectors fits x: (…, size) to (…, count)."""
        return linear(x, self.matrix(), bias)

    def matrix(self) -> Tensor:
        """The vectors as they count: (count, size)."""
        return self.weight


def project(x: Tensor, layers: Sequence[nn.Module]) -> Sequence[Tensor]:
    """What several layers make of the same rows; together while they learn, where all are plain and nobody watches."""
    if torch.is_grad_enabled() and is_large(x) and not is_watched() and all(map(is_plain, layers)):
        return linears(x, [(layer.weight, layer.bias) for layer in layers])  # type: ignore[misc]
    return [layer(x) for layer in layers]


def halve(x: Tensor, layer: nn.Module) -> Sequence[Tensor]:
    """The two halves of what a layer makes; while a plain one learns, each has memory of its own."""
    if torch.is_grad_enabled() and is_large(x) and not is_watched() and is_plain(layer):
        weights: Sequence[Tensor] = layer.weight.chunk(2)  # type: ignore[operator]
        biases = (None, None) if layer.bias is None else layer.bias.chunk(2)  # type: ignore[operator]
        return linears(x, list(zip(weights, biases, strict=True)))
    found: Tensor = layer(x)
    return found.chunk(2, -1)


def is_large(x: Tensor) -> bool:
    """Whether there is enough to multiply that asking further is worth while; sizes aren't known in a drawn graph."""
    return not torch.compiler.is_compiling() and x.numel() * x.shape[-1] >= SMALL


def is_plain(layer: nn.Module) -> bool:
    """Whether nothing but its own product happens when it is called."""
    hooks = layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks
    return type(layer) is Dense and "forward" not in vars(layer) and not any(hooks)


def is_watched() -> bool:
    """Whether somebody is told of every module that is called."""
    return bool(
        everywhere._global_forward_hooks
        or everywhere._global_forward_pre_hooks
        or everywhere._global_backward_hooks
        or everywhere._global_backward_pre_hooks
    )
