"""Orders: each visits every place once, and those that promise more keep it."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from regard.core.order import Order, walk

ORDERS = get_args(Order)
SIZES = [(height, width) for height in range(1, 14) for width in range(1, 14)]


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_visits_every_place_once(order: Order) -> None:
    for height, width in SIZES:
        assert sorted(walk(order, height, width)) == list(range(height * width)), (height, width)


@pytest.mark.parametrize("order", ["s-curve", "hilbert"])
def test_neighbours_in_a_curve_touch(order: Order) -> None:
    """By a side; one step of Hilbert's may touch by a corner, where one side of the picture is odd."""
    for height, width in SIZES:
        rows, columns = np.divmod(walk(order, height, width), width)
        steps = np.abs(np.diff(rows)) + np.abs(np.diff(columns))
        corners = int((steps == 2).sum())
        assert np.maximum(np.abs(np.diff(rows)), np.abs(np.diff(columns))).max(initial=0) <= 1, (height, width)
        assert corners <= (order == "hilbert" and (height + width) % 2), (height, width)


def test_hilbert_on_a_square_of_two_to_the_n_stays_in_a_quarter_until_it_is_full() -> None:
    rows, columns = np.divmod(walk("hilbert", 16, 16), 16)
    for quarter in range(4):
        part = slice(64 * quarter, 64 * (quarter + 1))
        assert len({(row // 8, column // 8) for row, column in zip(rows[part], columns[part], strict=True)}) == 1


def test_a_random_order_follows_from_its_seed() -> None:
    assert walk("random", 3, 4, seed=1).tolist() == walk("random", 3, 4, seed=1).tolist()
    assert walk("random", 3, 4, seed=1).tolist() != walk("random", 3, 4, seed=2).tolist()
    # a run of today must find its order in years to come
    assert walk("random", 2, 3, seed=0).tolist() == [3, 4, 2, 0, 1, 5]
