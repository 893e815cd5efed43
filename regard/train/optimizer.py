"""Optimizers: Adam, AdamW, SGD, Adafactor; which weights decay; and their state as named tensors.

Matrices decay, and biases, norms and other vectors don't. A state is tensors by the weight's name, so it can be saved
as plain data and read back into a model that is built anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.core.spec import Positive, Rate, Spec
from regard.errors import CheckpointError

Decay = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class OptimizerSpec(Spec):
    """How weights are moved."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}
    usual: ClassVar[str | None] = "adamw"
    rate: Positive = 1e-3  # the peak; the schedule multiplies it
    decay: Decay = 0.0  # of matrices

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        return self.make(groups(model, self.decay))

    def make(self, parameters: list[dict[str, Any]]) -> torch.optim.Optimizer:
        raise NotImplementedError


class Adam(OptimizerSpec):
    """Kingma & Ba 2015; decay, if any, is added to the gradient. The 2017 Transformer takes β₂ = 0.98, ε = 1e-9."""

    kind: Literal["adam"] = "adam"
    betas: tuple[Rate, Rate] = (0.9, 0.98)
    epsilon: Positive = 1e-9

    def make(self, parameters: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, self.rate, self.betas, self.epsilon, fused=True)


class AdamW(OptimizerSpec):
    """Adam whose decay is apart from the gradient (Loshchilov & Hutter 2019)."""

    kind: Literal["adamw"] = "adamw"
    decay: Decay = 0.01
    betas: tuple[Rate, Rate] = (0.9, 0.98)
    epsilon: Positive = 1e-8

    def make(self, parameters: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, self.rate, self.betas, self.epsilon, fused=True)


class SGD(OptimizerSpec):
    """Stochastic gradient descent, with momentum if wanted."""

    kind: Literal["sgd"] = "sgd"
    rate: Positive = 0.1
    momentum: Rate = 0.0
    nesterov: bool = False

    def make(self, parameters: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, self.rate, self.momentum, nesterov=self.nesterov)


class Adafactor(OptimizerSpec):
    """Second moments by row and column, so that the state is small (Shazeer & Stern 2018)."""

    kind: Literal["adafactor"] = "adafactor"
    rate: Positive = 1e-2

    def make(self, parameters: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.Adafactor(parameters, self.rate)


def groups(model: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Matrices, which decay, and the rest, which doesn't; in the order of their names."""
    named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    matrices = [weight for _, weight in named if weight.dim() > 1]
    others = [weight for _, weight in named if weight.dim() <= 1]
    parts = ((matrices, decay), (others, 0.0))
    return [{"params": weights, "weight_decay": amount} for weights, amount in parts if weights]


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def packed(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's state as tensors: `decoder.blocks.0.mix.inner.query.weight/exp_avg`."""
    found: dict[str, Tensor] = {}
    for name, weight in model.named_parameters():
        for key, value in optimizer.state.get(weight, {}).items():
            if value is not None:
                found[f"{name}/{key}"] = value if isinstance(value, Tensor) else torch.tensor(value)
    return found


def unpack(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put a saved state back."""
    names = {id(weight): name for name, weight in model.named_parameters()}
    order = [weight for group in optimizer.param_groups for weight in group["params"]]
    numbers = {names[id(weight)]: number for number, weight in enumerate(order)}
    state: dict[int, dict[str, Tensor]] = {}
    for path, tensor in tensors.items():
        name, _, key = path.rpartition("/")
        if name not in numbers:
            raise CheckpointError(f"optimizer.safetensors: the model has no weight {name!r}")
        weight = order[numbers[name]]
        if key in ("exp_avg", "exp_avg_sq", "momentum_buffer") and tensor.shape != weight.shape:
            shapes = f"{tuple(tensor.shape)}, and the weight {tuple(weight.shape)}"
            raise CheckpointError(f"optimizer.safetensors: {path} has shape {shapes}")
        if tensor.is_floating_point() and not tensor.float().isfinite().all():
            raise CheckpointError(f"optimizer.safetensors: {path} holds numbers that aren't finite")
        if key == "step" and tensor.numel() != 1:
            raise CheckpointError(f"optimizer.safetensors: {path} isn't one number")
        state.setdefault(numbers[name], {})[key] = tensor
    for matrix in (True, False):  # a weight that never had a gradient has nothing; the others have all the same
        alike = {frozenset(kept) for number, kept in state.items() if (order[number].dim() > 1) == matrix}
        if len(alike) > 1:
            raise CheckpointError("optimizer.safetensors: damaged, it doesn't hold the same of every weight")
    if not state and "betas" in optimizer.defaults:
        raise CheckpointError("optimizer.safetensors: damaged, there is nothing in it")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
