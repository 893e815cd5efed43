"""Tagging: one label for each word. A word of several pieces is labelled on its first.

Words may be spelled beside (Ling et al. 2015): then a word's vector is that of its token and what a small stack makes
of its letters, so that a word which training never saw still says something by its ending.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from random import Random
from typing import Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.registry import Kinds
from regard.core.role import Answers, EmbeddingSpec
from regard.core.spec import Rate, Size, Spec
from regard.core.stack import StackSpec
from regard.data.batches import BatchSpec, pad_rows
from regard.data.column import ColumnSpec
from regard.data.given import check_text, check_texts
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.tokenizer import Frame, Tokenizer, plain
from regard.decode.pipeline import Pipeline, refuse_target
from regard.decode.reading import Reading, Strip
from regard.errors import InputError
from regard.tasks.example import Example
from regard.tasks.measures import measure_labels
from regard.tasks.scores import SampleScores, count_labels, count_words, score_tags, take_time
from regard.tasks.task import Pulse, Task, TaskSpec, layer_of, one_stack

ROWS = 64  # sentences that are read together
RAW = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")  # words and signs of plain text
LONGEST = 30  # letters of a word that are looked at, half of them from its end


class SpellingSpec(Spec):
    """What is made of a word's letters."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = "task.spelling"
    kind: Literal["spelling"] = "spelling"
    size: Size = 32
    """A letter's vector has this many channels."""
    width: Size = 64
    """A word's letters become a vector of this size."""
    cell: Literal["rnn", "lstm", "gru"] = "lstm"
    """The kind of recurrent cell that reads letters."""
    dropout: Rate = 0.0
    """This share of the letters' vectors is dropped while training."""

    def beside(self, words: EmbeddingSpec, letters: int) -> Any:
        """Words that are spelled beside; a model that spells already gets room for more letters."""
        if words.speller is None:
            return {"kind": "spelled", "words": words, "letters": self.stack(letters)}
        return words.respell(letters)

    def stack(self, letters: int) -> dict[str, Any]:
        """A recurrence over the letters, both ways."""
        mixer = {"kind": "recurrent", "cell": self.cell, "direction": "both"}
        embedding = {"kind": "tokens", "vocabulary": letters, "size": self.size, "dropout": self.dropout}
        block = {"mix": mixer, "residual": False}
        stack = {"width": self.width, "depth": 1, "embedding": embedding, "blocks": [block]}
        return StackSpec.parse(stack).model_dump(mode="json")


class TaggingTaskSpec(TaskSpec):
    """Learn to label the words of sentences."""

    form: ClassVar[Form] = "tags"
    answers: ClassVar[Answers | None] = "tags"
    measures: ClassVar[Mapping[str, bool]] = {"accuracy": True, "macro_f1": True}
    roles: ClassVar[tuple[str, str, str]] = ("words", "tags", "answer")
    kind: Literal["tagging"] = "tagging"
    spelling: SpellingSpec | None = None
    """Words are also read letter by letter, in this way."""
    forget: Rate = 0.0
    """This share of the words is read as unknown while training, so that spelling and context must do."""
    dropout: Rate = 0.1
    """This share of a word's vector is dropped before the tags while training."""
    smoothing: Rate = 0.0
    """This share of the right tag's probability is shared among all tags (label smoothing)."""
    blend: bool = False
    """Tags see a learned mix of all layers, as ELMo's users do (Peters et al. 2018)."""

    def adapt_to(self, model: ModelSpec) -> Self:
        stack = model.encoder or model.decoder
        known = None if stack is None else stack.embedding.speller
        if known is None or self.spelling is not None:
            return self
        return self.replace(spelling=SpellingSpec(width=known.width))  # a model that spells goes on doing so

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "tagging")
        side = "encoder" if model.decoder is None else "decoder"
        stack = model.encoder or model.decoder
        assert stack is not None
        if self.spelling is not None:
            stack = stack.replace(embedding=self.spelling.beside(stack.embedding, len(lexicon.letters) + 2))
        if self.blend:
            stack = stack.replace(blend=True)
        head = {"kind": "tags", "tags": len(lexicon.labels), "dropout": self.dropout, **layer_of(model, "tags")}
        return model.replace(**{side: stack}, head=head)

    def texts(self, sample: Sample) -> Sequence[str]:
        return (" ".join(sample["words"]),)

    def labels(self, sample: Sample) -> Sequence[str]:
        return [str(tag) for tag in sample["tags"]]

    def letters(self, sample: Sample) -> Iterable[str]:
        return chain.from_iterable(sample["words"]) if self.spelling is not None else ()

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        bounds = {"text": len(lexicon.tokenizer), "first": 2**24, "tags": len(lexicon.labels)}
        bounds |= {"letters": len(lexicon.letters) + 2} if self.spelling is not None else {}
        return {name: ColumnSpec(below=bound) for name, bound in bounds.items()}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Mapping[str, Sequence[int]]]:
        numbers = {label: number for number, label in enumerate(lexicon.labels)}
        letters = {letter: number for number, letter in enumerate(lexicon.letters, 2)}
        found = []
        for sample, (tokens, first) in zip(
            samples, pieces([sample["words"] for sample in samples], lexicon.tokenizer), strict=True
        ):
            row = {"text": tokens, "first": first, "tags": [numbers[tag] for tag in sample["tags"]]}
            if self.spelling is not None:
                row["letters"] = [number for word in sample["words"] for number in (*spell(word, letters), 0)]
            found.append(row)
        return found

    def count_tokens(self, row: Mapping[str, Sequence[int]]) -> int:
        return len(row["text"]) + 2

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> TaggingTask:
        return TaggingTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Tagger

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Tagger:
        return Tagger(network, lexicon, self)

    def measure(self, pipeline: Tagger, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        return pipeline.measure(samples, pulse)

    def score_samples(self, pipeline: Tagger, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> SampleScores:
        sentences = [sample["words"] for sample in samples]
        tags, seconds = take_time(lambda: pipeline.tag_all(sentences, pulse))
        return score_tags(samples, tags, pipeline.lexicon.labels, seconds)

    def count_training(self, prepared: Prepared) -> Mapping[str, Counter[str]]:
        words = count_words(prepared.columns["text"], prepared.lexicon.tokenizer)
        return {"tags": count_labels(prepared.columns["tags"], prepared.lexicon.labels), "words": words}

    def make_sample(self, text: str) -> Sample:
        return {"words": Tagger.cut_words(text)}

    def demonstrate(self, pipeline: Tagger, samples: Sequence[Sample]) -> list[Example]:
        answers = pipeline.tag_all([sample["words"] for sample in samples])
        return [
            Example(
                tuple(sample["words"]),
                tuple(sample.get("tags", ())),
                tuple(answer),
                answer == sample["tags"] if "tags" in sample else None,
                aligned=True,
            )
            for sample, answer in zip(samples, answers, strict=True)
        ]


def pieces(sentences: Sequence[Sequence[str]], tokenizer: Tokenizer) -> list[tuple[list[int], list[int]]]:
    """The tokens of each sentence as running text, and where each of its words begins among them.

    Words are cut together, divided by spaces: many tokenizers have other pieces for a word after a space.
    """
    cut = tokenizer.engine.encode_batch([" ".join(words) for words in sentences], add_special_tokens=False)
    controls, found = tokenizer.controls, []
    for words, encoding in zip(sentences, cut, strict=True):
        tokens, first = plain(encoding, controls, tokenizer.unknown), list[int]()
        spans, at, begin, added = encoding.offsets, 0, 0, 0
        for word in words:
            end = begin + len(word)
            while at < len(spans) and spans[at][1] <= begin:
                at += 1
            first.append(at + added)
            if at == len(spans) or spans[at][0] >= end:  # a word that the tokenizer makes nothing of
                tokens.insert(at + added, tokenizer.unknown)
                added += 1
            begin = end + 1
        found.append((tokens, first))
    return found


def spell(word: str, letters: Mapping[str, int]) -> list[int]:
    """A word's letters as numbers; 1 for those that training never saw. The middle of a very long word is left out."""
    shown = word if len(word) <= LONGEST else word[: LONGEST // 2] + word[-LONGEST // 2 :]
    return [letters.get(letter, 1) for letter in shown]


@dataclass
class TaggingBatch:
    """Rows of tokens, where their words begin, the tags of these, and how they are spelled."""

    inputs: Inputs
    first: Tensor  # (words,), counted through all rows
    tags: Tensor  # (words,)


@dataclass
class TaggedWords:
    """One sentence as numbers."""

    tokens: Sequence[int]
    first: Sequence[int]
    tags: Sequence[int]
    letters: Sequence[Sequence[int]]


def collect(rows: Sequence[TaggedWords], tokenizer: Tokenizer, frame: Frame | None = None) -> TaggingBatch:
    """A batch from sentences; `frame`: what stands around each, if not a beginning and an end."""
    before, after = frame or ((tokenizer.begin,), (tokenizer.end,))
    inputs = Inputs.pad([[*before, *row.tokens, *after] for row in rows], tokenizer.pad)
    time = inputs.tokens.shape[1]
    first = torch.tensor([n * time + place + len(before) for n, row in enumerate(rows) for place in row.first])
    tags = torch.tensor([tag for row in rows for tag in row.tags])
    extras = spellings(rows, inputs.tokens.shape) if rows[0].letters else {}
    return TaggingBatch(replace(inputs, extras=extras), first, tags)


def spellings(rows: Sequence[TaggedWords], shape: Sequence[int]) -> dict[str, Tensor]:
    """Every word of a batch once, and which of them each token belongs to; 0 is for what isn't a word."""
    known: dict[tuple[int, ...], int] = {(1,): 0}
    which = torch.zeros(tuple(shape), dtype=torch.long)
    for n, row in enumerate(rows):
        ends = [*row.first[1:], len(row.tokens)]
        for word, begin, end in zip(row.letters, row.first, ends, strict=True):
            which[n, begin + 1 : end + 1] = known.setdefault(tuple(word), len(known))
    table, _ = pad_rows([list(word) for word in known], 0)
    return {"spellings": table, "spelled": which}


class TaggingTask(Task[TaggingBatch]):
    """The task on one prepared corpus."""

    goal, rising, counts = "accuracy", True, "words"
    sorted_by = ("text",)

    def make_batch(self, rows: list[int], chance: Random) -> TaggingBatch:
        return collect([self._row(n, chance) for n in rows], self.tokenizer)

    def _row(self, n: int, chance: Random) -> TaggedWords:
        columns, forget = self.columns, self.spec.forget
        tokens = columns["text"][n]
        if forget:
            tokens = [self.tokenizer.unknown if chance.random() < forget else token for token in tokens]
        letters = words_of(columns["letters"][n]) if self.spec.spelling is not None else []
        return TaggedWords(tokens, columns["first"][n], columns["tags"][n], letters)

    def size(self, batch: TaggingBatch) -> int:
        return len(batch.tags)

    def loss(self, model: Model, batch: TaggingBatch) -> Tensor:
        logits, tags = weigh_tags(model, batch), batch.tags.to(model.device)
        return F.cross_entropy(logits, tags, reduction="sum", label_smoothing=self.spec.smoothing)

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        found = Tagger(model, self.lexicon, self.spec).measure(self.validation, pulse)
        return {name: value for name, value in found.items() if not isinstance(value, dict)}


def words_of(letters: Sequence[int]) -> list[list[int]]:
    """Letters that were written one word after the other, each closed by a 0."""
    words: list[list[int]] = [[]]
    for letter in letters:
        if letter:
            words[-1].append(letter)
        else:
            words.append([])
    return words[:-1]


def weigh_tags(model: Model, batch: TaggingBatch) -> Tensor:
    """The scores of each word's tags: (words, tags)."""
    logits: Tensor = model(batch.inputs.to(model.device))
    return logits.flatten(0, 1)[batch.first.to(model.device)]


@dataclass(repr=False)
class Tagger(Pipeline):
    """A model that learned to label words, with its tokenizer and the labels.

    >>> import regard
    >>> tagger = regard.load("runs/tags", kind=regard.Tagger)
    >>> [word for word, tag in tagger.tag("The cat sleeps.")]
    ['The', 'cat', 'sleeps', '.']
    >>> len(tagger.tag_all([["The", "cat"], ["A", "dog", "sings"]]))
    2
    """

    usage: ClassVar[str] = 'tag {} "…"'
    verbs: ClassVar[tuple[str, ...]] = ("tag", "tag_all")
    model: Model
    lexicon: Lexicon
    spec: TaggingTaskSpec

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.lexicon.tokenizers

    def tag(self, sentence: str | Sequence[str]) -> list[tuple[str, str]]:
        """Each word of a sentence with its tag; plain text is cut into words and signs first, a list is of words."""
        if not isinstance(sentence, str) and any(" " in word for word in sentence if isinstance(word, str)):
            raise InputError(
                "a list is taken for the words of one sentence, and one of these has a space in it",
                "[tagger.tag(sentence) for sentence in sentences]",
            )
        words = self.cut_words(sentence) if isinstance(sentence, str) else list(sentence)
        return list(zip(words, self.tag_all([words])[0], strict=True)) if words else []

    @staticmethod
    def cut_words(text: str) -> list[str]:
        """The words and signs of plain text."""
        return RAW.findall(text)

    @torch.no_grad()
    def tag_all(self, sentences: Sequence[Sequence[str]], pulse: Pulse = lambda: None) -> list[list[str]]:
        """The tags of many sentences, each a list of words, in their order; one without words has none."""
        for words in sentences:
            check_texts(words, "tag(sentence)")
        tokenizer, frame, rows = self.lexicon.tokenizer, self._frame, self._rows(sentences)
        found: dict[int, list[str]] = {n: [] for n, row in enumerate(rows) if not row.first}
        order = sorted((n for n in range(len(rows)) if n not in found), key=lambda n: len(rows[n].tokens))
        for begin in range(0, len(order), ROWS):
            pulse()
            group = order[begin : begin + ROWS]
            try:
                best = weigh_tags(self.model, collect([rows[n] for n in group], tokenizer, frame)).argmax(-1)
            except InputError as error:
                raise InputError(
                    f"a sentence of {len(rows[group[-1]].tokens)} tokens: {error.message}", error.hint
                ) from None
            names = [self.lexicon.labels[number] for number in best.tolist()]
            for n in group:
                found[n], names = names[: len(rows[n].first)], names[len(rows[n].first) :]
        return [found[n] for n in range(len(rows))]

    @property
    def _frame(self) -> Frame | None:
        return self.lexicon.tokenizer.frame if self.lexicon.foreign else None

    def _rows(self, sentences: Sequence[Sequence[str]]) -> list[TaggedWords]:
        letters = {letter: number for number, letter in enumerate(self.lexicon.letters, 2)}
        return [
            TaggedWords(
                tokens,
                first,
                [0] * len(words),
                [spell(word, letters) for word in words] if self.spec.spelling else [],
            )
            for words, (tokens, first) in zip(sentences, pieces(sentences, self.lexicon.tokenizer), strict=True)
        ]

    def lay_out(self, text: str, target: str | None = None) -> Reading:
        """A sentence, of each word's first token of which its tag is asked."""
        refuse_target(self, target)
        check_text(text, "look(text)")
        words = self.cut_words(text)
        if not words:
            raise InputError(f"there is nothing to look at in {text!r}: it has no words", "a text with words")
        batch = collect(self._rows([words]), self.lexicon.tokenizer, self._frame)
        labels = self.lexicon.labels
        return Reading(
            batch.inputs,
            Strip.of(self.lexicon.tokenizer, batch.inputs.tokens[0].tolist()),
            targets=dict.fromkeys(batch.first.tolist()),
            spell=lambda found: [labels[n] for n in found],
            text=text,
        )

    def measure(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> dict[str, Any]:
        """Every measure on samples with their tags; words of a sentence are drawn together for the intervals."""
        numbers = {label: number for number, label in enumerate(self.lexicon.labels)}
        guessed = self.tag_all([sample["words"] for sample in samples], pulse)
        gold = [numbers[tag] for sample in samples for tag in sample["tags"]]
        guesses = [numbers[tag] for tags in guessed for tag in tags]
        groups = [n for n, sample in enumerate(samples) for _ in sample["tags"]]
        return measure_labels(gold, guesses, self.lexicon.labels, groups)
