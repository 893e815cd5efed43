"""Several readers as one, each with its own kind of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from regard.data.log import Log
from regard.data.reader import Key, ReaderSpec
from regard.data.sample import Form, FormSpec, Sample
from regard.errors import DataError, Doubt, SpecError


class Several(ReaderSpec):
    """Files of different kinds in one split, one reader after the other."""

    files: ClassVar[tuple[str, ...]] = ()
    kind: Literal["several"] = "several"
    parts: tuple[ReaderSpec, ...]
    """A list of readers, each as if it stood here alone; one that is listed twice is read twice."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if not self.parts:
            raise ValueError("parts: there is no reader in it")
        if not self.forms():
            forms = {form for part in self.parts for form in part.forms()}
            raise ValueError(f"parts: all must be of one form, and these have {' and '.join(sorted(forms))}")
        return self

    @classmethod
    def list_forms(cls) -> tuple[Form, ...]:
        return tuple(FormSpec.kinds)

    def forms(self) -> tuple[Form, ...]:
        first, *others = (part.forms() for part in self.parts)
        return tuple(form for form in first if all(form in other for other in others))

    def under(self, folder: Path) -> Self:
        return self.replace(parts=tuple(part.under(folder) for part in self.parts))

    def settle(self, form: Form, split: str, folder: Path) -> ReaderSpec:
        return self.replace(parts=tuple(part.settle(form, split, folder) for part in self.parts))

    def turn_to(self, names: object, form: Form) -> ReaderSpec | None:
        return None  # which of its readers other files would be for, nobody can tell

    def read(self, form: Form, log: Log, by: Key | None = None) -> Iterator[Sample]:
        for number, part in enumerate(self.parts):
            try:
                yield from part.check_samples(part.read(form, log, by), form)
            except Doubt as doubt:  # no word on the command line changes an item of a list
                ways = (
                    f"{', '.join(f'{key}: {value}' for key, value in way.items())} ({told})"
                    for told, way in doubt.ways.items()
                )
                raise DataError(doubt.message, f"in item {number} of parts: {'; or '.join(ways)}") from None

    def samples(self, log: Log) -> Iterator[Sample]:
        raise SpecError("several: which form is wanted?", "kind: text, documents, labels, …")
