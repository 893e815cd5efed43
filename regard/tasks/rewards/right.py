"""The plainest reward that can be checked: an answer is the right one, or it isn't."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from regard.data.sample import Sample
from regard.decode.pipeline import Pipeline
from regard.tasks.rewards.reward import Prompt, RewardSpec


class RightReward(RewardSpec):
    """1 for the answer that the sample has, 0 for all others; spaces around it don't count."""

    needs: ClassVar[tuple[str, ...]] = ("answer",)
    kind: Literal["right"] = "right"

    def score(
        self, prompts: Sequence[Prompt], answers: Sequence[str], samples: Sequence[Sample], judge: Pipeline | None
    ) -> list[float]:
        pairs = zip(answers, samples, strict=True)
        return [float(answer.strip() == str(sample["answer"]).strip()) for answer, sample in pairs]
