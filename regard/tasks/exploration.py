"""Programs that are tried: every short program that selects rows by up to two conditions is run for each question, and
those that come to the right answer are made likelier.

The soft choices of a neural programmer have a gradient, but it leads into dead ends: that `and` pays only if the two
steps before it select by two conditions, and these pay only if `and` follows, is nothing that a small change finds; nor
does drawing programs by chance, once there are several columns. But what a program does depends on few of its steps, so
all that differ can be tried: some hundred sets of rows, and what may be asked of each. Of those that are right by
chance for one table, few are for the next. It is learning from answers alone all the same (marginal likelihood over
programs, as in Guu et al. 2017; Liang et al. 2018).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.program import COMPARING, OPERATIONS, Operation, TableQuestion, reckon_as
from regard.tasks.tabular import QuestionBatch

CHOICES = ("head.operation_weights", "head.column_weights", "head.pivot_weights", "head.matched")
NEAR = 1e-5  # a number this near to the answer, in proportion, is right, while one learns
LEAST = 1e-9  # of a probability
NEVER = -1e4  # the logarithm of what can't be
MOST = 40  # conditions that are joined in pairs; of more, so many by chance


@dataclass(frozen=True)
class Likelihoods:
    """The logarithms of what each step favours, and of which number each comparison takes."""

    operations: Tensor  # (batch, steps, operations)
    columns: Tensor  # (batch, steps, columns)
    pivots: Tensor  # (batch, 2, numbers)

    @classmethod
    def read(cls, seen: Mapping[str, Tensor]) -> Likelihoods:
        """From what the head reported, with gradients."""
        return cls(*(seen[name].squeeze(1).float().clamp(min=LEAST).log() for name in CHOICES[:3]))

    def call(self, step: int, name: Operation) -> Tensor:
        """That a step calls an operation: (batch, 1)."""
        place = OPERATIONS.index(name)
        return self.operations[:, step, place : place + 1]

    def count(self, step: int) -> Tensor:
        """That a step sums up a column, or counts: (batch, columns + 1)."""
        return torch.cat((self.call(step, "sum") + self.columns[:, step], self.call(step, "count")), 1)


@dataclass(frozen=True)
class Conditions:
    """Every way to select rows by one column: greater and lesser than each number, and holding a text of the question.

    They are in the order of `greater` by number and column, `lesser` likewise, and `match` by column.
    """

    rows: Tensor  # (batch, conditions, rows), 1 where a row fulfils it
    numbers: int
    columns: int

    @classmethod
    def find(cls, given: TableQuestion, matched: Tensor) -> Conditions:
        cells, pivots = given.numbers[:, None], given.pivots[:, :, None, None]
        there = given.numeric[:, None] & given.real[:, None, :, None]
        compared = torch.cat(((cells > pivots) & there, (cells < pivots) & there), 1)
        held = (matched > 0.5)[:, None] & given.real[:, None, :, None]
        rows = torch.cat((compared, held), 1).mT.flatten(1, 2)  # (batch, (2 · numbers + 1) · columns, rows)
        return cls(rows.to(given.numbers.dtype), given.pivots.shape[1], given.numbers.shape[2])

    def weigh(self, chances: Likelihoods, step: int) -> Tensor:
        """That a step selects by each of them, whatever the numbers are: (batch, conditions)."""
        parts = [chances.call(step, name).expand(-1, self.numbers) for name in COMPARING]
        kinds = torch.cat((*parts, chances.call(step, "match")), 1)
        return (kinds[:, :, None] + chances.columns[:, step, None]).flatten(1)

    def weigh_numbers(self, chances: Likelihoods) -> Tensor:
        """That each takes the number that it does: (batch, conditions); a text is none."""
        taken = torch.cat((chances.pivots.flatten(1), chances.pivots.new_zeros(len(chances.pivots), 1)), 1)
        return taken.repeat_interleave(self.columns, 1)

    def pair(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Which two are joined: those that a program can have both, since it compares in one way with one number."""
        group = torch.arange(2 * self.numbers + 1, device=device).repeat_interleave(self.columns)
        chosen = torch.arange(len(group), device=device)
        if len(group) > MOST:
            chosen = torch.randperm(len(group), device=device)[:MOST]
        pairs = torch.cartesian_prod(chosen, chosen)
        kinds = (group // max(1, self.numbers))[pairs]  # 0 greater, 1 lesser, 2 match
        one, other = pairs[kinds[:, 0] != kinds[:, 1]].unbind(1)
        return one, other


@dataclass(frozen=True)
class RowSets:
    """Sets of rows that the step before the last may have selected, and how likely it did."""

    rows: Tensor  # (batch, sets, rows)
    chances: Tensor  # (batch, sets), logarithms

    @classmethod
    def find(cls, given: TableQuestion, conditions: Conditions, chances: Likelihoods) -> RowSets:
        """All rows; those of each condition; and those of two, both or either."""
        steps = chances.operations.shape[1]
        every = given.real.to(conditions.rows.dtype)[:, None]
        if steps == 1:
            return cls(every, torch.zeros_like(chances.call(0, "reset")))
        numbers = conditions.weigh_numbers(chances)
        rows = [every, conditions.rows]
        found = [chances.call(-2, "reset"), conditions.weigh(chances, steps - 2) + numbers]
        if steps >= 4:
            one, other = conditions.pair(every.device)
            first, second = conditions.rows[:, one], conditions.rows[:, other]
            weights = (conditions.weigh(chances, steps - 4) + numbers)[:, one]
            weights = weights + (conditions.weigh(chances, steps - 3) + numbers)[:, other]
            rows += [torch.minimum(first, second), torch.maximum(first, second)]
            found += [weights + chances.call(steps - 2, "and"), weights + chances.call(steps - 2, "or")]
        return cls(torch.cat(rows, 1), torch.cat(found, 1))

    def count(self, given: TableQuestion) -> Tensor:
        """The sum of each column over each set, and how many rows that has: (batch, sets, columns + 1)."""
        return torch.cat((self.rows @ given.numbers, self.rows.sum(-1, keepdim=True)), -1)


def explore(seen: Mapping[str, Tensor], batch: QuestionBatch) -> Tensor:
    """What the right ones among the programs that are tried cost, by question: −log of their probability, (batch,).

    `seen`: what the head reported, with gradients. A question that none of them answers costs nothing.
    """
    given = TableQuestion.read(batch.inputs.extras, "head")
    with reckon_as(given):
        return -find_right(Likelihoods.read(seen), given, seen["head.matched"], batch)


def find_right(chances: Likelihoods, given: TableQuestion, matched: Tensor, batch: QuestionBatch) -> Tensor:
    """The logarithm of the probability of all right programs: (batch,); 0 where there is none."""
    with torch.no_grad():
        conditions = Conditions.find(given, matched)
    sets = RowSets.find(given, conditions, chances)
    last = chances.operations.shape[1] - 1
    counted = sets.count(given)  # (batch, sets, columns + 1)
    right = is_near(counted, batch.numbers) & ~batch.looked[:, None, None]
    found = [mark(sets.chances[..., None] + chances.count(last)[:, None], right)]
    assigned = chances.call(last, "assign") + chances.columns[:, last]
    found.append(mark(sets.chances[..., None] + assigned[:, None], find_looked(sets, batch)))
    if last >= 3:
        found.append(subtract(chances, conditions, counted, batch))
    total = torch.cat(found, 1).logsumexp(1)
    return torch.where(total > NEVER / 2, total, torch.zeros_like(total))


def mark(chances: Tensor, right: Tensor) -> Tensor:
    """The logarithms of those that are right, all in one list: (batch, programs)."""
    return chances.masked_fill(~right, NEVER).flatten(1)


def is_near(found: Tensor, wanted: Tensor) -> Tensor:
    """Whether numbers are the answer; `wanted`: one for each question."""
    wanted = wanted.view(-1, *[1] * (found.dim() - 1))
    return (found - wanted).abs() <= NEAR * wanted.abs().clamp(min=1.0)


def find_looked(sets: RowSets, batch: QuestionBatch) -> Tensor:
    """Which sets, printed from which column, are the cells that were asked for: (batch, sets, columns)."""
    chosen = batch.chosen.to(sets.rows.dtype)  # (batch, rows, columns)
    shared, sizes = sets.rows @ chosen, chosen.sum(1)
    # both have as many cells as they share, and the other columns have none
    same = (shared == sizes[:, None]) & (shared == sets.rows.sum(-1, keepdim=True))
    alone = sizes == sizes.sum(1, keepdim=True)
    return same & alone[:, None] & batch.looked[:, None, None]


def subtract(chances: Likelihoods, conditions: Conditions, counted: Tensor, batch: QuestionBatch) -> Tensor:
    """Programs that end with a difference: a number of all rows, less one of rows that are selected in between."""
    last = chances.operations.shape[1] - 1
    numbers = conditions.weigh_numbers(chances)
    between = torch.cat((chances.call(last - 2, "reset"), conditions.weigh(chances, last - 2) + numbers), 1)
    seconds = counted[:, : between.shape[1]]  # of all rows, and of those of each condition
    found = counted[:, 0, :, None, None] - seconds[:, None]  # (batch, columns + 1, sets, columns + 1)
    first, second = chances.count(last - 3), chances.count(last - 1)
    weights = first[:, :, None, None] + (between[..., None] + second[:, None])[:, None]
    if last > 3:  # rows that were selected before must be forgotten
        weights = weights + chances.call(last - 4, "reset")[..., None, None]
    weights = weights + chances.call(last, "difference")[..., None, None]
    return mark(weights, is_near(found, batch.numbers) & ~batch.looked.view(-1, 1, 1, 1))
