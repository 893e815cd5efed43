"""Translation: next-token prediction of the target, given the source, with label smoothing (Szegedy et al. 2016).

There is one way to evaluate, in training, in `eval` and in comparisons: raw text, tokens, search, detokenised text,
then sacreBLEU and chrF with their signatures, and the share of sentences that are right to the letter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import torch
from pydantic import model_validator
from torch import Tensor

from regard.core.factors import Scored
from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.role import HeadSpec
from regard.core.spec import Rate
from regard.data.batches import Batch, BatchSpec, make_batch
from regard.data.column import ColumnSpec
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.tokenizer import SEPARATOR, Tokenizer
from regard.data.unknown import MOST, number_texts
from regard.decode.generation import Generation
from regard.decode.pipeline import Pipeline
from regard.decode.search import Search
from regard.decode.translator import Translator
from regard.errors import SpecError
from regard.tasks.bleu import score_texts
from regard.tasks.entropy import cross_entropy, losses
from regard.tasks.example import Example
from regard.tasks.measures import ratio
from regard.tasks.metrics.metric import Metrics, MetricSpec, measure_all
from regard.tasks.scores import SampleScores, count_words, match_words, take_time
from regard.tasks.significance import Statistic
from regard.tasks.task import Pulse, Task, TaskSpec

if TYPE_CHECKING:
    from regard.data.prepared import Prepared
    from regard.data.reader import Pair
    from regard.data.sample import Form, Sample


class TranslationTaskSpec(TaskSpec):
    """Learn to translate: with an encoder and a decoder, or with a decoder alone that reads `source [SEP] target`."""

    form: ClassVar[Form] = "pairs"
    writes: ClassVar[bool] = True
    roles: ClassVar[tuple[str, str, str]] = ("source", "reference", "translation")
    measures: ClassVar[Mapping[str, bool]] = {
        "loss": False,
        "perplexity": False,
        "bleu": True,
        "chrf": True,
        "exact": True,
    }
    kind: Literal["translation"] = "translation"
    smoothing: Rate = 0.1
    """This share of the right word's probability is shared among all words (label smoothing)."""
    search: Search = Search()
    """Validation translates in this way while training goes on, and so does the trained model unless told otherwise."""
    joined: bool = False
    """Source and target stand in one sequence, for a decoder alone."""
    copies: HeadSpec | None = None
    """This head also copies words of the source, among them those that the vocabulary lacks (copying, with coverage=1
    against repetition); unless given, the model's own head."""
    metrics: Metrics = ()
    """Further measures of validation's translations, and of those that `regard eval` makes."""

    @model_validator(mode="after")
    def check(self) -> Self:
        for metric in self.metrics:
            if metric.kind in TAKEN:
                raise ValueError(f"metrics: {metric.kind} is measured by the task itself; give it another kind")
        return self

    @property
    def special(self) -> tuple[str, ...]:
        return (SEPARATOR,) if self.joined else ()

    def adapt_to(self, model: ModelSpec) -> Self:
        own = model.head if model.head is not None and model.head.copies else None
        return self.replace(joined=model.encoder is None, copies=self.copies or own)

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        if model.decoder is None:
            raise SpecError("model: it has no decoder, and translation writes with one", "model=transformer-tiny")
        if self.joined and lexicon.tokenizers[0] is not lexicon.tokenizers[1]:
            raise SpecError("tokenizer.shared: a decoder alone reads both languages", "tokenizer.shared=true")
        return model if self.copies is None else let_copy(model, self.copies, lexicon)

    def known_measures(self) -> Mapping[str, bool]:
        return {**self.measures, **{metric.kind: metric.rising for metric in self.metrics}}

    @property
    def closing(self) -> tuple[Literal["end", "separator"], ...]:
        return ("separator",) if self.joined else ("end",)

    def texts(self, sample: Sample) -> Sequence[str]:
        return sample["source"], sample["target"]

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        source, target = lexicon.tokenizers
        beyond = 0 if self.copies is None else MOST  # numbers of words that the vocabulary doesn't have
        return {"source": ColumnSpec(below=len(source) + beyond), "target": ColumnSpec(below=len(target) + beyond)}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Mapping[str, Sequence[int]]]:
        pairs = encode_pairs(list_pairs(samples), *lexicon.tokenizers, self.copies is not None)
        return [{"source": one, "target": other} for one, other in pairs]

    def places(self, row: Mapping[str, Sequence[int]]) -> Mapping[str, int]:
        source, target = len(row["source"]) + 1, len(row["target"]) + 1  # with an end, and with a beginning
        return {"decoder": source + target - 1} if self.joined else {"encoder": source, "decoder": target}

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> TranslationTask:
        return TranslationTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Translator

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Translator:
        source, target = lexicon.tokenizers
        # what was trained here translates as its task says
        known = None if network.spec.decoder is None else network.spec.decoder.embedding.token_count
        told = Generation.read(origin, target.ends, known) if lexicon.foreign else Generation()
        search = self.search.replace(**told.for_translation)
        return Translator(network, source, target, search, told, lexicon.foreign)

    def report_measures(
        self, measures: dict[str, Any], samples: Sequence[Sample], texts: Sequence[str]
    ) -> dict[str, Any]:
        """What there is to say of translations, by their measures."""
        return measures

    def measure(
        self, pipeline: Translator, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> Mapping[str, Any]:
        measures, texts = evaluate_translator(pipeline, list_pairs(samples), metrics=self.metrics, pulse=pulse)
        return self.report_measures(measures, samples, texts)

    def score_samples(
        self, pipeline: Translator, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> SampleScores:
        pairs, search = list_pairs(samples), pipeline.settings({})  # one search for all, that of `regard eval`
        (texts, _), seconds = take_time(lambda: translate_pairs(pipeline, pairs, search, pulse))
        references = [target for _, target in pairs]
        statistics = self._score_texts(texts, references)
        right = [float(text == reference) for text, reference in zip(texts, references, strict=True)]
        statistics["exact"] = Statistic.mean(right, rising=True)
        if isinstance(pipeline.model, Model):
            sums, counts = sum_losses(pipeline.model, pipeline, pairs, pulse)
            statistics["loss"] = Statistic.mean(sums, counts, rising=False, per_token=True)
        return SampleScores(
            statistics,
            [self._compare(sample, text, "") for sample, text in zip(samples, texts, strict=True)],
            telling="chrf" if "chrf" in statistics else "exact",
            seconds=seconds,
            written=sum(len(row) + 1 for row in pipeline.target.encode(texts)),  # with the end of each
            sizes=[self._weigh(sample) for sample in samples],
            size_name=self.size_name,
            portions={"words": match_words(texts, references)},
        )

    size_name: ClassVar[str] = "words of the source"  # what lengths of samples are counted in

    def _weigh(self, sample: Sample) -> int:
        return len(sample["source"].split())

    def _score_texts(self, texts: Sequence[str], references: Sequence[str]) -> dict[str, Statistic]:
        return score_texts(texts, references)

    def count_training(self, prepared: Prepared) -> Mapping[str, Counter[str]]:
        return {"words": count_words(prepared.columns["target"], prepared.lexicon.tokenizers[1])}

    def make_sample(self, text: str) -> Sample:
        return {"source": text}

    def demonstrate(self, pipeline: Translator, samples: Sequence[Sample]) -> list[Example]:
        answers = pipeline.translate([sample["source"] for sample in samples])
        return [
            self._compare(sample, answer.text, "" if answer.cut is None else f"cut by its {answer.cut}")
            for sample, answer in zip(samples, answers, strict=True)
        ]

    def _compare(self, sample: Sample, answer: str, note: str) -> Example:
        if "target" not in sample:
            return Example((sample["source"],), (), (answer,), None, note)
        # a translation that differs may be as good
        return Example((sample["source"],), (sample["target"],), (answer,), answer == sample["target"] or None, note)


def let_copy(model: ModelSpec, head: HeadSpec, lexicon: Lexicon) -> ModelSpec:
    """The same model with a head that copies, which reads words that have no vector as unknown ones."""
    source, target = lexicon.tokenizers
    if model.encoder is None or model.decoder is None:
        raise SpecError("task.copies: a decoder alone has no source to copy from", "model=pointer-generator")
    if not head.copies:
        raise SpecError(f"task.copies: {head.kind} can't copy words", "task.copies=copying")
    if source is not target:
        raise SpecError("tokenizer.shared: a word that is copied has one number on both sides", "tokenizer.shared=true")
    if model.head is not None:  # which has a score for each word by now
        head = head.replace(words=model.head.fields()["words"] if model.head.copies else model.head)
    stacks = {
        side: stack.replace(embedding=stack.embedding.read_unknown(target.unknown))
        for side, stack in (("encoder", model.encoder), ("decoder", model.decoder))
    }
    return model.replace(**stacks, head=head.replace(memory=model.encoder.width))


def encode_pairs(
    pairs: Sequence[Pair], source: Tokenizer, target: Tokenizer, copies: bool
) -> list[tuple[list[int], list[int]]]:
    """Both sides as numbers; where a model copies, unknown words of the source have numbers of their own."""
    texts = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if not copies:
        return list(zip(source.encode(texts[0]), target.encode(texts[1]), strict=True))
    read = number_texts(source, texts[0])
    written = number_texts(target, texts[1], read)
    return [(one.tokens, other.tokens) for one, other in zip(read, written, strict=True)]


def list_pairs(samples: Sequence[Sample]) -> list[Pair]:
    """Samples as pairs of texts."""
    return [(sample["source"], sample["target"]) for sample in samples]


@dataclass
class Scores:
    """How good translations are."""

    bleu: float
    chrf: float
    exact: float  # the share that equals the reference
    exact_low: float
    exact_high: float
    sentences: int
    signatures: dict[str, str]


TAKEN = {*Scores.__annotations__, "loss", "perplexity", "cut", "decoding_seconds", "by_size"}


class TranslationTask(Task[Batch]):
    """The task on one prepared corpus."""

    goal, rising = "bleu", True
    sorted_by = ("source", "target")

    def make_batch(self, rows: list[int], chance: Random) -> Batch:
        source, target = self.lexicon.tokenizers
        whole = [self.columns["source"][n] for n in rows], [self.columns["target"][n] for n in rows]
        sources, targets = cut_anew(whole[0], source, chance), cut_anew(whole[1], target, chance)
        limits = self.prepared.limits
        for n, (one, other) in enumerate(zip(sources, targets, strict=True)) if limits else ():
            taken = self.spec.places({"source": one, "target": other})
            if any(size > limits.get(side, size) for side, size in taken.items()):
                # smaller pieces are more of them: a sentence that has outgrown the positions stays whole
                sources[n], targets[n] = whole[0][n], whole[1][n]
        return make_batch(sources, targets, source.pad, target.begin, target.end)

    def size(self, batch: Batch) -> int:
        return batch.tokens

    def loss(self, model: Model, batch: Batch) -> Tensor:
        found = predict(model, batch, self.lexicon.tokenizers[1])
        return cross_entropy(found.factors, found.targets, self.spec.smoothing)

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        translator = self.spec.pipeline(model, self.lexicon)
        pairs, metrics = list_pairs(self.validation), self.spec.metrics
        measures, texts = evaluate_translator(translator, pairs, metrics=metrics, pulse=pulse)
        del measures["decoding_seconds"]  # a run that goes on must journal the same
        return self.spec.report_measures(measures, self.validation, texts)


def cut_anew(rows: list[list[int]], tokenizer: Tokenizer, chance: Random) -> list[list[int]]:
    """Sentences in other pieces where the tokenizer has dropout."""
    cutter = tokenizer.cutter
    return rows if cutter is None else [cutter(row, chance) for row in rows]


@dataclass
class Predictions:
    """What the real target tokens of a batch are predicted from, row after row, and what they are."""

    factors: Scored
    targets: Tensor  # (tokens,)
    sizes: list[int]  # of each row


def predict(model: Model, batch: Batch, tokenizer: Tokenizer) -> Predictions:
    """The predictions of a batch; `tokenizer`: the target's, for a decoder alone, which reads both in one."""
    device = model.device
    if model.encoder is None:
        whole, kept = in_one(batch, tokenizer)
        memory = None
    else:
        whole, kept = batch.target, batch.target.real[:, 1:]
        memory = batch.source.to(device)
    sizes, kept, whole = kept.sum(1).tolist(), kept.to(device), whole.to(device)
    inputs = replace(whole.without_last(), memory=memory)
    return Predictions(model.factors(inputs, kept), whole.tokens[:, 1:][kept], sizes)


def in_one(batch: Batch, tokenizer: Tokenizer) -> tuple[Inputs, Tensor]:
    """`source [SEP] target [EOS]` in each row, and which tokens predict a part of the target."""
    assert tokenizer.separator is not None
    rows, kept = [], []
    sizes = zip(batch.source.real.sum(1).tolist(), batch.target.real.sum(1).tolist(), strict=True)
    for row, (before, after) in enumerate(sizes):
        source = batch.source.tokens[row, : before - 1].tolist()  # without its end: the separator is one
        rows.append([*source, tokenizer.separator, *batch.target.tokens[row, 1:after].tolist()])
        kept.append(([False] * len(source)) + [True] * (after - 1))
    inputs = Inputs.pad(rows, tokenizer.pad)
    flags = [row + [False] * (inputs.tokens.shape[1] - 1 - len(row)) for row in kept]
    return inputs, torch.tensor(flags)


def evaluate_translator(
    translator: Translator,
    pairs: Sequence[Pair],
    settings: Search | None = None,
    *,
    metrics: Sequence[MetricSpec] = (),
    pulse: Pulse = lambda: None,
) -> tuple[dict[str, Any], list[str]]:
    """Every measure of a translator on pairs of texts, and its translations."""
    measures: dict[str, Any] = {}
    if isinstance(translator.model, Model):
        sums, counts = sum_losses(translator.model, translator, pairs, pulse)
        # drawn anew from short to long, as ever: the intervals of a run that goes on stay what they were
        order = sorted(range(len(pairs)), key=lambda n: counts[n])
        nats = ratio([sums[n] for n in order], [counts[n] for n in order])
        measures = nats.named("loss") | nats.exponential().named("perplexity")
    settings = translator.search if settings is None else settings  # as it is validated while it learns
    (texts, cut), seconds = take_time(lambda: translate_pairs(translator, pairs, settings, pulse))
    references = [target for _, target in pairs]
    measures |= measure_all(metrics, texts, references, vars(score(texts, references)))
    return measures | {"cut": cut, "decoding_seconds": seconds}, texts


def translate_pairs(
    translator: Translator, pairs: Sequence[Pair], settings: Search, pulse: Pulse
) -> tuple[list[str], int]:
    """The translation of each source, and how many of them were cut by a limit."""
    by_length = sorted(range(len(pairs)), key=lambda n: len(pairs[n][0]))
    found: dict[int, str] = {}
    cut = 0
    for first in range(0, len(by_length), 64):
        pulse()
        group = by_length[first : first + 64]
        answers = [best[0] for best in translator.translate_all([pairs[n][0] for n in group], settings)]
        found |= {n: answer.text for n, answer in zip(group, answers, strict=True)}
        cut += sum(answer.cut is not None for answer in answers)
    return [found[n] for n in range(len(pairs))], cut


@torch.no_grad()
def sum_losses(
    network: Model, translator: Translator, pairs: Sequence[Pair], pulse: Pulse
) -> tuple[list[float], list[int]]:
    """The cross-entropy of each reference in nats, without smoothing, and how many tokens it has."""
    source, target = translator.source, translator.target
    numbered = encode_pairs(pairs, source, target, translator.copies)
    sources, targets = [one for one, _ in numbered], [other for _, other in numbered]
    order = sorted(range(len(pairs)), key=lambda n: len(targets[n]))
    sums, counts = [0.0] * len(pairs), [0] * len(pairs)
    for first in range(0, len(order), 64):
        pulse()
        group = order[first : first + 64]
        rows = [sources[n] for n in group], [targets[n] for n in group]
        batch = make_batch(*rows, source.pad, target.begin, target.end, source.frame if translator.foreign else None)
        found = predict(network, batch, target)
        lost = losses(found.factors, found.targets).split(found.sizes)
        for n, part, size in zip(group, lost, found.sizes, strict=True):
            sums[n], counts[n] = float(part.sum()), size
    return sums, counts


def score(texts: Sequence[str], references: Sequence[str]) -> Scores:
    """Detokenised texts against references, cased, by sacreBLEU (Post 2018)."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    bleu, chrf = BLEU(force=True), CHRF()  # untrained models write what looks tokenised; that needs no warning
    refs = [list(references)]
    values = bleu.corpus_score(list(texts), refs).score, chrf.corpus_score(list(texts), refs).score
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    right = [float(text == reference) for text, reference in zip(texts, references, strict=True)]
    return Scores(*values, *ratio(right, [1] * len(right)), len(texts), signatures)
