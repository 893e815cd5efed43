"""Preference: a language model learns from which of two answers people chose, without a reward model in between.

Four losses of the literature (`margin.py`). DPO and IPO compare the model with the one that the run began from, whose
log-probabilities are computed once and kept (`reference.py`), so a step costs one call of the model; SimPO and ORPO
compare its answers with nothing but each other. How far the model has moved from its start is measured in each
evaluation, on answers that it writes itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from pydantic import model_validator
from torch import Tensor

from regard.core.model import Model, ModelSpec
from regard.core.spec import Count, Positive, Rate, Size, Weight
from regard.data.batches import BatchSpec
from regard.data.column import Column
from regard.data.dialogue import decode_answers, encode_prompt, find_end
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Sample
from regard.data.tokenizer import Tokenizer
from regard.decode.pipeline import Pipeline
from regard.decode.writer import Writer
from regard.errors import InputError, SpecError
from regard.tasks.example import Example
from regard.tasks.feedback.divergence import measure_divergence
from regard.tasks.feedback.likelihood import AnswerBatch, find_logs
from regard.tasks.feedback.margin import (
    Likelihood,
    PairCost,
    estimate_divergence,
    lose_dpo,
    lose_ipo,
    lose_orpo,
    lose_simpo,
)
from regard.tasks.feedback.pairwise import (
    AnswerPair,
    PairTask,
    PairTaskSpec,
    average_rows,
    list_messages,
    measure_accuracy,
    show_prompt,
    silence,
)
from regard.tasks.feedback.reference import SplitPairs, keep_reference, score_pairs
from regard.tasks.feedback.rollout import Sampling, draw_answers, rest
from regard.tasks.measures import Numbers
from regard.tasks.scores import SampleScores, take_time
from regard.tasks.significance import Statistic
from regard.tasks.task import Pulse, Reference, one_stack

BETA = {"dpo": 0.1, "ipo": 0.1, "simpo": 2.0, "orpo": 0.1}  # the papers' usual ones
REFERRING = ("dpo", "ipo")  # losses that ask the model that the run began from
SMOOTHED = ("dpo", "simpo")  # losses that a share of wrong labels is known for


class PreferenceTaskSpec(PairTaskSpec):
    """Learn to write the answers that people chose rather than those that they rejected."""

    measures: ClassVar[Mapping[str, bool]] = {"loss": False, "accuracy": True, "margin": True, "kl": False}
    roles: ClassVar[tuple[str, str, str]] = ("prompt", "chosen", "answer")
    kind: Literal["preference"] = "preference"
    writes: ClassVar[bool] = True
    loss: Literal["dpo", "ipo", "simpo", "orpo"] = "dpo"
    """The loss of a pair: dpo and ipo compare with the model that the run began from, simpo and orpo with nothing."""
    beta: Positive | None = None
    """How much a change of the model counts; the larger, the nearer to the start it stays. Unless given, 0.1, and for
    simpo 2; for orpo this is λ, the weight of the odds beside the supervised loss."""
    gamma: Weight = 1.0
    """For simpo, the chosen answer's reward is to be larger by this."""
    smoothing: Rate = 0.0
    """This share of the pairs is taken to be labelled the wrong way round, which makes dpo and simpo conservative."""
    per_token: bool = False
    """For ipo, an answer's log-probability is the mean over its tokens, as the paper's authors had it, and not the sum.
    """
    dropout: bool = False
    """The model's own dropout is on while it learns; unless so, it is off, as it is for the reference."""
    written: Count = 64
    """In an evaluation this many prompts are answered by chance, to estimate the divergence from the start."""
    most: Size = 64
    """Such an answer has at most this many tokens, its end included."""

    @model_validator(mode="after")
    def check_loss(self) -> Self:
        if self.smoothing and self.loss not in SMOOTHED:
            raise ValueError(f"smoothing: {self.smoothing} isn't for {self.loss}; loss=dpo or simpo, or smoothing=0")
        if self.per_token and self.loss != "ipo":
            raise ValueError(f"per_token: is for ipo, and the loss is {self.loss}; loss=ipo, or per_token=false")
        return self

    @property
    def strength(self) -> float:
        """β, be it given or usual."""
        return BETA[self.loss] if self.beta is None else self.beta

    @property
    def refers(self) -> bool:
        """Whether the loss asks the model that the run began from."""
        return self.loss in REFERRING

    @property
    def closing(self) -> tuple[Literal["end", "separator"], ...]:
        return ()  # a text is read on from where it stops

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "preference")
        if model.decoder is None:
            raise SpecError("model: an encoder sees what it should write", "model=gpt2; task=reward")
        if model.head is None or model.head.answers != "words":
            model = model.replace(head={"kind": "vocabulary"})
        return model if self.dropout else silence(model)

    def places(self, row: Mapping[str, Any]) -> Mapping[str, int]:
        return {"decoder": self.count_tokens(row) - 1}  # the last token is written, and never read

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> PreferenceTask:
        return PreferenceTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Writer

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Writer:
        context = None if network.endless else network.limit
        return Writer(network, lexicon.tokenizer, context, lexicon.foreign, format=self.chat)

    def weigh(self, logs: Tensor, sizes: Tensor, reference: Tensor | None) -> PairCost:
        """What pairs cost: all are (2, pairs), the chosen answers first; logs are sums over tokens."""
        beta = self.strength
        if self.refers:
            if reference is None:
                raise InputError(f"{self.loss} asks the model that the run began from", "task.begin(…), or loss=simpo")
            if self.loss == "dpo":
                return lose_dpo(logs[0], logs[1], (reference[0], reference[1]), beta, self.smoothing)
            now, before = (logs / sizes, reference / sizes) if self.per_token else (logs, reference)
            return lose_ipo(now[0], now[1], (before[0], before[1]), beta)
        sides = [Likelihood(*side) for side in zip(logs, sizes, strict=True)]
        if self.loss == "orpo":
            return lose_orpo(sides[0], sides[1], beta)
        return lose_simpo(sides[0], sides[1], beta, self.gamma, self.smoothing)

    def measure(self, pipeline: Writer, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        """What the model says of pairs by itself; and all that is measured while it learns, if its start is kept."""
        model, tokenizer, start = pipeline.model, pipeline.tokenizer, pipeline.beside("start")
        found, ranked = self._score(model, tokenizer, samples, pulse), dict[str, Any]()
        if not self.refers or start is not None:
            before = self._score(start.model, tokenizer, samples, pulse) if self.refers else None
            ranked |= measure_costs(self, found, before)
        if start is not None:
            prompts = [encode_prompt(sample["prompt"], self.chat, tokenizer) for sample in samples[: self.written]]
            ranked |= self.measure_move(model, partial(rest, start.model), tokenizer, prompts, pulse)
        return ranked | rank_pairs(found)

    def measure_move(
        self, model: Model, start: Reference, tokenizer: Tokenizer, prompts: Sequence[list[int]], pulse: Pulse
    ) -> dict[str, Any]:
        """How far a model is from its start, on answers to the first prompts: `kl`."""
        return measure_divergence(model, start, prompts[: self.written], self.sample_by(tokenizer), pulse)

    def sample_by(self, tokenizer: Tokenizer) -> Sampling:
        """How answers are drawn."""
        return Sampling(find_end(self.chat, tokenizer), tokenizer.pad, self.most)

    def _score(self, model: Model, tokenizer: Tokenizer, samples: Sequence[Sample], pulse: Pulse) -> PairLogs:
        pairs = [self.encode_pair(sample, tokenizer) for sample in samples]
        return PairLogs.gather(pairs, list(score_pairs(model, iter(pairs), tokenizer.pad, pulse)))

    def score_samples(self, pipeline: Writer, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> SampleScores:
        found, seconds = take_time(lambda: self._score(pipeline.model, pipeline.tokenizer, samples, pulse))
        ahead = found.totals[0] - found.totals[1]
        sizes = found.sizes[0].numpy()
        examples = [
            Example(
                (show_prompt(sample["prompt"]),),
                (sample["chosen"],),
                (sample["chosen"] if surplus > 0 else sample["rejected"],),
                surplus > 0,
                f"log-probability larger by {surplus:.2f}",
            )
            for sample, surplus in zip(samples, ahead.tolist(), strict=True)
        ]
        return SampleScores(
            {
                "ranking": Statistic.mean((ahead.sign().numpy() + 1) / 2, rising=True),
                "nats": Statistic.mean(-found.totals[0].numpy(), sizes, rising=False, per_token=True),
            },
            examples,
            telling="nats",
            seconds=seconds,
            sizes=[len(sample["chosen"].split()) for sample in samples],
            size_name="words of the chosen answer",
        )

    def demonstrate(self, pipeline: Writer, samples: Sequence[Sample]) -> list[Example]:
        """The likeliest answer to each prompt."""
        tokenizer, how = pipeline.tokenizer, self.sample_by(pipeline.tokenizer)
        prompts = [encode_prompt(sample["prompt"], self.chat, tokenizer) for sample in samples]
        answers = decode_answers(draw_answers(pipeline.model, prompts, None, how), self.chat, tokenizer)
        return [
            Example((show_prompt(sample["prompt"]),), (sample["chosen"],) if "chosen" in sample else (), (answer,))
            for sample, answer in zip(samples, answers, strict=True)
        ]

    def make_sample(self, text: str) -> Sample:
        return {"prompt": list_messages(text)}


@dataclass
class PairLogs:
    """What a model says of pairs: sums over the tokens of each answer, (2, pairs), the chosen ones first."""

    totals: Tensor
    sizes: Tensor

    @classmethod
    def gather(cls, pairs: Sequence[AnswerPair], logs: Sequence[Tensor]) -> PairLogs:
        """From the log-probabilities of each pair's tokens."""
        sizes = [(len(pair.chosen) - pair.prompt, len(pair.rejected) - pair.prompt) for pair in pairs]
        totals = [
            [float(side.sum()) for side in row.double().split(both)] for row, both in zip(logs, sizes, strict=True)
        ]
        return cls(torch.tensor(totals, dtype=torch.float64).T, torch.tensor(sizes, dtype=torch.float64).T)


@dataclass
class PreferenceBatch:
    """Pairs of answers: the chosen ones first, then the rejected ones in the same order."""

    answers: AnswerBatch  # (2 · pairs, time)
    reference: Tensor | None = None  # (2 · pairs, time), where there is a learned token; None: the loss asks for none

    @property
    def pairs(self) -> int:
        return len(self.answers.targets) // 2

    @classmethod
    def lay_out(cls, pairs: Sequence[AnswerPair], pad: int, reference: Sequence[Numbers] | None = None) -> Self:
        """`reference`: what the reference says of each pair's tokens, the chosen answer's first."""
        chosen, rejected = zip(*(pair.transcribe() for pair in pairs), strict=True)
        answers = AnswerBatch.lay_out([*chosen, *rejected], pad)
        if reference is None:
            return cls(answers)
        cut = [np.split(logs, [len(pair.chosen) - pair.prompt]) for pair, logs in zip(pairs, reference, strict=True)]
        told = torch.from_numpy(np.concatenate([both[side] for side in (0, 1) for both in cut]))
        return cls(answers, torch.zeros(answers.learned.shape, dtype=told.dtype).masked_scatter(answers.learned, told))


class PreferenceTask(PairTask[PreferenceBatch]):
    """The task on one prepared corpus."""

    goal, rising = "loss", False
    counts = "pairs"
    compares = True

    def __init__(self, spec: PreferenceTaskSpec, prepared: Prepared, batches: BatchSpec, seed: int) -> None:
        super().__init__(spec, prepared, batches, seed)
        self.kept: dict[str, Column] = {}  # what the reference says, by split
        self.start: Reference | None = None
        self.told: list[Tensor] = []  # of this step's batches: (facts, pairs) each

    def begin(self, model: Model, reference: Reference, pulse: Pulse) -> None:
        self.start = reference
        if self.spec.refers:
            splits: dict[str, SplitPairs] = {"train": SplitPairs(len(self.prepared), self.read_pair)}
            if self.validation:
                splits["validation"] = SplitPairs(len(self.validation), self._encode)
            self.kept = keep_reference(self.prepared, splits, self.tokenizer.pad, reference, pulse)

    def _encode(self, number: int) -> AnswerPair:
        """A pair of the validation split."""
        return self.spec.encode_pair(self.validation[number], self.tokenizer)

    def make_batch(self, rows: list[int], chance: Random) -> PreferenceBatch:
        logs = [self.kept["train"].read(n) for n in rows] if self.kept else None
        return PreferenceBatch.lay_out([self.read_pair(n) for n in rows], self.tokenizer.pad, logs)

    def size(self, batch: PreferenceBatch) -> int:
        return batch.pairs

    def loss(self, model: Model, batch: PreferenceBatch) -> Tensor:
        logs = find_logs(model, batch.answers)
        before = None if batch.reference is None else batch.reference.to(logs)
        sizes = batch.answers.learned.sum(1).view(2, -1).to(logs)
        cost = self.spec.weigh(logs.sum(1).view(2, -1), sizes, None if before is None else before.sum(1).view(2, -1))
        with torch.no_grad():
            facts = [cost.chosen, cost.rejected]
            if before is not None:
                facts.append(estimate_divergence(logs, before).view(2, -1).mean(0))
            self.told.append(torch.stack(facts).double().cpu())
        return cost.loss.sum()

    def report(self) -> Mapping[str, float]:
        """Implicit rewards, how far the chosen ones are ahead and how often, and the divergence on these answers.

        The divergence is KL(π_ref‖π) of an answer in nats, by Schulman's estimator (`estimate_divergence`).
        """
        told = torch.cat(self.told, 1)
        self.told = []
        ahead = told[0] - told[1]
        facts = {
            "reward_chosen": float(told[0].mean()),
            "reward_rejected": float(told[1].mean()),
            "margin": float(ahead.mean()),
            "accuracy": float((ahead.sign() + 1).mean() / 2),
        }
        return facts | ({"kl_reference": float(told[2].mean())} if len(told) > 2 else {})

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        pairs = [self._encode(n) for n in range(len(self.validation))]
        found = PairLogs.gather(pairs, list(score_pairs(model, iter(pairs), self.tokenizer.pad, pulse)))
        before = None
        if self.spec.refers:
            kept = [torch.from_numpy(self.kept["validation"].read(n)) for n in range(len(pairs))]
            before = PairLogs.gather(pairs, kept)
        measures = measure_costs(self.spec, found, before)
        if self.start is None:
            raise InputError("the task knows no model that the run began from", "begin(model, reference, pulse) first")
        prompts = [pair.chosen[: pair.prompt] for pair in pairs]
        return measures | self.spec.measure_move(model, self.start, self.tokenizer, prompts, pulse)


def measure_costs(spec: PreferenceTaskSpec, found: PairLogs, before: PairLogs | None) -> dict[str, Any]:
    """The loss of held-out pairs, and what the implicit rewards say of them."""
    cost = spec.weigh(found.totals, found.sizes, None if before is None else before.totals)
    ahead = (cost.chosen - cost.rejected).numpy()
    return {
        **average_rows(cost.loss.numpy()).named("loss"),
        **measure_accuracy(ahead).named("accuracy"),
        **average_rows(ahead).named("margin"),
        "reward_chosen": float(cost.chosen.mean()),
        "reward_rejected": float(cost.rejected.mean()),
        "pairs": len(ahead),
    }


def rank_pairs(found: PairLogs) -> dict[str, Any]:
    """What the model says of pairs by itself: how often the chosen answer is likelier, and its nats a token."""
    ahead, nats = (found.totals[0] - found.totals[1]).numpy(), (-found.totals[0] / found.sizes[0]).numpy()
    return {
        **measure_accuracy(ahead).named("ranking"),
        **average_rows(nats).named("nats"),
        "pairs": len(ahead),
    }
