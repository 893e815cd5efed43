"""What every reward is: a number for an answer to a prompt. More of it is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from regard.core.registry import Kinds
from regard.core.spec import Spec
from regard.data.dialogue import Message
from regard.data.sample import Sample
from regard.decode.pipeline import Pipeline
from regard.errors import InputError

Prompt = Sequence[Message]
SHOWN = 200  # letters of a prompt or an answer that an error tells


class RewardSpec(Spec):
    """What answers are rewarded for."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.tasks.rewards")
    home: ClassVar[str | None] = "task.reward"
    needs: ClassVar[tuple[str, ...]] = ()  # fields of a sample beside its prompt, without which there is no reward

    @property
    def judge(self) -> str | None:
        """The run whose model is asked; what it needs of that run is copied into the folder of whoever learns."""
        return None

    def describe(self) -> str:
        """What tables and plots call it."""
        return self.kind

    def insist_on_judge(self, judge: Pipeline) -> None:
        """Refuse a run whose model can't say what this reward asks."""

    def score(
        self, prompts: Sequence[Prompt], answers: Sequence[str], samples: Sequence[Sample], judge: Pipeline | None
    ) -> list[float]:
        """A number for each answer; `judge`: that run's model, ready to be asked."""
        raise NotImplementedError


def grade(
    spec: RewardSpec,
    prompts: Sequence[Prompt],
    answers: Sequence[str],
    samples: Sequence[Sample],
    judge: Pipeline | None = None,
) -> list[float]:
    """The rewards of answers; one that isn't a finite number is an error that shows what it was given for."""
    found = [float(value) for value in spec.score(prompts, answers, samples, judge)]
    if len(found) != len(answers):
        raise InputError(f"reward {spec.kind}: {len(found)} numbers for {len(answers)} answers", "one for each")
    for value, prompt, answer in zip(found, prompts, answers, strict=True):
        if not math.isfinite(value):
            raise InputError(
                f"reward {spec.kind}: {value} isn't finite, for the answer {answer[:SHOWN]!r} to the prompt "
                f"{tell_prompt(prompt)[:SHOWN]!r}",
                "a reward that is a finite number for every answer, an empty one too",
            )
    return found


def tell_prompt(messages: Prompt) -> str:
    """A prompt as one text: what was said, and by whom where several spoke."""
    if len(messages) == 1:
        return messages[0]["content"]
    return "\n".join(f"{message['role']}: {message['content']}" for message in messages)
