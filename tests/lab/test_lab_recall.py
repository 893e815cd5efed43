"""Recall: shares by length, models of equal size, and what is concluded."""

from __future__ import annotations

import math
from typing import Any

import pytest

import regard
from regard.lab.recall import CURVES, MODELS, SUMMARY, TASKS, Recall, describe_run, divide_lengths, smooth
from regard.runs.spec import RunSpec


def test_lengths_are_divided_where_training_ends() -> None:
    solved = {size: float(size <= 4) for size in range(3, 17)}
    assert divide_lengths(solved, 8) == {"short": 1.0, "long": 0.0, "beyond": 0.0}
    assert divide_lengths({3: 1.0, 6: 0.5, 8: 0.7, 12: 0.2}, 8)["long"] == pytest.approx(0.6)
    assert math.isnan(divide_lengths({3: 1.0}, 8)["beyond"])


def test_models_have_much_the_same_number_of_weights() -> None:
    counts = {}
    for name, settings in MODELS.items():
        told = dict(settings)
        counts[name] = regard.preset(told.pop("kind"), **told, vocabulary=16).build("meta").parameter_count()
    assert max(counts.values()) < 1.25 * min(counts.values()), counts


@pytest.mark.parametrize("task", TASKS)
def test_every_run_can_be_described(task: str) -> None:
    for model in MODELS:
        spec = RunSpec.parse({**describe_run(task, model, TASKS[task][0], 10, 1), "out": "x"})
        assert spec.train.steps == 10


def test_a_smooth_curve_is_a_mean_of_neighbouring_sizes() -> None:
    curves = [{"task": "copy", "model": "RNN", "size": size, "solved": size / 10} for size in range(1, 9)]
    found = smooth(curves, 4)
    assert [row["size"] for row in found] == [1.5, 3.5, 5.5, 7.5]
    assert [row["solved"] for row in found] == pytest.approx([0.15, 0.35, 0.55, 0.75])


def make_tables(attention: float, states: float, mamba: float) -> dict[str, Any]:
    shares = {"attention": attention, "hybrid": attention, "Mamba": mamba}
    rows: list[dict[str, Any]] = [
        {"task": task, "model": model, "short": 1.0, "long": shares.get(model, states)}
        for task in TASKS
        for model in MODELS
    ]
    return {SUMMARY: rows, CURVES: [{**row, "size": 4, "solved": row["long"]} for row in rows]}


def test_the_claim_needs_attention_and_selection_to_remember_more() -> None:
    found = Recall().conclude(make_tables(0.95, 0.4, 0.9))
    assert found.shown and "attention 95%" in found.sentence and "Mamba 90%, S4D 40%" in found.sentence
    assert not Recall().conclude(make_tables(0.4, 0.95, 0.9)).shown
    assert not Recall().conclude(make_tables(0.95, 0.4, 0.4)).shown  # selection made up for nothing
    assert not Recall().conclude(make_tables(0.42, 0.4, 0.9)).shown  # that may be chance


def test_who_has_not_learned_is_told_apart_from_who_forgets() -> None:
    tables = make_tables(0.95, 0.4, 0.9)
    assert "not learned" not in Recall().conclude(tables).sentence
    tables[SUMMARY][0]["short"] = 0.3
    assert Recall().conclude(tables).sentence.endswith("even at short lengths: RNN (induction).")


def test_tables_are_drawn_a_plot_for_each_task() -> None:
    assert len(Recall().draw(make_tables(0.95, 0.4, 0.9))) == len(TASKS)
