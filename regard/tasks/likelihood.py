"""How likely a model finds answers: the log-probability of every token of them, given all that came before it.

What stands in a prompt is read and never counted. Rows are padded at the end, and a pad changes nothing.
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
from regard.data.dialogue import Transcript


@dataclass
class AnswerBatch:
    """Conversations in tokens, and which predictions are an answer's."""

    inputs: Inputs  # (rows, time), each without its last token
    targets: Tensor  # (rows, time), the next of each
    learned: Tensor  # (rows, time)

    @classmethod
    def lay_out(cls, rows: Sequence[Transcript], pad: int) -> Self:
        """A rectangle of conversations."""
        whole = Inputs.pad([row.tokens for row in rows], pad)
        time = whole.tokens.shape[1]
        learned = torch.tensor([[*row.learned[1:], *[False] * (time - len(row.learned))] for row in rows])
        return cls(whole.without_last(), whole.tokens[:, 1:], learned.view(len(rows), time - 1))

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
