"""Schedules against their formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest

from regard.train.schedule import ScheduleSpec


def made(kind: str, **settings: Any) -> ScheduleSpec:
    return ScheduleSpec.parse({"kind": kind, **settings})


def test_the_papers_schedule_to_the_letter() -> None:
    schedule, width = made("inverse-root", warmup=4000), 512
    peak = (width * 4000) ** -0.5
    for step in (1, 100, 3999, 4000, 4001, 100_000):
        expected = width**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert peak * schedule.factor(step, 0.0) == pytest.approx(expected)


@pytest.mark.parametrize("kind", sorted(ScheduleSpec.kinds))
def test_warm_up_is_a_straight_line_and_the_rate_never_rises_after_it(kind: str) -> None:
    schedule = made(kind, warmup=10)
    assert [schedule.factor(step, 0.0) for step in (0, 5)] == [0.0, 0.5]
    factors = [schedule.factor(step, step / 100) for step in range(10, 101)]
    assert factors == sorted(factors, reverse=True)
    assert all(0 <= factor <= 1 for factor in factors)


def test_shapes_at_their_ends_and_in_the_middle() -> None:
    assert made("cosine", floor=0.1).factor(50, 0.5) == pytest.approx(0.55)
    assert made("cosine", floor=0.1).factor(100, 1.0) == pytest.approx(0.1)
    assert made("cosine").factor(25, 0.25) == pytest.approx(0.5 * (1 + math.cos(math.pi / 4)))
    assert made("linear").factor(75, 0.75) == pytest.approx(0.25)
    assert made("stable-decay", decay=0.2).factor(80, 0.8) == pytest.approx(1.0)
    assert made("stable-decay", decay=0.2).factor(90, 0.9) == pytest.approx(0.5)
    assert made("stable-decay", decay=0.2).factor(100, 1.0) == pytest.approx(0.0)
    assert made("constant").factor(10**6, 1.0) == 1.0


def test_progress_past_the_end_stays_at_the_end() -> None:
    assert made("linear", floor=0.2).factor(200, 1.7) == pytest.approx(0.2)
