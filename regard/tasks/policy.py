"""Policy optimisation: a model draws answers to prompts, they are rewarded, and what was better than expected becomes
likelier (Ziegler et al. 2019; Ouyang et al. 2022; Shao et al. 2024).

A round is a rollout, several answers to each of some prompts, and then a few passes over what was drawn, each in some
mini-batches. The rollout belongs to the first batch of its round: it is drawn by the model of that moment, each row by
a seed that follows from its place in the order. The round is the task's memory, so a run that is stopped in the
middle of one goes on as if it never was. Dropout is off throughout: by chance a token would be likelier or less likely
than when it was drawn, and the ratio of the two is what the loss is about.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from regard.core.model import Model, ModelSpec
from regard.core.spec import Positive, Size, Weight
from regard.data.batches import BatchSpec
from regard.data.column import ColumnSpec
from regard.data.dialogue import (
    ASSISTANT,
    USER,
    encode_prompt,
    find_end,
    say,
    spell_dialogue,
)
from regard.data.lexicon import Lexicon
from regard.data.log import Unusable
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.sieve import Row
from regard.data.tokenizer import Tokenizer
from regard.decode.pipeline import Pipeline
from regard.decode.writer import Writer
from regard.errors import CheckpointError, SpecError
from regard.tasks.captioning import spread_out
from regard.tasks.example import Example
from regard.tasks.feedback.chat import ChatTaskSpec
from regard.tasks.feedback.examiner import Examiner, measure_policy
from regard.tasks.feedback.method import MethodSpec, Ppo, share_out
from regard.tasks.feedback.mixture import MixedText, Mixture
from regard.tasks.feedback.pairwise import check_roles, show_prompt
from regard.tasks.feedback.rollout import Round, RoundLog, Sampling, appraise, divide_rows, draw_answers, rest
from regard.tasks.rewards.reward import RewardSpec
from regard.tasks.rewards.right import RightReward
from regard.tasks.task import Beside, Place, Pulse, Reference, Task, one_stack


class PolicyTaskSpec(ChatTaskSpec):
    """Learn to answer so that answers are rewarded, and stay near the model that it began as."""

    form: ClassVar[Form] = "prompts"
    writes: ClassVar[bool] = True
    roles: ClassVar[tuple[str, str, str]] = ("prompt", "right answer", "answer")
    measures: ClassVar[Mapping[str, bool]] = {"reward": True, "greedy_reward": True, "kl": False}
    kind: Literal["policy"] = "policy"
    reward: RewardSpec = RightReward()
    """What answers are rewarded for; unless given, for being the one that the sample has."""
    method: MethodSpec = Ppo()
    """How rewards become a loss: ppo, or grpo."""
    samples: Size = 4
    """So many answers are drawn to each prompt of a round; batches.rows says how many prompts that are."""
    most: Size = 32
    """An answer has at most this many tokens, its end included."""
    temperature: Positive = 1.0
    """Scores are divided by this before a token is drawn; probabilities and divergences are those of what is drawn."""
    ends: bool = True
    """Answers may end by themselves; otherwise all have the most tokens, and what ends them is never drawn, as where a
    text is written on and the shortest would earn the most."""
    cut: Weight = 0.0
    """An answer that isn't at its end after the most tokens has this much less reward."""
    epochs: Size = 2
    """So many passes over a round's answers are made before new ones are drawn."""
    minibatches: Size = 2
    """A pass has so many batches, each a step of the optimizer; train.accumulate puts several into one step."""
    mixture: Mixture | None = None
    """This text is learned beside, so that nothing is unlearned that no reward asks for (InstructGPT's PPO-ptx)."""
    validation: Size = 200
    """While training goes on, at most this many prompts of the validation part are answered."""

    @property
    def closing(self) -> tuple[Literal["end", "separator"], ...]:
        return ()  # a prompt is read on from where it stops

    def name_judge(self) -> str | None:
        return self.reward.judge

    def insist_on_judge(self, judge: Pipeline) -> None:
        self.reward.insist_on_judge(judge)

    def name_text(self) -> str | None:
        return None if self.mixture is None else self.mixture.run

    def insist_on_text(self, text: Prepared, lexicon: Lexicon) -> None:
        if self.mixture is not None:
            self.mixture.insist_on_text(text, lexicon.tokenizer)

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "policy")
        if model.decoder is None:
            raise SpecError("model: an encoder can't write answers", "model=gpt2, or start=RUN of a language model")
        if model.head is None or model.head.answers != "words":
            model = model.replace(head={"kind": "vocabulary"})
        assert model.head is not None
        limit = model.main.limit()
        if limit is not None and self.most >= limit:
            raise SpecError(f"task.most: {self.most}, and the model has places for {limit}", f"task.most={limit // 2}")
        self.method.insist(self.samples)
        find_end(self.chat, lexicon.tokenizer)
        head = model.head.with_value(self.method.values)
        return model if head == model.head else model.replace(head=head)

    def receive(self, sample: Sample) -> Sample:
        check_roles(sample["prompt"], self.chat)
        for name in self.reward.needs:
            if name not in sample:
                raise Unusable(f"no {name}, and the reward {self.reward.kind} asks for it")
        return sample

    def texts(self, sample: Sample) -> Sequence[str]:
        answer = [say(ASSISTANT, sample["answer"])] if "answer" in sample else []
        return (spell_dialogue([*sample["prompt"], *answer], self.chat),)

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        return {"prompt": ColumnSpec(below=len(lexicon.tokenizer)), "sample": ColumnSpec(dtype="uint8")}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        """A prompt's tokens, and the sample itself, which a reward may ask about."""
        return [
            {
                "prompt": encode_prompt(sample["prompt"], self.chat, lexicon.tokenizer),
                "sample": np.frombuffer(json.dumps(sample).encode(), np.uint8),
            }
            for sample in samples
        ]

    def count_tokens(self, row: Row) -> int:
        return len(row["prompt"]) + self.most

    def places(self, row: Row) -> Mapping[str, int]:
        return {"decoder": len(row["prompt"]) + self.most - 1}  # nobody reads the last token of an answer

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> PolicyTask:
        return PolicyTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Writer

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Writer:
        return Writer(network, lexicon.tokenizer, network.limit, lexicon.foreign, format=self.chat)

    def make_examiner(self, tokenizer: Tokenizer, beside: Beside, reference: Reference | None) -> Examiner:
        judge = beside("judge") if self.name_judge() is not None else None
        settings = self.most, self.temperature, self.cut, self.ends
        return Examiner(tokenizer, self.chat, self.reward, *settings, judge, reference)

    def examine(self, pipeline: Writer) -> Examiner:
        """Whoever asks a trained model for answers and grades them."""
        start = pipeline.beside("start")
        reference = None if start is None else partial(rest, start.model)
        return self.make_examiner(pipeline.tokenizer, pipeline.beside, reference)

    def measure(self, pipeline: Writer, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        return measure_policy(self.examine(pipeline), pipeline.model, samples, pulse)

    def make_sample(self, text: str) -> Sample:
        return {"prompt": [say(USER, text)]}

    def demonstrate(self, pipeline: Writer, samples: Sequence[Sample]) -> list[Example]:
        """The likeliest answer to each prompt, and its reward where the sample has all that the reward asks."""
        examiner = self.examine(pipeline)
        answers = examiner.answer(pipeline.model, samples, None)
        known = [all(name in sample for name in self.reward.needs) for sample in samples]
        some = [n for n, told in enumerate(known) if told]
        rewards = dict(zip(some, examiner.grade([samples[n] for n in some], [answers[n] for n in some]), strict=True))
        return [
            Example(
                (show_prompt(sample["prompt"]),),
                (sample["answer"],) if "answer" in sample else (),
                (examiner.read([sample], [answer])[0],),
                note=f"reward {rewards[n]:.2f}" if n in rewards else "",
            )
            for n, (sample, answer) in enumerate(zip(samples, answers, strict=True))
        ]


@dataclass
class PolicyBatch:
    """Some rows of a round; the first batch of a round says what is to be drawn."""

    epoch: int
    round: int
    turn: int
    part: int
    parts: list[list[int]]  # the rows of each part of this pass
    prompts: list[list[int]] = field(default_factory=list)  # in tokens, each once
    samples: list[Sample] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)  # one for each answer

    @property
    def rows(self) -> list[int]:
        return self.parts[self.part]


@dataclass(frozen=True)
class Stage:
    """What makes a batch: which part of which pass over which round."""

    epoch: int
    round: int
    turn: int
    part: int
    prompts: list[int]  # samples of the round


class PolicyTask(Task[PolicyBatch]):
    """The task on one prepared corpus."""

    goal, rising = "reward", True
    counts = "answers"
    usual_rows = 32
    compares = True
    spec: PolicyTaskSpec

    def __init__(self, spec: PolicyTaskSpec, prepared: Prepared, batches: BatchSpec, seed: int) -> None:
        super().__init__(spec, prepared, batches, seed)
        self.beta = spec.method.beta
        self.round: Round | None = None
        self.text: MixedText | None = None
        self.examiner: Examiner | None = None  # there is one once training begins
        self.heard = RoundLog()
        fewest = len(prepared) // self.count_rounds() * spec.samples
        if fewest < spec.minibatches:
            told = f"task.minibatches: {spec.minibatches}, and a round has {fewest} answers"
            raise SpecError(told, f"task.minibatches={fewest}")

    def count_rounds(self) -> int:
        """How many rounds see every prompt once, all of like size."""
        rows = self.plan.rows or 1
        return -(-len(self.prepared) // rows)

    def batches(
        self, epoch: int, position: int, rank: int = 0, ranks: int = 1
    ) -> Generator[Place[PolicyBatch], None, None]:
        if ranks > 1:
            raise SpecError(f"task policy: one process draws the answers of a round, and here are {ranks}", "one alone")
        return super().batches(epoch, position, rank, ranks)

    def order(self, epoch: int) -> Iterator[tuple[Stage, float]]:
        rounds, spec = self.count_rounds(), self.spec
        shuffled = divide_rows(len(self.prepared), rounds, Random(f"{self.seed}/{epoch}"))
        for number, prompts in enumerate(shuffled):
            for turn in range(spec.epochs):
                for part in range(spec.minibatches):
                    steps = turn * spec.minibatches + part + 1
                    share = (number + steps / (spec.epochs * spec.minibatches)) / rounds
                    yield Stage(epoch, number, turn, part, prompts), share

    def make_batch(self, rows: Stage, chance: Random) -> PolicyBatch:
        answers = self.spec.samples * len(rows.prompts)
        luck = Random(f"{self.seed}/{rows.epoch}/{rows.round}/{rows.turn}")  # one order for all parts of a pass
        parts = divide_rows(answers, self.spec.minibatches, luck)
        found = PolicyBatch(rows.epoch, rows.round, rows.turn, rows.part, parts)
        if rows.turn == rows.part == 0:
            found.prompts = [self.columns["prompt"][row] for row in rows.prompts]
            found.samples = [json.loads(self.columns["sample"].read(row).tobytes()) for row in rows.prompts]
            # by the round and not by the batch, so that how rounds are cut into batches changes nothing that is drawn
            luck = Random(f"{self.seed}/{rows.epoch}/{rows.round}")
            found.seeds = [luck.getrandbits(62) for _ in range(answers)]
        return found

    def size(self, batch: PolicyBatch) -> int:
        return len(batch.rows)

    def begin(self, model: Model, reference: Reference, pulse: Pulse) -> None:
        self.examiner = self.spec.make_examiner(self.tokenizer, self.beside, reference)
        if self.spec.mixture is not None:
            self.text = self.spec.mixture.build(self.beside("text"), self.seed)

    def prepare(self, model: Model, batch: PolicyBatch) -> None:
        model.eval()  # whoever trains says so again before the next step
        if batch.prompts:
            assert self.examiner is not None
            self.round = self._play(model, batch, self.examiner)

    def _play(self, model: Model, batch: PolicyBatch, examiner: Examiner) -> Round:
        """Draw a round's answers, reward them, and say what each token was worth."""
        method, samples, heard = self.spec.method, self.spec.samples, self.heard
        with heard.time("rollout"):
            answers = draw_answers(model, batch.prompts, batch.seeds, examiner.sampling, samples)
        asked = [sample for sample in batch.samples for _ in range(samples)]
        with heard.time("reward"):
            rewards = torch.tensor(examiner.grade(asked, answers), device=model.device, dtype=model.dtype)
        prompts = [prompt for prompt in batch.prompts for _ in range(samples)]
        found = Round(batch.epoch, batch.round, prompts, answers, rewards)
        with heard.time("rollout"):
            self._note(found, model, batch.parts, ("logs", "entropy", "values"))
            assert examiner.reference is not None
            with examiner.reference() as start:
                self._note(found, start, batch.parts, ("reference",))
        found.tensors["shares"] = share_out(found, method.average, self.spec.most)
        method.weigh(found, samples, self.beta)
        self._tell(found, self.beta)
        self.beta = method.adapt(self.beta, heard.figures["kl"], len(answers))
        return found

    def _tell(self, found: Round, beta: float) -> None:
        end = find_end(self.spec.chat, self.tokenizer)
        self.heard.figures = {**found.tell(end), **self.spec.method.tell(found), "beta": beta}

    @property
    def sampling(self) -> Sampling:
        """How answers are drawn, and so how likely each of their tokens was."""
        assert self.examiner is not None
        return self.examiner.sampling

    @torch.enable_grad()
    def _note(self, found: Round, model: Model, parts: Sequence[Sequence[int]], names: Sequence[str]) -> None:
        """Keep what a model says of all answers, in the very batches of the first pass and as if for a gradient: other
        rows and other kernels may end in another last digit, and the first ratio is to be 1.
        """
        valid, pad = found.valid, self.tokenizer.pad
        for rows in parts:
            values = self.spec.method.values and "values" in names
            said = appraise(model, found.lay_out(rows, pad), valid[rows], self.sampling, values)
            given = {"logs": said.logs, "entropy": said.entropy, "values": said.values, "reference": said.logs}
            for name in names:
                if (told := given[name]) is not None:
                    kept = found.tensors.setdefault(name, told.new_zeros(valid.shape))
                    kept[rows] = told.detach()

    def loss(self, model: Model, batch: PolicyBatch) -> Tensor:
        found, spec = self.round, self.spec
        if found is None or (found.epoch, found.number) != (batch.epoch, batch.round):
            raise CheckpointError(f"the answers of round {batch.round} of epoch {batch.epoch} aren't there")
        self.heard.start("update")
        rows = batch.rows
        valid = found.valid[rows]
        now = appraise(model, found.lay_out(rows, self.tokenizer.pad), valid, self.sampling, spec.method.values)
        then = {name: tensor[rows] for name, tensor in found.tensors.items()}
        lost = spec.method.lose(now, then, self.beta)
        self.heard.count_clipped(lost.clipped[valid.to(lost.clipped.device)])
        total = (lost.loss * then["shares"]).sum()
        if self.text is None:
            return total
        place = f"{self.seed}/{batch.epoch}/{batch.round}/{batch.turn}"
        return total + self.text.lose(model, [f"{place}/{row}" for row in rows])

    def settle(self) -> None:
        self.heard.stop("update")

    def report(self) -> Mapping[str, float]:
        return self.heard.tell()

    def memory(self) -> Mapping[str, Tensor]:
        if self.round is None:
            return {}
        betas = torch.tensor([self.heard.figures["beta"], self.beta], dtype=torch.float64)
        return {**self.round.pack(), "betas": betas}

    def recall(self, model: Model, memory: Mapping[str, Tensor]) -> None:
        before, self.beta = memory["betas"].tolist()
        self.round = Round.unpack(memory, model.device)
        self._tell(self.round, before)

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        assert self.examiner is not None
        return measure_policy(self.examiner, model, spread_out(self.validation, self.spec.validation), pulse)
