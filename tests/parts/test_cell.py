"""Recurrent cells with packed matrices: they keep what the law says of cells that aren't, and are near to those."""

from __future__ import annotations

import copy
from typing import get_args

import pytest
import torch
from torch import Tensor

from regard.core.packed import PackedGates, exchange, find_precision, pack_model, pack_part, unpack_model
from regard.core.product import PRECISIONS, Precision
from regard.models import preset
from regard.parts.cell import SIGHTS, Again, Ahead, Carry, Cell, Kind

ROWS, TIME, INPUTS, SIZE = 4, 7, 20, 24
LENGTHS = torch.tensor([7, 3, 0, 5])
KINDS: tuple[Kind, ...] = get_args(Kind)


def pack(cell: Cell, precision: Precision = "int8") -> Cell:
    (layers,) = cell.layers_to_pack
    exchange(cell, {layers: pack_part(layers, precision)})
    assert isinstance(cell.fused, PackedGates) and cell.layers_to_pack == ()
    return cell.requires_grad_(False).eval()


def make(kind: Kind, layers: int = 2, both: bool = False) -> Cell:
    torch.manual_seed(0)
    return Cell(kind, INPUTS, SIZE, layers, both).eval()


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def begin(cell: Cell, rows: int = ROWS) -> Carry:
    return tuple(0.5 * draw(rows, cell.layers * (1 + cell.both), SIZE) for _ in range(cell.pieces))


@torch.no_grad()
@pytest.mark.parametrize("precision", [name for name in PRECISIONS if name != "fp32"])
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["whole", "padded"])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_cell_is_near_the_whole_one(
    kind: Kind, both: bool, lengths: Tensor | None, precision: Precision
) -> None:
    whole, x = make(kind, both=both), draw(ROWS, TIME, INPUTS)
    packed = pack(copy.deepcopy(whole), precision)
    carry = begin(whole)
    (before, ends), (after, packed_ends) = (cell(x, carry, lengths) for cell in (whole, packed))
    if lengths is not None:  # what stands at a pad means nothing
        real = torch.arange(TIME) < lengths[:, None]
        before, after = before[real], after[real]
    far = 0.25 if precision == "int4" else 0.05
    for one, other in zip((before, *ends), (after, *packed_ends), strict=True):
        assert one.shape == other.shape
        assert 0 < float((one - other).norm() / one.norm()) < far


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_a_packed_cell_steps_as_it_runs_whole(kind: Kind) -> None:
    cell, x = pack(make(kind)), draw(ROWS, TIME, INPUTS)
    carry = begin(cell)
    y, ends = cell(x, carry)
    for time in range(TIME):
        now, carry = cell.step(x[:, time], carry)
        torch.testing.assert_close(now, y[:, time], rtol=1e-5, atol=1e-6)
    for one, other in zip(carry, ends, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_pads_and_neighbours_change_nothing(kind: Kind, both: bool) -> None:
    cell, x = pack(make(kind, both=both)), draw(ROWS, TIME, INPUTS)
    carry = begin(cell)
    y, ends = cell(x, carry, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        if not length:
            assert all(torch.equal(end[row], first[row]) for end, first in zip(ends, carry, strict=True))
            continue
        alone, own = cell(x[row : row + 1, :length], tuple(piece[row : row + 1] for piece in carry))
        torch.testing.assert_close(alone[0], y[row, :length], rtol=1e-5, atol=1e-6)
        for one, other in zip(own, ends, strict=True):
            torch.testing.assert_close(one[0], other[row], rtol=1e-5, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_watching_a_packed_cell_changes_nothing(kind: Kind) -> None:
    cell, x = pack(make(kind)), draw(ROWS, TIME, INPUTS)
    carry = begin(cell)
    y, _ = cell(x, carry, LENGTHS)
    values, _ = cell.openly(x, carry, LENGTHS, torch.zeros(ROWS, TIME, cell.layers * SIZE))
    assert values.keys() | {"impulse"} == set(SIGHTS[kind])
    assert torch.equal(values["hidden"][..., -SIZE:], y)
    stepped, _ = cell.step(x[:, 0], carry)
    opened, _ = cell.step_openly(x[:, 0], carry, torch.zeros(ROWS, cell.layers, SIZE))
    assert torch.equal(opened["hidden"][:, -1], stepped)


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_loops_that_know_a_part_ahead_step_as_the_cell_does(kind: Kind) -> None:
    cell, x = pack(make(kind)), draw(ROWS, TIME, INPUTS)
    ahead, again = Ahead(cell, x[..., :12]), Again(cell, x[..., :-1])
    carry = other = third = begin(cell)
    for time in range(TIME):
        now, carry = cell.step(x[:, time], carry)
        same, other = ahead.step(x[:, time, 12:], other)
        assert torch.equal(now, same)
        flagged = torch.cat((x[:, time, :-1], torch.full((ROWS, 1), float(time == 0))), -1)
        assert torch.equal(cell.step(flagged, third)[0], again.step(time, third, time == 0)[0])
        _, third = cell.step(flagged, third)


@torch.no_grad()
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_unpacked_layers_are_torchs_own_again(kind: Kind, both: bool) -> None:
    whole = make(kind, both=both)
    packed = pack(copy.deepcopy(whole), "fp16")
    unpack_model(packed)
    assert type(packed.fused) is type(whole.fused) and packed.fused.mode == whole.fused.mode
    for name, weight in whole.fused.named_parameters():
        wanted = weight.half().float() if name.startswith("weight") else weight
        assert torch.equal(packed.fused.get_parameter(name), wanted), name
    x, carry = draw(ROWS, TIME, INPUTS), begin(whole)
    torch.testing.assert_close(packed(x, carry, LENGTHS)[0], whole(x, carry, LENGTHS)[0], rtol=1e-2, atol=5e-3)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn-skip", "act-rnn", "pondernet", "ntm"])
def test_models_with_packed_cells_step_as_they_run_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.core.packed.LARGE", 0)  # so that small ones are packed
    torch.manual_seed(0)
    model = preset(kind, width=32, vocabulary=60).build().eval()
    tokens = torch.randint(0, 60, (3, 6), generator=torch.Generator().manual_seed(1))
    before = model(tokens)
    pack_model(model, "int8")
    assert any(isinstance(part, PackedGates) for part in model.modules())
    after, state = model(tokens), model.start(3)
    stepped = torch.stack([model.step(tokens[:, time], state) for time in range(6)], 1)
    torch.testing.assert_close(stepped, after, rtol=1e-4, atol=1e-5)
    assert 0 < float((after - before).norm() / before.norm()) < 0.1


@torch.no_grad()
@pytest.mark.parametrize("kind", ["seq2seq", "bahdanau", "luong-feed"])
def test_translators_with_packed_cells_step_as_they_run_whole(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.core.packed.LARGE", 0)
    torch.manual_seed(0)
    model = preset(kind, width=32, vocabulary=60).build().eval()
    tokens = torch.randint(0, 60, (3, 6), generator=torch.Generator().manual_seed(1))
    pack_model(model, "int8")
    memory = model.encode(tokens)
    after, state = model(tokens, memory), model.start(3, memory)
    stepped = torch.stack([model.step(tokens[:, time], state) for time in range(6)], 1)
    torch.testing.assert_close(stepped, after, rtol=1e-4, atol=1e-5)


def test_small_cells_stay_whole() -> None:
    """Torch steps them in one call, which is faster than several."""
    for size, packed in ((256, False), (512, True)):
        model = preset("lstm", width=size, depth=1, vocabulary=8).build().eval()
        pack_model(model, "int8")
        assert any(isinstance(part, PackedGates) for part in model.modules()) == packed
        assert (find_precision(model) == "int8") == packed
