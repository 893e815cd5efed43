"""How far a model has moved from the one that a run began from: KL(π‖π_ref) of the answers that it writes itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.data.dialogue import Transcript
from regard.decode.continuation import generate
from regard.tasks.likelihood import AnswerBatch
from regard.tasks.pairwise import average_rows
from regard.tasks.reward import group_by_length
from regard.tasks.task import Pulse, Reference

TOGETHER, COMPARED = 32, 8  # answers that are written, and compared at once: each token needs a whole vocabulary twice


@dataclass(frozen=True)
class AnswerDraw:
    """How answers are drawn to be looked at."""

    max_tokens: int
    ends: tuple[int, ...]  # tokens that end an answer
    pad: int


@torch.no_grad()
def measure_divergence(
    model: Model, start: Reference, prompts: Sequence[Sequence[int]], how: AnswerDraw, pulse: Pulse = lambda: None
) -> dict[str, Any]:
    """`kl`: KL(π‖π_ref) of an answer in nats, with its interval; and how many tokens answers have.

    Answers are drawn from the model, and at each place of one the divergence is summed over the whole vocabulary
    (Rao-Blackwell), so the mean is that of log π/π_ref, and varies less. An answer that isn't done after so many tokens
    counts as far as it went.
    """
    room = [list(row) for row in prompts if model.limit is None or len(row) <= model.limit]
    if not room:
        return {}
    found, sizes = list[float](), list[int]()
    for seed, group in enumerate(group_by_length([len(row) for row in room], rows=TOGETHER)):
        pulse()
        some = [room[n] for n in group]
        settings: dict[str, Any] = {"sample": True, "max_tokens": how.max_tokens, "seed": seed}
        answers = generate(model, Inputs.pad(some, how.pad), end=how.ends, **settings)
        for first in range(0, len(some), COMPARED):
            pulse()
            part = slice(first, first + COMPARED)
            found += compare_answers(model, start, some[part], answers[part], how.pad)
        sizes += map(len, answers)
    return average_rows(np.array(found)).named("kl") | {"answer_tokens": sum(sizes) / len(sizes)}


def compare_answers(
    model: Model, start: Reference, prompts: Sequence[list[int]], answers: Sequence[list[int]], pad: int
) -> list[float]:
    """The divergence along each answer, in nats."""
    pairs = list(zip(prompts, answers, strict=True))
    rows = [Transcript([*one, *two], [False] * len(one) + [True] * len(two)) for one, two in pairs]
    batch = AnswerBatch.lay_out(rows, pad).to(model.device)
    logs = find_all_logs(model, batch)
    with start() as reference:
        others = find_all_logs(reference, batch)
    moved = (logs.exp() * (logs - others)).sum(1).double()  # (tokens,)
    return [float(part.sum()) for part in moved.split([len(answer) for answer in answers])]


def find_all_logs(model: Model, batch: AnswerBatch) -> Tensor:
    """The log-probability of every word at every place of the answers: (tokens, vocabulary)."""
    scores = model.factors(batch.inputs, batch.learned).table()
    return (scores.float() if scores.dtype.itemsize < 4 else scores).log_softmax(-1)
