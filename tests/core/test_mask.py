"""Who may look at whom."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.core.mask import Mask
from regard.core.state import Memory
from regard.core.view import View
from regard.errors import InputError

LEFT = torch.tensor([[False, False, True, True], [True, True, True, True]])
RIGHT = LEFT.flip(1)


def test_positions_count_real_tokens() -> None:
    assert Mask(2, 4, LEFT).positions.tolist() == [[0, 0, 0, 1], [0, 1, 2, 3]]
    assert Mask(2, 4, past=5).positions.tolist() == [[5, 6, 7, 8]]
    assert Mask(2, 4, RIGHT, past=torch.tensor([3, 1])).positions[:, :2].tolist() == [[3, 4], [1, 2]]


def test_nothing_to_hide_needs_no_table() -> None:
    assert Mask(2, 4).table(causal=False, window=None) is None
    assert Mask(2, 4).table(causal=True, window=None) is None
    assert Mask(2, 4).table(causal=True, window=4) is None


def test_pads_that_come_last_need_no_table_when_causal() -> None:
    assert Mask(2, 4, RIGHT).table(causal=True, window=None) is None
    assert Mask(2, 4, RIGHT).table(causal=False, window=None) is not None
    assert Mask(2, 4, LEFT).table(causal=True, window=None) is not None


def test_a_window_sees_distances_below_it() -> None:
    table = Mask(1, 4).table(causal=False, window=2)
    assert table is not None
    assert table[0, 0].int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    table = Mask(1, 4).table(causal=True, window=2)
    assert table is not None
    assert table[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]


def test_a_table_is_built_once() -> None:
    mask = Mask(2, 4, LEFT)
    assert mask.table(True, None) is mask.table(True, None)


def test_ends_and_total_count_what_was_consumed() -> None:
    mask = Mask(2, 4, LEFT, past=torch.tensor([1, 0]))
    assert mask.ends is not None and mask.ends.tolist() == [3, 4]
    assert mask.total == 4
    assert Mask(2, 4, past=3).total == 7


def test_aligning_puts_real_tokens_first_and_is_undone() -> None:
    x = torch.arange(8.0).view(2, 4, 1)
    mask = Mask(2, 4, LEFT)
    assert mask.align(x)[:, :, 0].tolist() == [[2, 3, 0, 1], [4, 5, 6, 7]]
    torch.testing.assert_close(mask.restore(mask.align(x)), x)
    assert mask.aligned is not None and mask.aligned.tolist() == RIGHT.flip(1).sort(1, descending=True).values.tolist()


DOCUMENTS = torch.tensor([[0, 0, 3, 3, 3], [1, 2, 2, 0, 0]])
ENDING = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def test_positions_start_anew_at_each_document() -> None:
    mask = Mask(2, 5, documents=DOCUMENTS.clamp(min=1).cummax(1).values)
    assert mask.positions.tolist() == [[0, 1, 0, 1, 2], [0, 0, 1, 2, 3]]
    assert mask.total == 4
    mask = Mask(2, 5, ENDING, documents=DOCUMENTS)
    assert mask.positions.tolist() == [[0, 1, 0, 1, 2], [0, 0, 1, 1, 1]]
    assert mask.total == 3


def test_a_table_keeps_documents_apart() -> None:
    table = Mask(1, 4, documents=torch.tensor([[0, 0, 1, 1]])).table(causal=True, window=None)
    assert table is not None
    assert table[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
    table = Mask(1, 4, documents=torch.tensor([[0, 1, 1, 1]])).table(causal=False, window=2)
    assert table is not None
    assert table[0, 0].int().tolist() == [[1, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    table = Mask(2, 5, ENDING, documents=DOCUMENTS).table(causal=False, window=None)
    assert table is not None
    assert table[1, 0].int().tolist() == [[1, 0, 0, 0, 0], *[[0, 1, 1, 0, 0]] * 4]


def test_one_document_a_row_is_nothing_to_keep_apart() -> None:
    numbers = torch.tensor([[4, 4, 4, 4], [7, 7, 0, 0]])
    mask = Mask(2, 4, torch.tensor([[True] * 4, [True, True, False, False]]), documents=numbers)
    assert mask.documents is None
    assert mask.table(causal=True, window=None) is None


def test_unpacking_gives_each_document_a_row_and_is_undone() -> None:
    x = torch.arange(10.0).view(2, 5, 1)
    mask = Mask(2, 5, ENDING, documents=DOCUMENTS)
    apart = mask.apart.mask
    assert apart.valid is not None
    assert [row[real].tolist() for row, real in zip(mask.unpack(x)[..., 0], apart.valid, strict=True)] == [
        [0, 1],
        [2, 3, 4],
        [5],
        [6, 7],
    ]
    assert apart.trailing
    assert mask.pack(mask.unpack(x))[ENDING].equal(x[ENDING])


def test_a_row_of_pads_stands_beside_packed_documents() -> None:
    mask = Mask(2, 3, torch.tensor([[False] * 3, [True] * 3]), documents=torch.tensor([[5, 1, 2], [0, 1, 1]]))
    assert mask.positions.tolist() == [[0, 0, 0], [0, 0, 1]]
    x = torch.randn(2, 3, 4)
    assert mask.pack(mask.unpack(x))[1].equal(x[1])


@pytest.mark.parametrize(
    ("documents", "settings", "message"),
    [
        ([[0, 1, 0, 0, 0], [0, 0, 0, 0, 0]], {}, "row 0 go back"),
        ([[0, 0, 0, 0, 0], [0, 2, 1, 1, 1]], {}, "row 1 go back"),
        ([[0, 1, 1]], {}, r"shape \(2, 5\) here, not torch.int64 \(1, 3\)"),
        ([[0.0] * 5] * 2, {}, "integers"),
        ([[0, 0, 1, 1, 1]] * 2, {"past": 2}, "follows another"),
        ([[0, 0, 1, 1, 1]] * 2, {"past": torch.tensor([0, 2])}, "follows another"),
        ([[0, 0, 1, 1, 1]] * 2, {"valid": ENDING.flip(1)}, "pads before"),
    ],
)
def test_documents_that_cannot_be_packed_are_refused(
    documents: list[list[float]], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Mask(2, 5, documents=torch.tensor(documents), **settings)


def test_packed_documents_have_no_memory_to_look_at() -> None:
    x, memory = torch.zeros(2, 5, 4), Memory(tensors=(torch.zeros(2, 3, 4),))
    with pytest.raises(InputError, match="belongs to one sentence"):
        View.of(x, ENDING, documents=DOCUMENTS, memory=memory)
    assert View.of(x, ENDING, documents=torch.zeros_like(DOCUMENTS), memory=memory).memory is memory
