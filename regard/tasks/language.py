"""Language modelling: the next token of running text, and for ELMo the one before as well.

Documents are laid end to end in rows that are full to the last place, and none sees another: attention stops at their
borders and recurrences start anew. With `carry`, each row reads on where it stopped in the batch before, from the state
that it had there, and gradients stop at the border (truncated back-propagation through time).

There is one way to evaluate: the whole text, in windows that overlap, so that each token but the first few is
predicted from at least `context - stride` tokens; in nats a token, perplexity, and bits a byte, which can be compared
whatever the tokens are. With `carry`, the text is read in one go instead.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.factors import Factors
from regard.core.inputs import Inputs
from regard.core.mask import choose
from regard.core.model import Model, ModelSpec
from regard.core.padding import Padding
from regard.core.spec import Rate, Size
from regard.core.state import Progress
from regard.data.batches import BatchSpec
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Sample
from regard.data.tokenizer import Tokenizer
from regard.decode.generation import Generation
from regard.decode.pipeline import Pipeline
from regard.decode.writer import USUAL, Writer
from regard.errors import SpecError
from regard.tasks.documents import DocumentTaskSpec, Span, fits, full_rows, lengths
from regard.tasks.embedding import Embedder
from regard.tasks.entropy import cross_entropy
from regard.tasks.example import Example, open_text
from regard.tasks.measures import Numbers, ratio
from regard.tasks.passage import score_passages
from regard.tasks.scores import SampleScores, count_words, take_time
from regard.tasks.task import Place, Pulse, Task, one_stack
from regard.tasks.window import read_on, read_windows

WRITTEN = 60  # tokens that an example is written on by


class LanguageTaskSpec(DocumentTaskSpec):
    """Learn to predict the next token of documents."""

    measures: ClassVar[Mapping[str, bool]] = {"loss": False, "perplexity": False, "bits_per_byte": False}
    roles: ClassVar[tuple[str, str, str]] = ("prompt", "how it goes on", "continuation")
    kind: Literal["language"] = "language"
    writes: ClassVar[bool] = True
    context: Size = 256
    """A row has this many tokens."""
    stride: Size | None = None
    """The windows of an evaluation are this many tokens apart; unless given, half the context."""
    carry: bool = False
    """A row goes on from the state that the batch before left; for recurrences."""
    balance: Rate = 0.01
    """The weight of an even use of experts; train.costs.balance is for every task."""

    @property
    def closing(self) -> tuple[Literal["end", "separator"], ...]:
        return ()  # a text is read on from where it stops

    @property
    def step(self) -> int:
        return min(self.stride or max(1, self.context // 2), self.context)

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "language")
        directions = 1 if model.head is None else model.head.direction_count
        if model.decoder is None and directions != 2:
            raise SpecError("model: an encoder sees what it should predict", "model=gpt2, or elmo; task=masking")
        if model.head is None or model.head.answers != "words":
            model = model.replace(head={"kind": "vocabulary"})
        if self.carry and (directions == 2 or any(mixer.packs for mixer in model.build("meta").mixers)):
            raise SpecError("task.carry: only recurrences go on from what they remember", "task.carry=false")
        fits(model, self.context)
        if self.carry and (most := model.main.limit()) is not None:
            raise SpecError(f"task.carry: positions end at {most}, and a text is read on and on", "task.carry=false")
        return model

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> LanguageTask:
        return LanguageTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Embedder if model.decoder is None else Writer  # what reads both ways can't write on

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Writer | Embedder:
        if self.choose_pipeline(network.spec) is Embedder:
            return Embedder(network, lexicon.tokenizer, lexicon.foreign)
        context = None if network.endless else self.context
        known = None if network.spec.decoder is None else network.spec.decoder.embedding.token_count
        told = Generation.read(origin, lexicon.tokenizer.ends, known) if lexicon.foreign else Generation()
        told.insist_on_a_prompt()
        return Writer(network, lexicon.tokenizer, context, lexicon.foreign, USUAL.replace(**told.search), told)

    def measure(
        self, pipeline: Writer | Embedder, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> Mapping[str, Any]:
        return assess(pipeline.model, pipeline.tokenizer, samples, self, pulse)

    @torch.no_grad()
    def score_samples(
        self, pipeline: Writer | Embedder, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> SampleScores:
        model, tokenizer, texts = pipeline.model, pipeline.tokenizer, [str(sample["text"]) for sample in samples]
        rows = [[tokenizer.begin, *row, tokenizer.end] for row in tokenizer.encode(texts)]
        found, seconds = take_time(lambda: lose_documents(model, rows, self, tokenizer.pad, pulse))
        return score_passages(texts, tokenizer, [np.concatenate(pieces) for pieces in found], seconds)

    def count_training(self, prepared: Prepared) -> Mapping[str, Counter[str]]:
        return {"words": count_words(prepared.columns["text"], prepared.lexicon.tokenizer)}

    def demonstrate(self, pipeline: Writer | Embedder, samples: Sequence[Sample]) -> list[Example]:
        if not isinstance(pipeline, Writer):  # what reads both ways can't write on
            return []
        found = []
        for sample in samples:
            prompt, rest = (sample["prompt"], "") if "prompt" in sample else open_text(sample["text"], pipeline)
            (answer,) = pipeline.write(prompt, max_tokens=WRITTEN)
            note = "" if answer.reason == "maximum" else f"ended by its {answer.reason}"
            found.append(Example((prompt,), (rest,) if rest else (), (answer.text,), note=note))
        return found


@dataclass
class LanguageBatch:
    """Tokens, the ones to predict, and which document of the row each belongs to."""

    inputs: Inputs
    targets: Tensor  # (rows, time), the next of each
    fresh: Tensor | None = None  # (rows,), where a document begins, if states are carried
    size: int = 0  # predictions


class LanguageTask(Task[LanguageBatch]):
    """The task on one prepared corpus."""

    goal, rising = "loss", False

    def __init__(self, spec: LanguageTaskSpec, prepared: Prepared, batches: BatchSpec, seed: int) -> None:
        super().__init__(spec, prepared, batches, seed)
        self.rows = batches.count_rows(spec.context)
        self.state: Progress | None = None  # where each row stopped, with carry

    def batches(
        self, epoch: int, position: int, rank: int = 0, ranks: int = 1
    ) -> Generator[Place[LanguageBatch], None, None]:
        if self.spec.carry and ranks > 1:
            raise SpecError(f"task.carry: a text is read on and on, and {ranks} processes share it", "task.carry=false")
        return super().batches(epoch, position, rank, ranks)

    def order(self, epoch: int) -> Iterator[tuple[list[list[Span]], float]]:
        if self.spec.carry:
            return self._streams(epoch)
        return full_rows(self.columns["text"], self.spec.context, self.rows, Random(f"{self.seed}/{epoch}"))

    def _streams(self, epoch: int) -> Iterator[tuple[list[list[Span]], float]]:
        """Each row reads its part of the corpus from end to end; a document's end ends its piece too."""
        order = list(range(len(self.columns["text"])))
        Random(f"{self.seed}/{epoch}").shuffle(order)
        sizes = lengths(self.columns["text"], order)
        slices = divide(sizes, self.rows)
        readers = [chunks(part, self.spec.context) for part in slices]
        total, done = sum(size for _, size in sizes), 0
        # the epoch ends with the first row that does: what the others have left comes in another order next time
        for row in zip(*readers, strict=False):
            done += sum(piece.last - piece.first for piece in row)
            yield [[piece] for piece in row], min(1.0, done / total)

    def make_batch(self, rows: list[list[Span]], chance: Random) -> LanguageBatch:
        return make_rows(rows, self._sequence, self.tokenizer.pad, self.spec.carry)

    def _sequence(self, piece: Span) -> NDArray[Any]:
        """The tokens of a piece and the one after them; a document begins and ends with tokens that say so."""
        tokenizer, before = self.tokenizer, 1 if piece.first == 0 else 0
        inside = self.columns["text"].cut(piece.document, max(0, piece.first - 1), piece.last)
        after = 1 if len(inside) + before == piece.last - piece.first else 0
        if not before and not after:
            return inside
        return np.pad(inside, (before, after), constant_values=(tokenizer.begin, tokenizer.end))

    def size(self, batch: LanguageBatch) -> int:
        return batch.size

    def loss(self, model: Model, batch: LanguageBatch) -> Tensor:
        if not self.spec.carry:
            return entropy(model, batch)
        if self.state is None or batch.fresh is None or self.state.rows != len(batch.targets):
            self.state = model.start(len(batch.targets))
        elif bool(batch.fresh.any()):
            self.state = renew(self.state, model.start(len(batch.targets)), batch.fresh.to(model.device))
        return carry_state(model, batch, self.state)

    @property
    def costs(self) -> Mapping[str, float]:
        return {"balance": self.spec.balance}

    def settle(self) -> None:
        """Cut the graph between two batches; where in its document a row stands doesn't matter to a recurrence."""
        if self.state is not None:
            self.state = self.state.detach()
            self.state.recount()

    def memory(self) -> dict[str, Tensor]:
        """What the next batch needs to know of this one, for a checkpoint."""
        return {} if self.state is None else {str(n): tensor for n, tensor in enumerate(tensors(self.state))}

    def recall(self, model: Model, memory: Mapping[str, Tensor]) -> None:
        """Be again where a checkpoint was saved."""
        if memory:
            kept = iter([memory[str(n)].to(model.device) for n in range(len(memory))])
            self.state = model.start(memory["0"].shape[0]).map(lambda _: next(kept))

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        return assess(model, self.tokenizer, self.validation, self.spec, pulse)


def divide(documents: Sequence[tuple[int, int]], parts: int) -> list[list[Span]]:
    """Documents in parts of equal size, cut where that takes it."""
    total = sum(size for _, size in documents)
    bounds = [total * n // parts for n in range(1, parts + 1)]
    found: list[list[Span]] = [[]]
    place = 0
    for document, size in documents:
        first = 0
        while first < size:
            last = min(size, first + bounds[len(found) - 1] - place)
            if last > first:
                found[-1].append(Span(document, first, last))
            place += last - first
            first = last
            if place == bounds[len(found) - 1] and len(found) < parts:
                found.append([])
    return found


def chunks(pieces: Sequence[Span], context: int) -> Iterator[Span]:
    """Pieces cut to the context."""
    for piece in pieces:
        for first in range(piece.first, piece.last, context):
            yield Span(piece.document, first, min(piece.last, first + context), first == piece.first)


def make_rows(rows: Sequence[Sequence[Span]], sequence: Any, pad: int, carry: bool) -> LanguageBatch:
    """A batch from the pieces of its rows."""
    # arrays, since whoever makes batches beside a small model holds up its next step
    read = [[sequence(piece) for piece in row] for row in rows]
    padding = Padding.packed([[len(part) - 1 for part in row] for row in read])
    tokens, targets = (np.full((len(rows), padding.time), pad) for _ in range(2))
    for number, row in enumerate(read):
        for part, end in zip(row, accumulate(len(part) - 1 for part in row), strict=True):
            here = slice(end - len(part) + 1, end)
            tokens[number, here], targets[number, here] = part[:-1], part[1:]
    fresh = torch.tensor([row[0].fresh for row in rows]) if carry else None
    inputs = Inputs(torch.from_numpy(tokens), padding)
    return LanguageBatch(inputs, torch.from_numpy(targets), fresh, sum(padding.lengths))


def entropy(model: Model, batch: LanguageBatch, keep: Tensor | None = None) -> Tensor:
    """The sum of cross-entropies over a batch; of both directions' mean, where there are two."""
    device = model.device
    inputs, targets = batch.inputs.to(device), batch.targets.to(device)
    kept = inputs.real if keep is None else keep.to(device)
    factors = model.factors(inputs, kept)
    if not isinstance(factors, Factors) or factors.vectors.dim() == 2:
        return cross_entropy(factors, targets[kept])
    ahead, behind = (factors.only(direction) for direction in (0, 1))
    found = cross_entropy(ahead, targets[kept])
    documents, before = inputs.owners, torch.zeros_like(inputs.real)
    assert documents is not None
    before[:, 1:] = (documents[:, 1:] == documents[:, :-1]) & inputs.real[:, 1:]
    known = before[kept]  # a document's first token has none before it
    found = found + cross_entropy(behind.at(known), inputs.tokens.roll(1, 1)[before & kept])
    return found / 2


def carry_state(model: Model, batch: LanguageBatch, state: Progress) -> Tensor:
    """The same, from a state that is moved on."""
    inputs = batch.inputs.to(model.device)
    features = model.advance(inputs, state)
    return cross_entropy(model.scored(choose(features, inputs.real)), batch.targets.to(model.device)[inputs.real])


def tensors(state: Progress) -> list[Tensor]:
    """All tensors of a state, in an order that it keeps."""
    found: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    state.map(keep)
    return found


def renew(state: Progress, start: Progress, rows: Tensor) -> Progress:
    """A state in which some rows have forgotten everything."""
    fresh = iter(tensors(start))

    def chosen(tensor: Tensor) -> Tensor:
        new = next(fresh)
        return torch.where(rows.view(-1, *[1] * (tensor.dim() - 1)), new, tensor)

    return state.map(chosen)


@torch.no_grad()
def assess(
    model: Model, tokenizer: Tokenizer, samples: Sequence[Sample], spec: LanguageTaskSpec, pulse: Pulse = lambda: None
) -> dict[str, Any]:
    """Every measure of a language model on whole documents."""
    texts = [str(sample["text"]) for sample in samples]
    rows = [[tokenizer.begin, *row, tokenizer.end] for row in tokenizer.encode(texts)]
    found = [piece for pieces in lose_documents(model, rows, spec, tokenizer.pad, pulse) for piece in pieces]
    sums, counts = [float(piece.sum()) for piece in found], [len(piece) for piece in found]
    loss = ratio(sums, counts)
    size = sum(len(text.encode()) for text in texts)
    return loss.named("loss") | {
        **loss.exponential().named("perplexity"),
        "bits_per_byte": sum(sums) / math.log(2) / size,
        "predictions": sum(counts),
        "documents": len(texts),
    }


def lose_documents(
    model: Model, rows: Sequence[Sequence[int]], spec: LanguageTaskSpec, pad: int, pulse: Pulse
) -> list[list[Numbers]]:
    """The loss of every prediction of each document, in nats, in the pieces that it was read in."""
    if spec.carry:
        return read_on(model, rows, 4 * spec.context, pad, pulse)
    return read_windows(model, rows, spec.context, spec.step, pad, pulse)
