"""Rows of several states in one: whatever came before and whatever follows, each steps on as if it were alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.mixer import Mixer, MixerSpec
from regard.core.slots import Slots
from regard.core.state import Group, Memory, Shared, State
from regard.errors import NotJoinable, NotRewindable
from regard.mixers.mamba import MambaState
from regard.mixers.pool import PoolState
from tests.laws.cases import TIME, WIDTH, blind, build, causal, follow, fresh, memory

CLOSE: Any = {"atol": 2e-5, "rtol": 1e-4}


@dataclass
class Part:
    """Rows that ran alone: what they will still read, their state, and what they look at."""

    x: Tensor
    state: State
    source: Memory | None
    at: int

    def copy(self) -> Part:
        return Part(self.x, self.state.copy(), self.source, self.at)

    def select(self, rows: list[int]) -> Part:
        index = torch.tensor(rows)
        source = None if self.source is None else self.source.select(index)
        return Part(self.x[index], self.state.select(index), source, self.at)

    def ahead(self, time: int) -> Tensor:
        return self.x[:, self.at : self.at + time]


def begun(mixer: Mixer, spec: MixerSpec, rows: int, length: int, keys: int, room: int, seed: int) -> Part:
    """A state of some rows after some positions; half of the sources are padded already."""
    x = torch.randn(rows, TIME + 4, WIDTH, generator=torch.Generator().manual_seed(seed)).requires_grad_()
    source = memory(spec, rows, keys)
    if source is not None and seed % 2:
        source.valid = torch.arange(keys).expand(rows, -1) < torch.arange(2, 2 + rows)[:, None]
    state = fresh(mixer, x, source, room)
    assert state is not None
    if length:
        follow(mixer, x[:, :length], state, source)
    return Part(x, state, source, length)


def parts(spec: MixerSpec) -> tuple[Mixer, list[Part]]:
    """Positions before, at and past a window's end, with room that is short, long or none; one has read nothing."""
    mixer = build(spec)
    sizes = [(2, 4, 6, 0), (1, 9, 3, 20), (3, 1, 5, 5), (2, 0, 6, 2)]  # rows, positions, keys, room
    return mixer, [begun(mixer, spec, *size, seed=5 + n) for n, size in enumerate(sizes)]


def joined(found: list[Part]) -> tuple[State, Memory | None]:
    sources = [part.source for part in found if part.source is not None]
    return State.join([part.state for part in found]), Memory.join(sources) if sources else None


def compare(mixer: Mixer, found: list[Part], state: State, source: Memory | None, sizes: tuple[int, ...]) -> None:
    """Step the joined rows and the separate ones, and insist that they agree."""
    for time in sizes:
        chunk = torch.cat([part.ahead(time) for part in found])
        together = follow(mixer, chunk, state, source)
        alone = [follow(mixer, part.ahead(time), part.state, part.source) for part in found]
        for part in found:
            part.at += time
        torch.testing.assert_close(together, torch.cat(alone), **CLOSE)


@causal
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (3, 1), (1, 2, 2)], ids=str)
@torch.no_grad()
def test_joined_rows_step_on_as_if_alone(spec: MixerSpec, sizes: tuple[int, ...]) -> None:
    mixer, found = parts(spec)
    state, source = joined([part.copy() for part in found])
    assert state.rows == sum(len(part.x) for part in found)
    assert state.length == 9
    assert state.lengths is not None
    assert state.lengths.tolist() == [4, 4, 9, 1, 1, 1, 0, 0]
    compare(mixer, found, state, source, sizes)


@causal
@torch.no_grad()
def test_states_are_joined_after_a_selection(spec: MixerSpec) -> None:
    """Beams of different width, a dropped row, and a state that was joined before."""
    mixer, (first, second, third, _) = parts(spec)
    found = [first.select([0, 0, 0, 0, 1, 1, 1, 1]), second.select([0, 0]), third.select([2, 1])]
    compare(mixer, [part.copy() for part in found], *joined([part.copy() for part in found]), (1, 1, 2))
    pair, source = joined([part.copy() for part in found[:2]])
    rest = found[2].copy()
    sources = [each for each in (source, rest.source) if each is not None]
    compare(mixer, found, State.join([pair, rest.state]), Memory.join(sources) if sources else None, (1, 2))


@causal
@pytest.mark.parametrize("rows", [[2], [0, 1, 3, 4, 5], [5, 2, 2, 0], [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]], ids=str)
@torch.no_grad()
def test_joined_rows_are_selected_as_any_others(spec: MixerSpec, rows: list[int]) -> None:
    mixer, found = parts(spec)
    found = found[:3]
    state, source = joined([part.copy() for part in found])
    follow(mixer, torch.cat([part.ahead(1) for part in found]), state, source)
    index, after = torch.tensor(rows), torch.cat([part.x[:, part.at + 1 : part.at + 4] for part in found])
    state = state.select(index)
    kept = None if source is None else source.select(index)
    together = follow(mixer, after[index], state, kept)
    alone = [follow(mixer, part.ahead(4), part.state, part.source)[:, 1:] for part in found]
    torch.testing.assert_close(together, torch.cat(alone)[index], **CLOSE)


@causal
@torch.no_grad()
def test_joined_rows_are_rewound_or_refused_together(spec: MixerSpec) -> None:
    mixer, found = parts(spec)
    found = [found[0], found[2]]  # at 4 and 1
    state, source = joined([part.copy() for part in found])
    try:
        state.rewind(2)
    except NotRewindable:
        assert state.length == 4
    else:
        assert state.lengths is not None
        assert state.lengths.tolist() == [2, 2, 1, 1, 1]
        found[0].state.rewind(2)
        found[0].at = 2
    compare(mixer, found, state, source, (1, 3))


@causal
@torch.no_grad()
def test_rows_at_one_position_stay_uniform(spec: MixerSpec) -> None:
    mixer = build(spec)
    found = [begun(mixer, spec, rows, 3, 6, 0, seed=2 * rows) for rows in (1, 2)]
    state, source = joined([part.copy() for part in found])
    assert state.lengths is None
    compare(mixer, found, state, source, (1, 2))


@causal
def test_gradients_flow_through_a_join(spec: MixerSpec) -> None:
    """Back to what was read before it, as they do without."""
    if blind(spec):
        return
    mixer, found = parts(spec)
    found = found[:3]
    state, source = joined([part.copy() for part in found])
    together = follow(mixer, torch.cat([part.ahead(2) for part in found]), state, source)
    alone = [follow(mixer, part.ahead(2), part.state, part.source) for part in found]
    given = [part.x for part in found]
    grads = torch.autograd.grad(together.square().sum(), given, retain_graph=True)
    for one, other in zip(grads, torch.autograd.grad(torch.cat(alone).square().sum(), given), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3)


def test_one_state_is_itself() -> None:
    state = PoolState(torch.zeros(2, 3), torch.zeros(2, 1))
    assert State.join([state]) is state


def slots(size: int = 4, window: int | None = None, dtype: torch.dtype = torch.float32) -> Slots:
    return Slots(tensors=(torch.zeros(2, 1, 3, size, dtype=dtype),), window=window)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([slots(), PoolState(torch.zeros(2, 3), torch.zeros(2, 1))], "states: Slots in one and PoolState in another"),
        ([slots(4), slots(5)], r"Slots.tensors.0: torch.float32 of shape \('rows', 1, 3, 4\) .* 5\)"),
        ([slots(), slots(dtype=torch.float64)], r"tensors.0: torch.float32 of .* in one and torch.float64"),
        ([slots(window=3), slots(window=4)], "Slots.window: 3 in one and 4 in another"),
        ([Group(parts=(slots(),)), Group(parts=(slots(), None))], "Group.parts: 1 parts in one and 2 parts in another"),
        ([Group(parts=(slots(),)), Group(parts=(None,))], "Group.parts.0: Slots in one and None in another"),
        (
            [Memory(tensors=(torch.zeros(1, 2, 3),)), Memory(tensors=(torch.zeros(1, 2, 3),), final=torch.zeros(1, 1))],
            "Memory.final: None in one and torch.float32",
        ),
        ([Shared(tensors=(torch.zeros(1, 2, 3),)), Shared(tensors=(torch.zeros(1, 2, 4),))], "Shared.tensors.0"),
        ([Group(length=1), Group(length=2)], "a Group that holds nothing: its rows aren't known"),
        (
            [
                MambaState(torch.zeros(1, 3, 4), torch.zeros(1, 2, 4)),
                MambaState(torch.zeros(1, 3, 4), torch.zeros(1, 2)),
            ],
            "MambaState.scan",
        ),
    ],
    ids=str,
)
def test_states_of_different_makes_are_refused_by_name(states: list[State], message: str) -> None:
    with pytest.raises(NotJoinable, match=f"can't join .*{message}"):
        State.join(states)


def test_a_shared_memory_stays_shared() -> None:
    """Four rows a sentence and six: two to an entry is the most that both can have."""
    first = Memory(tensors=(torch.randn(2, 3, 5),), fan=4)
    second = Memory(tensors=(torch.randn(1, 4, 5),), fan=6)
    both = Memory.join([first, second])
    assert both.fan == 2
    assert both.rows == 14
    assert both.states.shape == (7, 4, 5)
    assert both.valid is not None
    assert both.valid.sum(1).tolist() == [3, 3, 3, 3, 4, 4, 4]
    torch.testing.assert_close(both.states[:4, :3], first.states.repeat_interleave(2, 0))
