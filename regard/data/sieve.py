"""What a task wants of a corpus, and the sieve that leaves out the samples that its model has no positions for."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Protocol

from regard.data.column import ColumnSpec
from regard.data.corpus import Split
from regard.data.lexicon import Lexicon
from regard.data.log import Log
from regard.data.sample import Form, FormSpec, Sample, place
from regard.errors import DataError

GROUP, FEW = 250, 16  # samples that are cut into tokens together; fewer where they hold arrays, which are large
AHEAD = 4  # groups that are cut before they are asked for
Row = Mapping[str, Any]  # a sample as numbers, column by column: lists of tokens, or arrays


class Wants(Protocol):
    """What a task wants of a corpus."""

    form: ClassVar[Form]
    words: ClassVar[bool]  # whether it reads or writes any; without, no tokenizer is learned

    @property
    def kind(self) -> str:
        """What it is called."""

    @property
    def special(self) -> tuple[str, ...]:
        """Tokens that it needs beside the usual ones."""

    def receive(self, sample: Sample) -> Sample:
        """What it keeps of a sample as it comes from a corpus; `Unusable` where it can't use it."""

    def texts(self, sample: Sample) -> Sequence[str]:
        """What its tokenizer learns from; two texts where there are two languages."""

    def labels(self, sample: Sample) -> Sequence[str]:
        """The labels in it."""

    def letters(self, sample: Sample) -> Iterable[str]:
        """The letters in it, if words are to be spelled."""

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        """Its columns, and what each holds of a sample."""

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        """Each sample as numbers, column by column."""

    def count_tokens(self, row: Row) -> int:
        """How many tokens of it count against the most that there may be."""

    def find_fault(self, row: Row) -> str:
        """Why a sample can't be used, as its tokens tell; nothing where it can."""

    def places(self, row: Row) -> Mapping[str, int]:
        """How many positions it takes of an encoder and of a decoder."""


@dataclass
class Sieve:
    """What lets samples through that the model has positions for, and says which it doesn't."""

    wants: Wants
    lexicon: Lexicon
    longest: int  # tokens of a sample to train on; others may be longer
    limits: list[dict[str, int]]  # positions of the model's stacks while it is trained, and while it is used
    log: Log
    passed: Counter[str] = field(default_factory=Counter)  # samples by split

    def __call__(self, samples: Iterator[Sample], split: Split) -> Iterator[tuple[Sample, Row]]:
        """The samples of a split with their numbers; if none is short enough, an error with both lengths."""
        number, nearest, fault = 0, (0, ""), ""
        with closing(self._cut(samples)) as cut:
            for sample, row in cut:
                number += 1
                taken, reason = self._excess(row, split)
                if own := self.wants.find_fault(row):  # what the task says itself is told first: it knows a way out
                    reason, fault = own, f"{place(sample, split, number)}: {own}"
                elif reason:
                    nearest = min(nearest, (taken, reason)) if nearest[1] else (taken, reason)
                if reason:
                    self.log.skip(place(sample, split, number), reason)
                    self.log.kept -= 1
                    continue
                self.passed[split] += 1
                yield sample, row
        if not self.passed[split] and fault:
            raise DataError(f"{split}: none of its {number} samples can be used, such as {fault}", "check the corpus")
        if not self.passed[split]:
            hint = "shorter texts, a model with more positions, or batches.longest=…"
            raise DataError(f"{split}: none of its {number} samples fits, and the shortest has {nearest[1]}", hint)

    def _cut(self, samples: Iterator[Sample]) -> Generator[tuple[Sample, Row], None, None]:
        """Samples with their numbers. Tokens are cut by threads of the library's own; samples are read, numbers taken
        from it, and rows written while that goes on."""
        size = FEW if FormSpec.parse(self.wants.form).list_arrays() else GROUP
        groups = iter(lambda: list(islice(samples, size)), [])
        with ThreadPoolExecutor(2, "cutting") as pool:
            pending = deque[tuple[list[Sample], Future[Sequence[Row]]]]()
            try:
                for group in groups:
                    pending.append((group, pool.submit(self.wants.encode, group, self.lexicon)))
                    if len(pending) > AHEAD:
                        yield from pair(*pending.popleft())
                while pending:
                    yield from pair(*pending.popleft())
            finally:
                pool.shutdown(cancel_futures=True)

    def _excess(self, row: Row, split: Split) -> tuple[int, str]:
        """How long a sample is and why that is too long, if it is."""
        size = self.wants.count_tokens(row)
        if split == "train" and size > self.longest:
            return size, f"too many tokens: {size}, and {self.longest} are the most"
        for side, taken in self.wants.places(row).items():
            most = self.limits[split != "train"].get(side)
            if most is not None and taken > most:
                return taken, f"too many tokens for the model: {taken}, and its {side} has positions for {most}"
        return size, ""


def pair(group: list[Sample], rows: Future[Sequence[Row]]) -> Iterator[tuple[Sample, Row]]:
    """Samples with their numbers, once there are any."""
    return zip(group, rows.result(), strict=True)
