"""How likely a model finds answers: the log-probability of every token of them, given all that came before it.

What stands in a prompt is read and never counted. Rows are padded on one side, mostly at the end, which
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.padding import Padding, Side
from regard.data.dialogue import Transcript


@dataclass
class AnswerBatch:
    """Conversations in tokens, and which predictions are an answer's."""

    inputs: Inputs  # (rows, time), each without its last token
    targets: Tensor  # (rows, time), the next of each
    learned: Tensor  # (rows, time)

    @classmethod
    def lay_out(cls, rows: Sequence[Transcript], pad: int, side: Side = "right") -> Self:
        """A rectangle of conversations; `side`: where its pads stand."""
        padding = Padding([len(row.tokens) - 1 for row in rows], side=side)
        targets = padding.fill([row.tokens[1:] for row in rows], pad)
        learned = padding.fill([row.learned[1:] for row in rows], False)
        return cls(Inputs(padding.fill([row.tokens[:-1] for row in rows], pad), padding), targets, learned.bool())

    @property
    def size(self) -> int:
        """How many tokens the answers have, their ends included."""
        return int(self.learned.sum())

    def to(self, device: torch.device) -> AnswerBatch:
        return AnswerBatch(self.inputs.to(device), self.targets.to(device), self.learned.to(device))


def find_logs(model: Model, batch: AnswerBatch, temperature: float = 1.0) -> Tensor:
    """log p of every token of the answers: (rows, time), and 0 where a token isn't an answer's.

    `temperature`: by which scores are divided, as where the answers were drawn.
    """
    batch = batch.to(model.device)
    scores = model.factors(batch.inputs, batch.learned).table() / temperature  # (learned, vocabulary)
    scores = scores.float() if scores.dtype.itemsize < 4 else scores  # sums over a vocabulary need all the digits
    found = -F.cross_entropy(scores, batch.targets[batch.learned], reduction="none")
    return found.new_zeros(batch.learned.shape).masked_scatter(batch.learned, found)
