"""Weights that were computed before, put into a model: copied into its own, or taken as they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from regard.core.mixer import Part
from regard.core.model import Model
from regard.errors import CheckpointError, InputError

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


def refit(model: Model, name: str, weight: Tensor, other: Model) -> Tensor | None:
    """A weight of another model that has another size here, made to fit by the part that has it; None: it can't."""
    words, modules, others = name.split("."), dict(model.named_modules()), dict(other.named_modules())
    for end in range(len(words) - 1, 0, -1):  # the part that has it, or one around that
        path = ".".join(words[:end])
        here, there = modules[path], others.get(path)
        if isinstance(here, Part) and isinstance(there, Part):
            fitted = here.refit(".".join(words[end:]), weight, there)
            if fitted is not None and fitted.shape == model.state_dict()[name].shape:
                return fitted
    return None


def redraw(model: Model, height: int, width: int) -> Model:
    """The same model for pictures of another size: what it learned about places is interpolated.

    >>> import regard
    >>> model = regard.preset("vit-tiny").build()  # for pictures of 8×8
    >>> regard.redraw(model, 12, 8).spec.encoder.embedding.picture
    (12, 8, 1)
    """
    stack = model.spec.encoder
    picture = None if stack is None else stack.embedding.picture
    if stack is None or picture is None:
        raise InputError("this model reads no pictures, so they have no size", "a model such as vit-b16")
    embedding = stack.embedding.redraw(height, width, picture[2])
    made = model.spec.replace(encoder=stack.replace(embedding=embedding)).build("meta")
    tensors = {}
    for name, own in made.state_dict().items():
        given = model.state_dict()[name]
        found = given.clone() if given.shape == own.shape else refit(made, name, given, model)
        if found is None:
            raise CheckpointError(f"{name}: {tuple(given.shape)} can't become {tuple(own.shape)}", "train it anew")
        tensors[name] = found
    place(made, tensors, "the model")
    return made.to(model.device).train(model.training)


def drop_value(model: Model) -> Model:
    """The same model without the number beside its words that learning from rewards asked for; it writes the same."""
    head = model.spec.head
    if head is None or head.with_value(False) == head:
        return model
    spec = model.spec.replace(head=head.with_value(False)).note_family(model.spec.family)
    made, given = spec.build("meta"), model.state_dict()
    place(made, {name: given[name] for name in made.state_dict()}, "the model")
    return made.to(model.device).train(model.training)


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
        elif tensor.dtype.itemsize == 1 and tensor.dtype != own.dtype:  # a packed matrix has such
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
