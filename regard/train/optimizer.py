"""Optimizers: Adam, AdamW, Muon, SGD, Adafactor; which weights decay; and their state as named tensors.

Matrices decay, token and position vectors among them, as in BERT and GPT. Biases, norms and other vectors don't, nor
what a part keeps from it: a state space's poles, where a head stands at first, a bias on scores. Lower blocks may learn
more slowly than upper ones, as in fine-tuning. A state is tensors by the weight's name, so it can be saved as plain
data and read back into a model that is built anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.core.dense import Lookup
from regard.core.mixer import Part
from regard.core.model import Model
from regard.core.registry import Kinds
from regard.core.spec import Positive, Rate, Spec
from regard.core.stack import Stack
from regard.errors import CheckpointError
from regard.train.adam import CompiledAdam
from regard.train.adapt import plain
from regard.train.muon import OrthogonalMomentum

Fraction = Annotated[float, Field(gt=0, le=1)]
Decay = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class OptimizerSpec(Spec):
    """How weights are moved."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = "train.optimizer"
    usual: ClassVar[str | None] = "adamw"
    parts_maps: ClassVar[bool] = False  # whether matrices that map vectors to vectors are moved in another way
    rate: Positive = 1e-3
    """The learning rate at its peak; the schedule multiplies it."""
    decay: Decay = 0.0
    """The weight decay of matrices, but for those that a part keeps from it."""
    layerwise: Fraction = 1.0
    """Each block's rate is this much of that of the block above it."""

    def build(self, model: nn.Module) -> torch.optim.Optimizer:
        optimizer = self.make(groups(model, self.decay, self.layerwise, self.parts_maps))
        set_rate(optimizer, self.rate)
        return optimizer

    def make(self, parameters: list[dict[str, Any]]) -> torch.optim.Optimizer:
        raise NotImplementedError


class Adam(OptimizerSpec):
    """Kingma & Ba 2015; decay, if any, is added to the gradient. The 2017 Transformer takes β₂ = 0.98, ε = 1e-9."""

    kind: Literal["adam"] = "adam"
    betas: tuple[Rate, Rate] = (0.9, 0.98)
    """The decays of the two running averages: of the gradient, and of its square."""
    epsilon: Positive = 1e-9
    """This is added to the denominator."""

    def make(self, parameters: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return CompiledAdam(parameters, self.rate, self.betas, self.epsilon, decoupled=False)


class AdamW(OptimizerSpec):
    """Adam whose decay is apart from the gradient (Loshchilov & Hutter 2019)."""

    kind: Literal["adamw"] = "adamw"
    decay: Decay = 0.01
    betas: tuple[Rate, Rate] = (0.9, 0.98)
    """The decays of the two running averages: of the gradient, and of its square."""
    epsilon: Positive = 1e-8
    """This is added to the denominator."""

    def make(self, parameters: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return CompiledAdam(parameters, self.rate, self.betas, self.epsilon, decoupled=True)


class Muon(OptimizerSpec):
    """Matrices move by their momentum made orthogonal (Jordan et al. 2024), all else by AdamW, at the same rate."""

    parts_maps: ClassVar[bool] = True
    kind: Literal["muon"] = "muon"
    decay: Decay = 0.01
    momentum: Rate = 0.95
    """This much of a matrix's running average of gradients is kept in the next."""
    betas: tuple[Rate, Rate] = (0.9, 0.98)
    """For all else, the decays of AdamW's two running averages."""
    epsilon: Positive = 1e-8
    """This is added to AdamW's denominator."""

    def make(self, parameters: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return OrthogonalMomentum(parameters, self.rate, self.momentum, self.betas, self.epsilon)


class SGD(OptimizerSpec):
    """Stochastic gradient descent, with momentum if wanted."""

    kind: Literal["sgd"] = "sgd"
    rate: Positive = 0.1
    momentum: Rate = 0.0
    """This much of the last step is kept in the next."""
    nesterov: bool = False
    """The gradient is looked at one step ahead."""

    def make(self, parameters: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, self.rate, self.momentum, nesterov=self.nesterov)


class Adafactor(OptimizerSpec):
    """Second moments by row and column, so that the state is small (Shazeer & Stern 2018)."""

    kind: Literal["adafactor"] = "adafactor"
    rate: Positive = 1e-2

    def make(self, parameters: list[dict[str, Any]]) -> torch.optim.Optimizer:
        return torch.optim.Adafactor(parameters, self.rate)


def groups(model: nn.Module, decay: float, layerwise: float = 1.0, parts_maps: bool = False) -> list[dict[str, Any]]:
    """What decays, and the rest, which doesn't; in the order of their names.

    Where lower blocks learn more slowly (Howard & Ruder 2018), that is so for each `factor` of the rate, from the head
    down: a block's is `layerwise` times that of the block above it. What maps vectors to vectors (matrices and
    convolutions, but no tables and no heads) is a group apart where that is asked for.
    """
    below, spared, tables = levels(model), list_undecayed(model), list_tables(model)
    found: dict[tuple[float, bool, bool], list[Tensor]] = {}
    for name, weight in model.named_parameters():
        if weight.requires_grad:
            decays = weight.dim() > 1 and plain(name) not in spared
            maps = decays and plain(name) not in tables and weight.dim() in (2, 4) and min(weight.shape[:2]) > 1
            found.setdefault((layerwise ** below[name], decays, maps and parts_maps), []).append(weight)
    return [
        {
            "params": found[factor, decays, maps],
            "weight_decay": decay if decays else 0.0,
            "factor": factor,
            "maps": maps,
        }
        for factor, decays, maps in sorted(found, reverse=True)
    ]


def list_undecayed(model: nn.Module) -> set[str]:
    """The names of the weights that parts keep from decay."""
    return {
        f"{path}.{name}".removeprefix(".")
        for path, part in model.named_modules()
        if isinstance(part, Part)
        for name in part.undecayed
    }


def list_tables(model: nn.Module) -> set[str]:
    """The names of the weights whose rows are met one by one: vectors that are looked up, and the head's."""
    tables: list[tuple[str, nn.Module]] = [
        (path, part) for path, part in model.named_modules() if isinstance(part, Lookup)
    ]
    if isinstance(model, Model) and model.head is not None:
        tables.append(("head", model.head))
    return {plain(f"{path}.{name}") for path, part in tables for name, _ in part.named_parameters()}


def levels(model: nn.Module) -> dict[str, int]:
    """How far below the head each weight stands.

    The head and what follows a stack's last block: 0; its top block: 1; its embedding, and positions that all of its
    blocks share: its depth + 1. A table that several parts use stands where it is owned.
    """
    found = dict.fromkeys((name for name, _ in model.named_parameters()), 0)
    for path, stack in model.named_modules():
        if isinstance(stack, Stack):
            depth = len(stack.blocks)
            for name, _ in stack.named_parameters():
                part, _, rest = name.partition(".")
                if part == "blocks":
                    found[f"{path}.{name}"] = depth - int(rest.partition(".")[0])
                elif part in ("embedding", "bias"):
                    found[f"{path}.{name}"] = depth + 1
    return found


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """The rate at the head; lower weights have their share of it."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["factor"]


def pack(optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's state as tensors: `decoder.blocks.0.mix.inner.query.weight/exp_avg`."""
    found: dict[str, Tensor] = {}
    for name, weight in model.named_parameters():
        for key, value in optimizer.state.get(weight, {}).items():
            if value is not None:
                found[f"{plain(name)}/{key}"] = value if isinstance(value, Tensor) else torch.tensor(value)
    return found


def unpack(optimizer: torch.optim.Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Put a saved state back."""
    names = {id(weight): plain(name) for name, weight in model.named_parameters()}
    order = [weight for group in optimizer.param_groups for weight in group["params"]]
    numbers = {names[id(weight)]: number for number, weight in enumerate(order)}
    state: dict[int, dict[str, Tensor]] = {}
    for path, tensor in tensors.items():
        name, _, key = path.rpartition("/")
        if name not in numbers:
            frozen = name in names.values()
            told = f"weight {name!r} was trained, and is frozen now" if frozen else f"the model has no weight {name!r}"
            raise CheckpointError(f"optimizer.safetensors: {told}")
        weight = order[numbers[name]]
        if key in ("exp_avg", "exp_avg_sq", "momentum_buffer") and tensor.shape != weight.shape:
            shapes = f"{tuple(tensor.shape)}, and the weight {tuple(weight.shape)}"
            raise CheckpointError(f"optimizer.safetensors: {path} has shape {shapes}")
        if tensor.is_floating_point() and not tensor.float().isfinite().all():
            raise CheckpointError(f"optimizer.safetensors: {path} holds numbers that aren't finite")
        if key == "step" and tensor.numel() != 1:
            raise CheckpointError(f"optimizer.safetensors: {path} isn't one number")
        state.setdefault(numbers[name], {})[key] = tensor
    maps = {id(weight) for group in optimizer.param_groups if group["maps"] for weight in group["params"]}
    kept_of: dict[tuple[bool, bool], set[frozenset[str]]] = {}
    for number, kept in state.items():  # a weight that never had a gradient has nothing; those of a kind have the same
        weight = order[number]
        kept_of.setdefault((weight.dim() > 1, id(weight) in maps), set()).add(frozenset(kept))
    for alike in kept_of.values():
        if len(alike) > 1:
            raise CheckpointError("optimizer.safetensors: damaged, it doesn't hold the same of every weight")
    if not state and "betas" in optimizer.defaults:
        raise CheckpointError("optimizer.safetensors: damaged, there is nothing in it")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
