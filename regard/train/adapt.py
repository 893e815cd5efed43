"""Fine-tuning of a part of a model: weights that are frozen by name, and low-rank adapters beside frozen matrices.

An adapter is a parametrization of a linear layer's weight, so whoever reads that weight sees the changed one, and no
mixer knows of it. What fine-tuning added to a model is trained beside: weights that start anew are trained whole, and
of a table that has gained rows, those rows. What was trained is a few tensors under names of their own
(`….query.lora.down`, `….tokens.weight.added`), and together with the base they make the state dictionary of a plain
model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field, TypeAdapter, ValidationError
from torch import Tensor, nn
from torch.nn.utils import parametrize

from regard.core.dense import Dense
from regard.core.hint import suggest
from regard.core.registry import Kinds
from regard.core.spec import Positive, Size, Spec
from regard.errors import CheckpointError, SpecError

HEAD = "head."
LORA = ".lora."
ROWS = ".added"  # rows that a table has gained
TOLD = 10  # problems that are told of a file


@dataclass(frozen=True)
class Fresh:
    """What fine-tuning added to a model: weights that start anew, and how many rows tables had that have more now."""

    whole: tuple[str, ...] = ()  # names, or patterns of them
    rows: Mapping[str, int] = field(default_factory=dict)  # by the table's name

    @classmethod
    def read(cls, state: Mapping[str, Any]) -> Fresh:
        """What a run kept of it; runs from before this trained all of the head, and no rows."""
        if "fresh" not in state:
            return cls((f"{HEAD}*",))
        try:
            return TypeAdapter(cls).validate_python(state["fresh"])
        except ValidationError:
            raise CheckpointError("start: damaged, what fine-tuning added can't be read") from None


NOTHING = Fresh()


def plain(name: str) -> str:
    """A weight's name without torch's parametrizations: `….query.weight`, `….query.lora.down`, `….weight.added`."""
    name = re.sub(r"\.parametrizations\.(\w+)\.original$", r".\1", name)
    name = re.sub(r"\.parametrizations\.(\w+)\.0\.added$", rf".\1{ROWS}", name)
    return name.replace(".parametrizations.weight.0.", LORA)


def freeze(model: nn.Module, patterns: Sequence[str]) -> int:
    """Keep the weights whose names match from being trained (`encoder.embedding.*`); how many numbers that is."""
    weights = {plain(name): weight for name, weight in model.named_parameters()}
    chosen = matching(weights, patterns, "freeze: no weight matches")
    if not any(weight.requires_grad for name, weight in weights.items() if name not in chosen):
        raise SpecError(
            f"freeze: {', '.join(patterns)} leave nothing to train: all {len(weights)} weights are frozen",
            "patterns that leave out the head or the upper blocks",
        )
    for name in chosen:
        weights[name].requires_grad_(False)
    return sum(weights[name].numel() for name in chosen)


def matching(names: Collection[str], patterns: Sequence[str], complaint: str) -> set[str]:
    """The names that match a pattern; each pattern must have some."""
    found: set[str] = set()
    for pattern in patterns:
        some = {name for name in names if fnmatchcase(name, pattern)}
        if not some:
            raise SpecError(f"{complaint} {pattern!r}{nearest(pattern, names)}")
        found |= some
    return found


def nearest(pattern: str, names: Collection[str]) -> str:
    """What a pattern may have meant: names with a star for each number, cut where the pattern has a star."""
    if not names:
        return "; this model has none"
    starred = re.sub(r"(?<=\.)\d+(?=\.|$)", "*", pattern)
    parts = [["*" if part.isdigit() else part for part in name.split(".")] for name in names]
    if pattern.startswith("*"):
        known = {".".join(["*", *some[-length:]]) for some in parts for length in (1, 2)}
    elif pattern.endswith("*"):
        known = {".".join([*some[:length], "*"]) for some in parts for length in range(1, len(some))}
    else:
        known = {".".join(some) for some in parts}
    return suggest(starred, known)


class AdaptSpec(Spec):
    """How a trained model is changed by training few weights."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = "train.adapt"
    usual: ClassVar[str | None] = "lora"

    def attach(self, model: nn.Module, fresh: Fresh) -> None:
        """Freeze a model but for what is to be learned; `fresh`: what the model it began from didn't have."""
        raise NotImplementedError


class Lora(AdaptSpec):
    """Matrices stay as they are, and a product of two thin ones is learned beside them (Hu et al. 2022)."""

    kind: Literal["lora"] = "lora"
    rank: Size = 8
    """The product's rank."""
    alpha: Positive = 16.0
    """The product counts alpha / rank times, so the learning rate needn't follow the rank."""
    targets: Annotated[tuple[str, ...], Field(min_length=1)] = ("*.query", "*.value")
    """Linear layers whose names match one of these patterns get an adapter."""
    whole: tuple[str, ...] = ()
    """Weights whose names match are trained themselves, beside those that are new, such as `head.*`."""

    @property
    def scale(self) -> float:
        return self.alpha / self.rank

    def attach(self, model: nn.Module, fresh: Fresh = NOTHING) -> None:
        """Freeze all that isn't new or asked for, and put an adapter on each target; until a step, nothing changes."""
        weights = dict(model.named_parameters())
        whole = {name for name in weights if any(fnmatchcase(name, pattern) for pattern in fresh.whole)}
        whole |= matching(weights, self.whole, "whole: no weight matches")
        chosen = self.chosen(model, whole)
        # an adapter changes all rows of its matrix, those that are new among them; what is frozen by name stays so
        grown = [name for name in fresh.rows if name in weights and name.rpartition(".")[0] not in chosen]
        grown = [name for name in grown if name not in whole and weights[name].requires_grad]
        for name, weight in weights.items():
            if name not in whole:
                weight.requires_grad_(False)
        for linear in chosen.values():
            parametrize.register_parametrization(linear, "weight", LoraWeight(linear.weight, self.rank, self.scale))
        for name in grown:
            part, _, own = name.rpartition(".")
            parametrize.register_parametrization(
                model.get_submodule(part), own, GrownRows(weights[name], fresh.rows[name]), unsafe=True
            )

    def chosen(self, model: nn.Module, whole: Collection[str]) -> dict[str, Dense]:
        """The layers to adapt, once it is sure that all can be; what is trained whole needs no adapter."""
        linears = {
            name: module
            for name, module in model.named_modules()
            if isinstance(module, Dense) and f"{name}.weight" not in whole
        }
        names = matching(linears, self.targets, "targets: no linear layer that is to be adapted matches")
        chosen = {name: linear for name, linear in linears.items() if name in names}
        for name, linear in chosen.items():
            if parametrize.is_parametrized(linear):
                raise SpecError(f"targets: {name} has an adapter already", "settle(model)")
            side = min(linear.in_features, linear.out_features)
            if self.rank > side:
                raise SpecError(f"rank: {self.rank} is more than the smaller side of {name}, {side}", f"rank={side}")
        return chosen


class LoraWeight(nn.Module):
    """W + scale · up down: `down` starts as torch's own linear layers do, `up` at zero."""

    def __init__(self, weight: Tensor, rank: int, scale: float) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.scale = scale
        self.down = nn.Parameter(weight.new_empty(rank, columns))
        self.up = nn.Parameter(weight.new_zeros(rows, rank))
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, weight: Tensor) -> Tensor:
        return add_low_rank(weight, self.down, self.up, self.scale)


def add_low_rank(weight: Tensor, down: Tensor, up: Tensor, scale: float) -> Tensor:
    """W + scale · up down: (out, in), from (out, rank) and (rank, in)."""
    return weight + (scale * up) @ down


class GrownRows(nn.Module):
    """A table of which the rows that it has gained are learned, and the others stay."""

    def __init__(self, weight: Tensor, known: int) -> None:
        super().__init__()
        self.known = known
        self.added = nn.Parameter(weight.detach()[known:].clone())

    def forward(self, weight: Tensor) -> Tensor:
        return torch.cat((weight[: self.known], self.added))


def adapters(model: nn.Module) -> dict[str, Tensor]:
    """All that is trained, by plain names: the adapters, new rows, and what else isn't frozen."""
    return {plain(name): weight.detach() for name, weight in model.named_parameters() if weight.requires_grad}


def merge_lora(
    base: Mapping[str, Tensor], added: Mapping[str, Tensor], spec: Lora, fresh: Fresh = NOTHING
) -> dict[str, Tensor]:
    """The state dictionary of the plain model that a base and its adapters make.

    A base without any head takes the one that was trained.
    """
    shapes = expect_shapes(base, added, spec, fresh)
    _insist(misfits(shapes, added))
    result = dict(base)
    for name in list_adapted(added):
        down, up = added[f"{name}{LORA}down"], added[f"{name}{LORA}up"]
        result[f"{name}.weight"] = add_low_rank(base[f"{name}.weight"], down, up, spec.scale)
    for name, tensor in added.items():
        if name.endswith(ROWS):
            table = name.removesuffix(ROWS)
            result[table] = torch.cat((base[table][: -len(tensor)], tensor))
        elif LORA not in name:
            result[name] = tensor
    return result


def list_adapted(added: Collection[str]) -> list[str]:
    """The names of the layers that have adapters."""
    return sorted({name.rpartition(LORA)[0] for name in added if LORA in name})


def expect_shapes(
    base: Mapping[str, Tensor], added: Mapping[str, Tensor], spec: Lora, fresh: Fresh
) -> dict[str, tuple[int, ...]]:
    """The shapes that trained tensors must have beside this base; refused where base, names and spec disagree."""
    shapes: dict[str, tuple[int, ...]] = {}
    layers, problems = list_adapted(added), []
    for name in layers:
        weight = base.get(f"{name}.weight")
        if weight is None or weight.dim() != 2:
            there = "has no such weight" if weight is None else f"has shape {tuple(weight.shape)} there"
            problems.append(f"{name}.weight: the base {there}, and there is an adapter for it")
            continue
        if not any(fnmatchcase(name, pattern) for pattern in spec.targets):
            problems.append(f"{name}: has an adapter, and none of the targets {', '.join(spec.targets)} matches it")
        shapes[f"{name}{LORA}down"] = (spec.rank, weight.shape[1])
        shapes[f"{name}{LORA}up"] = (weight.shape[0], spec.rank)
    for pattern in spec.targets:
        if not any(fnmatchcase(name, pattern) for name in layers):
            problems.append(f"{pattern}: a target, and there is no adapter for it")
    _insist(problems)
    headless = not any(name.startswith(HEAD) for name in base)
    for name, tensor in added.items():
        table = name.removesuffix(ROWS)
        if name in base:
            shapes[name] = tuple(base[name].shape)
        elif table in base and table in fresh.rows:
            shapes[name] = (len(base[table]) - fresh.rows[table], *base[table].shape[1:])
        elif headless and name.startswith(HEAD):
            shapes[name] = tuple(tensor.shape)
    return shapes


def restore(model: nn.Module, added: Mapping[str, Tensor]) -> None:
    """Fill the adapters and the head of a model that has them."""
    own = adapters(model)
    _insist(misfits({name: tuple(tensor.shape) for name, tensor in own.items()}, added))
    with torch.no_grad():
        for name, tensor in added.items():
            own[name].copy_(tensor)


def settle(model: nn.Module) -> None:
    """Leave the changed matrices in the adapters' place: a plain model again, whose frozen weights stay frozen."""
    for module in list(model.modules()):
        if parametrize.is_parametrized(module):
            for name in list(module.parametrizations):  # type: ignore[arg-type]
                parametrize.remove_parametrizations(module, name, leave_parametrized=True)


def misfits(shapes: Mapping[str, tuple[int, ...]], added: Mapping[str, Tensor]) -> Iterator[str]:
    """What is wrong with trained tensors: names, shapes, and what no weight can be."""
    for name, tensor in added.items():
        if name not in shapes:
            yield f"{name}: the model has no such weight"
        elif tuple(tensor.shape) != shapes[name]:
            yield f"{name}: shape {tuple(tensor.shape)}, and the model's is {shapes[name]}"
        elif not tensor.is_floating_point() or tensor.dtype.itemsize == 1:
            yield f"{name}: numbers of the type {tensor.dtype}, which isn't for weights"
        elif not tensor.isfinite().all():
            yield f"{name}: holds numbers that aren't finite"
    yield from (f"{name}: missing" for name in shapes if name not in added)


def _insist(problems: Iterator[str] | Sequence[str]) -> None:
    lines = list(problems)
    if lines:
        more = f"\n  and {len(lines) - TOLD} more" if len(lines) > TOLD else ""
        raise CheckpointError("the adapters don't fit the model:\n  " + "\n  ".join(lines[:TOLD]) + more)
