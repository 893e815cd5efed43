"""An examiner asks a model for answers to prompts, reads and grades them, and says how far it is from where it began.

Answers are drawn by seeds that are the same for every model, at the temperature of the training: a reward and a
divergence are means over what a policy says, and what it would say at its likeliest is another thing, told beside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from regard.core.model import Model
from regard.data.dialogue import ASSISTANT, ChatFormat, decode_answers, encode_prompt, find_end
from regard.data.sample import Sample
from regard.data.tokenizer import Tokenizer
from regard.decode.pipeline import Pipeline
from regard.tasks.feedback.divergence import diverge
from regard.tasks.feedback.rollout import Sampling, draw_answers
from regard.tasks.measures import ratio
from regard.tasks.rewards.reward import RewardSpec, grade
from regard.tasks.task import Pulse, Reference

ROWS = 64  # prompts that are answered together


@dataclass
class Examiner:
    """All that it takes to examine a model, but the model."""

    tokenizer: Tokenizer
    chat: ChatFormat
    reward: RewardSpec
    most: int  # tokens of an answer
    temperature: float
    cut: float  # what an answer without an end loses
    ends: bool = True  # whether answers may end before they have the most tokens
    judge: Pipeline | None = None  # whom the reward asks
    reference: Reference | None = None  # the model as it began, if it is there

    @property
    def sampling(self) -> Sampling:
        """How answers are drawn."""
        end = find_end(self.chat, self.tokenizer)
        return Sampling(end, self.tokenizer.pad, self.most, self.temperature, self.ends)

    def encode(self, samples: Sequence[Sample]) -> list[list[int]]:
        return [encode_prompt(sample["prompt"], self.chat, self.tokenizer) for sample in samples]

    def answer(self, model: Model, samples: Sequence[Sample], seeds: Sequence[int] | None) -> list[list[int]]:
        """An answer to each prompt, in tokens: drawn by its own seed, or without seeds the likeliest tokens."""
        return draw_answers(model, self.encode(samples), seeds, self.sampling)

    def read(self, samples: Sequence[Sample], answers: Sequence[Sequence[int]]) -> list[str]:
        """Answers as texts."""
        frame = self.chat.frame(ASSISTANT)
        if frame.before or frame.lead:
            return decode_answers(answers, self.chat, self.tokenizer)
        # an answer that goes on from the words of its prompt begins with the space between them, if there is one
        prompts = self.encode(samples)
        before = self.tokenizer.decode(prompts)
        whole = self.tokenizer.decode([[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)])
        alone = self.tokenizer.decode(answers)
        sides = zip(before, whole, alone, strict=True)
        return [text.removeprefix(start) if text.startswith(start) else own for start, text, own in sides]

    def grade(self, samples: Sequence[Sample], answers: Sequence[Sequence[int]]) -> list[float]:
        """The reward of each answer, less what it loses where it was cut."""
        prompts, end = [sample["prompt"] for sample in samples], self.sampling.end
        found = grade(self.reward, prompts, self.read(samples, answers), samples, self.judge)
        return [value - (self.cut if answer[-1] != end else 0.0) for value, answer in zip(found, answers, strict=True)]

    def diverge(self, model: Model, samples: Sequence[Sample], answers: Sequence[Sequence[int]]) -> list[float]:
        """How far a model is from its reference, in nats, by each answer that it drew."""
        assert self.reference is not None
        return diverge(model, self.reference, self.encode(samples), answers, self.sampling)


def measure_policy(
    examiner: Examiner, model: Model, samples: Sequence[Sample], pulse: Pulse = lambda: None
) -> dict[str, Any]:
    """Reward, divergence from the start in nats an answer, and length of what a model answers, with intervals."""
    rewards, best, nats, sizes, cut = list[float](), list[float](), list[float](), list[float](), 0
    for first in range(0, len(samples), ROWS):
        pulse()
        some = samples[first : first + ROWS]
        seeds = [Random(f"examination/{first + n}").getrandbits(62) for n in range(len(some))]
        answers = examiner.answer(model, some, seeds)
        rewards += examiner.grade(some, answers)
        best += examiner.grade(some, examiner.answer(model, some, None))
        sizes += map(float, map(len, answers))
        cut += sum(answer[-1] != examiner.sampling.end for answer in answers)
        if examiner.reference is not None:
            nats += examiner.diverge(model, some, answers)
    told = {"reward": rewards, "greedy_reward": best, "length": sizes} | ({"kl": nats} if nats else {})
    found: dict[str, Any] = {}
    for name, values in told.items():
        found |= ratio(values, [1] * len(values)).named(name)
    return found | {"cut": cut / len(samples), "count": len(samples)}
