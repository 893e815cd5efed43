"""Supervised fine-tuning on conversations: the model learns to say what the assistant says, and nothing else.

What the user and the system say is read and never learned: the loss is over the assistant's tokens and the one that
ends each of its answers (Ouyang et al. 2022, step 1). Conversations are laid side by side in rows, each of them whole,
and none sees another, as documents are (`language.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.padding import Padding
from regard.core.spec import Size
from regard.data.batches import BatchSpec
from regard.data.column import ColumnSpec
from regard.data.dialogue import (
    ASSISTANT,
    USER,
    Message,
    Transcript,
    encode_dialogues,
    say,
    spell_dialogue,
)
from regard.data.lexicon import Lexicon
from regard.data.log import Unusable
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample, place
from regard.data.sieve import Row
from regard.data.tokenizer import Tokenizer
from regard.decode.pipeline import Pipeline
from regard.decode.writer import Writer
from regard.errors import InputError, SpecError
from regard.tasks.documents import Span, fits, full_rows
from regard.tasks.entropy import cross_entropy, pieces
from regard.tasks.example import Example
from regard.tasks.feedback.chat import ChatTaskSpec
from regard.tasks.feedback.likelihood import AnswerBatch
from regard.tasks.measures import Numbers, ratio
from regard.tasks.scores import SampleScores, count_words, take_time
from regard.tasks.significance import Statistic
from regard.tasks.task import Pulse, Task, one_stack
from regard.tasks.window import group_windows

WRITTEN = 60  # tokens that an example is answered by, at most


class InstructionTaskSpec(ChatTaskSpec):
    """Learn to answer as the assistant of conversations does."""

    form: ClassVar[Form] = "conversations"
    measures: ClassVar[Mapping[str, bool]] = {
        **{"loss": False, "perplexity": False, "bits_per_byte": False},
        **{"accuracy": True, "exact": True},
    }
    roles: ClassVar[tuple[str, str, str]] = ("conversation", "answer in the corpus", "answer")
    kind: Literal["instruction"] = "instruction"
    writes: ClassVar[bool] = True
    context: Size = 256
    """A row has this many tokens."""
    cut: bool = False
    """A conversation with more tokens than a row is cut at its end; otherwise it is left out and counted."""

    @property
    def closing(self) -> tuple[Literal["end", "separator"], ...]:
        return ()  # a conversation goes on from where it stops

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, self.kind)
        if model.decoder is None:
            raise SpecError("model: an encoder sees what it should answer", "model=gpt2")
        if model.head is None or model.head.answers != "words":
            model = model.replace(head={"kind": "vocabulary"})
        fits(model, self.context)
        return model

    def receive(self, sample: Sample) -> Sample:
        strange = next((one["role"] for one in sample["messages"] if one["role"] not in self.chat.frames), None)
        if strange is not None:
            raise Unusable(f"no place in the format: {self.format} has none for what the {strange} says")
        return sample

    def texts(self, sample: Sample) -> Sequence[str]:
        return (spell_dialogue(sample["messages"], self.chat),)

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        return {
            "conversation": ColumnSpec(below=len(lexicon.tokenizer)),
            "learned": ColumnSpec(dtype="uint8", below=2),
        }

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        scripts = self.transcribe(samples, lexicon.tokenizer)
        return [{"conversation": script.tokens, "learned": list(map(int, script.learned))} for script in scripts]

    def transcribe(self, samples: Sequence[Sample], tokenizer: Tokenizer) -> list[Transcript]:
        """Conversations in tokens, cut if they may be."""
        scripts = encode_dialogues([sample["messages"] for sample in samples], self.chat, tokenizer)
        most = self.context + 1  # the last one isn't read
        return [Transcript(one.tokens[:most], one.learned[:most]) for one in scripts] if self.cut else scripts

    def count_tokens(self, row: Row) -> int:
        return 0  # a row has as many as it is told to, whatever batches take: `find_fault` counts

    def find_fault(self, row: Row) -> str:
        size = len(row["conversation"]) - 1
        if size > self.context:
            told = f"too many tokens for a row: {size}, and task.context is {self.context}"
            return f"{told}; task.cut=true learns their beginning"
        return "" if any(row["learned"]) else f"no answer in its first {self.context} tokens"

    def places(self, row: Row) -> Mapping[str, int]:
        return dict.fromkeys(("encoder", "decoder"), len(row["conversation"]) - 1)

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> InstructionTask:
        return InstructionTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Writer

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Writer:
        context = None if network.endless else self.context
        return Writer(network, lexicon.tokenizer, context, lexicon.foreign, format=self.chat)

    def measure(self, pipeline: Writer, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        return measure_answers(self.answer_samples(pipeline.model, pipeline.tokenizer, samples, pulse))

    def answer_samples(
        self, model: Model, tokenizer: Tokenizer, samples: Sequence[Sample], pulse: Pulse
    ) -> list[AnsweredSample]:
        """What a model makes of every answer in conversations."""
        scripts = self.transcribe(samples, tokenizer)
        for number, (sample, script) in enumerate(zip(samples, scripts, strict=True), 1):
            size, most = len(script.tokens) - 1, None if model.endless else self.context
            if most is not None and size > most:
                told = f"{place(sample, 'data', number)}: {size} tokens, and the model learned rows of {most}"
                raise InputError(told, "leave it out, or shorten it")
        return answer_all(model, scripts, tokenizer, pulse)

    def score_samples(self, pipeline: Writer, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> SampleScores:
        found, seconds = take_time(lambda: self.answer_samples(pipeline.model, pipeline.tokenizer, samples, pulse))
        nats, counts = [one.nats for one in found], [one.count for one in found]
        bits = [value / math.log(2) for value in nats]
        return SampleScores(
            {
                "bits_per_byte": Statistic.mean(bits, [one.size for one in found], rising=False),
                "loss": Statistic.mean(nats, counts, rising=False, per_token=True),
                "accuracy": Statistic.mean([one.hits for one in found], counts, rising=True, per_token=True),
                "exact": Statistic.mean(
                    [sum(one.exact) for one in found], [len(one.exact) for one in found], rising=True
                ),
            },
            [
                Example(name_turns(question), (answer,), (f"{one.nats / one.count:.3f} nats a token",))
                for one, (question, answer) in zip(found, map(open_dialogue, samples), strict=True)
            ],
            telling="bits_per_byte",
            seconds=seconds,
            sizes=[one.count for one in found],
            size_name="tokens of the answers",
        )

    def count_training(self, prepared: Prepared) -> Mapping[str, Counter[str]]:
        return {"words": count_words(prepared.columns["conversation"], prepared.lexicon.tokenizer)}

    def make_sample(self, text: str) -> Sample:
        return {"messages": [say(USER, text)]}

    def demonstrate(self, pipeline: Writer, samples: Sequence[Sample]) -> list[Example]:
        found = []
        for sample in samples:
            question, expected = open_dialogue(sample)
            reply = pipeline.reply(question, max_tokens=WRITTEN)
            note = "" if reply.reason == "end" else f"ended by its {reply.reason}"
            found.append(Example(name_turns(question), (expected,) if expected else (), (reply.text,), note=note))
        return found


def open_dialogue(sample: Sample) -> tuple[list[Message], str]:
    """A conversation up to its last answer, and that answer; nothing where it has none."""
    messages = sample["messages"]
    last = max((n for n, message in enumerate(messages) if message["role"] == ASSISTANT), default=None)
    return (messages, "") if last is None else (messages[:last], messages[last]["content"])


def name_turns(messages: Sequence[Message]) -> tuple[str, ...]:
    """What was said, for people to read: who said it stands before, unless it is a question alone."""
    if len(messages) == 1:
        return (messages[0]["content"],)
    return tuple(f"{message['role']}: {message['content']}" for message in messages)


class InstructionTask(Task[AnswerBatch]):
    """The task on one prepared corpus."""

    goal, rising = "loss", False

    def __init__(self, spec: InstructionTaskSpec, prepared: Prepared, batches: BatchSpec, seed: int) -> None:
        super().__init__(spec, prepared, batches, seed)
        self.rows = batches.count_rows(spec.context)

    def order(self, epoch: int) -> Iterator[tuple[list[list[Span]], float]]:
        chance = Random(f"{self.seed}/{epoch}")
        return full_rows(self.columns["conversation"], self.spec.context, self.rows, chance, extra=-1, whole=True)

    def make_batch(self, rows: list[list[Span]], chance: Random) -> AnswerBatch:
        return pack_transcripts([[self._recall(piece.document) for piece in row] for row in rows], self.tokenizer.pad)

    def _recall(self, number: int) -> Transcript:
        tokens, learned = (list(map(int, self.columns[name][number])) for name in ("conversation", "learned"))
        return Transcript(tokens, list(map(bool, learned)))

    def size(self, batch: AnswerBatch) -> int:
        return batch.size

    def loss(self, model: Model, batch: AnswerBatch) -> Tensor:
        batch = batch.to(model.device)
        return cross_entropy(model.factors(batch.inputs, batch.learned), batch.targets[batch.learned])

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        return measure_answers(self.spec.answer_samples(model, self.tokenizer, self.validation, pulse))


def pack_transcripts(rows: Sequence[Sequence[Transcript]], pad: int) -> AnswerBatch:
    """Rows of several conversations, of which none sees another."""
    padding = Padding.packed([[len(script.tokens) - 1 for script in row] for row in rows])
    tokens = padding.fill([[token for script in row for token in script.tokens[:-1]] for row in rows], pad)
    targets = padding.fill([[token for script in row for token in script.tokens[1:]] for row in rows], pad)
    learned = padding.fill([[one for script in row for one in script.learned[1:]] for row in rows], False)
    return AnswerBatch(Inputs(tokens, padding), targets, learned)


@dataclass
class AnsweredSample:
    """What a model made of the answers in a conversation."""

    nats: float  # of all their tokens together
    hits: int  # tokens that the model finds likeliest
    exact: list[bool]  # answer by answer, whether that holds for all of its tokens: what greedy search would write
    count: int  # tokens
    size: int  # bytes of the texts


@torch.no_grad()
def answer_all(model: Model, scripts: Sequence[Transcript], tokenizer: Tokenizer, pulse: Pulse) -> list[AnsweredSample]:
    """What a model makes of the answers in each conversation, those of like length side by side."""
    found: dict[int, AnsweredSample] = {}
    sizes = [len(script.tokens) for script in scripts]
    for group in group_windows(sorted(range(len(scripts)), key=sizes.__getitem__), sizes):
        pulse()
        batch = AnswerBatch.lay_out([scripts[n] for n in group], tokenizer.pad).to(model.device)
        factors, targets = model.factors(batch.inputs, batch.learned), batch.targets[batch.learned]
        lost, hits = [Tensor()], [Tensor()]
        for rows in pieces(len(targets)):
            logs = factors.at(rows).table().float().log_softmax(-1)  # (predictions, vocabulary)
            lost.append(-logs.gather(1, targets[rows, None])[:, 0].double().cpu())
            hits.append((logs.argmax(-1) == targets[rows]).cpu())
        counts = batch.learned.sum(1).tolist()
        parts = zip(torch.cat(lost[1:]).split(counts), torch.cat(hits[1:]).split(counts), strict=True)
        for n, (nats, right) in zip(group, parts, strict=True):
            found[n] = _add_up(scripts[n], nats.numpy(), right.tolist(), tokenizer)
    return [found[n] for n in range(len(scripts))]


def _add_up(script: Transcript, nats: Numbers, right: Sequence[bool], tokenizer: Tokenizer) -> AnsweredSample:
    lengths = [len(list(group)) for learned, group in groupby(script.learned) if learned]
    ends = np.cumsum(lengths).tolist()
    exact = [all(right[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
    said = [token for token, learned in zip(script.tokens, script.learned, strict=True) if learned]
    size = len(tokenizer.decode([said])[0].encode())
    return AnsweredSample(float(nats.sum()), sum(right), exact, len(right), max(1, size))


def measure_answers(found: Sequence[AnsweredSample]) -> dict[str, Any]:
    """Every measure of answers, with intervals over conversations.

    `loss` and `perplexity` are of a token; `accuracy`: the share of tokens that the model finds likeliest; `exact`: the
    share of answers that it would write to the letter, greedily, after what was said before them in the corpus.
    """
    counts = [one.count for one in found]
    loss = ratio([one.nats for one in found], counts)
    bits = ratio([one.nats / math.log(2) for one in found], [one.size for one in found])
    return {
        **loss.named("loss"),
        **loss.exponential().named("perplexity"),
        **ratio([one.hits for one in found], counts).named("accuracy"),
        **ratio([sum(one.exact) for one in found], [len(one.exact) for one in found]).named("exact"),
        **bits.named("bits_per_byte"),
        "predictions": sum(counts),
        "conversations": len(found),
    }
