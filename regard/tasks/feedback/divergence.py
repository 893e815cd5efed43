"""How far a model has moved from the one that a run began from: KL(π‖π_ref) of the answers that it draws itself.

At each place of an answer the divergence is summed over the whole vocabulary (Rao-Blackwell), so only the texts are by
chance: the mean is that of log π/π_ref, and varies less.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.model import Model
from regard.data.dialogue import Transcript
from regard.tasks.feedback.likelihood import AnswerBatch
from regard.tasks.feedback.pairwise import average_rows
from regard.tasks.feedback.rollout import Sampling, average_logs, draw_answers, rest
from regard.tasks.reward import group_by_length
from regard.tasks.task import Pulse, Reference

TOGETHER = 32  # answers that are drawn together
SCORES = 2**23  # numbers of a table of scores that is compared at once


def measure_divergence(
    model: Model, start: Reference, prompts: Sequence[Sequence[int]], how: Sampling, pulse: Pulse = lambda: None
) -> dict[str, Any]:
    """`kl`: KL(π‖π_ref) of an answer in nats, with its interval; and how many tokens answers have.

    Each prompt has luck of its own, the same for every model. An answer that isn't done after so many tokens counts as
    far as it went.
    """
    room = [list(row) for row in prompts if model.limit is None or len(row) <= model.limit]
    if not room:
        return {}
    found, sizes = list[float](), list[int]()
    for group in group_by_length([len(row) for row in room], rows=TOGETHER):
        pulse()
        some = [room[n] for n in group]
        seeds = [Random(f"divergence/{n}").getrandbits(62) for n in group]
        answers = draw_answers(model, some, seeds, how)
        pulse()
        found += diverge(model, start, some, answers, how)
        sizes += map(len, answers)
    return average_rows(np.array(found)).named("kl") | {"answer_tokens": sum(sizes) / len(sizes)}


def diverge(
    model: Model,
    reference: Reference,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    how: Sampling,
) -> list[float]:
    """The divergence along each answer that a model drew, in nats."""
    found = list[float]()
    many = max(1, SCORES // ((model.spec.main.embedding.token_count or 1) * max(map(len, answers), default=1)))
    for first in range(0, len(answers), many):
        scripts = list[Transcript]()
        for prompt, answer in zip(prompts[first : first + many], answers[first : first + many], strict=True):
            scripts.append(Transcript())
            scripts[-1].add(prompt, False)
            scripts[-1].add(answer, True)
        batch = AnswerBatch.lay_out(scripts, how.pad).to(model.device)
        with rest(model):
            logs = find_all_logs(model, batch, how)
        with reference() as start, torch.no_grad():
            gaps = average_logs(logs, logs - find_all_logs(start, batch, how))  # (tokens,)
        sizes = batch.learned.sum(1).tolist()
        found += [float(part.sum()) for part in gaps.double().split(sizes)]
    return found


def find_all_logs(model: Model, batch: AnswerBatch, how: Sampling) -> Tensor:
    """The log-probability of every word at every place of the answers: (tokens, vocabulary)."""
    return how.take_logs(model.factors(batch.inputs, batch.learned).table())
