"""Corpora: where the pairs of each split come from: files, or the grammar that ships with the house."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal, get_args

from regard.core.spec import Count, Size, Spec
from regard.data.log import Log, Policy
from regard.data.readers import Pair, ReaderSpec

Split = Literal["train", "validation", "test", "combinations"]
SPLITS: tuple[Split, ...] = get_args(Split)


class CorpusSpec(Spec):
    """Pairs of texts by split."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}
    usual: ClassVar[str | None] = "files"
    policy: Policy = "skip"  # what becomes of lines that can't be used: skip, repair or stop

    def splits(self) -> tuple[Split, ...]:
        """The splits that it has."""
        raise NotImplementedError

    def pairs(self, split: Split, folder: Path, log: Log) -> Iterator[Pair]:
        """The pairs of a split; `folder`: where files are looked for."""
        raise NotImplementedError


class Files(CorpusSpec):
    """Files of the user's own."""

    kind: Literal["files"] = "files"
    train: ReaderSpec
    validation: ReaderSpec | None = None
    test: ReaderSpec | None = None

    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if self._reader(split) is not None)

    def pairs(self, split: Split, folder: Path, log: Log) -> Iterator[Pair]:
        reader = self._reader(split)
        return iter(()) if reader is None else reader.under(folder).pairs(log)

    def _reader(self, split: Split) -> ReaderSpec | None:
        readers = {"train": self.train, "validation": self.validation, "test": self.test}
        return readers.get(split)


class EnglishFrench(CorpusSpec):
    """The built-in grammar: so many pairs of each split, the same for the same seed."""

    kind: Literal["en-fr"] = "en-fr"
    train: Size = 200_000
    validation: Count = 1000
    test: Count = 1000
    combinations: Count = 1000
    longest: Size = 40  # words of an English sentence
    level: Literal["full", "first"] = "full"  # first: fewer patterns and words, for a model that has a minute
    seed: Count = 0

    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if self._size(split))

    def pairs(self, split: Split, folder: Path, log: Log) -> Iterator[Pair]:
        from regard.data.corpora.english_french import pairs

        short = (pair for pair in pairs(split, self.seed, self.level) if len(pair.source_words) <= self.longest)
        for pair in islice(short, self._size(split)):
            log.keep()
            yield pair.source, pair.target

    def _size(self, split: Split) -> int:
        sizes = {
            "train": self.train,
            "validation": self.validation,
            "test": self.test,
            "combinations": self.combinations,
        }
        return sizes[split]
