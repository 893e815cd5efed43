"""Translation: next-token prediction of the target, given the source, with label smoothing (Szegedy et al. 2016).

There is one way to evaluate, in training, in `eval` and in comparisons: raw text, tokens, search, detokenised text,
then sacreBLEU and chrF with their signatures, and the share of sentences that are right to the letter.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import torch
from torch import Tensor

from regard.core.model import Model
from regard.core.spec import Rate
from regard.data.batches import Batch, BatchSpec, ahead, assembled, endless
from regard.data.prepared import Prepared
from regard.data.readers import Pair
from regard.data.tokenizer import Tokenizer
from regard.decode.pipeline import Translator
from regard.decode.search import Search
from regard.tasks.entropy import cross_entropy
from regard.tasks.task import Place, Pulse, TaskSpec


class Translation(TaskSpec):
    """Learn to translate."""

    kind: Literal["translation"] = "translation"
    smoothing: Rate = 0.1  # of the target's probability, shared among all words
    search: Search = Search()  # how validation translates while training goes on

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> Translate:
        return Translate(self, prepared, batches, seed)


@dataclass
class Scores:
    """How good translations are."""

    bleu: float
    chrf: float
    exact: float  # the share that equals the reference
    sentences: int
    signatures: dict[str, str]


class Translate:
    """The task on one prepared corpus."""

    goal, rising = "bleu", True

    def __init__(self, spec: Translation, prepared: Prepared, batches: BatchSpec, seed: int) -> None:
        self.spec, self.prepared, self.plan, self.seed = spec, prepared, batches, seed
        self.source, self.target = prepared.tokenizers
        self.validation = prepared.texts("validation") if prepared.has("validation") else []

    def batches(self, epoch: int, position: int) -> Generator[Place[Batch], None, None]:
        """Prepared ahead of the model; which sentences and which cuts of them follows from the place alone."""
        return ahead(self._assembled(epoch, position))

    def _assembled(self, epoch: int, position: int) -> Iterator[Place[Batch]]:
        lengths, total = self.prepared.lengths, len(self.prepared.source)

        def plan(number: int) -> Iterator[tuple[list[int], float]]:
            done = 0
            for rows in self.plan.plan(lengths, self.seed, number):
                done += len(rows)
                yield rows, done / total

        for number, place, (rows, share) in endless(plan, epoch, position):
            chance = Random(f"{self.seed}/{number}/{place}")
            sources = cut([self.prepared.source[n] for n in rows], self.source, chance)
            targets = cut([self.prepared.target[n] for n in rows], self.target, chance)
            batch = assembled(sources, targets, self.source.pad, self.target.begin, self.target.end)
            yield Place(number, place, batch, share)

    def size(self, batch: Batch) -> int:
        return batch.tokens

    def loss(self, model: Model, batch: Batch) -> Tensor:
        return loss(model, batch, self.spec.smoothing)

    def evaluate(self, model: Model, pulse: Pulse) -> Mapping[str, Any] | None:
        if not self.validation:
            return None
        translator = Translator(model, self.source, self.target, self.spec.search)
        measures, _ = evaluate(translator, self.validation, pulse=pulse)
        del measures["decoding_seconds"]  # a run that goes on must journal the same
        return measures


def cut(rows: list[list[int]], tokenizer: Tokenizer, chance: Random) -> list[list[int]]:
    """Sentences in other pieces where the tokenizer has dropout."""
    cutter = tokenizer.cutter
    return rows if cutter is None else [cutter(row, chance) for row in rows]


def loss(model: Model, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """The sum of cross-entropies over the real target tokens."""
    device = model.device
    target, valid = batch.target.to(device), batch.target_valid.to(device)
    memory = model.encode(batch.source.to(device), batch.source_valid.to(device))
    kept = valid[:, 1:]
    factors = model.factors(target[:, :-1], kept, memory, valid=valid[:, :-1])
    return cross_entropy(factors, target[:, 1:][kept], smoothing)


def evaluate(
    translator: Translator, pairs: Sequence[Pair], settings: Search | None = None, *, pulse: Pulse = lambda: None
) -> tuple[dict[str, Any], list[str]]:
    """Every measure of a translator on pairs of texts, and its translations."""
    network = translator.network
    measures: dict[str, Any] = {}
    if isinstance(network, Model):
        measures["loss"] = likelihood(network, translator, pairs, pulse)
        measures["perplexity"] = math.exp(min(measures["loss"], 700.0))
    began = time.perf_counter()
    by_length = sorted(range(len(pairs)), key=lambda n: len(pairs[n][0]))
    found: dict[int, str] = {}
    for first in range(0, len(by_length), 64):
        pulse()
        group = by_length[first : first + 64]
        answers = translator.translate_all([pairs[n][0] for n in group], settings)
        found |= {n: best[0].text for n, best in zip(group, answers, strict=True)}
    seconds = time.perf_counter() - began
    texts = [found[n] for n in range(len(pairs))]
    scores = score(texts, [target for _, target in pairs])
    return measures | vars(scores) | {"decoding_seconds": seconds}, texts


@torch.no_grad()
def likelihood(network: Model, translator: Translator, pairs: Sequence[Pair], pulse: Pulse) -> float:
    """The mean cross-entropy of the references, in nats a token, without smoothing."""
    source, target = translator.source, translator.target
    sources, targets = source.encode([pair[0] for pair in pairs]), target.encode([pair[1] for pair in pairs])
    order = sorted(range(len(pairs)), key=lambda n: len(targets[n]))
    total, tokens = 0.0, 0
    for first in range(0, len(order), 64):
        pulse()
        group = order[first : first + 64]
        rows = [sources[n] for n in group], [targets[n] for n in group]
        batch = assembled(*rows, source.pad, target.begin, target.end)
        total += float(loss(network, batch))
        tokens += batch.tokens
    return total / tokens


def score(texts: Sequence[str], references: Sequence[str]) -> Scores:
    """Detokenised texts against references, cased, by sacreBLEU (Post 2018)."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = BLEU(force=True), CHRF()  # untrained models write what looks tokenised; that needs no warning
    refs = [list(references)]
    values = bleu.corpus_score(list(texts), refs).score, chrf.corpus_score(list(texts), refs).score
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    right = sum(text == reference for text, reference in zip(texts, references, strict=True))
    return Scores(*values, right / len(texts), len(texts), signatures)
