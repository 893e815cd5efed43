"""States side by side: which can be joined, and what the rows of a sentence share.

What mixers make of it is a law: see `test_mixers.py`.
"""

from __future__ import annotations

import pytest
import torch

from regard.core.slots import Slots
from regard.core.state import Group, Memory, Shared, State
from regard.errors import NotJoinable
from regard.laws.stepping import BEAMS
from regard.mixers.mamba import MambaState
from regard.mixers.pool import PoolState


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


def test_beams_that_are_reordered_within_their_sentences_share_its_memory() -> None:
    memory = Memory(tensors=(torch.randn(3, 4, 5),))
    for rows in BEAMS:
        memory = memory.select(torch.tensor(rows))
    assert memory.rows == 4
    assert memory.states.shape[0] == 2
