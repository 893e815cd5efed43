"""A learned reward: another run's model, which was taught what answers are worth, says it of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

from regard.core.spec import FileName
from regard.data.sample import Sample
from regard.decode.pipeline import Pipeline
from regard.errors import SpecError
from regard.tasks.rewards.reward import Prompt, RewardSpec


@runtime_checkable
class AnswerScorer(Protocol):
    """What can say what answers are worth; it reads texts, so its tokens may be others than the policy's."""

    def score_all(self, prompts: Sequence[Prompt], answers: Sequence[str]) -> list[float]: ...


class JudgeReward(RewardSpec):
    """What a model says that learned the task reward."""

    kind: Literal["judge"] = "judge"
    run: FileName
    """The run of that model."""

    @property
    def judge(self) -> str:
        return self.run

    def insist_on_judge(self, judge: Pipeline) -> None:
        if not isinstance(judge, AnswerScorer):
            raise SpecError(
                f"task.reward.run: {self.run} is a {type(judge).__name__.lower()}, and can't score answers",
                "a run of the task reward; reward: label asks a classifier",
            )

    def score(
        self, prompts: Sequence[Prompt], answers: Sequence[str], samples: Sequence[Sample], judge: Pipeline | None
    ) -> list[float]:
        assert isinstance(judge, AnswerScorer)
        return judge.score_all(prompts, answers)
