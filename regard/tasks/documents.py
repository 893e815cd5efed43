"""What tasks on running text share: documents as numbers, and rows that are full of them.

Documents are laid end to end and cut to the context, so that no place is wasted. None sees another: that is the mask's
business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from regard.core.model import ModelSpec
from regard.data.batches import POOL, RUN
from regard.data.column import Column, ColumnSpec
from regard.data.lexicon import Lexicon
from regard.data.sample import Form, Sample
from regard.errors import SpecError
from regard.tasks.task import TaskSpec

OPEN = 16  # rows that wait for a document which fits, where none is cut


@dataclass(frozen=True)
class Span:
    """A stretch of a document's predictions: token n is predicted from those before it."""

    document: int
    first: int
    last: int
    fresh: bool = True  # nothing is remembered of what came before


class DocumentTaskSpec(TaskSpec):
    """A task on documents."""

    form: ClassVar[Form] = "documents"

    def texts(self, sample: Sample) -> Sequence[str]:
        return (sample["text"],)

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        return {"text": ColumnSpec(below=len(lexicon.tokenizer))}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Mapping[str, Sequence[int]]]:
        return [{"text": row} for row in lexicon.tokenizer.encode([sample["text"] for sample in samples])]

    def count_tokens(self, row: Mapping[str, Sequence[int]]) -> int:
        return 0  # a document may be of any length: it is cut to the context

    def make_sample(self, text: str) -> Sample:
        return {"prompt": text}  # which is no document: it isn't known how it goes on, or what is hidden


def fits(model: ModelSpec, context: int) -> None:
    """Insist that a row has a place for each of its tokens."""
    limit = model.main.limit()
    if limit is not None and context > limit:
        raise SpecError(f"task.context: {context}, and the model has places for {limit}", f"task.context={limit}")


def full_rows(
    column: Column, context: int, rows: int, chance: Random, extra: int = 1, whole: bool = False
) -> Iterator[tuple[list[list[Span]], float]]:
    """Batches of rows that are full: documents in a random order, laid end to end and cut to the context.

    With each comes the share of the corpus that is done. `extra`: tokens that a document has beside its own. `whole`:
    none of them is cut, and rows are as full as that allows.
    """
    runs = [range(first, min(first + RUN, len(column))) for first in range(0, len(column), RUN)]
    chance.shuffle(runs)
    done = 0
    for first in range(0, len(runs), POOL):
        pool = [n for run in runs[first : first + POOL] for n in run]
        chance.shuffle(pool)
        sizes = lengths(column, pool, extra)
        cut = list(pack_whole(sizes, context) if whole else pack(sizes, context, chance.randrange(context)))
        chance.shuffle(cut)
        for at in range(0, len(cut), rows):
            share = min(1.0, (at + rows) / len(cut))
            yield cut[at : at + rows], (done + share * len(pool)) / len(column)
        done += len(pool)


def lengths(column: Column, documents: Sequence[int], extra: int = 1) -> list[tuple[int, int]]:
    """Each document and how long it is, with what it has beside its own tokens."""
    found = []
    for n in documents:
        begin, end = column.bounds(n, n + 1)
        found.append((n, end - begin + extra))
    return found


def pack(documents: Sequence[tuple[int, int]], context: int, offset: int) -> Iterator[list[Span]]:
    """Rows of at most `context` predictions, all full but the first, which has `offset` fewer, and the last."""
    row: list[Span] = []
    room = context - offset
    for document, size in documents:
        first = 0
        while first < size:
            last = min(size, first + room)
            row.append(Span(document, first, last))
            room -= last - first
            first = last
            if not room:
                yield row
                row, room = [], context
    if row:
        yield row


def pack_whole(documents: Sequence[tuple[int, int]], context: int) -> Iterator[list[Span]]:
    """Rows of at most `context` predictions, each document whole in one of them: the fullest row that has room."""
    waiting: list[tuple[int, list[Span]]] = []  # room, row
    for document, size in documents:
        fitting = [(room, n) for n, (room, _) in enumerate(waiting) if room >= size]
        if not fitting and len(waiting) == OPEN:
            fullest = min(range(OPEN), key=lambda n: waiting[n][0])
            yield waiting.pop(fullest)[1]
        room, row = waiting.pop(min(fitting)[1]) if fitting else (context, [])
        waiting.append((room - size, [*row, Span(document, 0, size)]))
    yield from (row for _, row in waiting)
