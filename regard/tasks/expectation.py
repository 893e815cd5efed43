"""The expected loss of a model that may halt after any of its steps (PonderNet, Banino et al. 2021).

A mixer that `tries` reports what would come out after each step (`trials`) and how likely it is to halt there
(`chances`). A loss of the mean of the steps would be another loss; here each step is answered and charged by itself:
Σ p(n) L(n). For that the steps' outputs must be what the head is given, so the mixer stands last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.mixer import Mixer
from regard.core.model import Model
from regard.core.probe import Record
from regard.errors import SpecError
from regard.tasks.task import Task

Charge = Callable[[Tensor], Tensor]  # logits to the loss of each position, (rows, time)


def expect_loss(model: Model, inputs: Inputs, charge: Charge) -> Tensor:
    """The loss of each position, (rows, time), over all steps after which the model may halt; of the one, mostly."""
    paths = list_tries(model)
    if not paths:
        return charge(model(inputs))
    (path,) = paths
    record = Record(f"{path}.trials", f"{path}.chances")
    with model.watch(record):
        model.features(inputs)
    trials, chances = record[f"{path}.trials"], record[f"{path}.chances"][:, 0]  # (rows, time, steps)
    losses = [charge(model.answer(trial, valid=inputs.valid)) for trial in trials.unbind(1)]
    return (torch.stack(losses, -1) * chances).sum(-1)


def list_tries(model: Model) -> list[str]:
    """The paths of the mixers that may halt after any step, and so learn by the expected loss."""
    return [part.path for part in model.modules() if isinstance(part, Mixer) and part.tries]


def insist_on_expectation(model: Model, task: Task[Any]) -> None:
    """Refuse a model that may halt after any step where the loss wouldn't be the expected one over them."""
    paths = list_tries(model)
    if not paths:
        return
    if not task.expects:
        raise SpecError(
            f"{paths[0]} may halt after any step (halt: geometric), and the loss of {task.spec.kind} isn't the expected"
            " one over steps",
            "halt=adaptive, or task=reckoning",
        )
    stack = model.spec.main
    last = stack.layout()[-1]
    bare = last.ffn is None and last.cross is None and not last.residual and not last.dropout and stack.norm is None
    side = "encoder" if model.decoder is None else "decoder"
    if paths != [f"{side}.blocks.{stack.depth - 1}.mix"] or not bare or last.place != "pre" or stack.blend:
        raise SpecError(
            f"{paths[0]} may halt after any step (halt: geometric), and something stands between it and the head",
            "one such mixer in the last block, which has residual: false and nothing behind it",
        )
