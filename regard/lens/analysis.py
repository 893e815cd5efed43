"""All analyses of one look, by name: each is a function of a look, and says itself what it can and can't tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from regard.errors import InputError
from regard.lens.attribution import gradient_times_input, integrated_gradients
from regard.lens.finding import Finding
from regard.lens.flow import attention_flow, attention_rollout
from regard.lens.importance import ablate_heads, weigh_heads
from regard.lens.keep import summarise
from regard.lens.logit import logit_lens
from regard.lens.look import Look
from regard.lens.recurrence import gate_saturation, gradient_through_time, hidden_jacobians


@dataclass(frozen=True)
class Analysis:
    """A function of a look, and what it finds in a line."""

    run: Callable[[Look], Finding]
    about: str


@dataclass(frozen=True)
class HeadSummaries(Finding):
    """What heads do, in a few numbers each, by the names of their weights."""

    heads: dict[str, list[dict[str, float]]]


def describe_heads(look: Look) -> HeadSummaries:
    """What each head of a look does, in a few numbers; see `summarise_heads`."""
    weights = look.weights()
    return HeadSummaries({place.name: summarise(look, place, weights) for place in look.maps()})


ANALYSES: dict[str, Analysis] = {
    "heads": Analysis(describe_heads, "how spread out, how far and at what each head looks"),
    "rollout": Analysis(attention_rollout, "how attention mixes tokens through all layers, as a product"),
    "flow": Analysis(attention_flow, "the most that attention could pass on through all layers"),
    "ablation": Analysis(ablate_heads, "the change of the loss without each head"),
    "head-gradient": Analysis(weigh_heads, "how fast the loss changes when each head is turned down"),
    "logit-lens": Analysis(logit_lens, "what each layer would answer"),
    "gradient-input": Analysis(gradient_times_input, "each token's part of each answer, by its slope"),
    "integrated-gradients": Analysis(integrated_gradients, "each token's part of each answer, adding up to the whole"),
    "through-time": Analysis(gradient_through_time, "the gradient of the loss by each hidden vector of a recurrence"),
    "jacobians": Analysis(hidden_jacobians, "how the last hidden vector depends on the earlier ones"),
    "gates": Analysis(gate_saturation, "how often each gate of a recurrence is closed, and open"),
}


def analyse(look: Look, name: str) -> Finding:
    """What an analysis of this name finds."""
    if name not in ANALYSES:
        raise InputError(f"there is no analysis {name!r}", f"one of {', '.join(ANALYSES)}")
    return ANALYSES[name].run(look)
