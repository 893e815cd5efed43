"""Tests of differences against all that could have happened, and on models of which it is known what is true."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from regard.errors import InputError
from regard.tasks.significance import (
    Statistic,
    compare_drawn,
    correct_holm,
    draw_values,
    enclose_values,
    randomise,
    shift_bootstrap,
)


def mean(values: list[float]) -> Statistic:
    return Statistic.mean(values, rising=True)


def enumerate_swaps(one: Statistic, other: Statistic) -> float:
    """The share of all ways of changing sides that come out as far apart as what was measured."""
    far, found = abs(one.total() - other.total()), []
    for swaps in product((False, True), repeat=len(one)):
        flags = np.array(swaps)[:, None]
        sides = np.where(flags, other.rows, one.rows), np.where(flags, one.rows, other.rows)
        values = [one.value(side.sum(0, keepdims=True))[0] for side in sides]
        found.append(abs(values[0] - values[1]) >= far - 1e-12)
    return float(np.mean(found))


@pytest.mark.parametrize("seed", range(6))
def test_randomisation_agrees_with_all_ways_of_changing_sides(seed: int) -> None:
    chance = np.random.default_rng(seed)
    counts = chance.integers(1, 9, 10).astype(np.float64)  # a ratio of sums, such as a loss by tokens
    one, other = (
        Statistic.mean(chance.normal(shift, 1, 10) * counts, counts, rising=False) for shift in (0.0, seed / 4)
    )
    assert randomise(one, other) == pytest.approx(enumerate_swaps(one, other), abs=0.02)


def test_randomisation_agrees_where_many_ways_tie() -> None:
    one, other = mean([1, 1, 1, 1, 0, 1, 0, 1, 1, 1]), mean([0, 1, 0, 0, 1, 1, 0, 0, 0, 1])
    exact = enumerate_swaps(one, other)
    assert exact == 2 * (1 + 6) / 2**6  # six samples differ, five of them to one side
    assert randomise(one, other) == pytest.approx(exact, abs=0.02)


def test_the_bootstrap_agrees_with_the_normal_distribution() -> None:
    """A mean difference of 2 standard errors has p = 0.0455, and its interval is 1.96 of them wide on each side."""
    chance = np.random.default_rng(1)
    noise = chance.normal(0, 1, 2000)
    noise = (noise - noise.mean()) / noise.std()
    error = 1 / np.sqrt(2000)
    one, other = mean(list(noise + 2 * error)), mean([0.0] * 2000)
    drawn = draw_values([one, other])
    found = compare_drawn(one, other, (drawn[0], drawn[1]))
    assert found.value == pytest.approx(2 * error)
    assert found.bootstrap == pytest.approx(0.0455, abs=0.01)
    assert found.randomisation == pytest.approx(0.0455, abs=0.01)
    assert (found.low, found.high) == pytest.approx((0.04 * error, 3.96 * error), abs=0.15 * error)


def test_a_model_does_not_differ_from_itself() -> None:
    same = mean([0.2, 0.9, 0.4, 0.4])
    drawn = draw_values([same, same])
    found = compare_drawn(same, same, (drawn[0], drawn[1]))
    assert (found.value, found.low, found.high) == (0, 0, 0)
    assert (found.bootstrap, found.randomisation) == (1, 1)


def test_models_that_always_differ_are_told_apart() -> None:
    one, other = mean([1.0] * 40), mean([0.0] * 40)
    assert randomise(one, other) < 0.001
    drawn = draw_values([one, other])
    assert shift_bootstrap(1.0, drawn[0] - drawn[1]) < 0.001


def test_equal_models_are_told_apart_no_more_often_than_chance_says() -> None:
    """Five in a hundred; among 300 pairs of equally good models, 15 with a deviation of 3.8."""
    alarms = {"bootstrap": 0, "randomisation": 0}
    for seed in range(300):
        chance = np.random.default_rng(seed)
        one, other = (mean(list(chance.normal(0, 1, 60))) for _ in range(2))
        drawn = draw_values([one, other], seed, 500)
        likely = shift_bootstrap(one.total() - other.total(), drawn[0] - drawn[1])
        alarms["bootstrap"] += likely < 0.05
        alarms["randomisation"] += randomise(one, other, seed, 500) < 0.05
    assert 5 <= alarms["randomisation"] <= 26, alarms
    assert 5 <= alarms["bootstrap"] <= 30, alarms  # a percentile bootstrap is a little too sure on few samples


def test_a_statistic_needs_no_ratio() -> None:
    """Whatever follows from sums can be tested: here the larger of two columns' means."""
    rows = np.random.default_rng(0).random((12, 2))
    one, other = (Statistic(part, True, lambda sums: sums.max(1)) for part in (rows, rows[::-1] * 0.8))
    assert randomise(one, other) == pytest.approx(enumerate_swaps(one, other), abs=0.02)


def test_intervals_hold_their_value() -> None:
    one = mean(list(np.random.default_rng(0).random(50)))
    found = enclose_values(one.total(), draw_values([one])[0])
    assert found.low < found.value < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * np.std(one.rows[:, 0]) / np.sqrt(50), rel=0.1)


def test_holm_multiplies_the_smallest_by_all_and_keeps_the_order() -> None:
    assert correct_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert correct_holm([0.5, 0.9]) == [1.0, 1.0]
    assert correct_holm([0.04]) == [0.04]
    assert correct_holm([]) == []


def test_models_are_compared_on_the_same_samples_only() -> None:
    with pytest.raises(InputError, match="3 and 2 samples"):
        randomise(mean([1, 2, 3]), mean([1, 2]))
