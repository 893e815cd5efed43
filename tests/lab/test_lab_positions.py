"""Positions: shares by size, and what is concluded of schemes that tell distances."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.solved import allow_chance, average_sizes
from regard.lab.positions import CURVES, SCHEMES, SUMMARY, TASKS, WHOLE, Assignment, Positions, describe_run, name_run
from regard.runs.spec import RunSpec


def test_each_size_counts_once_in_a_mean() -> None:
    solved = {1: 1.0, 2: 0.5, 3: 0.0, 5: 0.25}
    assert average_sizes(solved, 1, 2) == 0.75
    assert average_sizes(solved, 3, 9) == 0.125
    assert math.isnan(average_sizes(solved, 6, 9))


def test_chance_is_allowed_twice_the_standard_error() -> None:
    assert allow_chance(200) == pytest.approx(0.1)


@pytest.mark.parametrize("tasks", [TASKS, WHOLE])
def test_every_run_can_be_described(tasks: dict[str, Assignment]) -> None:
    names = [name_run(task, scheme) for task in tasks for scheme in tasks[task].schemes]
    assert len(set(names)) == len(names) and not any(set(name) & set(" ,/") for name in names)
    for task in tasks.values():
        for scheme in task.schemes:
            spec = RunSpec.parse({**describe_run(task, scheme, 1), "out": "x"})
            assert spec.train.steps == task.steps


def make_tables(relative: float, absolute: float, trained: float = 1.0) -> dict[str, Any]:
    beyond = {scheme: absolute if scheme in ("sinusoidal", "learned") else relative for scheme in SCHEMES}
    rows = [
        {"task": task, "position": scheme, "trained": trained, "beyond": beyond[scheme]}
        for task in TASKS
        for scheme in TASKS[task].schemes
    ]
    return {SUMMARY: rows, CURVES: [{**row, "size": 3, "solved": row["beyond"]} for row in rows]}


def test_the_claim_needs_distances_that_carry_further() -> None:
    found = Positions().conclude(make_tables(0.6, 0.1))
    assert found.shown and "copy 60% with distances, 10% with numbered places" in found.sentence
    assert not Positions().conclude(make_tables(0.1, 0.6)).shown
    assert not Positions().conclude(make_tables(0.11, 0.1)).shown  # that may be chance


def test_what_nobody_learned_says_nothing() -> None:
    found = Positions().conclude(make_tables(0.6, 0.1, trained=0.5))
    assert not found.shown and "no task was solved to 90%" in found.sentence


def test_tables_are_drawn_a_plot_for_each_task() -> None:
    assert len(Positions().draw(make_tables(0.6, 0.1))) == len(TASKS)


def test_tiny_runs_give_a_row_for_each_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = {"copy": Assignment("copy", (1, 4), 6, 2, {}, ("none", "learned"))}
    monkeypatch.setattr("regard.lab.positions.TASKS", tiny)
    tables = Positions().measure(Bench(tmp_path))
    assert [row["position"] for row in tables[SUMMARY]] == ["none", "learned"]
    assert {row["size"] for row in tables[CURVES]} <= set(range(1, 7))
    assert not Positions().conclude(tables).shown
