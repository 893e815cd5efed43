"""Curves of journals: thinned without losing what was there, and read whatever a journal holds."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from regard.lens.curves import POINTS, find_peak_memory, list_measures, read_curves


def step(number: int, **more: Any) -> dict[str, Any]:
    told = {"loss": 1 / number, "rate": 0.1, "gradient": 1.0, "tokens": 10 * number, "seconds": 60.0 * number}
    return {"event": "step", "step": number, **told, "tokens_per_second": 5.0, **more}


def evaluation(number: int, **more: Any) -> dict[str, Any]:
    return {"event": "evaluation", "step": number, "seconds": 60.0 * number + 30, "best": False, **more}


@pytest.mark.parametrize("count", [1, 2, POINTS, POINTS + 1, 3 * POINTS + 7])
def test_thinning_keeps_means_and_bounds(count: int) -> None:
    history = [step(number) for number in range(1, count + 1)]
    found = read_curves(history)
    loss = found.series["loss"]
    assert len(loss.value) == len(found.logged.step) <= POINTS
    assert (
        found.logged.step[-1] == count and found.logged.tokens[-1] == 10 * count and found.logged.minutes[-1] == count
    )
    sizes = [found.steps] * (len(loss.value) - 1)
    sizes.append(count - sum(sizes))
    total = sum(size * value for size, value in zip(sizes, loss.value, strict=True) if value is not None)
    assert total == pytest.approx(sum(1 / number for number in range(1, count + 1)))
    assert min(value for value in loss.low if value is not None) == 1 / count
    assert max(value for value in loss.high if value is not None) == 1.0
    for low, value, high in zip(loss.low, loss.value, loss.high, strict=True):
        assert low is not None and value is not None and high is not None and low <= value <= high


def test_a_short_journal_is_told_step_by_step() -> None:
    found = read_curves([step(1), step(2)]).as_json()
    assert found["steps"] == 1
    assert found["series"]["loss"] == {"value": [1.0, 0.5]}  # bounds that are the value say nothing


def test_speed_is_tokens_over_the_time_of_their_steps() -> None:
    # 10 tokens at 5 a second and 10 at 20: 20 tokens in 2.5 seconds, and not the mean of the speeds
    history = [step(1), step(2, tokens_per_second=20.0)]
    assert read_curves(history).speed == pytest.approx(8.0)
    assert read_curves(history, points=1).series["tokens_per_second"].value == pytest.approx([8.0])


def test_a_gap_in_a_journal_weighs_no_more_than_a_step() -> None:
    history = [step(591, tokens=122_150), step(592, tokens=122_160, tokens_per_second=20.0)]
    assert read_curves(history).speed == pytest.approx(11 / (1 / 5 + 10 / 20))


def test_a_step_that_came_twice_counts_as_it_was_last() -> None:
    found = read_curves([step(1), step(2, loss=9.0), step(1, loss=3.0), step(2, loss=4.0)])
    assert found.logged.step == [1, 2]
    assert found.series["loss"].value == [3.0, 4.0]


def test_costs_are_curves_of_their_own() -> None:
    found = read_curves([step(1, costs={"balance": 2.0}), step(2)])
    assert found.series["costs.balance"].value == [2.0, None]


def test_evaluations_have_measures_intervals_and_places() -> None:
    measures = {
        "bleu": 30.0,
        "loss": 2.0,
        "loss_low": 1.5,
        "loss_high": 2.5,
        "sentences": 12,
        "signatures": {"bleu": "x"},
    }
    found = read_curves([step(1), step(2), evaluation(2, **measures), evaluation(9, best=True, bleu=31.0)])
    assert list(found.measures) == ["bleu", "loss"]
    assert found.measures["bleu"].value == [30.0, 31.0]
    loss = found.measures["loss"]
    assert (loss.value, loss.low, loss.high) == ([2.0, None], [1.5, None], [2.5, None])
    assert found.best == [False, True] and found.counts == [{"sentences": 12}, {}]
    assert found.evaluated.tokens == [20, None]  # no step of the journal says how many tokens there were at 9
    assert found.evaluated.minutes == [2.5, 9.5]


def test_measures_are_fractions_and_the_rest_only_counts() -> None:
    entry = evaluation(1, bleu=0.0, exact=1, peak_memory=5, cut=3, loss_low=1.0)
    assert list_measures(entry) == ["bleu"]
    assert find_peak_memory([entry, evaluation(2, peak_memory=9), evaluation(3, peak_memory="12")]) == 9
    assert find_peak_memory([step(1)]) is None


@pytest.mark.parametrize(
    "strange",
    [
        {"event": "step", "step": 10**400},
        {"event": "step", "step": -1},
        {"event": "step", "step": 2, "loss": math.nan, "tokens": 10**400, "seconds": "x", "costs": [1]},
        {"event": "step", "step": 2, "loss": math.inf, "gradient": True, "tokens_per_second": 0, "costs": {"a": "b"}},
        {"event": "evaluation", "step": 2, "bleu": math.nan, "best": "yes", "seconds": None},
    ],
)
def test_what_is_no_number_is_left_out(strange: dict[str, Any]) -> None:
    found = read_curves([step(1), strange, step(3)])
    told = json.dumps(found.as_json(), allow_nan=False)
    assert "NaN" not in told
    loss = found.series["loss"].value
    assert loss[0] == 1.0 and loss[-1] == pytest.approx(1 / 3)


def test_an_empty_journal_has_no_curves() -> None:
    found = read_curves([])
    assert found.series == {} and found.measures == {} and found.speed is None
    json.dumps(found.as_json())
