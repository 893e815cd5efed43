"""Weights that were computed before, put into a model: copied into its own, or taken as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from regard.core.mixer import Part
from regard.core.model import Model
from regard.errors import CheckpointError

TOLD = 10  # problems that are told of a file


def fill(model: Model, tensors: Mapping[str, Tensor], name: str) -> None:
    """Copy weights into a model's own."""
    check_weights(model, tensors, name)
    model.load_state_dict(tensors)


def place(model: Model, tensors: Mapping[str, Tensor], name: str) -> None:
    """Give a model that was drawn without memory these weights as its own; none is initialised before."""
    check_weights(model, tensors, name)
    wanted = model.state_dict()
    _compute_buffers(model, wanted)
    model.load_state_dict({key: tensor.to(wanted[key].dtype) for key, tensor in tensors.items()}, assign=True)


def _compute_buffers(model: Model, kept: Collection[str]) -> None:
    """Let parts compute what no file keeps: their buffers that aren't persistent."""
    for path, module in model.named_modules():
        names = [f"{path}.{name}" for name, _ in module.named_buffers(recurse=False)]
        if isinstance(module, Part) and not set(names) <= set(kept):
            module.to_empty(device="cpu", recurse=False)
            with torch.no_grad():
                module.reset()


def check_weights(model: Model, tensors: Mapping[str, Tensor], name: str) -> None:
    """Insist that every name and shape is the model's own; all that isn't is told at once."""
    wanted = model.state_dict()
    problems = [f"{key}: the model has no such weight" for key in tensors if key not in wanted]
    for key, own in wanted.items():
        tensor = tensors.get(key)
        if tensor is None:
            problems.append(f"{key}: missing")
        elif tensor.shape != own.shape:
            problems.append(f"{key}: shape {tuple(tensor.shape)}, and the model's is {tuple(own.shape)}")
        elif tensor.dtype.itemsize == 1:
            problems.append(f"{key}: numbers of the type {tensor.dtype}, which isn't for weights")
        elif not is_finite(tensor):
            problems.append(f"{key}: holds numbers that aren't finite")
    if problems:
        more = f"\n  and {len(problems) - TOLD} more" if len(problems) > TOLD else ""
        raise CheckpointError(f"{name} doesn't fit the model:\n  " + "\n  ".join(problems[:TOLD]) + more)


def is_finite(tensor: Tensor) -> bool:
    """Whether all values are numbers. A sum tells it in one pass, except where finite numbers overflow in it."""
    if not tensor.is_floating_point():
        return True
    precise = torch.promote_types(tensor.dtype, torch.float32)
    return bool(tensor.sum(dtype=precise).isfinite()) or bool(tensor.isfinite().all())
