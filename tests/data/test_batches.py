"""Batches: nothing lost, nothing twice, within the budget, in an order that can be resumed."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.batches import POOL, RUN, BatchSpec, ahead, endless, make_batch
from regard.data.corpora.english_french.corpus import EnglishFrench
from regard.data.log import Log
from regard.errors import DataError

CHANCE = random.Random(0)
LENGTHS = [(CHANCE.randint(1, 40), CHANCE.randint(1, 40)) for _ in range(3000)]
SPEC = BatchSpec(tokens=500, longest=38)


def test_every_sentence_that_fits_is_there_once() -> None:
    planned = SPEC.plan(LENGTHS, seed=1, epoch=0)
    fitting = {n for n, pair in enumerate(LENGTHS) if max(pair) <= 38}
    found = [n for batch in planned for n in batch]
    assert len(found) == len(set(found))
    assert set(found) == fitting


def test_no_batch_outgrows_its_budget() -> None:
    for batch in SPEC.plan(LENGTHS, seed=1, epoch=0):
        assert len(batch) * max(max(LENGTHS[n]) for n in batch) <= 500


def test_sentences_of_like_length_stand_together() -> None:
    padded = real = 0
    for batch in SPEC.plan(LENGTHS, seed=1, epoch=0):
        padded += len(batch) * max(max(LENGTHS[n]) for n in batch)
        real += sum(max(LENGTHS[n]) for n in batch)
    assert real / padded > 0.9


@pytest.mark.parametrize(("buckets", "longer", "both"), [(20, 0.05, 0.10), (8, 0.11, 0.15)])
def test_little_is_padding_where_sentences_are_like_real_ones(buckets: int, longer: float, both: float) -> None:
    """The longer side is what a budget counts, and what is sorted by; the shorter one varies beside it.

    A whole corpus of pairs that is sorted at once still pads the shorter side by a tenth.
    """
    corpus = EnglishFrench(train=8000, validation=10, test=10)
    pairs = corpus.samples("pairs", "train", Path(), Log())
    lengths = [tuple(len(pair[side].split()) + 1 for side in ("source", "target")) for pair in pairs]
    room, real = [0, 0, 0], [0, 0, 0]
    for batch in BatchSpec(tokens=2048, buckets=buckets).plan(lengths, seed=1, epoch=0):
        for column, sizes in enumerate(zip(*((*lengths[n], max(lengths[n])) for n in batch), strict=True)):
            room[column] += len(batch) * max(sizes)
            real[column] += sum(sizes)
    assert 1 - real[2] / room[2] < longer
    assert 1 - sum(real[:2]) / sum(room[:2]) < both


def test_the_order_is_a_function_of_seed_and_epoch() -> None:
    first = list(SPEC.plan(LENGTHS, 1, 0))
    assert first == list(SPEC.plan(LENGTHS, 1, 0))
    assert first != list(SPEC.plan(LENGTHS, 1, 1))
    assert first != list(SPEC.plan(LENGTHS, 2, 0))


def test_a_large_corpus_is_planned_a_pool_at_a_time() -> None:
    class Watched(list[tuple[int, int]]):
        read = 0

        def __getitem__(self, index: Any) -> Any:
            self.read += index.stop - index.start
            return super().__getitem__(index)

    lengths = Watched([(10, 10)] * 500_000)
    plan = SPEC.plan(lengths, 1, 0)
    begun = next(plan)
    assert lengths.read <= POOL * RUN
    rest = [n for batch in plan for n in batch]
    assert sorted(begun + rest) == list(range(500_000))
    pool = rest[:100_000]
    assert max(pool) - min(pool) > 400_000  # from all over the corpus


def test_a_run_that_goes_on_sees_what_it_would_have_seen() -> None:
    def plan(epoch: int) -> Iterator[list[int]]:
        return SPEC.plan(LENGTHS, 1, epoch)

    straight = [next_ for next_, _ in zip(endless(plan), range(400), strict=False)]
    epoch, position, _ = straight[250]
    resumed = [next_ for next_, _ in zip(endless(plan, epoch, position), range(150), strict=False)]
    assert resumed == straight[250:]


def test_nothing_that_fits_is_an_error() -> None:
    with pytest.raises(DataError, match="nothing to train on"):
        next(endless(lambda epoch: BatchSpec(longest=3).plan([(5, 5)], 0, epoch)))


def test_a_batch_is_two_rectangles_with_begin_and_end() -> None:
    batch = make_batch([[7, 8], [9]], [[5], [6, 6, 6]], pad=0, begin=2, end=3)
    assert batch.source.tokens.tolist() == [[7, 8, 3], [9, 3, 0]]
    assert batch.target.tokens.tolist() == [[2, 5, 3, 0, 0], [2, 6, 6, 6, 3]]
    assert batch.source.real.tolist() == [[True, True, True], [True, True, False]]
    assert torch.equal(batch.target.real, batch.target.tokens != 0)
    assert batch.tokens == 6


def test_preparing_ahead_changes_nothing_and_runs_beside() -> None:
    assert list(ahead(iter(range(100)))) == list(range(100))

    made = [threading.Event() for _ in range(10)]

    def told() -> Iterator[int]:
        for n, event in enumerate(made):
            event.set()
            yield n

    for n in ahead(told()):  # the next ones are made while this one is in use
        assert all(event.wait(60) for event in made[n : n + 4])


def test_an_error_in_preparation_is_raised_where_it_is_used() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise DataError("line 2 is bad")

    items = ahead(broken())
    assert next(items) == 1
    with pytest.raises(DataError, match="line 2"):
        next(items)


def test_leaving_early_ends_the_thread() -> None:
    before = threading.active_count()
    items = ahead(iter(range(1000)))
    next(items)
    items.close()
    assert threading.active_count() == before


def test_a_batch_may_have_so_many_rows() -> None:
    """However long they are; only the last of a pool may have fewer, and each sample comes once an epoch."""
    lengths = [(1 + n % 9,) for n in range(103)]
    batches = list(BatchSpec(rows=10, tokens=1).plan(lengths, 0, 0))
    assert sorted(len(batch) for batch in batches) == [3] + [10] * 10
    assert sorted(n for batch in batches for n in batch) == list(range(103))
    assert BatchSpec(rows=3).count_rows(512) == 3
    assert BatchSpec(tokens=1024).count_rows(512) == 2
