"""Programs that are tried: some are drawn for each question and run, and those that come to the right answer are made
likelier.

The soft choices of a neural programmer have a gradient, but it leads into dead ends: that `and` pays only if the two
steps before it select by two conditions, and these pay only if `and` follows, is nothing that a small change finds.
Drawing whole programs does. Of those that are right by chance for one table, few are for the next. It is learning from
answers alone all the same (marginal likelihood over programs, as in Guu et al. 2017; Liang et al. 2018).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.program import NUMERIC, OPERATIONS, Call, TableQuestion, compare_cells, run_program
from regard.tasks.tabular import QuestionBatch

CHOICES = ("head.operation_weights", "head.column_weights", "head.pivot_weights", "head.matched")
NEAR = 1e-3  # a number this near to the answer is right, while one learns
LEAST = 1e-9  # of a probability


def explore(seen: Mapping[str, Tensor], batch: QuestionBatch, tries: int, chance: float, wild: float = 0.0) -> Tensor:
    """What the right ones among the programs that are drawn cost, by question: −log of their probability, (batch,).

    `seen`: what the head reported, with gradients; `chance`: how often a choice is drawn evenly, whatever is favoured;
    `wild`: how many of the programs have all of their choices drawn so.
    """
    operations = seen["head.operation_weights"].squeeze(1)  # (batch, steps, operations)
    columns, pivots = seen["head.column_weights"].squeeze(1), seen["head.pivot_weights"].squeeze(1)
    drawn = [draw(weights, tries, chance, round(wild * tries)) for weights in (operations, columns, pivots)]
    with torch.no_grad():
        given = TableQuestion.read(batch.inputs.extras, "head").repeat(tries)
        called, chosen, compared = (
            F.one_hot(choice.flatten(0, 1), weights.shape[-1]).to(weights.dtype)
            for choice, weights in zip(drawn, (operations, columns, pivots), strict=True)
        )
        tests = compare_cells(given, compared)
        tests["match"] = (seen["head.matched"] > 0.5).to(pivots.dtype).repeat_interleave(tries, 0)
        calls = [Call(called[:, step], chosen[:, step]) for step in range(called.shape[1])]
        right = check_answers(run_program(calls, tests, given), called[:, -1], batch, tries)  # (batch, tries)
    logs = torch.zeros_like(right)
    for weights, choice in zip((operations, columns, pivots), drawn, strict=True):
        picked = weights[:, None].expand(-1, tries, -1, -1).gather(-1, choice[..., None]).squeeze(-1)
        logs = logs + picked.clamp(min=LEAST).log().sum(-1) * (weights.sum(-1) > 0).all(-1)[:, None]
    return -(logs * right).sum(1) / right.sum(1).clamp(min=1.0)


def draw(weights: Tensor, tries: int, chance: float, wild: int = 0) -> Tensor:
    """Choices by their weights, (batch, choices, options): (batch, tries, choices); the last `wild` of them evenly."""
    weights = weights.detach()
    there = (weights > 0).to(weights.dtype) + LEAST
    even = there / there.sum(-1, keepdim=True)
    sources = (((1 - chance) * weights + chance * even, tries - wild), (even, wild))
    drawn = [torch.multinomial(source.flatten(0, 1), count, True) for source, count in sources if count]
    return torch.cat(drawn, -1).unflatten(0, weights.shape[:2]).transpose(1, 2)


def check_answers(answers: Tensor, last: Tensor, batch: QuestionBatch, tries: int) -> Tensor:
    """Which programs come to the right answer of the right kind, 1 or 0: (batch, tries)."""
    numbers = batch.numbers.repeat_interleave(tries)
    chosen, looked = batch.chosen.flatten(1).repeat_interleave(tries, 0), batch.looked.repeat_interleave(tries)
    kinds = last[:, [OPERATIONS.index(name) for name in NUMERIC]].sum(1) > 0
    near = (answers[:, 0] - numbers).abs() <= NEAR * numbers.abs().clamp(min=1.0)
    same = ((answers[:, 1:] > 0.5) == (chosen > 0.5)).all(1) & (last[:, OPERATIONS.index("assign")] > 0)
    return torch.where(looked, same, near & kinds).to(answers.dtype).unflatten(0, (-1, tries))
