"""A verdict: what a classifier says of one text or one picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from regard.decode.reading import Output


@dataclass
class Verdict:
    """A label, and how likely each is."""

    label: str  # the likeliest
    probability: float | None  # its own; None where the head gives plain numbers
    probabilities: dict[str, float]
    labels: list[str]  # all that hold: the one, or those at one half and above where they don't exclude each other
    scores: dict[str, float]  # what the head gave

    def rank(self, count: int) -> dict[str, float]:
        """The likeliest labels, each with its probability, or its score where it has none."""
        told = self.probabilities or self.scores
        return {label: told[label] for label in sorted(told, key=lambda label: -told[label])[:count]}


def judge(logits: Tensor, labels: Sequence[str], output: Output = "softmax") -> Verdict:
    """What scores say, one for each label: (labels,)."""
    scores = dict(zip(labels, logits.tolist(), strict=True))
    best = max(scores, key=lambda label: scores[label])
    if output == "none":
        return Verdict(best, None, {}, [], scores)
    shares = logits.softmax(-1) if output == "softmax" else logits.sigmoid()
    found = dict(zip(labels, shares.tolist(), strict=True))
    holds = [best] if output == "softmax" else [label for label in labels if found[label] >= 0.5]
    return Verdict(best, found[best], found, holds, scores)
