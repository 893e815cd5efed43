"""Exponents and crossings of known curves, bytes by formula, and what is concluded from them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.lab.apparatus.experiment import Tables
from regard.lab.apparatus.lineup import LINEUP, WINDOW
from regard.lab.scaling import (
    COSTS,
    CROSSINGS,
    EXPONENTS,
    LENGTH,
    WIDTH,
    Effort,
    Scaling,
    compare_with,
    count_kept,
    find_crossing,
    make_steps,
    measure_lengths,
    sum_up,
)

NUMBER = 4  # bytes


def make_curve(mixer: str, exponent: float, factor: float = 1.0, state: float = 0.0) -> list[dict[str, Any]]:
    """Costs that follow one power of the length exactly; `state`: the power of the state's."""
    return [
        {
            "mixer": mixer,
            "n": n,
            "training s": factor * n**exponent,
            "MB": float(n),
            "token ms": 1.0,
            "state kB": 2.0 * n**state,
        }
        for n in (64, 128, 256, 512, 1024)
    ]


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_the_exponent_is_that_of_a_known_curve(exponent: float) -> None:
    summary = sum_up(make_curve("attention", exponent))
    assert summary["s: n^"] == pytest.approx(exponent)
    assert (summary["MB: n^"], summary["ms: n^"], summary["n"]) == (1.0, 0.0, 1024)


def test_only_the_upper_end_counts() -> None:
    rows = make_curve("attention", 2.0)
    rows[0]["training s"] = 1e9
    assert sum_up(rows)["s: n^"] == pytest.approx(2.0)


def test_three_lengths_make_no_exponent() -> None:
    assert sum_up(make_curve("attention", 2.0)[:3])["s: n^"] is None


def test_curves_cross_where_they_are_equal() -> None:
    rows = make_curve("attention", 2.0) + make_curve("Mamba", 1.0, 300.0) + make_curve("LSTM", 1.0, 1.0)
    rows += make_curve("GRU", 1.0, 5000.0)
    told = {row["mixer"]: row["training"] for row in compare_with(rows, "attention")}
    assert told == {"Mamba": "from about 300", "LSTM": "at all lengths", "GRU": "not up to 1,024"}


def test_a_curve_that_rises_again_is_cheaper_from_its_last_crossing() -> None:
    points = [(100, 1.0, 2.0), (200, 3.0, 2.0), (400, 1.0, 2.0)]
    assert find_crossing(points) != "at all lengths"
    assert find_crossing(points[:2]) == "not up to 200"


def make_input(length: int) -> torch.Tensor:
    return torch.randn(1, length, WIDTH, generator=torch.Generator().manual_seed(1)).requires_grad_()


@pytest.mark.parametrize("length", [64, 128])
def test_attention_keeps_four_vectors_a_position_and_no_table(length: int) -> None:
    """Queries, keys, values, what was seen; and for each query the logarithm of its sum."""
    kept = count_kept(LINEUP["attention"].build(WIDTH), make_input(length))
    assert kept == (4 * WIDTH + 1) * length * NUMBER


def test_a_window_keeps_a_table_of_its_blocks_and_none_of_all_pairs() -> None:
    bare, hidden = (
        count_kept(LINEUP[name].build(WIDTH), make_input(1024)) for name in ("attention", "windowed attention")
    )
    assert 0 < hidden - bare < 1024 * 1024 / 4


def test_a_weight_and_an_input_are_not_kept_for_the_backward_pass() -> None:
    """A mean of projected values: its first product needs the input and the weight, which are there anyway."""
    kept = count_kept(LINEUP["mean pooling"].build(WIDTH), make_input(64))
    assert kept <= (WIDTH + 1) * 64 * NUMBER


def test_states_have_the_bytes_of_their_vectors() -> None:
    x = make_input(96)
    kept = {name: make_steps(LINEUP[name].build(WIDTH), x)[1] for name in LINEUP}
    assert kept["attention"] == 2 * 96 * WIDTH * NUMBER
    assert (kept["RNN"], kept["LSTM"]) == (WIDTH * NUMBER, 2 * WIDTH * NUMBER)
    assert kept["windowed attention"] <= 2 * (WINDOW + 1) * WIDTH * NUMBER


def test_steps_go_on_after_the_sequence() -> None:
    step, _ = make_steps(LINEUP["attention"].build(WIDTH), make_input(8))
    step()
    step()


def test_who_is_too_slow_is_not_asked_again() -> None:
    some = {name: LINEUP[name] for name in ("mean pooling", "attention")}
    rows = measure_lengths(some, (8, 16), Effort(rounds=2, patience=0.0))
    assert [(row["mixer"], row["n"]) for row in rows] == [("mean pooling", 8), ("attention", 8)]
    rows = measure_lengths(some, (8, 16), Effort(rounds=2))
    assert [row["n"] for row in rows] == [8, 8, 16, 16]
    assert all(row[cost] > 0 for row in rows for cost in EXPONENTS)


def make_tables(attention: float = 1.9, state: float = 1.0) -> Tables:
    curves = [make_curve("attention", attention, state=state), make_curve("LSTM", 1.0), make_curve("Mamba", 1.0, 300.0)]
    rows = [row for curve in curves for row in curve]
    return {COSTS: [sum_up(curve) for curve in curves], LENGTH: rows, CROSSINGS: compare_with(rows, "attention")}


def test_the_conclusion_has_the_exponents_of_its_table() -> None:
    found = Scaling().conclude(make_tables())
    assert found.shown
    assert "attention's as n^1.90, LSTM's as n^1.00, Mamba's as n^1.00" in found.sentence
    assert "an LSTM is cheaper to train than attention at all lengths" in found.sentence


def test_other_exponents_would_not_show_it() -> None:
    assert not Scaling().conclude(make_tables(attention=1.3)).shown
    assert not Scaling().conclude(make_tables(state=0.0)).shown


def test_every_cost_is_drawn() -> None:
    plots = Scaling().draw(make_tables())
    assert len(plots) == len(EXPONENTS)
    assert [point.place for point in plots[0].series["LSTM"]] == [64, 128, 256, 512, 1024]
