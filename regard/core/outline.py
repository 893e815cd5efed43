"""A model's outline: its tree with shapes and parameters, and what its state costs, without building any of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from regard.core.block import Block
from regard.core.blueprint import blueprint
from regard.core.mask import Mask
from regard.core.model import Model, ModelSpec
from regard.core.spec import Spec
from regard.core.stack import Stack, StackSpec
from regard.core.state import Memory
from regard.core.view import View


@dataclass
class Node:
    """One part of the tree; `repeat`: how many alike stand here, of which one is shown."""

    name: str
    parameters: int  # of all that stand here
    note: str = ""
    shape: tuple[int, ...] | None = None
    repeat: int = 1
    children: list[Node] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"name": self.name, "parameters": self.parameters}
        if self.note:
            shown["note"] = self.note
        if self.shape is not None:
            shown["shape"] = list(self.shape)
        if self.repeat > 1:
            shown["repeat"] = self.repeat
        if self.children:
            shown["children"] = [child.as_json() for child in self.children]
        return shown


@dataclass
class Outline:
    """What `regard show` prints."""

    name: str
    parameters: int
    state_bytes_per_token: int  # what one more generated token adds, one row, fp32
    state_bytes_per_source_token: int  # what one more token of the source adds
    state_bytes_fixed: int  # what is there whatever the length
    tree: Node

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "tree": self.tree.as_json()}


def outline(spec: ModelSpec, name: str = "model") -> Outline:
    """Draw a model from its spec alone; no weight is made.

    >>> import regard
    >>> regard.outline(regard.preset("llama3-8b")).parameters
    8030261248
    """
    model = spec.build("meta")
    stacks = ((model.encoder, spec.encoder, "encoder"), (model.decoder, spec.decoder, "decoder"))
    children = [_stack(stack, given, label) for stack, given, label in stacks if stack and given]
    if model.head is not None:
        assert spec.head is not None
        children.append(_module(model.head, "head", _brief(spec.head)))
    count = model.parameter_count()
    token, source, fixed = _state(model)
    return Outline(name, count, token, source, fixed, Node(name, count, children=children))


def _stack(stack: Stack, spec: StackSpec, label: str) -> Node:
    children = [_module(stack.embedding, "embedding", _brief(spec.embedding))]
    blocks, layout = stack.layers(), spec.layout()
    for first, last in _runs(layout):
        name = f"blocks.{first}" if last == first + 1 else f"blocks.{first}-{last - 1}"
        children.append(_block(blocks[first], layout[first], name, last - first))
    for module, given, name in ((stack.norm, spec.norm, "norm"), (stack.bias, spec.bias, "bias")):
        if module is not None and given is not None:
            children.append(_module(module, name, _brief(given)))
    return Node(label, sum(child.parameters for child in children), f"width {spec.width}", children=children)


def _runs(layout: list[Any]) -> Iterator[tuple[int, int]]:
    """Stretches of equal blocks: (first, one past the last)."""
    first = 0
    for at in range(1, len(layout) + 1):
        if at == len(layout) or layout[at] != layout[first]:
            yield first, at
            first = at


def _block(block: Block, spec: Any, name: str, repeat: int) -> Node:
    slots = (("mix", block.mix, spec.mix), ("cross", block.cross, spec.cross), ("ffn", block.ffn, spec.ffn))
    children = [_module(module, slot, _brief(given)) for slot, module, given in slots if module is not None]
    place = f"{spec.place}-norm" if spec.norm else "no norm"
    note = f"{place}, residual" if spec.residual else f"{place}, no residual"
    return Node(name, repeat * sum(child.parameters for child in children), note, repeat=repeat, children=children)


def _module(module: nn.Module, name: str, note: str = "") -> Node:
    """A module's own weights, then its children; what wraps one thing only takes that thing's place."""
    children = [
        Node(label, weight.numel(), shape=tuple(weight.shape))
        for label, weight in (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    ]
    for label, child in module.named_children():
        inner = _module(child, label)
        if not inner.parameters:
            continue
        if label == "inner":
            children += inner.children
        else:
            children.append(inner)
    return Node(name, sum(child.parameters for child in children), note, children=children)


def _brief(spec: Spec) -> str:
    """The kind, and the settings that aren't the usual ones."""
    words = [spec.kind]
    for name, info in type(spec).model_fields.items():
        value = getattr(spec, name)
        if name != "kind" and value != info.default:
            words.append(name if value is True else f"{name}={value.kind if isinstance(value, Spec) else value}")
    return " ".join(words)


def _state(model: Model) -> tuple[int, int, int]:
    """Bytes for a generated token more, for a source token more, and fixed: measured on states that are only drawn."""
    if model.decoder is None:
        return 0, 0, 0
    least = _state_bytes(model, room=1, source=1)
    token = _state_bytes(model, room=2, source=1) - least
    source = _state_bytes(model, room=1, source=2) - least if model.encoder is not None else 0
    return token, source, least - token - source


def _state_bytes(model: Model, room: int, source: int) -> int:
    with blueprint(), torch.no_grad():
        memory = None
        if model.encoder is not None and model.spec.encoder is not None:
            states = torch.empty(1, source, model.spec.encoder.width)
            layers = model.encoder.layers()
            last = layers[-1].mixer if layers else None
            view = View(Mask(1, source), dtype=model.dtype)
            ending = last.start(1, view) if last is not None and last.leaves_final else None
            memory = Memory(tensors=(states,), final=None if ending is None else ending.summary())
        return model.start(1, memory, room=room).nbytes
