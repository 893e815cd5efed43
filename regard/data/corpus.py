"""Corpora: where the samples of each split come from. Each is a spec in a file of its own under `corpora/`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar, Literal, Self, get_args

from regard.core.registry import Kinds
from regard.core.spec import Count, Size, Spec
from regard.data.canvas import Picture
from regard.data.log import Log, Policy
from regard.data.reader import ReaderSpec
from regard.data.sample import Form, Sample
from regard.errors import SpecError

Split = Literal["train", "validation", "test", "combinations"]
SPLITS: tuple[Split, ...] = get_args(Split)
Box = tuple[int, int, int, int]  # top, left, bottom, right, in pixels: rows top … bottom - 1, columns left … right - 1


@dataclass(frozen=True)
class KeptBack:
    """How much of what there is to train on is kept back; `most`: samples, where nobody has asked for a share."""

    share: float
    most: int | None = None


@dataclass(frozen=True)
class LinkedPair:
    """A text, its translation, the words of both, and which of them stand for each other, by their places from 0."""

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    links: frozenset[tuple[int, int]]


@dataclass(frozen=True)
class BoxedCaption:
    """A picture, its caption, the caption's words, and where in the picture stands what each of them speaks of."""

    picture: Picture
    text: str
    words: tuple[str, ...]  # as they stand in the text, one after the other; a comma is one too
    boxes: tuple[Box | None, ...]  # one a word; None: it speaks of nothing that is to be seen
    kinds: tuple[str | None, ...]  # one a word: size, colour, shape, …; None where there is no box


class CorpusSpec(Spec):
    """Samples by split."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.data.corpora")
    home: ClassVar[str | None] = "corpus"
    usual: ClassVar[str | None] = "files"
    gives: ClassVar[tuple[Form, ...]] = ()  # the forms in which it can give its samples, whatever its settings
    found: ClassVar[bool] = False  # whether its samples were found somewhere, so that splits may have some in common
    policy: Policy = "skip"
    """A line that can't be used is left out and counted (skip), mended (repair), or ends the run (stop)."""

    def forms(self) -> tuple[Form, ...]:
        """The forms in which it can give its samples."""
        return self.gives

    def splits(self) -> tuple[Split, ...]:
        """The splits that it has."""
        raise NotImplementedError

    def samples(self, form: Form, split: Split, folder: Path, log: Log) -> Iterator[Sample]:
        """The samples of a split; `folder`: where files are looked for."""
        raise NotImplementedError

    def list_links(self, split: Split) -> Iterator[LinkedPair]:
        """The pairs of a split whose words the corpus itself can link; nothing where it can't."""
        return iter(())

    def list_boxes(self, split: Split) -> Iterator[BoxedCaption]:
        """The captions of a split of whose words the corpus itself knows the place; nothing where it doesn't."""
        return iter(())

    def keeps_back(self) -> Mapping[Split, KeptBack]:
        """The splits that are made here of what there is to train on."""
        return {}

    def settle(self, form: Form, folder: Path) -> Self:
        """The same with all decided that was left to its files."""
        return self

    def deal(self, form: Form, folder: Path, log: Log) -> Iterator[tuple[Split, Sample]]:
        """Every sample once, with its split."""
        for split in self.splits():
            log.split = split
            yield from ((split, sample) for sample in self.samples(form, split, folder, log))

    def must_give(self, form: Form, task: str) -> None:
        """Insist that a task gets the form that it needs."""
        if form not in self.forms():
            have = " or ".join(self.forms())
            givers = ", ".join(list_givers(form)) or "a corpus of your own"
            raise SpecError(f"corpus: {self.kind} has {have}, and {task} needs {form}", f"{form} come from {givers}")


class Generated(CorpusSpec):
    """A corpus that is made here: so many samples of each split, the same for the same seed."""

    train: Size = 200_000
    """This many samples are made for training."""
    validation: Count = 1000
    """This many samples are made for validation."""
    test: Count = 1000
    """This many samples are made for the test."""
    seed: Count = 0
    """The same seed makes the same samples."""

    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if self.count(split))

    def count(self, split: Split) -> int:
        """How many samples a split has."""
        return int(self.fields().get(split, 0))

    def samples(self, form: Form, split: Split, folder: Path, log: Log) -> Iterator[Sample]:
        for sample in islice(self.stream(form, split), self.count(split)):
            log.keep()
            yield sample

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        """Samples without end."""
        raise NotImplementedError


def list_givers(form: Form) -> list[str]:
    """The corpora that give samples of a form, and the readers that find such in files."""
    corpora = [name for name, kind in CorpusSpec.kinds.items() if issubclass(kind, CorpusSpec) and form in kind.gives]
    readers = [
        name for name, kind in ReaderSpec.kinds.items() if issubclass(kind, ReaderSpec) and form in kind.list_forms()
    ]
    return [*corpora, *([f"files ({', '.join(sorted(readers))})"] if readers else [])]
