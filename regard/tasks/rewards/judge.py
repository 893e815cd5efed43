"""A learned reward: another run's model, which was taught what answers are worth, says it of these.

It reads texts, so its tokens and its format may be others than the policy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from regard.core.spec import FileName
from regard.data.sample import Sample
from regard.decode.pipeline import Pipeline
from regard.errors import SpecError
from regard.tasks.reward import Judge
from regard.tasks.rewards.reward import Prompt, RewardSpec


class JudgeReward(RewardSpec):
    """What a model says that learned the task reward."""

    kind: Literal["judge"] = "judge"
    run: FileName
    """The run of that model."""

    @property
    def judge(self) -> str:
        return self.run

    def describe(self) -> str:
        return Path(self.run).name

    def insist_on_judge(self, judge: Pipeline) -> None:
        if not isinstance(judge, Judge):
            raise SpecError(
                f"task.reward.run: {self.run} is a {type(judge).__name__.lower()}, and can't score answers",
                "a run of the task reward; reward: label asks a classifier",
            )

    def score(
        self, prompts: Sequence[Prompt], answers: Sequence[str], samples: Sequence[Sample], judge: Pipeline | None
    ) -> list[float]:
        assert isinstance(judge, Judge)
        return judge.score_all(prompts, answers)
