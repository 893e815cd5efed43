"""What the experiment on heads concludes, and how it names roles."""

from __future__ import annotations

from typing import Any

import pytest

from regard.lab.apparatus.experiment import Tables
from regard.lab.heads import LEAST, NO_ROLE, RANDOM, REMOVED, ROLES, Heads, count_spare, name_role, shuffle


def make_tables(least: list[float], random: list[float], role: str = "previous") -> Tables:
    heads = [
        {"head": f"encoder 0.{head}", "role": role if head == 0 else NO_ROLE, "cost": 0.1 * head} for head in range(10)
    ]
    removed = [
        {"order": order, "removed": 2 * n, "loss": 1.0, "exact": exact}
        for order, curve in ((LEAST, least), (RANDOM, random))
        for n, exact in enumerate(curve)
    ]
    return {ROLES: heads, REMOVED: removed}


def test_heads_that_can_go_are_counted() -> None:
    found = Heads().conclude(make_tables([0.9, 0.9, 0.86, 0.5], [0.9, 0.8, 0.3, 0.1]))
    assert found.shown
    assert "1 of 10 heads have a role that can be named (1 previous); 4 can" in found.sentence
    assert "from 90%, and 0 at random" in found.sentence


@pytest.mark.parametrize(
    "least,random,role",
    [
        ([0.9, 0.8, 0.8], [0.9, 0.7, 0.5], "previous"),  # none can go
        ([0.9, 0.9, 0.8], [0.9, 0.9, 0.5], "previous"),  # as many at random
        ([0.9, 0.9, 0.9], [0.9, 0.7, 0.5], NO_ROLE),
    ],
)
def test_otherwise_it_is_not_shown(least: list[float], random: list[float], role: str) -> None:
    assert not Heads().conclude(make_tables(least, random, role)).shown


def test_a_curve_that_comes_back_has_fallen() -> None:
    rows = make_tables([0.9, 0.7, 0.9], [0.9, 0.9, 0.9])[REMOVED]
    assert count_spare(rows, LEAST) == 0
    assert count_spare(rows, RANDOM) == 4


def test_a_role_is_what_has_more_than_half() -> None:
    row: dict[str, Any] = {"previous": 0.6, "same": 0.1, "next": 0.0, "delimiter": 0.2, "linked": None}
    assert name_role(row) == "previous"
    assert name_role(row | {"previous": 0.5}) == NO_ROLE
    assert name_role(dict.fromkeys(row) | {"delimiter": 0.55, "linked": 0.7}) == "translation"


def test_an_order_of_chance_has_every_head_once() -> None:
    heads = [("a", n) for n in range(20)]
    mixed = shuffle(heads, 1)
    assert sorted(mixed) == heads != mixed
    assert mixed == shuffle(heads, 1) != shuffle(heads, 2)


def test_plots_have_both_orders() -> None:
    exact, loss, costs = Heads().draw(make_tables([0.9, 0.8], [0.9, 0.7]))
    assert list(exact.series) == list(loss.series) == [LEAST, RANDOM]
    assert len(costs.series["cost"]) == 10
