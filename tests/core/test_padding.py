"""What the host knows of a batch: the same that a tensor would tell, without asking."""

from __future__ import annotations

import pytest
import torch

from regard.core.mask import Mask
from regard.core.padding import Padding, Side
from regard.errors import InputError

LENGTHS = [(2, 4), (4, 4), (0, 3, 5), (1,), (3, 3)]


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("room", [0, 2])
def test_lengths_say_what_their_tensor_says(lengths: tuple[int, ...], side: Side, room: int) -> None:
    known = Padding(lengths, max(lengths) + room, side)
    asked = Padding.read(known.valid)
    assert known.valid.sum(1).tolist() == list(lengths)
    for name in ("lengths", "time", "longest", "deepest", "whole", "trailing"):
        assert getattr(known, name) == getattr(asked, name), name


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("past", [0, 3])
def test_a_mask_is_the_same_by_lengths_and_by_a_tensor(lengths: tuple[int, ...], side: Side, past: int) -> None:
    known = Padding(lengths, side=side)
    one, other = (Mask(len(lengths), known.time, valid, past) for valid in (known, known.valid.clone()))
    assert (one.valid is None) == (other.valid is None)
    assert (one.trailing, one.total, one.uniform) == (other.trailing, other.total, other.uniform)
    assert torch.equal(one.positions, other.positions)
    for causal in (True, False):
        tables = one.table(causal, None), other.table(causal, None)
        assert (tables[0] is None) == (tables[1] is None)
        assert tables[0] is None or tables[1] is None or torch.equal(tables[0], tables[1])


@pytest.mark.parametrize("documents", [[[2, 3], [4], [1, 1, 1]], [[5], [3]], [[2, 0, 3], [1]]])
def test_documents_by_their_lengths_are_those_of_a_tensor(documents: list[list[int]]) -> None:
    known = Padding.packed(documents)
    assert known.documents is not None
    rows, time = known.valid.shape
    one, other = Mask(rows, time, known), Mask(rows, time, known.valid, documents=known.documents)
    assert (one.documents is None) == (other.documents is None)
    assert one.total == other.total == max(max(row) for row in documents)
    assert torch.equal(one.positions.expand(rows, time), other.positions.expand(rows, time))
    if one.documents is not None:
        x = torch.randn(rows, time, 3)
        assert torch.equal(one.apart.source, other.apart.source)
        assert torch.equal(one.pack(one.unpack(x)), other.pack(other.unpack(x)))
        assert one.apart.mask.counts.tolist() == other.apart.mask.counts.tolist()


def test_rows_without_their_last_tokens_are_counted_anew() -> None:
    cut = Padding([4, 5, 2]).without_last()
    assert (cut.lengths, cut.time, cut.longest, cut.whole) == ((3, 4, 1), 4, 4, False)
    assert torch.equal(cut.valid, Padding([3, 4, 1]).valid)
    assert Padding([5, 5]).without_last().whole
    with pytest.raises(InputError, match="pads at their end"):
        Padding([4, 5], side="left").without_last()


def test_rows_are_laid_on_either_side() -> None:
    assert Padding([1, 3]).fill([[7], [4, 5, 6]], 0).tolist() == [[7, 0, 0], [4, 5, 6]]
    assert Padding([1, 3], side="left").fill([[7], [4, 5, 6]], 0).tolist() == [[0, 0, 7], [4, 5, 6]]


def test_lengths_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="don't fit 3 places"):
        Padding([2, 4], 3)
    with pytest.raises(InputError, match="-1"):
        Padding([2, -1])
    with pytest.raises(InputError, match="row 1 packs documents without a token"):
        Padding.packed([[2], []])
    with pytest.raises(InputError, match="holes"):
        Padding.read(torch.tensor([[True, False, True]]))
    with pytest.raises(InputError, match="follows another"):
        Mask(1, 3, Padding.packed([[1, 2]]), past=2)
