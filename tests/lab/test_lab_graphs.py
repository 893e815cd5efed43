"""Orders of nodes: what the tables say, in both outcomes, and that every order is tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Tables
from regard.lab.graphs import ATTENTION, MESSAGES, ORDERS, TABLE, NodeOrders, tell_order


def make_tables(spread: float = 0.01, **accuracies: float) -> Tables:
    """Every order at 0.5 but those that are told."""
    rows = []
    for name in (*ORDERS, MESSAGES, ATTENTION):
        value = accuracies.get(name.replace("-", "_"), 0.5)
        seen = {} if name in (MESSAGES, ATTENTION) else {"order_mean": value, "order_spread": spread}
        rows.append(tell_order(name, {"accuracy": value, "accuracy_low": 0.4, "accuracy_high": 0.9, **seen}))
    return {TABLE: rows}


def test_an_order_that_serves_better_than_chance_is_shown() -> None:
    found = NodeOrders().conclude(make_tables(breadth_first=0.8))
    assert found.shown
    assert "Sorted by breadth-first the model has 80.0% of the nodes right, in an order by chance 50.0%" in str(found)


def test_a_difference_within_the_spread_is_not_shown() -> None:
    assert not NodeOrders().conclude(make_tables(spread=0.1, degree=0.6)).shown
    assert not NodeOrders().conclude(make_tables(spread=0.0, degree=0.5)).shown


def test_the_plot_has_every_order_and_both_controls() -> None:
    (plot,) = NodeOrders().draw(make_tables())
    assert set(plot.series) == {*ORDERS, MESSAGES, ATTENTION}


def test_every_order_is_trained_and_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "choose", lambda bench, usual, full: (2, 8))
    tables = NodeOrders().measure(Bench(tmp_path))
    rows = {row["order"]: row for row in tables[TABLE]}
    assert set(rows) == {*ORDERS, MESSAGES, ATTENTION}
    assert rows[MESSAGES]["spread"] == 0.0 and all(row["spread"] >= 0 for row in rows.values())
    NodeOrders().conclude(tables)
