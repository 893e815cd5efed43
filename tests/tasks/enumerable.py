"""A language so small that all of it can be written down, so that what training should reach is known exactly.

A sequence ends with the token `end`, or where it is as long as one may be; so a model's probabilities of all of them
add up to 1, and expectations, gradients and divergences are sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from torch import Tensor

from regard.core.model import Model
from regard.data.dialogue import Transcript
from regard.tasks.feedback.likelihood import AnswerBatch, find_logs

BEGIN = 0  # what stands before every sequence, and is never written in one


def list_sequences(vocabulary: int, length: int, end: int | None = None) -> list[tuple[int, ...]]:
    """All sequences of the tokens 0 … vocabulary - 1 that can be written; without `end`, all have that length."""
    others = [token for token in range(vocabulary) if token != end]
    if end is None:
        return list(product(others, repeat=length))
    ended = [(*words, end) for size in range(length) for words in product(others, repeat=size)]
    return [*ended, *product(others, repeat=length)]


def score_sequences(model: Model, sequences: Sequence[Sequence[int]], prompt: Sequence[int] = (BEGIN,)) -> Tensor:
    """The log-probability of every sequence after a prompt: (sequences,), with its gradient."""
    return find_logs(model, lay_out(sequences, prompt)).sum(1)


def lay_out(sequences: Sequence[Sequence[int]], prompt: Sequence[int] = (BEGIN,)) -> AnswerBatch:
    """Sequences as answers to a prompt, in one batch."""
    rows = [Transcript([*prompt, *row], [False] * len(prompt) + [True] * len(row)) for row in sequences]
    return AnswerBatch.lay_out(rows, BEGIN)


def tilt(logs: Tensor, rewards: Tensor, beta: float) -> Tensor:
    """log π*(y), π*(y) ∝ π(y) e^{r(y)/β}: what has the most reward less β times the divergence from π."""
    return (logs + rewards / beta).log_softmax(0)


def find_divergence(logs: Tensor, others: Tensor) -> Tensor:
    """KL(π‖π') in nats, from the log-probabilities of all sequences under both."""
    return (logs.exp() * (logs - others)).sum()
