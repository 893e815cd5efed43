"""Files of the user's own, each split with a reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from regard.core.spec import Rate
from regard.data.corpus import SPLITS, CorpusSpec, Split
from regard.data.log import Log
from regard.data.reader import ReaderSpec
from regard.data.sample import Form, Sample


class Files(CorpusSpec):
    """Files of the user's own."""

    kind: Literal["files"] = "files"
    train: ReaderSpec
    """The reader of the files that are trained on."""
    validation: ReaderSpec | None = None
    """The reader of the files that checkpoints are judged by."""
    test: ReaderSpec | None = None
    """The reader of the files that `regard eval` measures."""
    holdout: Rate = 0.0
    """The last share of each document is kept for validation, where that has no file of its own."""

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
