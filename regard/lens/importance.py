"""How much each attention head matters for what a model says of some texts (Michel et al. 2019).

By ablation: what the loss becomes without the head, measured. By gradient: how fast the loss changes when the head is
turned down, which is one pass for all heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.probe import Edit
from regard.errors import InputError
from regard.lens.finding import (
    ROWS,
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


@dataclass(frozen=True)
class Importance(Finding):
    """What each head is worth, in nats of the mean loss of an answer."""

    method: str
    texts: int
    loss: float  # of the whole model, the mean over the texts
    heads: dict[str, Tensor]  # by the name of their context: (heads,)


def ablate_heads(looks: Look | Sequence[Look], pattern: str = "*.context") -> Importance:
    """The change of the loss when what a head found is set to zero; below 0, the model is better without it.

    One head at a time, so heads that stand in for each other all seem useless, and their joint worth isn't told. A
    zero is nothing that the layers above ever saw: part of a change may be the surprise. Of few texts, it speaks of
    these texts alone. The loss is that of the right answers, or of the model's own where nobody knows.
    """
    return _average("ablation", [_ablate(look, pattern) for look in gather_looks(looks)])


def weigh_heads(looks: Look | Sequence[Look], pattern: str = "*.context") -> Importance:
    """|∂loss / ∂ξ| of a factor ξ = 1 on what each head found, which is |Σ context · gradient| (Michel et al. 2019).

    It is a slope at the model as it is: what a little less of the head would change, and not what it would cost to
    lose it. A head in saturation weighs nothing here and may be needed all the same. Each text's is made positive, then
    texts are averaged.
    """
    return _average("gradient", [_weigh(look, pattern) for look in gather_looks(looks)])


@torch.no_grad()
def _ablate(look: Look, pattern: str) -> Importance:
    answers = choose_answers(look)
    whole = measure_loss(look, ask(look), answers)
    found = {}
    for name, value in record(look, *find_names(look, pattern)).items():
        changes = [
            measure_loss(look, ask(look, _without(name, batch), len(batch)), answers) - whole
            for batch in torch.arange(_count_heads(name, value[None])).split(ROWS)
        ]
        found[name] = torch.cat(changes)
    return Importance("ablation", 1, float(whole), found)


def _without(name: str, heads: Tensor) -> Edit:
    """Take another head away in each row."""

    def zero(context: Tensor) -> Tensor:
        changed = context.clone()
        changed[torch.arange(len(heads)), heads] = 0
        return changed

    return Edit({name: zero})


def _weigh(look: Look, pattern: str) -> Importance:
    answers = choose_answers(look)
    tap = Tap(*find_names(look, pattern))
    with torch.enable_grad():
        loss = measure_loss(look, ask(look, tap), answers)[0]
        for name, pieces in tap.record.pieces.items():
            _count_heads(name, pieces[0])
        gradients = tap.gradients(loss)
    found = {
        name: torch.stack([(value * grad).sum((0, 2, 3)) for value, grad in pieces]).sum(0).abs()
        for name, pieces in gradients.items()
    }
    return Importance("gradient", 1, float(loss.detach()), found)


def _count_heads(name: str, value: Tensor) -> int:
    """How many heads a value has, which is (rows, heads, time, size)."""
    if value.dim() != 4:
        raise InputError(f"{name} has no heads to take away", "a pattern of attention's contexts: *.context")
    return value.shape[1]


def _average(method: str, each: Sequence[Importance]) -> Importance:
    heads = {name: torch.stack([one.heads[name] for one in each]).mean(0) for name in each[0].heads}
    return Importance(method, len(each), sum(one.loss for one in each) / len(each), heads)
