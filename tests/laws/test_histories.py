"""Whatever is done to a state, in whatever order, each row is as if it had run alone.

A history is a random run of chunks, padded chunks, rows that idle, selections, rewinds and joins with other histories.
After each, every row's new outputs are compared with a whole run over that row's own real tokens.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from regard.core.mixer import Mixer, MixerSpec
from regard.core.state import Memory, State
from regard.errors import NotRewindable
from tests.laws.cases import KEYS, WIDTH, build, causal, follow, fresh, memory, whole


class History:
    """A state, and for each row what it has read and which sentence it looks at."""

    def __init__(self, spec: MixerSpec, seed: int, varied: bool = False) -> None:
        self.spec = spec
        self.chance = random.Random(seed)
        self.noise = torch.Generator().manual_seed(seed)
        rows = self.chance.choice([1, 2, 3])
        self.mixer: Mixer = build(spec)
        keys = self.chance.randint(1, KEYS) if varied else KEYS
        self.source: Memory | None = memory(spec, rows=rows, keys=keys)
        if self.source is not None:
            ends = torch.tensor([self.chance.randint(1, keys) for _ in range(rows)])
            self.source.valid = torch.arange(keys)[None] < ends[:, None]
        self.sentences = self.source
        room = self.chance.choice([0, 3, 20])
        self.state: State | None = fresh(self.mixer, torch.zeros(rows, 1, WIDTH), self.source, room=room)
        self.read = [torch.zeros(0, WIDTH) for _ in range(rows)]
        self.owners = list(range(rows))

    def run(self, events: int, *others: Callable[[], None]) -> None:
        for _ in range(events):
            self.chance.choice([self.chunk, self.chunk, self.chunk, self.select, self.rewind, *others])()

    def join(self) -> None:
        """Take in the rows of another history; its source may be longer or shorter."""
        other = History(self.spec, self.chance.randrange(1 << 30), varied=True)
        other.run(self.chance.randint(0, 3))
        if self.source is not None and other.source is not None and self.sentences and other.sentences:
            self.source = Memory.join([self.source, other.source])
            self.owners += [owner + self.sentences.rows for owner in other.owners]
            self.sentences = Memory.join([self.sentences, other.sentences])
        else:
            self.owners += other.owners
        assert self.state is not None and other.state is not None
        self.state = State.join([self.state, other.state])
        self.read += other.read

    def select(self) -> None:
        assert self.state is not None
        rows = len(self.owners)
        twice = [row for row in range(rows) for _ in range(2)]
        some = [self.chance.randrange(rows) for _ in range(self.chance.choice([1, rows, rows + 1]))]
        index = self.chance.choice([twice[:8], some])
        chosen = torch.tensor(index)
        self.state = self.state.select(chosen)
        self.source = None if self.source is None else self.source.select(chosen)
        self.read, self.owners = [self.read[row] for row in index], [self.owners[row] for row in index]

    def rewind(self) -> None:
        assert self.state is not None
        length = self.chance.randint(0, self.state.length)
        try:
            self.state.rewind(length)
        except NotRewindable:
            return
        self.read = [row[:length] for row in self.read]

    def chunk(self) -> None:
        time, rows = self.chance.choice([1, 1, 2, 5, 7]), len(self.owners)
        x = torch.randn(rows, time, WIDTH, generator=self.noise)
        valid = None
        if self.chance.random() < 0.5:
            valid = torch.zeros(rows, time, dtype=torch.bool)
            for row in range(rows):
                length = self.chance.choice([0, self.chance.randint(0, time), time])
                first = self.chance.randint(0, time - length)
                valid[row, first : first + length] = True
        y = follow(self.mixer, x, self.state, self.source, valid)
        assert y.isfinite().all()
        for row in range(rows):
            self.compare(row, x[row], y[row], torch.ones(time, dtype=torch.bool) if valid is None else valid[row])

    def compare(self, row: int, x: Tensor, y: Tensor, real: Tensor) -> None:
        self.read[row] = torch.cat((self.read[row], x[real]))
        count = int(real.sum())
        if count:
            alone = self.sentences.select(torch.tensor([self.owners[row]])) if self.sentences else None
            expected = whole(self.mixer, self.read[row][None], alone)[0, -count:]
            torch.testing.assert_close(y[real], expected, atol=1e-4, rtol=1e-3)


def check(spec: MixerSpec, seeds: range) -> None:
    for seed in seeds:
        History(spec, seed).run(7)


@causal
@torch.no_grad()
def test_every_row_is_as_if_alone(spec: MixerSpec) -> None:
    check(spec, range(6))


@pytest.mark.long
@causal
@torch.no_grad()
def test_every_row_is_as_if_alone_in_many_histories(spec: MixerSpec) -> None:
    check(spec, range(100, 400))


def check_joins(spec: MixerSpec, seeds: range) -> None:
    for seed in seeds:
        history = History(spec, seed, varied=True)
        history.run(7, history.join, history.join)


@causal
@torch.no_grad()
def test_every_row_is_as_if_alone_where_histories_join(spec: MixerSpec) -> None:
    check_joins(spec, range(4))


@pytest.mark.long
@causal
@torch.no_grad()
def test_every_row_is_as_if_alone_where_many_histories_join(spec: MixerSpec) -> None:
    check_joins(spec, range(100, 300))


@causal
def test_every_row_is_as_if_alone_with_gradients_on(spec: MixerSpec) -> None:
    check(spec, range(50, 52))
