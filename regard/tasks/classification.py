"""Classification: one label for a text, or for a pair of texts.

A pair is one sequence with a delimiter in the middle, `[BOS] first [SEP] second [EOS]`, and the label is read off the
last token, as GPT-1 does it, or off the first, or off the mean of all. While a language model is fine-tuned, it may go
on predicting words beside (GPT-1's auxiliary loss; Radford et al. 2018).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.mask import choose
from regard.core.model import Model, ModelSpec
from regard.core.padding import Padding
from regard.core.role import Answers
from regard.core.spec import Rate
from regard.data.batches import BatchSpec
from regard.data.column import ColumnSpec
from regard.data.given import check_text, list_texts
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.tokenizer import SEPARATOR, Tokenizer, plain
from regard.decode.pipeline import Pipeline
from regard.decode.reading import Output, Reading, Strip
from regard.errors import InputError, SpecError
from regard.tasks.entropy import cross_entropy
from regard.tasks.example import Example, format_share
from regard.tasks.measures import measure_labels, measure_parts
from regard.tasks.scores import SampleScores, count_labels, divide_labels, score_labels, take_time
from regard.tasks.significance import Statistic
from regard.tasks.task import Pulse, Task, TaskSpec, layer_of, one_stack
from regard.tasks.verdict import Verdict, judge

ROWS = 64  # texts that are read together


class ClassificationTaskSpec(TaskSpec):
    """Learn to label texts."""

    form: ClassVar[Form] = "labels"
    answers: ClassVar[Answers | None] = "classes"
    measures: ClassVar[Mapping[str, bool]] = {"accuracy": True, "macro_f1": True}
    roles: ClassVar[tuple[str, str, str]] = ("text", "label", "answer")
    kind: Literal["classification"] = "classification"
    pool: Literal["first", "last", "mean"] | None = None
    """A text's vector is that of its first or last token, or the mean of all; unless given, the model's own pooler's,
    last for a decoder, mean for an encoder."""
    auxiliary: Rate = 0.0
    """The weight of predicting the next word beside the class; GPT-1 takes 0.5."""
    dropout: Rate = 0.1
    """This share of a text's vector is dropped before the classes while training."""
    smoothing: Rate = 0.0
    """This share of the right class's probability is shared among all classes (label smoothing)."""

    @property
    def special(self) -> tuple[str, ...]:
        return (SEPARATOR,)

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "classification")
        if len(lexicon.labels) < 2:
            raise SpecError(f"corpus: {len(lexicon.labels)} labels, and there must be two at least")
        classes: dict[str, Any] = {"kind": "classes", "pool": "mean" if model.decoder is None else "last"}
        classes |= layer_of(model, "vectors", "classes")  # one that was trained is used on
        classes |= {"classes": len(lexicon.labels), "dropout": self.dropout}
        if self.pool is not None:
            classes["pool"] = self.pool
        if not self.auxiliary:
            return model.replace(head=classes)
        if model.decoder is None:
            raise SpecError("task.auxiliary: an encoder sees the next word", "task.auxiliary=0")
        words = None if model.head is None else model.head.word_head
        return model.replace(head={"kind": "dual", "answer": classes, "words": words or "vocabulary"})

    def texts(self, sample: Sample) -> Sequence[str]:
        return (" ".join((sample["text"], sample.get("second", ""))).strip(),)

    def labels(self, sample: Sample) -> Sequence[str]:
        return (sample["label"],)

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        words = ColumnSpec(below=len(lexicon.tokenizer))
        return {"text": words, "second": words, "label": ColumnSpec(below=len(lexicon.labels))}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Mapping[str, Sequence[int]]]:
        numbers = {label: number for number, label in enumerate(lexicon.labels)}
        firsts = lexicon.tokenizer.encode([sample["text"] for sample in samples])
        seconds = lexicon.tokenizer.encode([sample.get("second", "") for sample in samples])
        rows = zip(firsts, seconds, samples, strict=True)
        return [{"text": one, "second": two, "label": [numbers[sample["label"]]]} for one, two, sample in rows]

    def count_tokens(self, row: Mapping[str, Sequence[int]]) -> int:
        return len(row["text"]) + len(row["second"]) + 3

    def places(self, row: Mapping[str, Sequence[int]]) -> Mapping[str, int]:
        return dict.fromkeys(("encoder", "decoder"), self.count_tokens(row) - (not row["second"]))  # no separator

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> ClassificationTask:
        return ClassificationTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Classifier

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Classifier:
        # what was trained here learned labels that exclude each other
        config = origin.json("config.json") if origin is not None and lexicon.foreign else {}
        return Classifier(network, lexicon, output_of(config, len(lexicon.labels)))

    def insist_measurable(self, pipeline: Classifier) -> None:
        if pipeline.output != "softmax":
            gives = "plain numbers" if pipeline.output == "none" else "each label a probability of its own"
            raise InputError(
                f"the head gives {gives}, and eval measures one label of several", "regard classify --json"
            )

    def measure(
        self, pipeline: Classifier, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> Mapping[str, Any]:
        return pipeline.measure(samples, pulse)

    def score_samples(
        self, pipeline: Classifier, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> SampleScores:
        texts = [(sample["text"], sample.get("second", "")) for sample in samples]
        verdicts, seconds = take_time(lambda: pipeline.classify_all(texts, pulse))
        gold, guesses = [(sample["label"],) for sample in samples], [(verdict.label,) for verdict in verdicts]
        shares = (verdict.probabilities[label] for verdict, (label,) in zip(verdicts, gold, strict=True))
        loss = Statistic.mean([-math.log(max(share, 1e-30)) for share in shares], rising=False)
        return SampleScores(
            {**score_labels(gold, guesses, pipeline.lexicon.labels), "loss": loss},
            [self._compare(*pair) for pair in zip(samples, verdicts, strict=True)],
            telling="loss",
            seconds=seconds,
            sizes=[sum(len(text.split()) for text in pair) for pair in texts],
            size_name="words of the text",
            portions={"labels": divide_labels(gold, guesses)},
        )

    def count_training(self, prepared: Prepared) -> Mapping[str, Counter[str]]:
        return {"labels": count_labels(prepared.columns["label"], prepared.lexicon.labels)}

    def make_sample(self, text: str) -> Sample:
        first, _, second = text.partition("\t")  # as `regard classify` takes a pair
        return {"text": first, "second": second} if second else {"text": first}

    def demonstrate(self, pipeline: Classifier, samples: Sequence[Sample]) -> list[Example]:
        texts = [(sample["text"], sample.get("second", "")) for sample in samples]
        return [self._compare(*pair) for pair in zip(samples, pipeline.classify_all(texts), strict=True)]

    def _compare(self, sample: Sample, verdict: Verdict) -> Example:
        return Example(
            tuple(text for text in (sample["text"], sample.get("second", "")) if text),
            (sample["label"],) if "label" in sample else (),
            tuple(verdict.labels or [verdict.label]),
            verdict.label == sample["label"] if "label" in sample else None,
            "" if verdict.probability is None else format_share(verdict.probability),
        )


@dataclass
class ClassificationBatch:
    """Rows of tokens, and their labels."""

    inputs: Inputs  # with segments: 0 for the first text, 1 for the second
    labels: Tensor  # (rows,)


def arrange(first: Sequence[int], second: Sequence[int], tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """`[BOS] first [EOS]`, or `[BOS] first [SEP] second [EOS]`; and which text each token belongs to."""
    if not second:
        return [tokenizer.begin, *first, tokenizer.end], [0] * (len(first) + 2)
    if tokenizer.separator is None:
        raise InputError(f"a pair needs {SEPARATOR} between its texts, and this tokenizer has none")
    row = [tokenizer.begin, *first, tokenizer.separator, *second, tokenizer.end]
    return row, [0] * (len(first) + 2) + [1] * (len(second) + 1)


def collect(rows: Sequence[tuple[list[int], list[int]]], labels: Sequence[int], pad: int) -> ClassificationBatch:
    padding = Padding([len(row) for row, _ in rows])
    extras = {"segments": padding.fill([sides for _, sides in rows], 0)}
    inputs = Inputs(padding.fill([row for row, _ in rows], pad), padding, extras=extras)
    return ClassificationBatch(inputs, torch.tensor(list(labels)))


class ClassificationTask(Task[ClassificationBatch]):
    """The task on one prepared corpus."""

    goal, rising = "accuracy", True
    counts = "texts"
    sorted_by = ("text", "second")

    def make_batch(self, rows: list[int], chance: Random) -> ClassificationBatch:
        columns = self.columns
        read = [arrange(columns["text"][n], columns["second"][n], self.tokenizer) for n in rows]
        return collect(read, [columns["label"][n][0] for n in rows], self.tokenizer.pad)

    def size(self, batch: ClassificationBatch) -> int:
        return len(batch.labels)

    def loss(self, model: Model, batch: ClassificationBatch) -> Tensor:
        inputs, labels = batch.inputs.to(model.device), batch.labels.to(model.device)
        features = model.features(inputs)
        logits = model.answer(features, valid=inputs.valid)
        found = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=self.spec.smoothing)
        if not self.spec.auxiliary:
            return found
        kept = inputs.real[:, 1:]
        words = cross_entropy(model.scored(choose(features[:, :-1], kept)), inputs.tokens[:, 1:][kept])
        # in proportion to the texts, so that long ones don't drown the label
        return found + self.spec.auxiliary * words * len(labels) / kept.sum()

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        found = Classifier(model, self.lexicon).measure(self.validation, pulse)
        return {name: value for name, value in found.items() if not isinstance(value, dict)}


PROBLEMS: dict[str, Output] = {
    "single_label_classification": "softmax",
    "multi_label_classification": "sigmoid",
    "regression": "none",
}
ACTIVATIONS: dict[str, Output] = {"Sigmoid": "sigmoid", "Identity": "none", "Softmax": "softmax"}  # of torch


def output_of(config: Mapping[str, Any], labels: int) -> Output:
    """What makes answers of a head's scores, by a config.json: as transformers and sentence-transformers read it.

    A head with one score (a cross-encoder) gives a sigmoid, unless it says that the score is the answer.
    """
    problem = config.get("problem_type")
    if problem is not None and problem not in PROBLEMS:
        raise InputError(f"config.json: problem_type {problem!r} is none of {', '.join(PROBLEMS)}")
    newer = config.get("sentence_transformers")
    told = newer.get("activation_fn") if isinstance(newer, dict) else None
    told = config.get("sbert_ce_default_activation_function") if told is None else told
    if labels == 1 and told is not None:
        name = str(told).rpartition(".")[2]
        if name not in ACTIVATIONS or name == "Softmax":
            raise InputError(f"config.json: activation {told!r} of one score isn't known here", "Sigmoid or Identity")
        return ACTIVATIONS[name]
    if labels == 1 and problem != "regression":
        return "sigmoid"
    return PROBLEMS[problem] if problem is not None else "softmax"


@dataclass(repr=False)
class Classifier(Pipeline):
    """A model that learned to label texts, with its tokenizer and the labels.

    >>> import regard
    >>> classifier = regard.load("runs/labels", kind=regard.Classifier)
    >>> verdict = classifier.classify("the cat sleeps")
    >>> verdict.label in classifier.lexicon.labels
    True
    >>> len(classifier.classify(["the cat sleeps", "cat the sleeps"]))
    2
    """

    usage: ClassVar[str] = 'classify {} "…"'
    verbs: ClassVar[tuple[str, ...]] = ("classify", "classify_all")
    model: Model
    lexicon: Lexicon
    output: Output = "softmax"  # sigmoid: each label by itself; none: the scores are the answer

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.lexicon.tokenizers

    @overload
    def classify(self, text: str, second: str = "") -> Verdict: ...  # type: ignore[overload-overlap]

    @overload
    def classify(self, text: Sequence[str], second: str = "") -> list[Verdict]: ...

    def classify(self, text: str | Sequence[str], second: str = "") -> Verdict | list[Verdict]:
        """The label of a text or of a pair of texts; of a list of texts, the label of each."""
        if second and not isinstance(text, str):
            raise InputError("a second text belongs to one first text", "classify_all([(text, second), …])")
        found = self.classify_all([(each, second) for each in list_texts(text)])
        return found[0] if isinstance(text, str) else found

    def classify_all(self, texts: Sequence[tuple[str, str]], pulse: Pulse = lambda: None) -> list[Verdict]:
        """The same for many pairs, in their order; the second of a pair is empty where there is one text."""
        for pair in texts:
            if isinstance(pair, str) or len(pair) != 2:
                raise InputError(f"classify_all takes pairs of texts, and this is {pair!r:.60}", '[(text, ""), …]')
            for text in pair:
                check_text(text, "classify_all([(text, second), …])")
        found: dict[int, Verdict] = {}
        for group, logits in self._scored(texts, pulse):
            found |= {n: judge(row, self.lexicon.labels, self.output) for n, row in zip(group, logits, strict=True)}
        return [found[n] for n in range(len(texts))]

    @torch.no_grad()
    def _scored(self, texts: Sequence[tuple[str, str]], pulse: Pulse) -> Iterator[tuple[list[int], Tensor]]:
        tokenizer = self.lexicon.tokenizer
        rows = self._rows(texts)
        order = sorted(range(len(rows)), key=lambda n: len(rows[n][0]))
        for first in range(0, len(order), ROWS):
            pulse()
            group = order[first : first + ROWS]
            batch = collect([rows[n] for n in group], [0] * len(group), tokenizer.pad)
            yield group, self.model(batch.inputs.to(self.model.device)).float()

    def _rows(self, texts: Sequence[tuple[str, str]]) -> list[tuple[list[int], list[int]]]:
        """Tokens, and which text each belongs to: as the task arranges them, or by the template of others."""
        tokenizer = self.lexicon.tokenizer
        if self.lexicon.foreign and tokenizer.frame is not None:
            given: list[Any] = [(first, second) if second else first for first, second in texts]
            rows = tokenizer.engine.encode_batch(given)
            return [(plain(row, tokenizer.controls, tokenizer.unknown), row.type_ids) for row in rows]
        firsts = tokenizer.encode([text for text, _ in texts])
        seconds = tokenizer.encode([second for _, second in texts])
        return [arrange(one, two, tokenizer) for one, two in zip(firsts, seconds, strict=True)]

    def lay_out(self, text: str, target: str | None = None) -> Reading:
        """A text, or a pair of texts where the second one is given as the target; the row has one answer."""
        check_text(text, "look(text)")
        row = self._rows([(text, target or "")])[0]
        strip = Strip.of(self.lexicon.tokenizer, row[0])
        if all(strip.special):
            raise InputError(f"there is nothing to look at in {text!r}: it has no tokens", "a text with words")
        inputs = collect([row], [0], self.lexicon.tokenizer.pad).inputs
        labels = self.lexicon.labels
        return Reading(
            inputs,
            strip,
            targets={0: None},
            spell=lambda found: [labels[n] for n in found],
            output=self.output,
            text=text,
        )

    def measure(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> dict[str, Any]:
        """Every measure on samples with their labels."""
        numbers = {label: number for number, label in enumerate(self.lexicon.labels)}
        texts = [(sample["text"], sample.get("second", "")) for sample in samples]
        gold = [numbers[sample["label"]] for sample in samples]
        guesses = [numbers[verdict.label] for verdict in self.classify_all(texts, pulse)]
        return measure_labels(gold, guesses, self.lexicon.labels) | measure_parts(samples, gold, guesses)
