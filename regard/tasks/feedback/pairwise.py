"""Pairs of answers to a prompt, of which people chose one: what the tasks that learn from them share.

Both answers stand in tokens behind their prompt, in the named format of a chat (`data/dialogue.py`), and share a batch,
so that a pair costs one call of the model. What can't be compared is left out, counted and located.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from regard.core.model import ModelSpec
from regard.data.batches import BatchSpec
from regard.data.column import ColumnSpec
from regard.data.dialogue import (
    ASSISTANT,
    USER,
    ChatFormat,
    Message,
    Transcript,
    encode_answer,
    encode_prompt,
    say,
    spell_dialogue,
)
from regard.data.lexicon import Lexicon
from regard.data.log import Unusable
from regard.data.sample import Form, Sample
from regard.data.tokenizer import Tokenizer
from regard.tasks.feedback.chat import ChatTaskSpec
from regard.tasks.measures import BINS, Measure, Numbers, enclose, resample
from regard.tasks.task import B, Task

LONGEST = 2**31  # no prompt has so many tokens
NOISE = ("dropout", "stochastic_depth")  # what blurs a model's answers while it is trained


@dataclass(frozen=True)
class AnswerPair:
    """Two answers to one prompt, each in tokens from the beginning of the prompt on."""

    chosen: list[int]
    rejected: list[int]
    prompt: int  # tokens of both that are the prompt's

    def transcribe(self) -> tuple[Transcript, Transcript]:
        """Both as conversations of which the answer is learned."""
        sides = [
            Transcript(tokens, [False] * self.prompt + [True] * (len(tokens) - self.prompt))
            for tokens in (self.chosen, self.rejected)
        ]
        return sides[0], sides[1]


class PairTaskSpec(ChatTaskSpec):
    """Learn from pairs of answers."""

    form: ClassVar[Form] = "preferences"

    def receive(self, sample: Sample) -> Sample:
        check_roles(sample["prompt"], self.chat)
        for name in ("chosen", "rejected"):
            if not sample[name].strip():
                raise Unusable(f"an empty answer: {name} has no letters")
        if sample["chosen"] == sample["rejected"]:
            raise Unusable("equal answers: chosen and rejected are the same")
        if not math.isfinite(sample.get("margin", 0)):
            raise Unusable(f"a margin that isn't finite: {sample['margin']}")
        return sample

    def texts(self, sample: Sample) -> Sequence[str]:
        answers = [say(ASSISTANT, sample[name]) for name in ("chosen", "rejected")]
        return (spell_dialogue([*sample["prompt"], *answers], self.chat),)

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        words = ColumnSpec(below=len(lexicon.tokenizer))
        # the margin is one number, or none where nobody said by how much the chosen answer is better
        margin = ColumnSpec(dtype="float32")
        return {"chosen": words, "rejected": words, "prompt": ColumnSpec(below=LONGEST), "margin": margin}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Mapping[str, Any]]:
        found = []
        for sample in samples:
            pair = self.encode_pair(sample, lexicon.tokenizer)
            margin = [sample["margin"]] if "margin" in sample else []
            found.append({"chosen": pair.chosen, "rejected": pair.rejected, "prompt": [pair.prompt], "margin": margin})
        return found

    def encode_pair(self, sample: Sample, tokenizer: Tokenizer) -> AnswerPair:
        """A sample in tokens. Who writes never learns to end what was cut; who judges reads an end behind all."""
        cut = sample.get("unfinished", ()) if self.writes else ()
        prompt = encode_prompt(sample["prompt"], self.chat, tokenizer)
        chosen, rejected = (
            encode_answer(sample[name], self.chat, tokenizer, whole=name not in cut) for name in ("chosen", "rejected")
        )
        return AnswerPair([*prompt, *chosen], [*prompt, *rejected], len(prompt))

    def find_fault(self, row: Mapping[str, Any]) -> str:
        return "equal answers: they have the same tokens" if row["chosen"] == row["rejected"] else ""

    def count_tokens(self, row: Mapping[str, Any]) -> int:
        return max(len(row["chosen"]), len(row["rejected"]))

    def make_sample(self, text: str) -> Sample:
        prompt, tab, answer = text.partition("\t")  # as `regard score` takes them
        return {"prompt": list_messages(prompt if tab else ""), "answer": answer if tab else text}


class PairTask(Task[B]):
    """A task on pairs in one prepared corpus."""

    sorted_by = ("chosen", "rejected")

    def choose_plan(self, batches: BatchSpec) -> BatchSpec:
        """A pair is two rows, so of so many tokens half as many pairs are made."""
        return batches if batches.rows is not None else batches.replace(tokens=max(1, batches.tokens // 2))

    def read_pair(self, number: int) -> AnswerPair:
        """A pair of the training split."""
        columns = self.columns
        return AnswerPair(columns["chosen"][number], columns["rejected"][number], columns["prompt"][number][0])


def list_messages(prompt: str | Sequence[Message]) -> Sequence[Message]:
    """A prompt as messages: a text is what a user says, and an empty one is nothing."""
    if not isinstance(prompt, str):
        return prompt
    return [say(USER, prompt)] if prompt else []


def check_roles(messages: Sequence[Message], form: ChatFormat) -> None:
    """Insist that a format has a place for everybody who speaks."""
    for message in messages:
        if message["role"] not in form.frames:
            raise Unusable(f"a role that format {form.name} has no place for: {message['role']}")


def show_prompt(messages: Sequence[Message]) -> str:
    """A prompt as people read it: the last thing that was said, and how much was said before."""
    if not messages:
        return ""
    before = f"(after {len(messages) - 1} more) " if len(messages) > 1 else ""
    return f"{before}{messages[-1]['content']}"


def silence(model: ModelSpec) -> ModelSpec:
    """A model that drops nothing while it is trained: what it says of an answer isn't blurred by chance."""

    def still(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: 0.0 if name in NOISE else still(part) for name, part in value.items()}
        return [still(part) for part in value] if isinstance(value, list) else value

    return ModelSpec.parse(still(model.model_dump(mode="json"))).note_family(model.family)


def measure_accuracy(differences: Numbers) -> Measure:
    """How often the chosen answer is ahead; where neither is, it counts one half."""
    right = (np.sign(differences) + 1) / 2
    return average_rows(right)


def average_rows(values: Numbers) -> Measure:
    """A mean over pairs and its interval."""
    return enclose(values.mean(keepdims=True), resample(np.arange(len(values)), values[:, None], 0)[:, 0] / len(values))


def tabulate_gaps(differences: Numbers) -> Numbers:
    """Each pair's gap between how sure a model is and whether it is right, in its bin of certainty: (pairs, bins).

    It is sure by σ(|difference|) that the answer it puts first was chosen.
    """
    sure, right = 1 / (1 + np.exp(-np.abs(differences))), (np.sign(differences) + 1) / 2
    gaps = np.zeros((len(differences), BINS))
    gaps[np.arange(len(gaps)), np.minimum((sure * BINS).astype(np.int64), BINS - 1)] = sure - right
    return gaps


def measure_calibration(differences: Numbers) -> Measure:
    """The expected calibration error of a difference of rewards (Naeini et al. 2015), in fifteen bins."""
    gaps = tabulate_gaps(differences)
    drawn = resample(np.arange(len(gaps)), gaps, 0) / len(gaps)
    return enclose(np.abs(gaps.mean(0, keepdims=True)).sum(1), np.abs(drawn).sum(1))
