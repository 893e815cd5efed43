"""What a recurrence remembers: gradients through time, how one hidden vector moves another, and gates.

The gradient by a hidden vector is taken at the impulse that is added to it (`….mix.impulse`), so it is the total
derivative: through the output, and through every later step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import InputError
from regard.lens.finding import (
    Finding,
    Tap,
    ask,
    choose_answers,
    find_names,
    gather_looks,
    measure_loss,
    record,
)
from regard.lens.look import Look

CLOSED, OPEN = 0.1, 0.9  # below and above which a gate is saturated (Karpathy et al. 2015)


@dataclass(frozen=True)
class GradientThroughTime(Finding):
    """∂loss / ∂h of every hidden vector."""

    loss: float
    gradients: dict[str, Tensor]  # by the recurrence: (layers * directions, time, size)

    @property
    def norms(self) -> dict[str, Tensor]:
        """(layers * directions, time)"""
        return {path: gradient.norm(dim=-1) for path, gradient in self.gradients.items()}

    def as_json(self) -> dict[str, Any]:
        """The norms; the gradients themselves would be megabytes."""
        return {"loss": self.loss, "norms": {path: norms.tolist() for path, norms in self.norms.items()}}


@dataclass(frozen=True)
class Jacobians(Finding):
    """∂h_t / ∂h_k of one layer, for one t and every k."""

    path: str
    layer: int
    position: int  # t
    matrices: Tensor  # (time, size, size), one for each k: how h_t answers to h_k

    @property
    def norms(self) -> Tensor:
        """The largest factor by which a small change at k reaches t: (time,)."""
        return torch.linalg.matrix_norm(self.matrices, ord=2)

    def as_json(self) -> dict[str, Any]:
        """The norms; the matrices themselves would be megabytes."""
        return {"path": self.path, "layer": self.layer, "position": self.position, "norms": self.norms.tolist()}


@dataclass(frozen=True)
class Saturation(Finding):
    """The share of the time that each unit of a gate is closed, and open: (layers * directions, size) by name."""

    positions: int
    closed: dict[str, Tensor]
    open: dict[str, Tensor]


def gradient_through_time(
    look: Look, positions: Sequence[int] | None = None, pattern: str = "*.impulse"
) -> GradientThroughTime:
    """The total derivative of the loss by each hidden vector, through all later steps (Pascanu et al. 2013).

    Where its norm falls to nothing towards the beginning, a small change of what was remembered there can't move the
    loss: the gradient vanishes, and training won't learn from it. It is a slope, and can't tell what a large change
    does or what the vector says. `positions`: whose answers make the loss; without them, all that are known.
    """
    names = _find_recurrences(look, pattern)
    tap = Tap(*names)
    with torch.enable_grad():
        loss = measure_loss(look, ask(look, tap), choose_answers(look, positions))[0]
        found = tap.gradients(loss)
    gradients = {}
    for name in names:
        [(_, gradient)] = found[name]  # a recurrence is told its impulse once a call
        gradients[name.removesuffix(".impulse")] = gradient[0]
    return GradientThroughTime(float(loss.detach()), gradients)


def hidden_jacobians(look: Look, path: str | None = None, *, layer: int = -1, position: int | None = None) -> Jacobians:
    """How a hidden vector depends on each of the earlier ones: ∂h_t / ∂h_k, the product of the steps between.

    For a plain RNN it is ∏ diag(φ') W, and its norm is the most of a small change at k that is left at t. It tells
    from how far back a vector can be moved, and not what it holds. An LSTM's cell at k carries on beside its hidden
    vector, and isn't part of it. `path`: the recurrence, such as decoder.blocks.0.mix, the last unless given; `layer`
    counts layers and directions; `position`: t, the last unless given; what reads from the end is moved by what stands
    after t.
    """
    known = [name.removesuffix(".impulse") for name in _find_recurrences(look, "*.impulse")]
    chosen = known[-1] if path is None else path
    if chosen not in known:
        raise InputError(f"{chosen} is no recurrence of this model", f"one of {', '.join(known)}")
    tap = Tap(f"{chosen}.hidden", f"{chosen}.impulse")
    with torch.enable_grad():
        ask(look, tap)
        hidden, impulse = tap.record[f"{chosen}.hidden"][0], tap.record[f"{chosen}.impulse"]
        layers, time, size = hidden.shape
        place = time - 1 if position is None else position
        if not -layers <= layer < layers or not 0 <= place < time:
            raise InputError(f"{chosen} has {layers} layers and {time} positions, and not {layer} and {place}")
        every = torch.eye(size, dtype=hidden.dtype, device=hidden.device)
        (grad,) = torch.autograd.grad(hidden[layer, place], impulse, every, is_grads_batched=True)
    return Jacobians(chosen, layer % layers, place, grad[:, 0, layer].transpose(0, 1).contiguous())


def gate_saturation(looks: Look | Sequence[Look], pattern: str = "*_gate") -> Saturation:
    """How often each gate is closed (< 0.1) or open (> 0.9), unit by unit (Karpathy et al. 2015).

    A forget gate that is nearly always open keeps its unit for long; one that is nearly always closed makes it forget
    at each step. A GRU's update gate is the share of the old vector that is kept. It tells how gates stand on these
    texts, and nothing of what is let through.
    """
    several = gather_looks(looks)
    names = find_names(several[0], pattern)
    values = [record(look, *names) for look in several]
    joined = {name: torch.cat([each[name] for each in values], 1) for name in names}  # (layers, time, size)
    return Saturation(
        joined[names[0]].shape[1],
        {name: (value < CLOSED).float().mean(1) for name, value in joined.items()},
        {name: (value > OPEN).float().mean(1) for name, value in joined.items()},
    )


def _find_recurrences(look: Look, pattern: str) -> list[str]:
    if not any(name.endswith(".impulse") for name in look.model.names()):
        raise InputError("nothing in this model is a recurrence", "a model with mix=recurrent, attentive or turing")
    names = find_names(look, pattern)
    strange = [name for name in names if not name.endswith(".impulse")]
    if strange:
        raise InputError(f"{strange[0]} is no impulse", "a pattern that ends in .impulse")
    return names
