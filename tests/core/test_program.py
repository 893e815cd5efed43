"""Programs over tables against a plain interpreter, and soft ones against the paper's equations written out."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.program import NOTHING, OPERATIONS, Call, TableQuestion, compare_cells, harden, run_program
from regard.errors import InputError

ROWS, COLUMNS, STEPS = 7, 3, 4


def make_asked(seed: int, batch: int = 5) -> TableQuestion:
    chance = torch.Generator().manual_seed(seed)
    real = torch.arange(ROWS)[None] < torch.randint(3, ROWS + 1, (batch, 1), generator=chance)
    numbers = torch.randint(-9, 10, (batch, ROWS, COLUMNS), generator=chance).double() * real[..., None]
    return TableQuestion(
        question=torch.zeros(batch, 2, dtype=torch.long),
        pivots=torch.randint(-5, 6, (batch, 2), generator=chance).double(),
        places=torch.zeros(batch, 2, dtype=torch.long),
        names=torch.zeros(batch, COLUMNS, 1, dtype=torch.long),
        numbers=numbers,
        numeric=real[..., None].expand_as(numbers),
        cells=torch.full(numbers.shape, NOTHING),
        texts=torch.zeros(batch, 0, 1, dtype=torch.long),
        real=real,
    )


def one_hot(places: list[int], size: int) -> Tensor:
    return F.one_hot(torch.tensor(places), size).double()


def interpret(
    program: list[tuple[str, int]], table: list[list[float]], pivots: tuple[float, float], matched: list[list[bool]]
) -> tuple[float, set[tuple[int, int]]]:
    """A program step by step, with sets and loops: a number, and the cells that were looked up at the end."""
    everything = set(range(len(table)))
    selected, found, looked = [everything, everything], [0.0, 0.0, 0.0], set[tuple[int, int]]()
    for operation, column in program:
        last, before = selected[-1], selected[-2]
        looked = {(row, column) for row in last} if operation == "assign" else set()
        number = {
            "sum": sum(table[row][column] for row in last),
            "count": float(len(last)),
            "difference": found[-3] - found[-1],
        }.get(operation, 0.0)
        rows = {
            "and": last & before,
            "or": last | before,
            "reset": everything,
            "greater": {row for row in everything if table[row][column] > pivots[0]},
            "lesser": {row for row in everything if table[row][column] < pivots[1]},
            "match": {row for row in everything if matched[row][column]},
        }.get(operation, set())
        found.append(number)
        selected.append(rows)
    return found[-1], looked


def test_hard_programs_do_what_an_interpreter_does() -> None:
    chance = Random(0)
    for seed in range(60):
        given = make_asked(seed)
        batch = len(given.real)
        plans = [
            [(chance.randrange(len(OPERATIONS)), chance.randrange(COLUMNS)) for _ in range(STEPS)] for _ in range(batch)
        ]
        calls = [
            Call(
                one_hot([plan[n][0] for plan in plans], len(OPERATIONS)),
                one_hot([plan[n][1] for plan in plans], COLUMNS),
            )
            for n in range(STEPS)
        ]
        pivots = torch.stack((one_hot([0] * batch, 2), one_hot([1] * batch, 2)), 1)
        matched = (torch.rand(given.numbers.shape, generator=torch.Generator().manual_seed(seed)) > 0.5).double()
        answers = run_program(calls, {**compare_cells(given, pivots), "match": matched}, given)
        for n, plan in enumerate(plans):
            height = int(given.real[n].sum())
            number, looked = interpret(
                [(OPERATIONS[operation], column) for operation, column in plan],
                given.numbers[n, :height].tolist(),
                (float(given.pivots[n, 0]), float(given.pivots[n, 1])),
                (matched[n] > 0.5).tolist(),
            )
            assert answers[n, 0] == number
            cells = answers[n, 1:].view(ROWS, COLUMNS).nonzero().tolist()
            assert {(row, column) for row, column in cells} == looked


def test_a_soft_step_is_the_mean_of_all_hard_ones() -> None:
    """A single step is linear in its shares, so that a soft one is what all hard ones come to on average."""
    given = make_asked(1)
    operations = torch.rand(5, len(OPERATIONS), dtype=torch.double).softmax(-1)
    columns, pivots = torch.rand(5, COLUMNS).double().softmax(-1), torch.rand(5, 2, 2).double().softmax(-1)
    tests = compare_cells(given, pivots)
    soft = run_program([Call(operations, columns)], tests, given)
    total = torch.zeros_like(soft)
    for operation in range(len(OPERATIONS)):
        for column in range(COLUMNS):
            hard = Call(one_hot([operation] * 5, len(OPERATIONS)), one_hot([column] * 5, COLUMNS))
            share = operations[:, operation] * columns[:, column]
            total += share[:, None] * run_program([hard], tests, given)
    torch.testing.assert_close(soft, total)


def test_comparing_is_mixed_over_the_numbers_of_the_question() -> None:
    given = make_asked(2)
    weights = torch.tensor([[[0.25, 0.75], [1.0, 0.0]]]).double().expand(5, 2, 2)
    found = compare_cells(given, weights)
    first, second = given.pivots[:, 0, None, None], given.pivots[:, 1, None, None]
    wanted = 0.25 * (given.numbers > first).double() + 0.75 * (given.numbers > second).double()
    torch.testing.assert_close(found["greater"], wanted * given.numeric)
    torch.testing.assert_close(found["lesser"], ((given.numbers < first) & given.numeric).double())


def test_all_of_a_hard_choice_is_on_the_largest() -> None:
    assert harden(torch.tensor([[0.2, 0.5, 0.3]])).tolist() == [[0.0, 1.0, 0.0]]


def test_a_call_without_a_table_is_told() -> None:
    with pytest.raises(InputError, match="no question beside its tokens"):
        TableQuestion.read({}, "head")


def test_a_table_is_reckoned_with_in_its_own_precision() -> None:
    """Whatever the choices are in, and whatever layers are rounded to beside: 16,777,217 isn't a single's."""
    given = make_asked(3)
    numbers = given.numbers + 16_777_217 * given.real[..., None]
    given = replace(given, numbers=numbers, pivots=numbers[:, 0, :2])
    call = Call(one_hot([OPERATIONS.index("sum")] * 5, len(OPERATIONS)), one_hot([1] * 5, COLUMNS))
    rounded = Call(call.operations.bfloat16(), call.columns.bfloat16())
    pivots = torch.ones(5, 2, 2).bfloat16() / 2
    wanted = [numbers[n, :, 1].sum().item() for n in range(5)]
    for autocast in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            tests = compare_cells(given, pivots)
            assert run_program([rounded], tests, given)[:, 0].tolist() == wanted
        for name, test in compare_cells(given, pivots.double()).items():
            assert torch.equal(tests[name], test)
