"""Slopes of gradients against exact products; the linear control within 1 % of log of its spectral radius."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from regard.core.probe import Record
from regard.lab.apparatus.experiment import Tables
from regard.lab.gradients import (
    CARRIERS,
    CURVES,
    LINEAR,
    MIX,
    RECURRENT,
    SLOPES,
    WIDTH,
    Gradients,
    build_model,
    find_jacobians,
    find_radius,
    fit_slope,
    measure_norms,
    predict_mamba,
)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_recurrence_has_the_slope_of_its_spectral_radius(name: str, seed: int) -> None:
    carrier = CARRIERS[name]
    model = build_model(carrier, seed)
    radius = find_radius(dict(model.named_parameters())[RECURRENT].detach())
    norms = measure_norms(model, carrier, 1, seed).jacobian
    assert fit_slope(norms.log(), carrier.nearest) == pytest.approx(math.log(radius), rel=0.01)


def test_a_random_matrix_has_a_norm_above_its_radius() -> None:
    """So the control tells the two apart: the norm would give another slope."""
    weights = dict(build_model(CARRIERS[LINEAR[1]], 1).named_parameters())
    assert torch.linalg.matrix_norm(weights[RECURRENT].detach(), ord=2) > 1.2 * find_radius(weights[RECURRENT].detach())


def test_the_jacobian_of_a_plain_recurrence_is_the_product_of_its_steps() -> None:
    carrier = replace(CARRIERS["RNN, norm 1.5"], distance=5)
    model = build_model(carrier, 1)
    text = torch.tensor([3, 1, 4, 1, 5, 9])
    found = find_jacobians(model, carrier, text)
    seen = Record(f"{MIX}.hidden")
    with torch.no_grad(), model.watch(seen):
        model(text[None])
    hidden, matrix = seen[f"{MIX}.hidden"][0, 0], dict(model.named_parameters())[RECURRENT].detach()
    product = torch.eye(WIDTH, dtype=torch.float64)
    for place in range(5, -1, -1):
        torch.testing.assert_close(found[place], product)
        product = product @ torch.diag(1 - hidden[place] ** 2) @ matrix


@pytest.mark.parametrize("name", ["Transformer", "Mamba"])
def test_jacobians_of_streams_are_slopes(name: str) -> None:
    """Against a small change of what enters the block at one position."""
    carrier = CARRIERS[name]
    model = build_model(carrier, 1)
    text = torch.tensor([3, 1, 4, 1, 5, 9])
    found, kick = find_jacobians(model, carrier, text), 1e-6
    ends = []
    for side in (1, -1):
        change = torch.zeros(1, 6, WIDTH, dtype=torch.float64)
        change[0, 2, 7] = side * kick

        class Push(Record):
            def __call__(self, told: str, value: torch.Tensor, change: torch.Tensor = change) -> torch.Tensor:
                return super().__call__(told, value + change if told == carrier.into else value)

        push = Push(carrier.into, carrier.out)
        with torch.no_grad(), model.watch(push):
            model(text[None])
        ends.append(push[carrier.out][0, -1])
    torch.testing.assert_close(found[2, :, 7], (ends[0] - ends[1]) / (2 * kick), atol=1e-7, rtol=1e-4)


def test_recurrent_matrices_have_the_norms_that_are_named() -> None:
    for norm in (0.5, 1.0, 1.5):
        weights = dict(build_model(CARRIERS[f"RNN, norm {norm}"], 1).named_parameters())
        assert float(torch.linalg.matrix_norm(weights[RECURRENT].detach(), ord=2)) == pytest.approx(norm)


def test_forget_gates_start_where_they_are_told() -> None:
    carrier = replace(CARRIERS["LSTM, forget bias 0"], distance=4)
    gate = measure_norms(build_model(carrier, 1), carrier, 1, 1).values["forget_gate"]
    assert float(gate.mean()) == pytest.approx(0.5, abs=0.05)
    carrier = replace(CARRIERS["LSTM, forget bias 1"], distance=4)
    gate = measure_norms(build_model(carrier, 1), carrier, 1, 1).values["forget_gate"]
    assert float(gate.mean()) == pytest.approx(1 / (1 + math.exp(-1)), abs=0.05)


def test_one_system_of_mamba_decays_by_its_step() -> None:
    weights = {f"{MIX}.inner.decay": torch.zeros(1, 1, dtype=torch.float64)}  # A = -1
    delta = torch.full((1, 40, 1), 0.05, dtype=torch.float64)
    assert predict_mamba(weights, {"delta": delta}) == pytest.approx(-0.05)


def make_tables(**changes: float) -> Tables:
    slopes: dict[str, float] = dict.fromkeys(LINEAR, -0.22)
    slopes |= {"RNN, norm 0.5": -0.7, "RNN, norm 1.0": -0.1, "RNN, norm 1.5": 0.05, "LSTM, forget bias 0": -0.3}
    slopes |= {"LSTM, forget bias 1": -0.04, "GRU": -0.3, "Transformer": 0.0, "Mamba": -0.03}
    slopes |= {name.replace("_", " "): value for name, value in changes.items()}
    rows = [
        {"model": name, "slope": slope, "by formula": -0.22, "at longest": math.exp(64 * slope), "longest": 64}
        for name, slope in slopes.items()
    ]
    curves: list[dict[str, Any]] = [
        {"model": name, "distance": at, "jacobian": math.exp(at * slope), "loss": 1.0}
        for name, slope in slopes.items()
        for at in range(5)
    ]
    return {SLOPES: rows, CURVES: curves}


def test_the_conclusion_has_the_slopes_of_its_table() -> None:
    found = Gradients().conclude(make_tables())
    assert found.shown
    assert "slopes -0.70 and 0.05" in found.sentence and "from -0.30 to -0.04" in found.sentence


@pytest.mark.parametrize("changes", [{"linear_RNN,_rotation": -0.21}, {"RNN,_norm_1.5": -0.01}, {"Transformer": -0.2}])
def test_other_slopes_would_not_show_it(changes: dict[str, float]) -> None:
    assert not Gradients().conclude(make_tables(**changes)).shown


def test_curves_and_slopes_are_drawn() -> None:
    jacobian, loss, slopes = Gradients().draw(make_tables())
    assert [point.place for point in jacobian.series["GRU"]] == [1, 2, 3, 4]  # a position's own is left out
    assert set(slopes.series) == {"measured", "by formula"}
    assert jacobian.logarithmic == loss.logarithmic == ("down",)
