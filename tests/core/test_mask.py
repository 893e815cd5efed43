"""Who may look at whom."""

from __future__ import annotations

import torch

from regard.core.mask import Mask

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
