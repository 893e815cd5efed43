"""The losses of pairs against the papers' formulas, written out with Python's own numbers, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.tasks.feedback.margin import (
    Likelihood,
    estimate_divergence,
    find_log_odds,
    lose_bradley_terry,
    lose_dpo,
    lose_ipo,
    lose_orpo,
    lose_simpo,
)

BETA, GAMMA, NOISE = 0.3, 0.7, 0.15


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def odds(log: float) -> float:
    return math.exp(log) / (1 - math.exp(log))


def drawn() -> tuple[Tensor, Tensor]:
    """Log-probabilities of five pairs by a model and by a reference, (4, 5), and how many tokens answers have."""
    torch.manual_seed(1)
    return -4 * torch.rand(4, 5, dtype=torch.float64) - 0.5, torch.randint(1, 6, (2, 5)).double()


# each by one pair's numbers: log π of the chosen and of the rejected answer, the same by the reference, tokens of both
FORMULAS: dict[str, Callable[..., float]] = {
    "dpo": lambda c, r, pc, pr, m, n: -math.log(sigmoid(BETA * ((c - pc) - (r - pr)))),
    "cdpo": lambda c, r, pc, pr, m, n: (
        -(1 - NOISE) * math.log(sigmoid(BETA * ((c - pc) - (r - pr))))
        - NOISE * math.log(sigmoid(-BETA * ((c - pc) - (r - pr))))
    ),
    "ipo": lambda c, r, pc, pr, m, n: ((c - pc) - (r - pr) - 1 / (2 * BETA)) ** 2,
    "simpo": lambda c, r, pc, pr, m, n: -math.log(sigmoid(BETA / m * c - BETA / n * r - GAMMA)),
    "orpo": lambda c, r, pc, pr, m, n: -c / m - BETA * math.log(sigmoid(math.log(odds(c / m) / odds(r / n)))),
}


def lose(name: str, logs: Tensor, sizes: Tensor) -> Tensor:
    chosen, rejected, *reference = logs
    before, sides = (reference[0], reference[1]), (Likelihood(chosen, sizes[0]), Likelihood(rejected, sizes[1]))
    if name in ("dpo", "cdpo"):
        return lose_dpo(chosen, rejected, before, BETA, NOISE if name == "cdpo" else 0.0).loss
    if name == "ipo":
        return lose_ipo(chosen, rejected, before, BETA).loss
    return lose_simpo(*sides, BETA, GAMMA).loss if name == "simpo" else lose_orpo(*sides, BETA).loss


@pytest.mark.parametrize("name", FORMULAS)
def test_a_pair_costs_what_its_paper_says(name: str) -> None:
    logs, sizes = drawn()
    wanted = [FORMULAS[name](*row) for row in torch.cat((logs, sizes)).T.tolist()]
    assert lose(name, logs, sizes).tolist() == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
def test_gradients_are_the_formulas_differences(name: str) -> None:
    logs, sizes = drawn()
    logs.requires_grad_()
    lose(name, logs, sizes).sum().backward()
    assert logs.grad is not None
    step = 1e-6
    for side in (0, 1):
        for pair in range(5):
            ahead, behind = logs.detach().clone(), logs.detach().clone()
            ahead[side, pair] += step
            behind[side, pair] -= step
            both = [FORMULAS[name](*torch.cat((some, sizes)).T[pair].tolist()) for some in (ahead, behind)]
            slope = (both[0] - both[1]) / (2 * step)
            assert float(logs.grad[side, pair]) == pytest.approx(slope, abs=1e-8)


def test_rewards_of_dpo_are_log_ratios_and_those_of_simpo_are_means() -> None:
    logs, sizes = drawn()
    cost = lose_dpo(logs[0], logs[1], (logs[2], logs[3]), BETA)
    torch.testing.assert_close(cost.chosen, BETA * (logs[0] - logs[2]))
    torch.testing.assert_close(cost.rejected, BETA * (logs[1] - logs[3]))
    cost = lose_simpo(Likelihood(logs[0], sizes[0]), Likelihood(logs[1], sizes[1]), BETA, GAMMA)
    torch.testing.assert_close(cost.chosen, BETA * logs[0] / sizes[0])


def test_a_margin_moves_the_difference_and_smoothing_shares_the_label() -> None:
    ahead, margin = torch.tensor([0.3, -2.0, 30.0]).double(), torch.tensor([1.0, 0.0, 2.5]).double()
    wanted = [math.log1p(math.exp(two - one)) for one, two in zip(ahead.tolist(), margin.tolist(), strict=True)]
    assert lose_bradley_terry(ahead, margin).tolist() == pytest.approx(wanted, rel=1e-12, abs=1e-15)
    mixed = 0.9 * lose_bradley_terry(ahead) + 0.1 * lose_bradley_terry(-ahead)
    torch.testing.assert_close(lose_bradley_terry(ahead, smoothing=0.1), mixed)
    # with a share of wrong labels the best difference is the log-odds of a right one
    best = torch.tensor(math.log(9.0), dtype=torch.float64, requires_grad=True)
    lose_bradley_terry(best, smoothing=0.1).backward()
    assert float(best.grad if best.grad is not None else 1) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_odds_keep_their_digits_near_certainty_and_far_from_it(dtype: torch.dtype) -> None:
    logs = torch.tensor([-1e-6, -1e-3, -0.5, -0.7, -30.0, -500.0, 0.0], dtype=dtype, requires_grad=True)
    found = find_log_odds(logs)
    exact = [log - math.log(-math.expm1(log)) for log in logs.tolist()[:-1]]
    assert found.tolist()[:-1] == pytest.approx(exact, rel=1e-6, abs=1e-7 if dtype == torch.float32 else 1e-12)
    found.sum().backward()
    assert logs.grad is not None
    assert bool(found.isfinite().all()) and bool(logs.grad.isfinite().all())


def test_losses_are_finite_however_far_a_model_is() -> None:
    far = torch.tensor([-2000.0, -0.1]), torch.tensor([-0.1, -2000.0])
    before = torch.zeros(2), torch.zeros(2)
    sizes = torch.ones(2)
    for cost in (
        lose_dpo(*far, before, 5.0),
        lose_ipo(*far, before, 5.0),
        lose_simpo(Likelihood(far[0], sizes), Likelihood(far[1], sizes), 5.0, 1.0),
        lose_orpo(Likelihood(far[0], sizes), Likelihood(far[1], sizes), 5.0),
    ):
        assert bool(cost.loss.isfinite().all())


def test_the_divergence_of_tokens_that_the_reference_wrote_is_right_on_average() -> None:
    """At one place: the sum over all tokens, weighed by the reference, is KL(π_ref‖π) to the last digits."""
    torch.manual_seed(3)
    logs, others = (torch.randn(7).double().log_softmax(0) for _ in range(2))
    each = estimate_divergence(logs[:, None], others[:, None])  # every token as an answer of its own
    assert bool((each >= 0).all())
    exact = float((others.exp() * (others - logs)).sum())
    assert float((others.exp() * each).sum()) == pytest.approx(exact, abs=1e-12)
