"""Files of the user's own, or rows from Python: a reader for each split, or splits made of the training data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from regard.core.spec import Rate
from regard.data.corpus import SPLITS, CorpusSpec, KeptBack, Split
from regard.data.doubt import locate_doubts
from regard.data.log import Log
from regard.data.reader import Key, ReaderSpec
from regard.data.readers.dataset import Dataset
from regard.data.sample import Form, FormSpec, Sample
from regard.data.split import SHARE, SplitSpec, hash_text, split_by_hash
from regard.errors import SpecError

MOST = 2000  # samples that are kept back for validation where nobody said how many


class Files(CorpusSpec):
    """Files of the user's own."""

    found: ClassVar[bool] = True
    kind: Literal["files"] = "files"
    train: ReaderSpec
    """The reader of the files that are trained on."""
    validation: ReaderSpec | None = None
    """The reader of the files that checkpoints are judged by."""
    test: ReaderSpec | None = None
    """The reader of the files that `regard eval` measures."""
    reverse: bool = False
    """Pairs change sides: what the readers call the source is learned as the target."""
    split: SplitSpec = SplitSpec()
    """What is kept back of the training data for splits that have no files of their own."""
    holdout: Rate = 0.0
    """The last share of each document is kept for validation, where that has no file of its own."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if not self.forms():
            forms = {form for reader in self._readers().values() for form in reader.forms()}
            raise ValueError(f"all splits must be of one form, and these have {' and '.join(sorted(forms))}")
        if self.holdout and ("documents" not in self.forms() or self.validation is not None or self.split.validation):
            raise ValueError("holdout: it cuts documents, and only where there is no file for validation")
        if self.reverse and "pairs" not in self.forms():
            raise ValueError(f"reverse: pairs have two sides, and these are {' or '.join(self.forms())}")
        for name, share in (("validation", self.split.validation), ("test", self.split.test)):
            if share and name in self._readers():
                raise ValueError(f"split.{name}: {share} of train, and there are files for it too: which?")
        return self

    def forms(self) -> tuple[Form, ...]:
        readers = self._readers().values()
        return tuple(form for form in self.train.forms() if all(form in reader.forms() for reader in readers))

    def splits(self) -> tuple[Split, ...]:
        kept = {*self._readers(), *self.keeps_back(), *(["validation"] if self.holdout else [])}
        return tuple(split for split in SPLITS if split in kept)

    def keeps_back(self) -> Mapping[Split, KeptBack]:
        found: dict[Split, KeptBack] = {}
        if self.validation is None and not self.holdout and self.split.validation != 0:
            told = self.split.validation
            found["validation"] = KeptBack(SHARE, MOST) if told is None else KeptBack(told)
        if self.test is None and self.split.test:
            found["test"] = KeptBack(self.split.test)
        return found

    def settle(self, form: Form, folder: Path) -> Self:
        """The same with the kind of every reader, and with the splits that a data set brings along."""
        readers = {split: reader.settle(form, split, folder) for split, reader in self._readers().items()}
        train = readers["train"]
        if isinstance(train, Dataset) and train.split == "train":
            there, kept = train.list_splits(folder), self.keeps_back()
            own = (split for split in ("validation", "test") if split in there and split not in readers)
            # what a user wants to be kept back goes before what the data set has
            readers |= {
                split: train.replace(split=split) for split in own if not (split in kept and self._asks_for(split))
            }
        return self.replace(**readers)

    def samples(self, form: Form, split: Split, folder: Path, log: Log) -> Iterator[Sample]:
        settled = self.settle(form, folder)
        if split in settled._readers() and split != "train":
            return settled._read(split, form, folder, log)
        return (sample for dealt, sample in settled._deal_train(form, folder, log) if dealt == split)

    def deal(self, form: Form, folder: Path, log: Log) -> Iterator[tuple[Split, Sample]]:
        settled = self.settle(form, folder)
        yield from settled._deal_train(form, folder, log)
        for split in SPLITS:
            if split != "train" and split in settled._readers():
                yield from ((split, sample) for sample in settled._read(split, form, folder, log))

    def _deal_train(self, form: Form, folder: Path, log: Log) -> Iterator[tuple[Split, Sample]]:
        """What there is to train on, and what is kept back of it; read once, so that standard input will do."""
        if self.holdout and form != "documents":
            raise SpecError(f"corpus.holdout: it cuts documents, and these are {form}", "corpus.split.validation=0.1")
        shares = {split: kept.share for split, kept in self.keeps_back().items()}
        validation, test = shares.get("validation", 0.0), shares.get("test", 0.0)
        if self.reverse and form != "pairs":
            raise SpecError(f"corpus.reverse: pairs have two sides, and these are {form}", "corpus.reverse=false")
        spec, by = FormSpec.parse(form), self.split.by if shares else None
        for sample in self._read("train", form, folder, log, by):
            if self.holdout:
                yield from self._cut(sample)
            elif not shares:
                yield "train", sample
            else:
                yield split_by_hash(hash_text(spec.find_group(sample), self.split.seed), validation, test), sample

    def _cut(self, sample: Sample) -> Iterator[tuple[Split, Sample]]:
        """The beginning of a document for training, and its end for validation."""
        border = int(len(sample["text"]) * (1 - self.holdout))
        parts: list[tuple[Split, str]] = [("train", sample["text"][:border]), ("validation", sample["text"][border:])]
        yield from ((split, {**sample, "text": part}) for split, part in parts if part)

    def _read(self, split: Split, form: Form, folder: Path, log: Log, by: Key | None = None) -> Iterator[Sample]:
        reader = self._readers()[split]
        log.split = split
        found = reader.under(folder).read(form, log, by)
        if self.reverse:
            found = ({**sample, "source": sample["target"], "target": sample["source"]} for sample in found)
        return locate_doubts(reader.check_samples(found, form) if split == "train" else found, reader, split)

    def _asks_for(self, split: str) -> bool:
        """Whether a user has said how much is to be kept back for a split."""
        return bool({"validation": self.split.validation, "test": self.split.test}[split])

    def _readers(self) -> dict[Split, ReaderSpec]:
        readers: dict[Split, Any] = {"train": self.train, "validation": self.validation, "test": self.test}
        return {split: reader for split, reader in readers.items() if reader is not None}
