"""Batches: samples of like length together, as many as fit a budget of tokens or so many, in an order that can be
resumed.

The order is a function of (seed, epoch, position): a run that stops at batch 700 of epoch 3 goes on with batch 701 of
the same shuffle. Preparation runs ahead of the model in a thread of its own.
"""

from __future__ import annotations

import queue
import random
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar

from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.registry import Kinds
from regard.core.spec import Size, Spec
from regard.data.tokenizer import Frame
from regard.errors import DataError

T = TypeVar("T")
Lengths = Sequence[tuple[int, ...]]  # of each sample's columns; a slice of it is all that is held at once
RUN = 2048  # neighbours that stay in one pool
POOL = 64  # such runs that are shuffled together


@dataclass
class Batch:
    """Source and target as rectangles, pads last."""

    source: Inputs
    target: Inputs  # from begin to end
    tokens: int  # real target tokens to predict


class BatchSpec(Spec):
    """How large a batch is."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = "batches"
    kind: Literal["batches"] = "batches"
    tokens: Size = 4096
    """A batch has at most this many tokens, pads of its longer side included; a number that isn't the usual one counts
    for captions too, instead of 64 pictures."""
    rows: Size | None = None
    """A batch has this many samples, however long; unless given, as many as its tokens allow, or 64 pictures."""
    longest: Size = 256
    """A sentence with more tokens than this is left out and counted."""
    buckets: Size = 8
    """This many batches are sorted by length together; more of them mean less padding and less chance. Graphs aren't
    sorted: they are packed, and share a batch whatever their sizes."""

    @property
    def budgeted(self) -> bool:
        """Whether somebody wants so many tokens: the usual number is in every run file, and nobody's wish."""
        return self.rows is None and self.tokens != type(self).model_fields["tokens"].default

    def count_rows(self, time: int) -> int:
        """How many rows of so many tokens a batch has."""
        return self.rows or max(1, self.tokens // time)

    def plan(self, lengths: Lengths, seed: int, epoch: int, mixed: bool = False) -> Iterator[list[int]]:
        """Which sentences make each batch of an epoch, from their source and target lengths.

        `mixed`: by chance alone, and their lengths are added up. Sentences are shuffled a pool at a time, and a pool is
        drawn from all over the corpus, so a corpus of any size is planned in the same memory.
        """
        chance = random.Random(f"{seed}/{epoch}")
        runs = [range(first, min(first + RUN, len(lengths))) for first in range(0, len(lengths), RUN)]
        chance.shuffle(runs)
        for first in range(0, len(runs), POOL):
            yield from self._pool(runs[first : first + POOL], lengths, chance, mixed)

    def _pool(self, runs: list[range], lengths: Lengths, chance: random.Random, mixed: bool) -> list[list[int]]:
        size = {n: pair for run in runs for n, pair in zip(run, lengths[run.start : run.stop], strict=True)}
        order = [n for n, pair in size.items() if max(pair) <= self.longest]
        if not order:
            return []
        chance.shuffle(order)
        if mixed:
            return self._deal(order, size)
        planned: list[list[int]] = []
        mean = sum(max(size[n]) for n in order) / len(order)
        # sentences in so many batches
        many = self.buckets * self.rows if self.rows else max(1, int(self.buckets * self.tokens / mean))
        for first in range(0, len(order), many):
            nearby = sorted(order[first : first + many], key=lambda n: (max(size[n]), min(size[n])))
            planned += self._cut(nearby, size)
        chance.shuffle(planned)
        return planned

    def _deal(self, order: list[int], lengths: Mapping[int, tuple[int, ...]]) -> list[list[int]]:
        """Sentences as they come, cut where their tokens together would outgrow the budget or there are its rows."""
        batches, total = list[list[int]](), 0
        for n in order:
            total += max(lengths[n])
            full = bool(batches) and len(batches[-1]) == self.rows if self.rows else total > self.tokens
            if full or not batches:
                batches.append([])
                total = max(lengths[n])
            batches[-1].append(n)
        return batches

    def _cut(self, ordered: list[int], lengths: Mapping[int, tuple[int, ...]]) -> list[list[int]]:
        """Sentences in ascending length, cut where the rectangle would outgrow the budget or has its rows."""
        batches: list[list[int]] = []
        batch: list[int] = []
        for n in ordered:
            full = len(batch) == self.rows if self.rows else max(lengths[n]) * (len(batch) + 1) > self.tokens
            if batch and full:
                batches.append(batch)
                batch = []
            batch.append(n)
        return [*batches, batch] if batch else batches


def pad_rows(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """A rectangle of token numbers, pads last, and where the real ones are."""
    inputs = Inputs.pad(rows, pad)
    return inputs.tokens, inputs.real


def make_batch(
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    pad: int,
    begin: int,
    end: int,
    frame: Frame | None = None,
) -> Batch:
    """A batch from token numbers; the source ends with the end token or has a frame, the target has begin and end."""
    before, after = frame or ((), (end,))
    source = Inputs.pad([[*before, *row, *after] for row in sources], pad)
    target = Inputs.pad([[begin, *row, end] for row in targets], pad)
    return Batch(source, target, sum(len(row) + 1 for row in targets))


def ahead(items: Iterator[T], depth: int = 4) -> Generator[T, None, None]:
    """The same items, prepared up to `depth` early by a thread; its error is raised here, and leaving early ends it."""
    ready: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: T | None, error: BaseException | None) -> None:
        while not stopped.is_set():
            try:
                ready.put((item, error), timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put(item, None)
                if stopped.is_set():
                    return
            put(None, StopIteration())
        except BaseException as error:
            put(None, error)

    thread = threading.Thread(target=work, name="batches", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        thread.join()


def endless(plan: Callable[[int], Iterable[T]], epoch: int = 0, position: int = 0) -> Iterator[tuple[int, int, T]]:
    """Epoch, position and item, from a place in the order on, for ever."""
    while True:
        place = -1
        for place, item in enumerate(plan(epoch)):
            if place >= position:
                yield epoch, place, item
        if place < 0:
            raise DataError("there is nothing to train on", "check the corpus, and batches.longest")
        epoch, position = epoch + 1, 0
