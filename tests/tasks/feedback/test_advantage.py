"""The formulas of policy optimisation against plain loops in double precision, with pads on either side."""

from __future__ import annotations

import math
from random import Random
from typing import Literal

import pytest
import torch
from torch import Tensor

from regard.tasks.feedback.advantage import (
    Estimator,
    adapt_weight,
    compare_in_groups,
    estimate_divergence,
    explain_variance,
    generalise_advantages,
    lose_policy,
    lose_value,
    place_rewards,
    whiten,
)

SIZES = (4, 1, 6, 3)
Side = Literal["left", "right"]


def lay(rows: list[list[float]], side: Side, pad: float = 0.0) -> Tensor:
    """Rows of numbers as a rectangle, one place wider than the longest."""
    time = max(map(len, rows)) + 1
    full = [
        [*row, *[pad] * (time - len(row))] if side == "right" else [*[pad] * (time - len(row)), *row] for row in rows
    ]
    return torch.tensor(full, dtype=torch.float64)


def draw(seed: int) -> list[list[float]]:
    chance = Random(seed)
    return [[chance.gauss(0, 1) for _ in range(size)] for size in SIZES]


def find_valid(side: Side) -> Tensor:
    return lay([[1.0] * size for size in SIZES], side) > 0


def advance(rewards: list[float], values: list[float], discount: float, decay: float) -> list[float]:
    """Generalised advantages by their definition: a double sum over what comes."""
    after = [*values[1:], 0.0]
    errors = [reward + discount * later - value for reward, later, value in zip(rewards, after, values, strict=True)]
    count = range(len(errors))
    return [sum((discount * decay) ** (later - t) * errors[later] for later in count if later >= t) for t in count]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("discount", "decay"), [(1.0, 0.95), (0.9, 0.5), (1.0, 1.0), (0.99, 0.0)])
def test_advantages_are_those_of_a_double_sum(side: Side, discount: float, decay: float) -> None:
    rewards, values = draw(1), draw(2)
    valid = find_valid(side)
    found = generalise_advantages(lay(rewards, side, 7.0), lay(values, side, 9.0), valid, discount, decay)
    pairs = zip(rewards, values, strict=True)
    wanted = lay([advance(row, other, discount, decay) for row, other in pairs], side)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_reward_stands_at_the_last_token_and_a_penalty_at_each(side: Side) -> None:
    gaps, rewards = draw(3), torch.tensor([1.0, -2.0, 0.5, 4.0], dtype=torch.float64)
    found = place_rewards(rewards, lay(gaps, side, 5.0), find_valid(side), 0.3)
    wanted = [[-0.3 * gap for gap in row] for row in gaps]
    for row, reward in zip(wanted, rewards.tolist(), strict=True):
        row[-1] += reward
    torch.testing.assert_close(found, lay(wanted, side), rtol=0, atol=1e-12)


@pytest.mark.parametrize("side", ["left", "right"])
def test_whitening_counts_real_tokens_alone(side: Side) -> None:
    rows = draw(4)
    flat = [value for row in rows for value in row]
    mean = sum(flat) / len(flat)
    spread = math.sqrt(sum((value - mean) ** 2 for value in flat) / (len(flat) - 1) + 1e-8)
    found = whiten(lay(rows, side, 100.0), find_valid(side))
    wanted = lay([[(value - mean) / spread for value in row] for row in rows], side)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_equal_numbers_and_single_ones_whiten_to_nothing() -> None:
    assert not whiten(torch.full((2, 3), 4.0), torch.ones(2, 3, dtype=torch.bool)).any()
    assert not whiten(torch.full((1, 1), 4.0), torch.ones(1, 1, dtype=torch.bool)).any()


@pytest.mark.parametrize("scale", [True, False])
def test_a_group_compares_the_answers_to_one_prompt(scale: bool) -> None:
    rewards = torch.tensor([1.0, 0.0, 0.0, 5.0, 5.0, 5.0], dtype=torch.float64)
    found = compare_in_groups(rewards, 3, scale).tolist()
    spread = math.sqrt((4 / 9 + 1 / 9 + 1 / 9) / 2) + 1e-4 if scale else 1.0
    assert found == pytest.approx([2 / 3 / spread, -1 / 3 / spread, -1 / 3 / spread, 0, 0, 0])


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_estimates_of_a_divergence_and_their_gradients(estimator: Estimator) -> None:
    logs = lay(draw(5), "right").requires_grad_()
    others = lay(draw(6), "right")
    found = estimate_divergence(logs, others, estimator)
    gap = logs.detach() - others
    wanted = gap**2 / 2 if estimator == "k2" else (-gap).exp() - 1 + gap
    slope = gap if estimator == "k2" else 1 - (-gap).exp()
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(torch.autograd.grad(found.sum(), logs)[0], slope, rtol=0, atol=1e-12)
    assert (found >= 0).all()


def test_the_clipped_loss_and_its_gradient() -> None:
    logs, before, advantages = (lay(draw(seed), "right") for seed in (7, 8, 9))
    logs.requires_grad_()
    found = lose_policy(logs, before, advantages, 0.2)
    slopes = torch.autograd.grad(found.loss.sum(), logs)[0]
    for row in range(len(SIZES)):
        for place in range(SIZES[row]):
            ratio, worth = float((logs - before).detach()[row, place].exp()), float(advantages[row, place])
            held = min(max(ratio, 0.8), 1.2)
            assert float(found.loss.detach()[row, place]) == pytest.approx(-min(ratio * worth, held * worth), abs=1e-12)
            beyond = held * worth < ratio * worth
            assert bool(found.clipped[row, place]) == beyond
            assert float(slopes[row, place]) == pytest.approx(0.0 if beyond else -ratio * worth, abs=1e-12)


@pytest.mark.parametrize("clip", [0.2, None])
def test_the_value_loss(clip: float | None) -> None:
    values, before, returns = (lay(draw(seed), "right") for seed in (10, 11, 12))
    found = lose_value(values, before, returns, clip)
    for value, old, wanted, loss in zip(
        *(part.flatten().tolist() for part in (values, before, returns, found)), strict=True
    ):
        plain = (value - wanted) ** 2
        held = plain if clip is None else (old + min(max(value - old, -clip), clip) - wanted) ** 2
        assert loss == pytest.approx(max(plain, held) / 2, abs=1e-12)


def test_what_values_explain() -> None:
    returns = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert explain_variance(returns, returns) == 1.0
    assert explain_variance(torch.zeros(4), returns) == 0.0
    assert explain_variance(-returns, returns) == pytest.approx(-3.0)
    assert explain_variance(returns, torch.ones(4)) == 0.0


def test_the_weight_of_a_divergence_moves_towards_its_target() -> None:
    assert adapt_weight(0.1, 6.0, 6.0, 100, 1000) == pytest.approx(0.1)
    assert adapt_weight(0.1, 6.6, 6.0, 100, 1000) == pytest.approx(0.1 * 1.01)
    assert adapt_weight(0.1, 60.0, 6.0, 100, 1000) == pytest.approx(0.1 * 1.02)  # a fifth over the horizon
    assert adapt_weight(0.1, 0.0, 6.0, 100, 1000) == pytest.approx(0.1 * 0.98)
