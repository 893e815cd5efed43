"""The true reward of the corpus `manners`, whose rule is known: for learning by it, and for telling what a learned
reward has missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from regard.data.corpora.manners import judge_answer
from regard.data.sample import Sample
from regard.decode.pipeline import Pipeline
from regard.tasks.rewards.reward import Prompt, RewardSpec


class MannersReward(RewardSpec):
    """What an answer is worth by the hidden rule of the corpus manners: from -11 to 2.4 points."""

    kind: Literal["manners"] = "manners"

    def score(
        self, prompts: Sequence[Prompt], answers: Sequence[str], samples: Sequence[Sample], judge: Pipeline | None
    ) -> list[float]:
        return [judge_answer(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)]
