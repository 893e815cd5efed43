"""What each token of an answer was worth, and what a policy and its values lose by it: the formulas, and nothing else.

Tensors are (rows, time): a row is an answer, token by token. `valid` says which places hold a token; pads may stand on
either side, and change nothing. Advantages are Schulman et al.'s (2016) or a group's (Shao et al. 2024), the clipped
losses PPO's (Schulman et al. 2017), the estimates of a divergence Schulman's (2020), and its control Ziegler et al.'s
(2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Estimator = Literal["k2", "k3"]
TINY = 1e-8  # keeps a spread of nothing from being divided by
FAINT = 1e-4  # the same for a group, whose rewards may differ by rounding alone


def place_rewards(rewards: Tensor, divergences: Tensor, valid: Tensor, weight: float) -> Tensor:
    """Each token's own reward: less its divergence by weight, and at the last token the answer's, (rows,)."""
    time = valid.shape[1]
    order = torch.arange(1, time + 1, device=valid.device)
    last = (valid * order).argmax(1, keepdim=True) == order - 1
    return torch.where(last & valid, rewards[:, None], 0.0) - weight * divergences * valid


def generalise_advantages(rewards: Tensor, values: Tensor, valid: Tensor, discount: float, decay: float) -> Tensor:
    """A_t = Σ_l (γλ)^l δ_{t+l}, with δ_t = r_t + γ V_{t+1} - V_t (Schulman et al. 2016, equation 16).

    γ is `discount`, λ is `decay`. After an answer's last token nothing more is to come.
    """
    found = torch.zeros_like(rewards)
    advantage, value = rewards.new_zeros(len(rewards)), rewards.new_zeros(len(rewards))
    for place in reversed(range(rewards.shape[1])):
        here = valid[:, place]
        surprise = rewards[:, place] + discount * value - values[:, place]
        advantage = torch.where(here, surprise + discount * decay * advantage, 0.0)
        value = torch.where(here, values[:, place], 0.0)
        found[:, place] = advantage
    return found


def whiten(values: Tensor, valid: Tensor) -> Tensor:
    """Numbers with a mean of 0 and a variance of 1 over all that are valid; nothing else tells one round from another.

    A single number, or equal ones, become 0.
    """
    real = values[valid]
    if len(real) < 2:
        return torch.zeros_like(values)
    return torch.where(valid, (values - real.mean()) * torch.rsqrt(real.var() + TINY), 0.0)


def compare_in_groups(rewards: Tensor, samples: int, scale: bool) -> Tensor:
    """How much better each answer is than the others to its prompt: (rows,), the rows of a prompt together.

    `scale`: in standard deviations of its group, so that prompts count alike however far their rewards lie apart.
    """
    groups = rewards.view(-1, samples)
    found = groups - groups.mean(1, keepdim=True)
    if scale:
        found = found / (groups.std(1, keepdim=True) + FAINT)
    return found.view(-1)


def estimate_divergence(logs: Tensor, reference: Tensor, estimator: Estimator) -> Tensor:
    """How far a policy is from its reference, token by token, as a term of a loss; never below 0.

    With d = log π - log π_ref of a token that π drew: k2 = d²/2, whose mean gradient is that of KL(π ‖ π_ref) at each
    token; k3 = e^{-d} - 1 + d, an unbiased estimate of it, whose mean gradient is that of KL(π_ref ‖ π). k1 = d is no
    choice here: its mean gradient is nothing at all, and it belongs into the rewards.
    """
    gap = logs - reference
    return gap.square() / 2 if estimator == "k2" else torch.expm1(-gap) + gap


@dataclass
class TokenLoss:
    """What each token costs, and where a clip held it back."""

    loss: Tensor  # (rows, time)
    clipped: Tensor  # (rows, time)


def lose_policy(logs: Tensor, before: Tensor, advantages: Tensor, clip: float) -> TokenLoss:
    """-min(ratio · A, clip(ratio, 1 - ε, 1 + ε) · A), ratio = π / π_before (Schulman et al. 2017, equation 7)."""
    ratio = (logs - before).exp()
    plain, held = -advantages * ratio, -advantages * ratio.clamp(1 - clip, 1 + clip)
    return TokenLoss(torch.maximum(plain, held), held > plain)


def lose_value(values: Tensor, before: Tensor, returns: Tensor, clip: float | None) -> Tensor:
    """Half the squared error, or that of values which stay within a distance of the old ones, if that is larger."""
    plain = (values - returns).square()
    if clip is None:
        return plain / 2
    held = before + (values - before).clamp(-clip, clip)
    return torch.maximum(plain, (held - returns).square()) / 2


def explain_variance(values: Tensor, returns: Tensor) -> float:
    """The share of the returns' variance that the values foresaw: 1 is all of it, 0 is as good as a constant.

    0 where the returns don't differ: there was nothing to foresee.
    """
    spread = float(returns.var(correction=0))
    return 1.0 - float((returns - values).var(correction=0)) / spread if spread > TINY else 0.0


def adapt_weight(weight: float, divergence: float, target: float, answers: int, horizon: int) -> float:
    """The next weight of the divergence, in proportion to how far it is from its target (Ziegler et al. 2019, 2.2).

    `divergence` and `target` in nats an answer; over `horizon` answers the weight changes by a fifth at most.
    """
    error = min(max(divergence / target - 1, -0.2), 0.2)
    return weight * (1 + error * answers / horizon)
