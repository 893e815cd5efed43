"""How a policy learns from rewards: PPO, with values that foresee them, and GRPO, which compares answers to one prompt.

Both raise the probability of what turned out better than expected, within a clip around the policy that drew it, and
keep the policy near the model that it began as. They differ in what is expected, and in where the divergence counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from regard.core.registry import Kinds
from regard.core.spec import Positive, Rate, Size, Spec, Weight
from regard.errors import SpecError
from regard.tasks.feedback.advantage import (
    Estimator,
    TokenLoss,
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
from regard.tasks.feedback.rollout import Appraisal, Round

Average = Literal["token", "answer", "most"]
Share = Annotated[float, Field(ge=0, le=1)]


class MethodSpec(Spec):
    """How a policy learns from rewards."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = "task.method"
    usual: ClassVar[str | None] = "ppo"
    values: ClassVar[bool] = False  # whether the model must foresee rewards
    meanings: ClassVar[Mapping[str, str]] = {
        "average": "All tokens of a round count alike (token), all answers do (answer), or an answer counts by its "
        "length, as if each had the most tokens (most).",
        "beta": "A nat of divergence from the model that the run began with costs this much reward.",
    }
    clip: Rate = 0.2
    """A token's probability gains nothing by leaving what it was when it was drawn by more than this share."""
    beta: Weight
    entropy: Weight = 0.0
    """The weight of the entropy of each token, which keeps a policy from choosing too early."""
    average: Average

    def insist(self, samples: int) -> None:
        """Refuse what this can't learn from."""

    def weigh(self, found: Round, samples: int, beta: float) -> None:
        """Say what every token of a round was worth: its `advantages`, and what else the loss wants."""
        raise NotImplementedError

    def lose(self, now: Appraisal, then: Mapping[str, Tensor], beta: float) -> TokenLoss:
        """What each token of some rows costs; `then`: what the round knows of them."""
        raise NotImplementedError

    def adapt(self, beta: float, divergence: float, answers: int) -> float:
        """The weight of the divergence in the next round."""
        return beta

    def tell(self, found: Round) -> dict[str, float]:
        """What there is to tell of a round beside what all methods tell."""
        return {}


class Ppo(MethodSpec):
    """Proximal policy optimisation, as InstructGPT has it (Ouyang et al. 2022): a value for each token, advantages by
    its errors, a reward at the end, and the divergence as a penalty in the rewards.
    """

    kind: Literal["ppo"] = "ppo"
    values: ClassVar[bool] = True
    beta: Weight = 0.05
    average: Average = "token"
    target: Positive | None = None
    """The weight of the divergence is moved until this many nats an answer are reached; unless given, it is fixed."""
    horizon: Size = 10000
    """Over this many answers the weight is moved by a fifth, at most."""
    discount: Share = 1.0
    """A reward that comes a token later counts by this factor."""
    decay: Share = 0.95
    """The λ of generalised advantages: at 1 they trust what happened, at 0 what the values foresaw."""
    whiten: bool = True
    """Advantages have a mean of 0 and a variance of 1 over a round."""
    value_weight: Weight = 0.1
    """The weight of the values' error."""
    value_clip: Positive | None = 0.2
    """A value gains nothing by leaving what it was by more than this; null doesn't hold it."""

    def weigh(self, found: Round, samples: int, beta: float) -> None:
        known, valid = found.tensors, found.valid.to(found.rewards.device)
        rewards = place_rewards(found.rewards, known["logs"] - known["reference"], valid, beta)
        advantages = generalise_advantages(rewards, known["values"], valid, self.discount, self.decay)
        known["returns"] = advantages + known["values"]
        known["advantages"] = whiten(advantages, valid) if self.whiten else advantages

    def lose(self, now: Appraisal, then: Mapping[str, Tensor], beta: float) -> TokenLoss:
        assert now.values is not None
        found = lose_policy(now.logs, then["logs"], then["advantages"], self.clip)
        error = lose_value(now.values, then["values"], then["returns"], self.value_clip)
        return TokenLoss(found.loss + self.value_weight * error - self.entropy * now.entropy, found.clipped)

    def adapt(self, beta: float, divergence: float, answers: int) -> float:
        return beta if self.target is None else adapt_weight(beta, divergence, self.target, answers, self.horizon)

    def tell(self, found: Round) -> dict[str, float]:
        valid = found.valid.to(found.rewards.device)
        foreseen = explain_variance(found.tensors["values"][valid], found.tensors["returns"][valid])
        return {"value_explained": foreseen}


class Grpo(MethodSpec):
    """Group relative policy optimisation (Shao et al. 2024): an answer is as good as it is better than the others to
    its prompt, so no values are needed; the divergence is a term of the loss.
    """

    kind: Literal["grpo"] = "grpo"
    beta: Weight = 0.04
    average: Average = "answer"
    scale: bool = True
    """Advantages are in standard deviations of their group; without, hard and easy prompts count less (Liu et al.
    2025)."""
    estimator: Estimator = "k3"
    """The divergence is estimated by Schulman's k3, as in the paper, or by k2, whose gradient is the divergence's."""

    def insist(self, samples: int) -> None:
        if samples < 2:
            raise SpecError(f"task.samples: {samples}, and GRPO compares answers to one prompt", "task.samples=8")

    def weigh(self, found: Round, samples: int, beta: float) -> None:
        worth = compare_in_groups(found.rewards, samples, self.scale)
        found.tensors["advantages"] = worth[:, None] * found.valid.to(worth.device)

    def lose(self, now: Appraisal, then: Mapping[str, Tensor], beta: float) -> TokenLoss:
        found = lose_policy(now.logs, then["logs"], then["advantages"], self.clip)
        if beta:
            found.loss = found.loss + beta * estimate_divergence(now.logs, then["reference"], self.estimator)
        found.loss = found.loss - self.entropy * now.entropy
        return found


def share_out(found: Round, average: Average, most: int) -> Tensor:
    """What a token of a round counts, so that a round's answers count 1 each on average: (rows, time).

    It is settled once for the whole round, so that how rows are put into batches changes no gradient.
    """
    valid = found.valid.to(found.tensors["logs"])
    if average == "token":
        return valid * (len(valid) / float(valid.sum()))
    return valid / (valid.sum(1, keepdim=True) if average == "answer" else most)
