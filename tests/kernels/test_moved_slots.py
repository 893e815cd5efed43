"""Slots that stay where they were written, and a table of where they stand: as if they had been copied."""

from __future__ import annotations

from random import Random

import pytest
import torch

from regard.core.model import Model
from regard.core.probe import Record
from regard.core.slots import Slots
from regard.core.state import State
from regard.kernels.library import load
from regard.models import preset

NEAR = 1e-5


def make_decoder(**settings: object) -> Model:
    torch.manual_seed(0)
    return preset("gpt2", width=64, depth=2, heads=4, vocabulary=30, **settings).build().eval()


def list_slots(state: State) -> list[Slots]:
    return [each for each in state._states() if isinstance(each, Slots)]


@pytest.fixture(autouse=True)
def kernels() -> None:
    if load() is None:
        pytest.skip("no kernels here")


@pytest.mark.parametrize("seed", range(4))
@torch.no_grad()
def test_a_beam_that_is_handed_on_is_as_one_that_is_copied(seed: int) -> None:
    """Rows are re-ordered, repeated, dropped and made many; sometimes somebody looks, copies or steps back."""
    model, luck = make_decoder(), Random(seed)
    rows, stayed = 6, 0
    copied, handed = model.start(rows), model.start(rows)
    for step in range(24):
        tokens = torch.tensor([luck.randrange(30) for _ in range(rows)])
        watch = Record("*weights") if step % 7 == 3 else None
        torch.testing.assert_close(
            model.step(tokens, handed, probe=watch), model.step(tokens, copied), rtol=NEAR, atol=NEAR
        )
        assert handed.rows == copied.rows == rows
        if step % 9 == 8:
            copied.rewind(step - 2)
            handed.rewind(step - 2)
        if step % 10 == 5:
            handed = handed.copy()
        count = luck.choice([rows, rows, rows, max(2, rows - 1), rows + 1])
        chosen = torch.tensor([luck.randrange(rows) for _ in range(count)])
        copied, handed, rows = copied.select(chosen), handed.hand_on(chosen), count
        stayed += any(slots.moved is not None for slots in list_slots(handed))
    assert stayed > 5


@torch.no_grad()
def test_handing_on_copies_nothing_and_selecting_does() -> None:
    model = make_decoder()
    state = model.start(4)
    for token in (1, 2, 3):
        model.step(torch.full((4,), token), state)
    before = [slots.tensors[0].data_ptr() for slots in list_slots(state)]
    turned = state.hand_on(torch.tensor([2, 2, 0, 1]))
    assert [slots.tensors[0].data_ptr() for slots in list_slots(turned)] == before
    selected = turned.select(torch.tensor([0, 1, 3, 2]))
    assert all(slots.moved is None and slots.tensors[0].shape[0] == 4 for slots in list_slots(selected))
    assert [slots.tensors[0].data_ptr() for slots in list_slots(selected)] != before


@torch.no_grad()
def test_layers_that_moved_alike_share_a_table_and_others_do_not() -> None:
    model = make_decoder()
    state = model.start(4, room=8)
    for token in (1, 2, 3):
        model.step(torch.full((4,), token), state)
        state = state.hand_on(torch.tensor([2, 2, 0, 1]))
    first, second = list_slots(state)
    assert first.moved is not None and first.moved is second.moved
    second.length -= 1  # as if it had read less: what it writes next isn't the other's
    state = state.hand_on(torch.tensor([1, 0, 3, 2]))
    first, second = list_slots(state)
    assert first.moved is not second.moved


@torch.no_grad()
def test_most_rows_gone_their_memory_goes_too() -> None:
    model = make_decoder()
    state = model.start(8)
    model.step(torch.arange(8), state)
    few = state.hand_on(torch.tensor([5, 2]))
    assert all(slots.moved is None and slots.tensors[0].shape[0] == 2 for slots in list_slots(few))


@torch.no_grad()
def test_states_that_were_handed_on_can_be_joined() -> None:
    model = make_decoder()
    states = []
    for start in (3, 11):
        state = model.start(2)
        for token in range(start, start + 4):
            model.step(torch.tensor([token, token + 1]), state)
        states.append(state)
    plain = State.join([state.select(torch.tensor([1, 0])) for state in states])
    joined = State.join([state.hand_on(torch.tensor([1, 0])) for state in states])
    tokens = torch.tensor([1, 2, 3, 4])
    torch.testing.assert_close(model.step(tokens, joined), model.step(tokens, plain), rtol=NEAR, atol=NEAR)


@pytest.mark.parametrize("settings", [{"position": "alibi"}, {"position": "rotary"}, {"position": "bucketed"}], ids=str)
@torch.no_grad()
def test_positions_of_all_kinds_see_the_same(settings: dict[str, object]) -> None:
    model = make_decoder(**settings)
    copied, handed = model.start(3), model.start(3)
    for step in range(6):
        tokens = torch.tensor([step, step + 1, step + 2])
        torch.testing.assert_close(model.step(tokens, handed), model.step(tokens, copied), rtol=NEAR, atol=NEAR)
        chosen = torch.tensor([1, 1, 0])
        copied, handed = copied.select(chosen), handed.hand_on(chosen)
