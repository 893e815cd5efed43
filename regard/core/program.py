"""Programs over tables: a few operations, each called with one column, that select rows and come to a number or cells
(Neelakantan et al. 2015, table 1).

Every choice is a share: a call may take a little of all operations and columns, which has a gradient, or one of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, Self, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.errors import InputError

Operation = Literal["sum", "count", "difference", "greater", "lesser", "and", "or", "assign", "reset", "match"]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
COMPARING: tuple[Operation, Operation] = ("greater", "lesser")  # with a number of the question
NUMERIC: tuple[Operation, ...] = ("sum", "count", "difference")  # those that come to a number
NOTHING = -1  # in the place of a token, a text or a number that isn't there
Tests = Mapping[Operation, Tensor]  # what each operation says of a cell, from 0 to 1: (batch, rows, columns)
Keep = Callable[[str, Tensor], Tensor]  # told what a step selected and found; what it gives back is used


@dataclass(frozen=True)
class TableQuestion:
    """A question's words and numbers, and the table that it is about. `NOTHING` stands where one is shorter."""

    question: Tensor  # (batch, time), tokens
    pivots: Tensor  # (batch, numbers), those of the question
    places: Tensor  # (batch, numbers), where each stands in it
    names: Tensor  # (batch, columns, words), tokens
    numbers: Tensor  # (batch, rows, columns); 0 where a cell is no number
    numeric: Tensor  # (batch, rows, columns), True where a cell is a number
    cells: Tensor  # (batch, rows, columns), which of the texts a cell holds
    texts: Tensor  # (batch, different texts, words), tokens
    real: Tensor  # (batch, rows), True where there is a row

    @classmethod
    def read(cls, extras: Mapping[str, Tensor], path: str) -> Self:
        """What stands beside the tokens of a call, which must be there."""
        names = [field.name for field in fields(cls)]
        missing = [name for name in names if name not in extras]
        if missing:
            raise InputError(
                f"{path} answers questions about a table, and this call has no {missing[0]} beside its tokens",
                "a run that learned from questions: regard ask RUN TABLE.csv QUESTION",
            )
        return cls(**{name: extras[name] for name in names})

    def repeat(self, times: int) -> Self:
        """Each question so many times, one after the other."""
        return type(self)(
            **{field.name: getattr(self, field.name).repeat_interleave(times, 0) for field in fields(self)}
        )


@dataclass(frozen=True)
class Call:
    """How much a step takes of each operation, (batch, operations), and of each column, (batch, columns)."""

    operations: Tensor
    columns: Tensor

    def share(self, name: Operation) -> Tensor:
        """How much of one operation there is: (batch, 1)."""
        place = OPERATIONS.index(name)
        return self.operations[:, place : place + 1]


def compare_cells(given: TableQuestion, weights: Tensor) -> dict[Operation, Tensor]:
    """Which cells are greater and which are lesser than the numbers that the weights favour, (batch, 2, numbers).

    The paper mixes the numbers. Here the comparisons are mixed, for a comparison has no gradient by its number; where
    one number has all of the weight, that is the same.
    """
    cells, pivots = given.numbers[:, None], given.pivots[:, :, None, None]
    compared = (cells > pivots, cells < pivots)  # (batch, numbers, rows, columns) each
    with reckon_as(given):
        shares = weights.to(given.numbers.dtype)
        return {
            name: torch.einsum("bn,bnrc->brc", shares[:, n], (compared[n] & given.numeric[:, None]).to(shares.dtype))
            for n, name in enumerate(COMPARING)
        }


def reckon_as(given: TableQuestion) -> torch.autocast:
    """Where a table is reckoned with, nothing is rounded as in the model's layers: 151 + 77 + 101 would be 328."""
    return torch.autocast(given.numbers.device.type, enabled=False)


def run_program(
    calls: Sequence[Call], tests: Tests, given: TableQuestion, keep: Keep = lambda _, value: value
) -> Tensor:
    """Carry a program out: (batch, 1 + rows · columns), a number, and how much each cell was looked up at the end.

    All of it is in the precision of the table's numbers, whatever the choices are in.
    """
    with reckon_as(given):
        return _run_steps(calls, tests, given, keep)


def _run_steps(calls: Sequence[Call], tests: Tests, given: TableQuestion, keep: Keep) -> Tensor:
    dtype = given.numbers.dtype
    real, tests = given.real.to(dtype), {name: test.to(dtype) for name, test in tests.items()}
    rows, scalars, looked = [real, real], [real.new_zeros(len(real), 1)] * 3, given.numbers
    for call in (Call(call.operations.to(dtype), call.columns.to(dtype)) for call in calls):
        last, before, columns = rows[-1], rows[-2], call.columns[:, :, None]
        looked = call.share("assign")[..., None] * last[..., None] * call.columns[:, None]
        numbers: dict[Operation, Tensor] = {
            "sum": ((last[:, None] @ given.numbers) @ columns).flatten(1),
            "count": last.sum(1, keepdim=True),
            # the number of three steps ago less the last: the step between them selects rows for the last
            "difference": scalars[-3] - scalars[-1],
        }
        scalars.append(keep("found", sum_shares(call, numbers)))
        selections: dict[Operation, Tensor] = {
            "and": torch.minimum(last, before),
            "or": torch.maximum(last, before),
            "reset": real,
            **{name: (test @ columns).squeeze(-1) * real for name, test in tests.items()},
        }
        rows.append(keep("selected", sum_shares(call, selections)))
    return torch.cat((scalars[-1], looked.flatten(1)), -1)


def sum_shares(call: Call, results: Mapping[Operation, Tensor]) -> Tensor:
    """What some operations come to together, each by its share in a call: (batch, …)."""
    return torch.stack([call.share(name) * result for name, result in results.items()]).sum(0)


def harden(weights: Tensor) -> Tensor:
    """All of it on the largest."""
    return F.one_hot(weights.argmax(-1), weights.shape[-1]).to(weights.dtype)
