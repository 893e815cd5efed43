"""What a pair of answers costs, by how much a model puts the one that people chose before the one that they rejected.

Pure functions of rewards or of log-probabilities, one number for each pair. Glossary: `chosen` and `rejected` are
y_w and y_l of the papers, π the model that learns and π_ref the one that it began from.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass
class Likelihood:
    """How likely answers are, one number a row: (rows,)."""

    total: Tensor  # log π(y): the sum over an answer's tokens
    sizes: Tensor  # how many tokens that is

    @property
    def mean(self) -> Tensor:
        """The same a token, so that long answers aren't less likely for being long."""
        return self.total / self.sizes


@dataclass
class PairCost:
    """The loss of each pair, and the rewards that its answers have by what the model says of them: (pairs,) each."""

    loss: Tensor
    chosen: Tensor
    rejected: Tensor


def lose_bradley_terry(difference: Tensor, margin: Tensor | float = 0.0, smoothing: float = 0.0) -> Tensor:
    """-log σ(difference - margin): people choose an answer with a probability that grows with its reward (1952).

    `smoothing`: this share of the pairs is taken to be labelled the wrong way round (Mitchell 2023).
    """
    ahead = difference - margin
    kept = -F.logsigmoid(ahead)  # softplus would round off what is left beyond 20
    return kept if not smoothing else (1 - smoothing) * kept - smoothing * F.logsigmoid(-ahead)


def lose_dpo(
    chosen: Tensor, rejected: Tensor, reference: tuple[Tensor, Tensor], beta: float, smoothing: float = 0.0
) -> PairCost:
    """Direct preference optimisation (Rafailov et al. 2023, equation 7): the reward is β log π(y)/π_ref(y).

    All are sums over an answer's tokens; `smoothing` makes it conservative.
    """
    rewards = beta * (chosen - reference[0]), beta * (rejected - reference[1])
    return PairCost(lose_bradley_terry(rewards[0] - rewards[1], 0.0, smoothing), *rewards)


def lose_ipo(chosen: Tensor, rejected: Tensor, reference: tuple[Tensor, Tensor], beta: float) -> PairCost:
    """Identity preference optimisation (Azar et al. 2024, equation 17): (h - 1/2β)², h the difference of log-ratios.

    With certain preferences DPO's difference grows without end, and this one ends at 1/2β. All are sums over tokens, as
    in the paper, or means, as its authors computed them.
    """
    ratios = chosen - reference[0], rejected - reference[1]
    loss = (ratios[0] - ratios[1] - 1 / (2 * beta)) ** 2
    return PairCost(loss, beta * ratios[0], beta * ratios[1])


def lose_simpo(chosen: Likelihood, rejected: Likelihood, beta: float, gamma: float, smoothing: float = 0.0) -> PairCost:
    """Simple preference optimisation (Meng et al. 2024, equation 6): the reward is β log π(y) / |y|, ahead by γ."""
    rewards = beta * chosen.mean, beta * rejected.mean
    return PairCost(lose_bradley_terry(rewards[0] - rewards[1], gamma, smoothing), *rewards)


def lose_orpo(chosen: Likelihood, rejected: Likelihood, beta: float) -> PairCost:
    """Odds ratio preference optimisation (Hong et al. 2024, equation 6), β being its λ.

    The chosen answer is learned as in supervised training, and its odds p/(1-p) are to be larger than the other's, with
    p the geometric mean of the tokens' probabilities.
    """
    odds = find_log_odds(chosen.mean) - find_log_odds(rejected.mean)
    loss = -chosen.mean + beta * lose_bradley_terry(odds)
    return PairCost(loss, beta * chosen.mean, beta * rejected.mean)


def find_log_odds(logs: Tensor) -> Tensor:
    """log p/(1-p) of log p, which is below 0."""
    least = torch.finfo(logs.dtype).eps
    sure = logs.clamp(max=-least)  # a p that rounds to 1 would have odds without end
    # log(1 - e^x) loses its digits on either side of -log 2, in one form or the other (Mächler 2012)
    rest = torch.where(sure > -math.log(2), torch.log(-torch.expm1(sure)), torch.log1p(-torch.exp(sure)))
    return sure - rest


def estimate_divergence(logs: Tensor, others: Tensor) -> Tensor:
    """KL(π_ref‖π) of each answer in nats, from what both say of its tokens: `others` are π_ref's; (rows,).

    The estimator k3 of Schulman (2020), token by token: with ratio = π/π_ref, the sum of ratio - 1 - log ratio. No term
    is below 0, and the mean is right where the reference wrote the answers, which is what preferences are mostly drawn
    from; for others it says how far the model has moved on them. Where both are 0, there is no token.
    """
    ratio = logs - others
    return (ratio.expm1() - ratio).sum(1)
