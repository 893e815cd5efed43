"""Corpora: where the samples of each split come from: files, what ships as a generator, what comes with Python."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import ClassVar, Literal, Self, get_args

from pydantic import model_validator

import regard.data.annotated
import regard.data.gettext
import regard.data.tmx  # noqa: F401  these enter their readers
from regard.core.spec import Count, Rate, Size, Spec
from regard.data.log import Log, Policy
from regard.data.readers import ReaderSpec
from regard.data.sample import Form, Sample
from regard.errors import SpecError

Split = Literal["train", "validation", "test", "combinations"]
SPLITS: tuple[Split, ...] = get_args(Split)
Level = Literal["full", "first"]  # first: fewer patterns and words, for a model that has a minute


class CorpusSpec(Spec):
    """Samples by split."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}
    usual: ClassVar[str | None] = "files"
    policy: Policy = "skip"  # what becomes of lines that can't be used: skip, repair or stop

    def forms(self) -> tuple[Form, ...]:
        """The forms in which it can give its samples."""
        raise NotImplementedError

    def splits(self) -> tuple[Split, ...]:
        """The splits that it has."""
        raise NotImplementedError

    def samples(self, form: Form, split: Split, folder: Path, log: Log) -> Iterator[Sample]:
        """The samples of a split; `folder`: where files are looked for."""
        raise NotImplementedError

    def must_give(self, form: Form, task: str) -> None:
        """Insist that a task gets the form that it needs."""
        if form not in self.forms():
            have = " or ".join(self.forms())
            raise SpecError(
                f"corpus: {self.kind} has {have}, and {task} needs {form}", f"{form} come from {GIVERS[form]}"
            )


class Files(CorpusSpec):
    """Files of the user's own."""

    kind: Literal["files"] = "files"
    train: ReaderSpec
    validation: ReaderSpec | None = None
    test: ReaderSpec | None = None
    holdout: Rate = 0.0  # the last share of each document, kept for validation where it has no file of its own

    @model_validator(mode="after")
    def check(self) -> Self:
        forms = {reader.form for reader in (self.train, self.validation, self.test) if reader is not None}
        if len(forms) > 1:
            raise ValueError(f"all splits must be of one form, and these have {' and '.join(sorted(forms))}")
        if self.holdout and (self.train.form != "documents" or self.validation is not None):
            raise ValueError("holdout: it cuts documents, and only where there is no file for validation")
        return self

    def forms(self) -> tuple[Form, ...]:
        return (self.train.form,)

    def splits(self) -> tuple[Split, ...]:
        return tuple(
            split for split in SPLITS if self._reader(split) is not None or (split == "validation" and self.holdout)
        )

    def samples(self, form: Form, split: Split, folder: Path, log: Log) -> Iterator[Sample]:
        reader = self._reader(split)
        if self.holdout and split in ("train", "validation"):
            return self._cut(split, folder, log)
        if reader is None:
            return iter(())
        found = reader.under(folder).samples(log)
        return reader.check_samples(found) if split == "train" else found

    def _cut(self, split: Split, folder: Path, log: Log) -> Iterator[Sample]:
        """The beginning of each document for training, or its end for validation."""
        for sample in self.train.under(folder).samples(log if split == "train" else Log(self.policy)):
            text = sample["text"]
            border = int(len(text) * (1 - self.holdout))
            part = text[:border] if split == "train" else text[border:]
            if part:
                yield {**sample, "text": part}

    def _reader(self, split: Split) -> ReaderSpec | None:
        readers = {"train": self.train, "validation": self.validation, "test": self.test}
        return readers.get(split)


class Generated(CorpusSpec):
    """A corpus that is made here: so many samples of each split, the same for the same seed."""

    train: Size = 200_000
    validation: Count = 1000
    test: Count = 1000
    seed: Count = 0

    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if self.size(split))

    def size(self, split: Split) -> int:
        """How many samples a split has."""
        return int(self.fields().get(split, 0))

    def samples(self, form: Form, split: Split, folder: Path, log: Log) -> Iterator[Sample]:
        for sample in islice(self.stream(form, split), self.size(split)):
            log.keep()
            yield sample

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        """Samples without end."""
        raise NotImplementedError


class EnglishFrench(Generated):
    """The built-in grammar: translations, or the English side as text or with its parts of speech."""

    kind: Literal["en-fr"] = "en-fr"
    combinations: Count = 1000
    longest: Size = 40  # words of an English sentence
    level: Level = "full"

    def forms(self) -> tuple[Form, ...]:
        return ("pairs", "documents", "tags")

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        from regard.data.corpora.english_french import pairs

        for pair in pairs(split, self.seed, self.level):
            words = pair.source_words
            if len(words) > self.longest:
                continue
            if form == "pairs":
                yield {"source": pair.source, "target": pair.target}
            elif form == "documents":
                yield {"text": pair.source}
            else:
                yield {"words": [word.text for word in words], "tags": [word.tag for word in words]}


class Grammaticality(Generated):
    """Sentences of the built-in grammar, right or with one mistake; the label says which."""

    kind: Literal["grammaticality"] = "grammaticality"
    train: Size = 50_000
    level: Level = "full"

    def forms(self) -> tuple[Form, ...]:
        return ("labels",)

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        from regard.data.corpora.grammaticality import samples

        assert split != "combinations"
        return ({"text": text, "label": label} for text, label in samples(split, self.seed, self.level))


class PythonStdlib(CorpusSpec):
    """The source code of Python's own standard library, a document a file."""

    kind: Literal["python-stdlib"] = "python-stdlib"
    most: Size | None = None  # documents of each split; None: all

    def forms(self) -> tuple[Form, ...]:
        return ("documents",)

    def splits(self) -> tuple[Split, ...]:
        return ("train", "validation", "test")

    def samples(self, form: Form, split: Split, folder: Path, log: Log) -> Iterator[Sample]:
        from regard.data.corpora.python_stdlib import documents

        assert split != "combinations"
        for name, text in islice(documents(split), self.most):
            log.keep()
            yield {"text": text, "place": name}


class SizedSpec(Generated):
    """Problems of sizes that can be chosen, and others for the test."""

    sizes: tuple[Size, Size] = (1, 20)  # from, to; of training and validation
    test_sizes: tuple[Size, Size] | None = None  # as the others, unless given: longer ones show what carries over

    def bounds(self, split: Split) -> tuple[int, int]:
        return (self.test_sizes or self.sizes) if split == "test" else self.sizes


class AlgorithmSpec(SizedSpec):
    """Problems with one right answer, their tokens divided by spaces."""

    def forms(self) -> tuple[Form, ...]:
        return ("pairs",)

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        from regard.data.corpora.algorithms import problems

        common = {*AlgorithmSpec.model_fields}
        options = {name: value for name, value in self.fields().items() if name not in common}
        for problem in problems(self.kind, f"{split} {self.seed}", self.bounds(split), options):
            yield {"source": " ".join(problem.source), "target": " ".join(problem.target), "size": problem.size}


class Copy(AlgorithmSpec):
    """The same letters again."""

    kind: Literal["copy"] = "copy"
    symbols: Size = 10


class Reverse(AlgorithmSpec):
    """Letters from last to first."""

    kind: Literal["reverse"] = "reverse"
    symbols: Size = 10


class Sort(AlgorithmSpec):
    """Digits from small to large."""

    kind: Literal["sort"] = "sort"
    symbols: Size = 10


class Add(AlgorithmSpec):
    """Two numbers and their sum, digit by digit."""

    kind: Literal["add"] = "add"
    sizes: tuple[Size, Size] = (1, 10)
    reverse: bool = False  # ones first
    hints: bool = False  # a letter before each digit marks its place


class Induction(AlgorithmSpec):
    """What followed the trigger, the last time?"""

    kind: Literal["induction"] = "induction"
    sizes: tuple[Size, Size] = (256, 256)
    vocabulary: Size = 16


class SelectiveCopy(AlgorithmSpec):
    """The letters that stand scattered among noise."""

    kind: Literal["selective-copy"] = "selective-copy"
    sizes: tuple[Size, Size] = (256, 256)
    tokens: Size = 16
    symbols: Size = 15


class Adding(SizedSpec):
    """The adding problem: so many numbers from 0 to 1, two of them marked, and the sum of these."""

    kind: Literal["adding"] = "adding"
    train: Size = 50_000
    sizes: tuple[Size, Size] = (600, 600)

    def forms(self) -> tuple[Form, ...]:
        return ("series",)

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        from regard.data.corpora.algorithms import adding

        chance = Random(f"adding {split} {self.seed}")
        while True:
            yield vars(adding(chance, chance.randint(*self.bounds(split))))


GIVERS: dict[Form, str] = {
    "pairs": "en-fr, copy, reverse, sort, add, induction, selective-copy, or files (text, tsv, jsonl, po, tmx)",
    "documents": "en-fr, python-stdlib, or files (documents)",
    "labels": "grammaticality, or files (labels)",
    "tags": "en-fr, or files (conllu, columns)",
    "series": "adding",
}
