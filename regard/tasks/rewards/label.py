"""A classifier's opinion as a reward: how likely it finds a label (sentiment, in the experiments of Rafailov et al.
2023).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from regard.core.spec import FileName
from regard.data.sample import Sample
from regard.decode.pipeline import Pipeline
from regard.errors import InputError, SpecError
from regard.tasks.classification import Classifier
from regard.tasks.rewards.reward import Prompt, RewardSpec

LEAST = 1e-12  # probabilities below this count as this, so that a logarithm is finite


class LabelReward(RewardSpec):
    """The probability that a classifier gives to a label."""

    kind: Literal["label"] = "label"
    run: FileName
    """The run of the classifier, or a folder in Hugging Face layout."""
    label: str
    """The label that answers are to have."""
    whole: bool = False
    """The classifier reads the prompt and the answer as one text, as where a prompt is a text to be written on."""
    log: bool = False
    """The reward is the logarithm of the odds, which goes on growing where the probability is nearly 1."""

    @property
    def judge(self) -> str:
        return self.run

    def describe(self) -> str:
        return f"{self.label} by {Path(self.run).name}"

    def insist_on_judge(self, judge: Pipeline) -> None:
        if not isinstance(judge, Classifier):
            raise SpecError(f"task.reward.run: {self.run} is a {type(judge).__name__.lower()}, and no classifier")
        if self.label not in judge.lexicon.labels:
            known = ", ".join(judge.lexicon.labels)
            raise SpecError(f"task.reward.label: {self.run} doesn't know the label {self.label!r}", f"one of {known}")

    def score(
        self, prompts: Sequence[Prompt], answers: Sequence[str], samples: Sequence[Sample], judge: Pipeline | None
    ) -> list[float]:
        assert isinstance(judge, Classifier)
        texts = [self._join(prompt, answer) for prompt, answer in zip(prompts, answers, strict=True)]
        found = judge.classify_all([(text, "") for text in texts])
        if any(not verdict.probabilities for verdict in found):
            raise InputError(f"{self.run}: its head gives plain numbers and no probabilities", "reward: judge")
        shares = [verdict.probabilities[self.label] for verdict in found]
        return [math.log(max(share, LEAST) / max(1 - share, LEAST)) for share in shares] if self.log else shares

    def _join(self, prompt: Prompt, answer: str) -> str:
        return "".join(message["content"] for message in prompt) + answer if self.whole else answer
