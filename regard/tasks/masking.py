"""Masked language modelling: tokens are hidden, and guessed from both sides (Devlin et al. 2019).

Of the tokens that are chosen, 80 % are hidden, 10 % become another token and 10 % stay; the model doesn't know which.
With `whole_words`, all pieces of a word are chosen together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.padding import Padding
from regard.core.role import Answers
from regard.core.spec import Rate, Size
from regard.data.batches import BatchSpec
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Sample
from regard.data.tokenizer import MASK, Tokenizer
from regard.decode.filler import Filler, needs_mask
from regard.decode.pipeline import Pipeline
from regard.errors import SpecError
from regard.tasks.documents import DocumentTaskSpec, Span, fits, full_rows
from regard.tasks.entropy import cross_entropy
from regard.tasks.example import Example, format_share
from regard.tasks.measures import ratio
from regard.tasks.scores import SampleScores, take_time
from regard.tasks.significance import Statistic
from regard.tasks.task import Pulse, Task, one_stack

HIDDEN, OTHER = 0.8, 0.1  # of the chosen tokens; the rest stays
ROWS = 64  # that are evaluated at once
WORDS, EVERY = 24, 6  # an example: words of a document that are shown, of which one in so many is hidden


class MaskingTaskSpec(DocumentTaskSpec):
    """Learn to guess hidden tokens of documents."""

    answers: ClassVar[Answers | None] = "words"
    measures: ClassVar[Mapping[str, bool]] = {"loss": False, "perplexity": False, "accuracy": True}
    roles: ClassVar[tuple[str, str, str]] = ("text", "hidden", "guesses")
    kind: Literal["masking"] = "masking"
    context: Size = 128
    """A row has this many tokens."""
    share: Rate = 0.15
    """This share of the tokens is to be guessed."""
    whole_words: bool = False
    """All pieces of a word are hidden together."""

    @property
    def special(self) -> tuple[str, ...]:
        return (MASK,)

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "masking")
        needs_mask(lexicon.tokenizer, "the run's tokenizer")
        if model.encoder is None:
            raise SpecError("model: a decoder sees only what comes before", "model=bert-tiny; task=language")
        if model.head is None or model.head.answers != "words":
            block = model.encoder.layout()[0]
            activation = None if block.ffn is None else block.ffn.nonlinearity
            words = {"transform": activation or "gelu", "norm": block.norm or "layernorm"}  # as BERT's own
            model = model.replace(head={"kind": "vocabulary", "bias": True, **words})
        fits(model, self.context)
        return model

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> MaskingTask:
        return MaskingTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Filler

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Filler:
        return Filler(network, lexicon.tokenizer, lexicon.foreign)

    def measure(self, pipeline: Filler, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        return assess(pipeline.model, pipeline.tokenizer, samples, self, pulse)

    def score_samples(self, pipeline: Filler, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> SampleScores:
        model, tokenizer = pipeline.model, pipeline.tokenizer
        found, seconds = take_time(lambda: guess_hidden(model, tokenizer, samples, self, pulse))
        sums = np.zeros((len(samples), 3))
        for one in found:
            sums[one.sample] += one.nats, one.right, one.count
        hidden = {"context": self.context, "share": self.share, "whole_words": self.whole_words}
        return SampleScores(
            {
                "loss": Statistic.mean(sums[:, 0], sums[:, 2], rising=False, per_token=True),
                "accuracy": Statistic.mean(sums[:, 1], sums[:, 2], rising=True, per_token=True),
            },
            [Example((sample["text"],), (), ()) for sample in samples],
            telling="loss",
            seconds=seconds,
            tokens=str(hidden),  # others would hide other tokens
            sizes=[len(sample["text"].split()) for sample in samples],
            size_name="words of the document",
        )

    def demonstrate(self, pipeline: Filler, samples: Sequence[Sample]) -> list[Example]:
        found = []
        for sample in samples:
            text, hidden = (sample["prompt"], []) if "prompt" in sample else hide_words(sample["text"], self.context)
            best = [guesses[0] for guesses in pipeline.fill(text, 1).guesses]
            answer = tuple(guess.text for guess in best)
            right = list(answer) == hidden if hidden else None
            sure = ", ".join(format_share(guess.probability) for guess in best)
            found.append(Example((text,), tuple(hidden), answer, right, sure))
        return found


def hide_words(text: str, context: int) -> tuple[str, list[str]]:
    """The beginning of a document with some of its words hidden, the same ones every time, and those words."""
    most = max(2, min(WORDS, context // 4))  # a word is a few tokens
    found = list(re.finditer(r"\w+", text))[:most]
    if not found:
        return MASK, []
    hidden = found[min(EVERY // 2, len(found) - 1) :: EVERY]
    pieces, end = [], 0
    for word in hidden:
        pieces += [text[end : word.start()], MASK]
        end = word.end()
    return "".join([*pieces, text[end : found[-1].end()]]), [word[0] for word in hidden]


@dataclass
class MaskingBatch:
    """Tokens of which some are hidden, and what these were."""

    inputs: Inputs
    chosen: Tensor  # (rows, time)
    answers: Tensor  # (chosen,)


class MaskingTask(Task[MaskingBatch]):
    """The task on one prepared corpus."""

    goal, rising = "loss", False

    def order(self, epoch: int) -> Iterator[tuple[list[list[Span]], float]]:
        rows, chance = self.plan.count_rows(self.spec.context), Random(f"{self.seed}/{epoch}")
        return full_rows(self.columns["text"], self.spec.context, rows, chance, extra=2)

    def make_batch(self, rows: list[list[Span]], chance: Random) -> MaskingBatch:
        read = [[self._tokens(piece) for piece in row] for row in rows]
        return hide(read, self.tokenizer, self.spec, chance.getrandbits(60))

    def _tokens(self, piece: Span) -> list[int]:
        """A piece of a document, with the tokens that begin and end it."""
        inside = self.columns["text"].part(piece.document, max(0, piece.first - 1), piece.last - 1)
        found = [self.tokenizer.begin] * (piece.first == 0) + inside
        return [*found, self.tokenizer.end] if len(found) < piece.last - piece.first else found

    def size(self, batch: MaskingBatch) -> int:
        return max(1, len(batch.answers))

    def loss(self, model: Model, batch: MaskingBatch) -> Tensor:
        return entropy(model, batch)

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        return assess(model, self.tokenizer, self.validation, self.spec, pulse)


def hide(
    rows: Sequence[Sequence[Sequence[int]]], tokenizer: Tokenizer, spec: MaskingTaskSpec, seed: int
) -> MaskingBatch:
    """Choose and hide tokens of rows of documents; what chance does follows from the seed alone."""
    padding = Padding.packed([[len(part) for part in row] for row in rows])
    tokens = padding.fill([[token for part in row for token in part] for row in rows], tokenizer.pad)
    chance = torch.Generator().manual_seed(seed)
    ordinary = padding.valid & (tokens != tokenizer.begin) & (tokens != tokenizer.end)
    units = words(tokens, ordinary, tokenizer) if spec.whole_words else torch.arange(tokens.numel()).view_as(tokens)
    luck = torch.rand(tokens.numel(), generator=chance)[units]  # pieces of a word share their luck
    chosen = ordinary & (luck < spec.share)
    answers, fate = tokens[chosen], torch.rand(int(chosen.sum()), generator=chance)
    other = torch.randint(0, len(tokenizer), answers.shape, generator=chance)
    assert tokenizer.mask is not None
    replaced = torch.where(fate < HIDDEN, tokenizer.mask, torch.where(fate < HIDDEN + OTHER, other, answers))
    tokens = tokens.clone()
    tokens[chosen] = replaced
    return MaskingBatch(Inputs(tokens, padding), chosen, answers)


def words(tokens: Tensor, ordinary: Tensor, tokenizer: Tokenizer) -> Tensor:
    """The number of the word that each piece belongs to: (rows, time)."""
    begins = torch.tensor(tokenizer.begins)[tokens] | ~ordinary
    begins[:, 0] = True
    after_other = torch.zeros_like(begins)
    after_other[:, 1:] = ~ordinary[:, :-1]
    return ((begins | after_other).flatten().cumsum(0) - 1).view_as(tokens)


def entropy(model: Model, batch: MaskingBatch) -> Tensor:
    """The sum of cross-entropies over the chosen tokens."""
    device = model.device
    factors = model.factors(batch.inputs.to(device), batch.chosen.to(device))
    return cross_entropy(factors, batch.answers.to(device))


@dataclass
class Guesses:
    """What guessing the hidden tokens of a piece of a document came to."""

    sample: int
    nats: float
    right: float
    count: int


@torch.no_grad()
def guess_hidden(
    model: Model, tokenizer: Tokenizer, samples: Sequence[Sample], spec: MaskingTaskSpec, pulse: Pulse = lambda: None
) -> list[Guesses]:
    """Hide tokens of documents, by the same chance every time, and guess them; piece by piece of a document."""
    needs_mask(tokenizer, "this model's tokenizer")
    rows = tokenizer.encode([str(sample["text"]) for sample in samples])
    pieces = [
        (sample, part[first : first + spec.context])
        for sample, part in enumerate([tokenizer.begin, *row, tokenizer.end] for row in rows)
        for first in range(0, len(part), spec.context)
    ]
    pieces.sort(key=lambda piece: len(piece[1]))
    found = []
    for first in range(0, len(pieces), ROWS):
        pulse()
        some = pieces[first : first + ROWS]
        batch = hide([[tokens] for _, tokens in some], tokenizer, spec, first)
        if not len(batch.answers):
            continue
        device = model.device
        factors = model.factors(batch.inputs.to(device), batch.chosen.to(device))
        logs, answers = factors.table().float().log_softmax(-1), batch.answers.to(device)
        asked = batch.chosen.sum(1).tolist()
        nats = logs.gather(1, answers[:, None])[:, 0].split(asked)
        right = (logs.argmax(-1) == answers).split(asked)
        found += [
            Guesses(sample, -float(lost.sum()), float(hit.sum()), count)
            for (sample, _), lost, hit, count in zip(some, nats, right, asked, strict=True)
            if count
        ]
    if not found:
        raise SpecError("task.share: nothing of the validation texts was chosen", "a larger task.share")
    return found


def assess(
    model: Model, tokenizer: Tokenizer, samples: Sequence[Sample], spec: MaskingTaskSpec, pulse: Pulse = lambda: None
) -> dict[str, Any]:
    """How well hidden tokens are guessed; tokens of one piece aren't independent."""
    found = guess_hidden(model, tokenizer, samples, spec, pulse)
    counts = [one.count for one in found]
    loss = ratio([one.nats for one in found], counts)
    return loss.named("loss") | {
        **loss.exponential().named("perplexity"),
        **ratio([one.right for one in found], counts).named("accuracy"),
        "guesses": sum(counts),
    }
