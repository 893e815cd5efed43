"""Sentences as vectors: the mean of what a model makes of their tokens, at unit length (`vector.py` has other ways).

It is learned from pairs that mean the same: each must find its partner among all partners of the batch (Henderson et
al. 2017). Pairs may be translations, so texts of two languages meet in one space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.spec import Positive
from regard.data.batches import BatchSpec
from regard.data.column import ColumnSpec
from regard.data.given import check_text, check_texts
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.tokenizer import Tokenizer
from regard.decode.pipeline import Pipeline, refuse_target
from regard.decode.reading import Reading, Strip
from regard.errors import InputError
from regard.tasks.example import Example
from regard.tasks.measures import ratio
from regard.tasks.scores import SampleScores, take_time
from regard.tasks.significance import Statistic
from regard.tasks.task import Pulse, Task, TaskSpec, one_stack
from regard.tasks.vector import Recipe, unit

ROWS = 32  # texts that are read together


class EmbeddingTaskSpec(TaskSpec):
    """Learn to bring together what means the same."""

    form: ClassVar[Form] = "pairs"
    measures: ClassVar[Mapping[str, bool]] = {"found": True, "reciprocal_rank": True}
    roles: ClassVar[tuple[str, str, str]] = ("source", "target", "nearest")
    kind: Literal["embedding"] = "embedding"
    scale: Positive = 20.0
    """Cosines are multiplied by this before they are compared."""

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "embedding")
        return model.replace(head=None)

    def texts(self, sample: Sample) -> Sequence[str]:
        return (" ".join((sample["source"], sample["target"])),)

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        return dict.fromkeys(("source", "target"), ColumnSpec(below=len(lexicon.tokenizer)))

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Mapping[str, Sequence[int]]]:
        sides = [lexicon.tokenizer.encode([sample[side] for sample in samples]) for side in ("source", "target")]
        return [{"source": one, "target": other} for one, other in zip(*sides, strict=True)]

    def count_tokens(self, row: Mapping[str, Sequence[int]]) -> int:
        return max(map(len, row.values())) + 2

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> EmbeddingTask:
        return EmbeddingTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Embedder

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Embedder:
        # what was trained here learned the mean at unit length, whatever it started from
        recipe = Recipe.read(origin) if lexicon.foreign else Recipe()
        return Embedder(network, lexicon.tokenizer, lexicon.foreign, recipe)

    def measure(self, pipeline: Embedder, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        return match_pairs(pipeline, samples, pulse)

    def score_samples(self, pipeline: Embedder, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> SampleScores:
        ranks, seconds = take_time(lambda: rank_pairs(pipeline, samples, pulse).double())
        examples = [
            Example((sample["source"],), (sample["target"],), (f"rank {rank:.0f}",), rank == 1)
            for sample, rank in zip(samples, ranks.tolist(), strict=True)
        ]
        statistics = {
            "found": Statistic.mean((ranks == 1).double().tolist(), rising=True),
            "reciprocal_rank": Statistic.mean((1 / ranks).tolist(), rising=True),
        }
        sizes = [len(sample["source"].split()) for sample in samples]
        name = "words of the source"
        return SampleScores(
            statistics, examples, telling="reciprocal_rank", seconds=seconds, sizes=sizes, size_name=name
        )

    def make_sample(self, text: str) -> Sample:
        return {"source": text}

    def demonstrate(self, pipeline: Embedder, samples: Sequence[Sample]) -> list[Example]:
        """Each source beside the nearest of all their targets."""
        targets = [sample["target"] for sample in samples if "target" in sample]
        if not targets:
            return []
        vectors = unit(pipeline.embed(targets, cut=True))
        cosines = unit(pipeline.embed([sample["source"] for sample in samples], cut=True)) @ vectors.T
        found = []
        for sample, row in zip(samples, cosines, strict=True):
            nearest, wanted = targets[int(row.argmax())], sample.get("target")
            note = f"cosine {float(row.max()):.2f}, of {len(targets)}"
            right = None if wanted is None else nearest == wanted
            found.append(Example((sample["source"],), () if wanted is None else (wanted,), (nearest,), right, note))
        return found


@dataclass
class EmbeddingBatch:
    """Two rectangles whose rows mean the same."""

    source: Inputs
    target: Inputs


class EmbeddingTask(Task[EmbeddingBatch]):
    """The task on one prepared corpus."""

    goal, rising = "found", True
    counts = "texts"
    sorted_by = ("source", "target")

    def make_batch(self, rows: list[int], chance: Random) -> EmbeddingBatch:
        sides = [
            Inputs.pad(
                [[self.tokenizer.begin, *self.columns[side][n], self.tokenizer.end] for n in rows],
                self.tokenizer.pad,
            )
            for side in ("source", "target")
        ]
        return EmbeddingBatch(*sides)

    def size(self, batch: EmbeddingBatch) -> int:
        return len(batch.source.tokens)

    def loss(self, model: Model, batch: EmbeddingBatch) -> Tensor:
        device = model.device
        one, other = (pool_states(model, side.to(device)) for side in (batch.source, batch.target))
        cosines = self.spec.scale * one @ other.T
        wanted = torch.arange(len(one), device=device)
        there, back = (F.cross_entropy(table, wanted, reduction="sum") for table in (cosines, cosines.T))
        return (there + back) / 2

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        return match_pairs(Embedder(model, self.tokenizer), self.validation, pulse)


def pool_states(model: Model, inputs: Inputs) -> Tensor:
    """The mean of each row's states, at unit length: (rows, width)."""
    return Recipe().vector(model.features(inputs), inputs.real)


def rank_pairs(embedder: Embedder, samples: Sequence[Sample], pulse: Pulse) -> Tensor:
    """The place of each target among all of them, nearest to its source first; those as near count against it."""
    sources = unit(embedder.embed([sample["source"] for sample in samples], pulse))
    targets = unit(embedder.embed([sample["target"] for sample in samples], pulse))
    cosines = sources @ targets.T
    return (cosines >= cosines.diagonal()[:, None]).sum(1)


def match_pairs(embedder: Embedder, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> dict[str, Any]:
    """How often a source finds its target first among all of them, and the mean of 1 / rank."""
    ranks = rank_pairs(embedder, samples, pulse)
    first, low, high = ratio((ranks == 1).double().tolist(), [1] * len(samples))
    mean = float((1 / ranks.double()).mean())
    return {"found": first, "found_low": low, "found_high": high, "reciprocal_rank": mean, "pairs": len(samples)}


@dataclass(repr=False)
class Embedder(Pipeline):
    """A model that makes vectors of texts, and its tokenizer.

    >>> import regard
    >>> embedder = regard.load("runs/vectors", kind=regard.Embedder)
    >>> embedder.embed(["the cat sleeps", "a dog"]).shape[0]  # a row for each text
    2
    >>> embedder.embed("the cat sleeps").dim()  # one text: one vector
    1
    """

    usage: ClassVar[str] = "search FILE QUERY --model {}"
    verbs: ClassVar[tuple[str, ...]] = ("embed",)
    model: Model
    tokenizer: Tokenizer
    foreign: bool = False  # the tokenizer itself says how a text begins and ends
    recipe: Recipe = field(default_factory=Recipe)

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.tokenizer, self.tokenizer

    @torch.no_grad()
    def embed(
        self, texts: str | Sequence[str], pulse: Pulse = lambda: None, *, prompt: str | None = None, cut: bool = False
    ) -> Tensor:
        """(texts, size) in their order, or (size,) for one; `prompt`: one that the model knows; `cut`: texts may be."""
        if isinstance(texts, str):
            return self.embed([texts], pulse, prompt=prompt, cut=cut)[0]
        check_texts(texts, "embed([text])")
        if not texts:
            return self.embed(["nothing"], cut=True)[:0]  # as wide as the others would be
        rows = self._rows(self.recipe.prepared(texts, prompt), cut)
        order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
        found: dict[int, Tensor] = {}
        for first in range(0, len(order), ROWS):
            pulse()
            group = order[first : first + ROWS]
            inputs = Inputs.pad([rows[n] for n in group], self.tokenizer.pad).to(self.model.device)
            states = self.model.features(inputs).float()
            found |= dict(zip(group, self.recipe.vector(states, inputs.real).cpu(), strict=True))
        return torch.stack([found[n] for n in range(len(rows))])

    def lay_out(self, text: str, target: str | None = None) -> Reading:
        """A text as it is read for its vector; no position answers anything."""
        refuse_target(self, target)
        check_text(text, "look(text)")
        [row] = self._rows(self.recipe.prepared([text], None), cut=False)
        strip = Strip.of(self.tokenizer, row)
        if all(strip.special):
            raise InputError(f"there is nothing to look at in {text!r}: it has no tokens", "a text with words")
        return Reading(Inputs.pad([row], self.tokenizer.pad), strip, text=text)

    def _rows(self, texts: Sequence[str], cut: bool) -> list[list[int]]:
        longest = self._longest
        if self.foreign:
            rows = self._framed(texts, longest if cut else None)
        else:
            rows = [[self.tokenizer.begin, *row, self.tokenizer.end] for row in self.tokenizer.encode(texts)]
            if cut and longest is not None:
                rows = [row if len(row) <= longest else [*row[: longest - 1], self.tokenizer.end] for row in rows]
        most = max(map(len, rows))
        if longest is not None and most > longest:
            raise InputError(
                f"a text of {most} tokens, and this model reads {longest}", "--cut reads only its beginning"
            )
        return rows

    @property
    def _longest(self) -> int | None:
        """Tokens that are read of a text: as its files say, and never more than the network can tell apart."""
        limits = [limit for limit in (self.recipe.longest, self.model.limit) if limit is not None]
        return min(limits, default=None)

    def _framed(self, texts: Sequence[str], longest: int | None) -> list[list[int]]:
        """The rows of a tokenizer from elsewhere, which itself knows what to keep around a text that it cuts."""
        engine = self.tokenizer.engine
        try:
            if longest is not None:
                engine.enable_truncation(longest)
            return self.tokenizer.encode(texts, framed=True)
        finally:
            engine.no_truncation()
