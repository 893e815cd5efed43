"""Schedules against their formulas, and the law that none of them ever jumps, whatever the budget is counted in."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from regard.errors import SpecError
from regard.train.moment import Moment, Spent
from regard.train.schedule import ScheduleSpec
from regard.train.spec import TrainSpec

KINDS = sorted(ScheduleSpec.kinds)


def made(kind: str, **settings: Any) -> ScheduleSpec:
    return ScheduleSpec.parse({"kind": kind, **settings})


# a step of each budget: 200 of them use it up
BUDGETS: dict[str, dict[str, Any]] = {
    "steps": {"steps": 200},
    "epochs": {"epochs": 2.0},
    "tokens": {"tokens": 200_000},
    "minutes": {"minutes": 5.0},
    "several": {"steps": 250, "epochs": 2.5, "tokens": 200_000},
}
WARMUPS: list[int | float] = [0, 1, 10, 100, 150, 5000, 0.0, 0.05, 0.123, 0.9]


def factors(spec: TrainSpec, moment: Moment | None = None) -> list[float]:
    """Every step's factor until the budget is used up, by steps that are alike."""
    moment, found = moment or Moment(), []
    while moment.progress(spec) < 1 - 1e-9:
        after = moment.step + 1
        now = Spent(after, after / 100, 1000 * after, 1.5 * after)
        found.append(moment.factor(spec, now))
        moment.step, moment.tokens, moment.clock = after, 1000 * after, 1.5 * after
        moment.epoch, moment.share = divmod(after, 100)[0], (after % 100) / 100
    return found


def plan(kind: str, budget: str = "steps", **settings: Any) -> TrainSpec:
    return TrainSpec(schedule=made(kind, **settings), **BUDGETS[budget])


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_schedule_ever_jumps_and_all_end_where_they_say(kind: str, budget: str) -> None:
    for warmup in WARMUPS:
        found = factors(plan(kind, budget, warmup=warmup))
        assert len(found) == 200
        steps = warmup * 200 if isinstance(warmup, float) else min(warmup, 100)  # at most half of the budget
        slowest = 1 / min(max(steps, 1), 200 - max(steps, 1))
        steepest = {"cosine": math.pi / 2, "stable-decay": 5.05}.get(kind, 1.01) * slowest
        if steps <= 1 and kind == "inverse-root":
            steepest = 1.0  # 1/√step from the first step on
        assert all(abs(one - other) <= steepest for one, other in itertools.pairwise(found)), warmup
        assert max(found) == pytest.approx(1, abs=slowest)
        if kind == "inverse-root":
            assert found[-1] == pytest.approx(math.sqrt(max(steps, 1) / 200), rel=0.01)
        elif kind in ("constant", "plateau"):
            assert found[-1] == 1
        else:
            assert 0 < found[-1] <= steepest  # one step above its floor


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_rate_rises_while_it_warms_up_and_never_after(kind: str, budget: str) -> None:
    for warmup in WARMUPS:
        found = factors(plan(kind, budget, warmup=warmup))
        top = found.index(max(found))
        assert found[: top + 1] == sorted(found[: top + 1])
        assert found[top:] == sorted(found[top:], reverse=True)


@pytest.mark.parametrize("kind", ["linear", "cosine", "stable-decay"])
@pytest.mark.parametrize("floor", [0.0, 0.3])
def test_a_floor_is_where_it_ends(kind: str, floor: float) -> None:
    spec = plan(kind, floor=floor)
    assert factors(spec)[-1] == pytest.approx(floor, abs=0.03)
    assert spec.schedule.after(1.0, 9.0) == floor


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_shorter_than_its_warm_up_does_not_end_at_its_highest_rate(kind: str) -> None:
    found = factors(TrainSpec(steps=200, schedule=made(kind, warmup=4000)))
    assert found.index(max(found)) == 99
    assert found[-1] < 0.1 or kind in ("constant", "plateau", "inverse-root")


@pytest.mark.parametrize("kind", KINDS)
def test_every_schedule_warms_up_over_a_twentieth_of_the_budget_unless_told(kind: str) -> None:
    spec = TrainSpec(steps=1000, schedule=made(kind))
    assert factors(spec)[:50] == pytest.approx([n / 50 for n in range(1, 51)])
    assert TrainSpec(steps=1000).schedule == made("linear")


def test_the_papers_schedule_to_the_letter() -> None:
    spec, width = TrainSpec(steps=10_000, schedule=made("inverse-root", warmup=4000)), 512
    peak = (width * 4000) ** -0.5
    found = factors(spec)
    for step in (1, 100, 3999, 4000, 4001, 10_000):
        expected = width**-0.5 * min(step**-0.5, step * 4000**-1.5)
        assert peak * found[step - 1] == pytest.approx(expected)


def test_shapes_in_the_middle() -> None:
    assert made("cosine", floor=0.1).after(0.5, 1.0) == pytest.approx(0.55)
    assert made("cosine").after(0.25, 1.0) == pytest.approx(0.5 * (1 + math.cos(math.pi / 4)))
    assert made("linear").after(0.75, 1.0) == pytest.approx(0.25)
    assert made("stable-decay", decay=0.2).after(0.8, 1.0) == pytest.approx(1.0)
    assert made("stable-decay", decay=0.2).after(0.9, 1.0) == pytest.approx(0.5)
    assert made("constant").after(1.0, 9.0) == 1.0


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("warmup", [0.1, 30])
def test_a_run_from_before_this_goes_on_from_where_its_warm_up_must_have_ended(
    kind: str, budget: str, warmup: float
) -> None:
    spec = plan(kind, budget, warmup=warmup)
    straight = factors(spec)
    before = Moment(step=120, tokens=120_000, clock=180.0, epoch=1, share=0.2)  # it says nothing of a warm-up
    assert factors(spec, before) == pytest.approx(straight[120:])


def test_a_budget_that_grows_keeps_the_warm_up_that_was() -> None:
    spec, moment = plan("linear", warmup=0.1), Moment()
    factors(spec, moment)
    longer = factors(spec.replace(steps=400), moment)
    assert longer[0] == pytest.approx(1 - (200 - 20) / (400 - 20))
    assert longer[-1] == pytest.approx(1 / 380)


def test_a_fall_in_the_warm_up_is_no_jump_at_its_end() -> None:
    spec, moment = plan("plateau", warmup=20, patience=1), Moment(falls=2)
    found = factors(spec, moment)
    assert found[9] == pytest.approx(0.125)
    assert found[19:] == pytest.approx([0.25] * 181)


@pytest.mark.parametrize("warmup", [-1, 1.0, 1.5, -0.1, math.nan, math.inf, True, "5", None, 2**25])
def test_a_warm_up_is_steps_or_a_share(warmup: Any) -> None:
    with pytest.raises(SpecError, match="warmup: steps, such as 500, or a share of the budget"):
        made("linear", warmup=warmup)
