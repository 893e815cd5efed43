"""How far positions are apart, by formula; and what is concluded from such counts."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest

from regard.lab.apparatus.experiment import Tables
from regard.lab.apparatus.lineup import LINEUP, WINDOW
from regard.lab.paths import COUNTS, GROWTH, Distance, Paths, measure_distance


@pytest.mark.parametrize("length", [4, 7, 12])
def test_a_recurrence_puts_its_steps_between(length: int) -> None:
    """A step of an RNN is a product, a sum, a tanh and what a watcher adds; the first has its input's product."""
    assert measure_distance(LINEUP["RNN"], length, 1) == Distance(1, 4 * length, 4 * length)


@pytest.mark.parametrize("length", [4, 31, 32])
def test_attention_is_three_products_away(length: int) -> None:
    assert measure_distance(LINEUP["attention"], length, 1) == Distance(1, 3, 3)


def test_a_way_through_many_gates_is_not_lost_to_rounding() -> None:
    # in single precision what passes 64 gated layers is 0 with this seed
    assert measure_distance(LINEUP["convolution"], 128, 3).layers == 64


@pytest.mark.parametrize("length", [9, 16, 17, 32])
def test_neighbours_are_stacked_until_they_reach(length: int) -> None:
    assert measure_distance(LINEUP["convolution"], length, 1).layers == ceil((length - 1) / 2)
    assert measure_distance(LINEUP["windowed attention"], length, 1).layers == ceil((length - 1) / (WINDOW - 1))
    doubled = next(layers for layers in range(1, 9) if 2 * (2**layers - 1) >= length - 1)
    assert measure_distance(LINEUP["dilated convolution"], length, 1).layers == doubled


def make_tables(attention: str = "O(1)") -> Tables:
    growth: dict[str, Any] = {"RNN": "O(n)", "dilated convolution": "O(log n)", "attention": attention}
    rows = [
        {"mixer": name, "n": 128, "layers": 1, "path": 10 + n, "path grows": grows, "chain": 20, "chain grows": grows}
        for n, (name, grows) in enumerate(growth.items())
    ]
    counts = [{"mixer": name, "n": n, "layers": 1, "path": n, "chain": 2 * n} for name in growth for n in (8, 16, 32)]
    return {GROWTH: rows, COUNTS: counts}


def test_the_conclusion_has_the_counts_of_its_table() -> None:
    found = Paths().conclude(make_tables())
    assert found.shown
    assert "128 positions lie 10 operations in an RNN" in found.sentence and "12 in attention, O(1)" in found.sentence


def test_attention_that_grew_would_not_show_it() -> None:
    assert not Paths().conclude(make_tables("O(n)")).shown


def test_both_counts_are_drawn() -> None:
    path, chain = Paths().draw(make_tables())
    assert [point.value for point in path.series["RNN"]] == [8, 16, 32]
    assert [point.value for point in chain.series["RNN"]] == [16, 32, 64]
