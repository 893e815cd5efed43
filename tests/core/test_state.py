"""States: what is moved, what is not, and what it costs."""

from __future__ import annotations

import pytest
import torch

from regard.core.slots import Slots
from regard.core.state import Memory, Shared
from regard.core.view import View
from regard.errors import InputError, NotRewindable
from regard.mixers.attention import Attention
from regard.models import preset


def stepped(window: int | None, steps: int, room: int = 0) -> tuple[Slots, list[int]]:
    """An attention's state after some steps, and where its keys were after each."""
    mixer = Attention(heads=2, causal=True, window=window).build(8).eval()
    view = View.of(torch.zeros(2, 0, 8))
    view.room = room
    state = mixer.start(2, view)
    assert isinstance(state, Slots)
    places = []
    with torch.no_grad():
        for _ in range(steps):
            x = torch.randn(2, 1, 8)
            mixer(x, View.of(x, state=state), state)
            places.append(state.tensors[0].data_ptr())
    return state, places


def test_buffers_allocated_ahead_are_never_moved() -> None:
    state, places = stepped(None, 50, room=50)
    assert len(set(places)) == 1
    assert state.nbytes == 2 * 2 * 2 * 50 * 4 * 4  # keys and values, rows, heads, positions, size, bytes


def test_without_room_they_grow_by_doubling() -> None:
    _, places = stepped(None, 100)
    assert 1 < len(set(places)) <= 8


def test_a_window_is_a_ring_of_its_own_size() -> None:
    short, _ = stepped(5, 6)
    long, places = stepped(5, 200)
    assert short.nbytes == long.nbytes
    assert len(set(places)) <= 4
    assert long.length == 200


def test_a_ring_that_has_turned_cannot_be_rewound() -> None:
    state, _ = stepped(5, 5)
    state.rewind(3)
    assert state.length == 3
    state, _ = stepped(5, 6)
    with pytest.raises(NotRewindable, match="from 6 to 5"):
        state.rewind(5)
    assert state.length == 6


def test_rewinding_forward_is_refused() -> None:
    state, _ = stepped(None, 3)
    with pytest.raises(NotRewindable, match="holds 3"):
        state.rewind(4)


def test_selecting_all_rows_copies_nothing() -> None:
    state, _ = stepped(None, 3)
    kept = state.select(torch.arange(2))
    assert kept.tensors[0].data_ptr() == state.tensors[0].data_ptr()
    assert state.select(torch.tensor([1, 0])).tensors[0].data_ptr() != state.tensors[0].data_ptr()


class TestShared:
    """Three sentences, and the hypotheses that share them."""

    states = torch.randn(3, 4, 2)

    def test_repeating_and_reordering_within_sentences_moves_nothing(self) -> None:
        memory = Memory(tensors=(self.states,))
        for rows in ([0, 0, 1, 1, 2, 2], [1, 0, 3, 3, 4, 5]):
            memory = memory.select(torch.tensor(rows))
            assert memory.fan == 2
            assert memory.states.data_ptr() == self.states.data_ptr()

    def test_a_finished_sentence_leaves_with_all_its_rows(self) -> None:
        memory = Memory(tensors=(self.states,), valid=torch.eye(3, 4) > 0, final=torch.randn(3, 1, 1, 2))
        kept = memory.serve(6).select(torch.tensor([0, 1, 5, 4]))
        assert kept.fan == 2
        assert kept.rows == 4
        assert kept.valid is not None and kept.final is not None and memory.valid is not None
        torch.testing.assert_close(kept.states, self.states[[0, 2]])
        torch.testing.assert_close(kept.valid, memory.valid[[0, 2]])
        assert kept.final.shape[0] == 2

    def test_rows_that_mix_sentences_are_spread_out(self) -> None:
        shared = Shared(tensors=(self.states,), fan=2).select(torch.tensor([0, 2, 2, 5]))
        assert shared.fan == 1
        torch.testing.assert_close(shared.tensors[0], self.states[[0, 1, 1, 2]])

    def test_dropping_every_row_leaves_none(self) -> None:
        assert Shared(tensors=(self.states,)).select(torch.tensor([], dtype=torch.long)).tensors[0].shape[0] == 0

    def test_folding_is_undone_by_unfolding(self) -> None:
        shared = Shared(tensors=(self.states,), fan=2)
        x = torch.randn(6, 3, 5)
        assert shared.fold(x).shape == (3, 6, 5)
        torch.testing.assert_close(shared.unfold(shared.fold(x)), x)

    def test_uneven_rows_are_refused(self) -> None:
        with pytest.raises(InputError, match="4 rows can't share the memory of 3 sentences"):
            Memory(tensors=(self.states,)).serve(4)


@torch.no_grad()
def test_a_translator_rewinds_as_a_whole_or_not_at_all() -> None:
    tokens = torch.randint(9, (2, 5))
    for name, can in (("transformer-tiny", True), ("luong", False)):
        model = preset(name, width=16, depth=2, vocabulary=9).build().eval()
        memory = model.encode(tokens)
        state = model.start(2, memory)
        logits = [model.step(word, state) for word in tokens.unbind(1)]
        if not can:
            with pytest.raises(NotRewindable):
                state.rewind(3)
            continue
        state.rewind(3)
        torch.testing.assert_close(model.step(tokens[:, 3], state), logits[3])
