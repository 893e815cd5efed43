"""Reward: one number for an answer to a prompt, learned from which of two answers people chose.

The model of choice is Bradley and Terry's (1952): an answer is chosen with the probability σ(r - r'), so only
differences of rewards mean something. A language model that is started from keeps all but its head (Stiennon et al.
2020); the number is read off the token that ends the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.role import Answers
from regard.core.spec import Rate, Weight
from regard.data.batches import BatchSpec
from regard.data.dialogue import ChatFormat, Message, encode_answer, encode_prompt, find_format
from regard.data.given import check_text
from regard.data.lexicon import Lexicon
from regard.data.log import Unusable
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Sample
from regard.data.tokenizer import Tokenizer
from regard.decode.pipeline import Pipeline
from regard.decode.reading import Reading, Strip
from regard.errors import InputError
from regard.tasks.example import Example
from regard.tasks.feedback.margin import lose_bradley_terry
from regard.tasks.feedback.pairwise import (
    AnswerPair,
    PairTask,
    PairTaskSpec,
    average_rows,
    check_roles,
    list_messages,
    measure_accuracy,
    measure_calibration,
    show_prompt,
    tabulate_gaps,
)
from regard.tasks.measures import Numbers
from regard.tasks.scores import SampleScores, take_time
from regard.tasks.significance import Statistic
from regard.tasks.task import Pulse, layer_of, one_stack

ROWS, TOKENS = 64, 16_384  # answers that are read together, at most, and their tokens


class RewardTaskSpec(PairTaskSpec):
    """Learn what an answer is worth from which of two people chose."""

    answers: ClassVar[Answers | None] = "classes"
    measures: ClassVar[Mapping[str, bool]] = {"accuracy": True, "loss": False, "calibration": False, "margin": True}
    roles: ClassVar[tuple[str, str, str]] = ("prompt", "chosen", "answer")
    kind: Literal["reward"] = "reward"
    pool: Literal["first", "last", "mean"] | None = None
    """An answer's vector is that of its first or last token, or the mean of all; unless given, the model's own
    pooler's, last for a decoder, mean for an encoder."""
    margin: Weight = 0.0
    """The chosen answer's reward is to be larger by this, where a sample doesn't say by how much itself."""
    smoothing: Rate = 0.0
    """This share of the pairs is taken to be labelled the wrong way round."""
    centre: Weight = 0.0
    """The weight of the square of a pair's rewards' sum, which keeps rewards around 0 (Eisenstein et al. 2023)."""
    dropout: Rate = 0.0
    """This share of an answer's vector is dropped before the reward while training."""

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "reward")
        head: dict[str, Any] = {"kind": "classes", "pool": "mean" if model.decoder is None else "last"}
        head |= layer_of(model, "vectors", "classes")  # one that was trained is used on
        head |= {"classes": 1, "dropout": self.dropout} | ({} if self.pool is None else {"pool": self.pool})
        return model.replace(head=head)

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> RewardTask:
        return RewardTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Judge

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Judge:
        return Judge(network, lexicon.tokenizer, self.format)

    def measure(self, pipeline: Judge, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        return measure_differences(pipeline.compare_all(samples, pulse))

    def score_samples(self, pipeline: Judge, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> SampleScores:
        rewards, seconds = take_time(lambda: pipeline.compare_all(samples, pulse))
        ahead = rewards[:, 0] - rewards[:, 1]
        # a gap is a mean over all pairs, so that its bins are sums over a count
        gaps = np.concatenate((tabulate_gaps(ahead), np.ones((len(ahead), 1))), 1)
        return SampleScores(
            {
                "accuracy": Statistic.mean((np.sign(ahead) + 1) / 2, rising=True),
                "loss": Statistic.mean(np.logaddexp(0, -ahead), rising=False),
                "calibration": Statistic(gaps, False, lambda sums: np.abs(sums[:, :-1]).sum(1) / sums[:, -1]),
            },
            [self._compare(*pair) for pair in zip(samples, rewards.tolist(), strict=True)],
            telling="loss",
            seconds=seconds,
            sizes=[len(sample["chosen"].split()) for sample in samples],
            size_name="words of the chosen answer",
        )

    def demonstrate(self, pipeline: Judge, samples: Sequence[Sample]) -> list[Example]:
        found = []
        for sample in samples:
            if "answer" in sample:  # a text that was typed
                reward = pipeline.score(sample["prompt"], sample["answer"])
                given = filter(None, (show_prompt(sample["prompt"]), sample["answer"]))
                found.append(Example(tuple(given), (), (f"{reward:.4f}",)))
            else:
                found.append(self._compare(sample, pipeline.compare_all([sample])[0].tolist()))
        return found

    def _compare(self, sample: Sample, rewards: Sequence[float]) -> Example:
        right = rewards[0] > rewards[1]
        answer = sample["chosen"] if right else sample["rejected"]
        note = f"reward {rewards[0]:.3f}, and {rewards[1]:.3f} for the rejected one"
        return Example((show_prompt(sample["prompt"]),), (sample["chosen"],), (answer,), right, note)


@dataclass
class RewardBatch:
    """Pairs of answers: the chosen ones first, then the rejected ones in the same order."""

    inputs: Inputs  # (2 · pairs, time)
    margins: Tensor  # (pairs,)

    @classmethod
    def lay_out(cls, pairs: Sequence[AnswerPair], margins: Sequence[float], pad: int) -> RewardBatch:
        rows = [pair.chosen for pair in pairs] + [pair.rejected for pair in pairs]
        return cls(Inputs.pad(rows, pad), torch.tensor(margins))


def reward_rows(model: Model, inputs: Inputs) -> Tensor:
    """The reward of each row: (rows,)."""
    found: Tensor = model(inputs.to(model.device))[:, 0]
    return found


class RewardTask(PairTask[RewardBatch]):
    """The task on one prepared corpus."""

    goal, rising = "accuracy", True
    counts = "pairs"

    def __init__(self, spec: RewardTaskSpec, prepared: Prepared, batches: BatchSpec, seed: int) -> None:
        super().__init__(spec, prepared, batches, seed)
        self.told: list[Tensor] = []  # rewards of this step's batches, (2, pairs) each

    def make_batch(self, rows: list[int], chance: Random) -> RewardBatch:
        margins = [next(iter(self.columns["margin"][n]), self.spec.margin) for n in rows]
        return RewardBatch.lay_out([self.read_pair(n) for n in rows], margins, self.tokenizer.pad)

    def size(self, batch: RewardBatch) -> int:
        return len(batch.margins)

    def loss(self, model: Model, batch: RewardBatch) -> Tensor:
        rewards = reward_rows(model, batch.inputs).view(2, -1)
        self.told.append(rewards.detach().double().cpu())
        lost = lose_bradley_terry(rewards[0] - rewards[1], batch.margins.to(rewards), self.spec.smoothing)
        return (lost + self.spec.centre * rewards.sum(0) ** 2).sum()

    def report(self) -> Mapping[str, float]:
        """How far the chosen answers of the step are ahead, and how often."""
        ahead = torch.cat([chosen - rejected for chosen, rejected in self.told])
        self.told = []
        return {"margin": float(ahead.mean()), "accuracy": float((ahead.sign() + 1).mean() / 2)}

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        judge = Judge(model, self.tokenizer, self.spec.format)
        return measure_differences(judge.compare_all(self.validation, pulse))


def measure_differences(rewards: Numbers) -> dict[str, Any]:
    """Every measure of the rewards of pairs: (pairs, 2), the chosen answer's first.

    The loss has no margins, so that runs that were trained with others can be compared.
    """
    ahead = rewards[:, 0] - rewards[:, 1]
    return {
        **measure_accuracy(ahead).named("accuracy"),
        **average_rows(np.logaddexp(0, -ahead)).named("loss"),
        **measure_calibration(ahead).named("calibration"),
        **average_rows(ahead).named("margin"),
        "reward_mean": float(rewards.mean()),
        "reward_spread": float(rewards.std()),
        "pairs": len(ahead),
    }


@dataclass(repr=False)
class Judge(Pipeline):
    """A model that learned what answers are worth, with its tokenizer and the format in which it reads them.

    A prompt is a text, which a user says, or a list of messages; an empty text is no prompt at all. Only differences of
    rewards mean something: e to the power of one is by how much likelier the better answer is to be chosen.

    >>> import regard
    >>> pairs = [{"prompt": "Who?", "chosen": f"It is me, number {n}.", "rejected": "Go away."} for n in range(60)]
    >>> settings = {"task": "reward", "model": "decoder-tiny", "tokenizer": {"pieces": "word"}, "out": "runs/judge"}
    >>> _ = regard.fit(settings | {"train": {"steps": 30}}, data=pairs)
    >>> judge = regard.load("runs/judge", kind=regard.Judge)
    >>> judge.score("Who?", "It is me, number 7.") > judge.score("Who?", "Go away.")
    True
    """

    usage: ClassVar[str] = 'score {} "…"'
    verbs: ClassVar[tuple[str, ...]] = ("score", "score_all")
    model: Model
    tokenizer: Tokenizer
    format: str = "turns"

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.tokenizer, self.tokenizer

    @property
    def chat(self) -> ChatFormat:
        return find_format(self.format)

    def score(self, prompt: str | Sequence[Message], answer: str) -> float:
        """What an answer to a prompt is worth."""
        return self.score_all([prompt], [answer])[0]

    def score_all(
        self, prompts: Sequence[str | Sequence[Message]], answers: Sequence[str], pulse: Pulse = lambda: None
    ) -> list[float]:
        """What each answer is worth to the prompt in its place, in their order."""
        if isinstance(prompts, str) or isinstance(answers, str):
            raise InputError(
                "score_all takes lists of prompts and answers, and this is a text", "score(prompt, answer)"
            )
        if len(prompts) != len(answers):
            told = f"{len(prompts)} prompts and {len(answers)} answers: there must be an answer for each"
            raise InputError(told, "score_all([prompt] * len(answers), answers)")
        return self.score_rows([self.encode(*pair) for pair in zip(prompts, answers, strict=True)], pulse)

    def encode(self, prompt: str | Sequence[Message], answer: str) -> list[int]:
        """What is read of an answer to a prompt; refused where the model has no positions for all of it."""
        messages = list_messages(prompt)
        for text in (answer, *(message["content"] for message in messages)):
            check_text(text, "score_all(prompts, answers)")
        try:
            check_roles(messages, self.chat)
        except Unusable as error:
            raise InputError(error.message, error.hint) from None
        row = [
            *encode_prompt(messages, self.chat, self.tokenizer),
            *encode_answer(answer, self.chat, self.tokenizer),
        ]
        if self.model.limit is not None and len(row) > self.model.limit:
            told = f"too many tokens: {len(row)} with the prompt's, and the model has positions for {self.model.limit}"
            raise InputError(told, "a shorter prompt or answer")
        return row

    @torch.no_grad()
    def score_rows(self, rows: Sequence[Sequence[int]], pulse: Pulse = lambda: None) -> list[float]:
        """The same for prompts with their answers in tokens; rows of like length are read together."""
        found: dict[int, float] = {}
        for group in group_by_length([len(row) for row in rows]):
            pulse()
            inputs = Inputs.pad([rows[n] for n in group], self.tokenizer.pad)
            found |= dict(zip(group, reward_rows(self.model, inputs).double().tolist(), strict=True))
        return [found[n] for n in range(len(rows))]

    def compare_all(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Numbers:
        """The rewards of the chosen and of the rejected answer of each sample: (samples, 2)."""
        sides = [[sample[name] for sample in samples] for name in ("chosen", "rejected")]
        prompts = [sample["prompt"] for sample in samples]
        rewards = self.score_all(prompts * 2, [*sides[0], *sides[1]], pulse)
        return np.array(rewards, np.float64).reshape(2, -1).T

    def lay_out(self, text: str, target: str | None = None) -> Reading:
        """An answer; or a prompt, with the answer as the target."""
        row = self.encode("", text) if target is None else self.encode(text, target)
        inputs, strip = Inputs.pad([row], self.tokenizer.pad), Strip.of(self.tokenizer, row)
        spell = lambda found: ["reward" for _ in found]  # noqa: E731
        return Reading(inputs, strip, targets={0: None}, spell=spell, output="none", text=text)


def group_by_length(lengths: Sequence[int], tokens: int = TOKENS, rows: int = ROWS) -> Iterator[list[int]]:
    """Rows of like length together, by their numbers, as many as there may be of rows and of tokens."""
    group: list[int] = []
    for n in sorted(range(len(lengths)), key=lambda n: lengths[n]):
        if group and (len(group) == rows or lengths[n] * (len(group) + 1) > tokens):
            yield group
            group = []
        group.append(n)
    if group:
        yield group
