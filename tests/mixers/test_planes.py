"""Mixers of planes see what their paper says, place by place and channel by channel, and compute what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.grid import Grid
from regard.core.mixer import MixerSpec
from regard.core.view import View
from regard.errors import SpecError
from regard.laws.subject import vary_weights
from regard.mixers.diagonal import DiagonalLSTM
from regard.mixers.masked import Masked
from regard.mixers.row import RowLSTM
from regard.models import preset

HEIGHT, COLUMNS, WIDTH = 4, 5, 4
Sees = Callable[[tuple[int, int], tuple[int, int]], bool]  # whether a place sees an earlier one or itself


def list_seen(spec: MixerSpec, channels: int) -> list[set[int]]:
    """For each position, the positions that it has a slope by."""
    torch.manual_seed(0)
    mixer = vary_weights(spec.lie_on(Grid(HEIGHT, COLUMNS, channels)).build(WIDTH)).double()
    x = torch.randn(1, HEIGHT * COLUMNS * channels, WIDTH, dtype=torch.double, requires_grad=True)
    y = mixer(x, View.of(x))
    seen = []
    for time in range(x.shape[1]):
        # relus hide much of what is seen, so that each of many directions is asked
        slopes = [torch.autograd.grad(y[0, time, n], x, retain_graph=True)[0] for n in range(WIDTH)]
        seen.append(set(torch.stack(slopes).abs().sum((0, 1, 3)).nonzero()[:, 0].tolist()))
    return seen


def in_square(reach: int) -> Sees:
    return lambda here, there: 0 <= here[0] - there[0] <= reach and abs(here[1] - there[1]) <= reach


def in_triangle(here: tuple[int, int], there: tuple[int, int]) -> bool:
    """Row LSTM, kernel 3: one place to the left in its own row, and one more to each side a row further up."""
    up, across = here[0] - there[0], there[1] - here[1]
    return -up - 1 <= across <= up


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(
    ("spec", "sees"),
    [
        (Masked(gated=True), in_square(1)),
        (Masked(kernel=5, gated=True), in_square(2)),
        (RowLSTM(), in_triangle),
        (DiagonalLSTM(), lambda here, there: True),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_a_place_sees_what_the_paper_promises_and_no_more(spec: MixerSpec, sees: Sees, channels: int) -> None:
    for time, found in enumerate(list_seen(spec, channels)):
        place, channel = divmod(time, channels)
        expected = set()
        for other in range(time + 1):
            there, its = divmod(other, channels)
            if its <= channel if there == place else sees(divmod(place, COLUMNS), divmod(there, COLUMNS)):
                expected.add(other)
        assert found == expected, f"position {time}"


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("reach", [1, 2])
def test_mask_a_sees_the_values_around_a_place_and_not_its_own(reach: int, channels: int) -> None:
    """Slot s holds value s - 1; slot 0 holds the beginning, left of the first place."""
    near = in_square(reach)
    for time, found in enumerate(list_seen(Masked(kernel=2 * reach + 1, mask="A", gated=True), channels)):
        here = divmod(time // channels, COLUMNS)
        values = {slot - 1 for slot in found if slot > 0}
        assert values == {value for value in range(time) if near(here, divmod(value // channels, COLUMNS))}
        assert (0 in found) == near(here, (0, -1))


def test_a_masked_convolution_is_a_convolution_with_a_mask() -> None:
    spec = Masked(kernel=5, columns=COLUMNS)
    mixer: Any = spec.build(WIDTH)
    x = torch.randn(2, HEIGHT * COLUMNS, WIDTH)
    kernel = torch.zeros(WIDTH, WIDTH, 5, 5)
    kernel[:, :, :3] = mixer.weight.detach()
    kernel[:, :, 2, 3:] = 0
    plane = x.mT.unflatten(2, (HEIGHT, COLUMNS))
    expected = F.conv2d(plane, kernel, mixer.bias, padding=2).relu()
    torch.testing.assert_close(mixer(x, View.of(x)), expected.flatten(2).mT)


def run_diagonal_lstm(mixer: Any, x: Tensor, way: int) -> Tensor:
    """One map of the Diagonal BiLSTM as the paper has it, place by place: (height, columns, size)."""
    weight, recurrent, bias = (part[way] for part in (mixer.input, mixer.recurrent, mixer.bias))
    size = weight.shape[1] // 4
    hidden, cell = torch.zeros(HEIGHT + 1, COLUMNS + 1, size), torch.zeros(HEIGHT + 1, COLUMNS + 1, size)
    for row in range(HEIGHT):
        for column in range(COLUMNS):  # index 0 of a map stands outside of the picture
            above, beside = hidden[row, column + 1], hidden[row + 1, column]
            sums = x[row, column] @ weight + torch.cat((beside, above)) @ recurrent + bias[0]
            enter, forget, leave, new = sums.chunk(4)
            cell[row + 1, column + 1] = forget.sigmoid() * cell[row + 1, column] + enter.sigmoid() * new.tanh()
            hidden[row + 1, column + 1] = leave.sigmoid() * cell[row + 1, column + 1].tanh()
    return hidden[1:, 1:]


@torch.no_grad()
def test_a_diagonal_bilstm_is_two_maps_of_which_one_is_a_row_lower() -> None:
    torch.manual_seed(0)
    mixer: Any = DiagonalLSTM(columns=COLUMNS).build(WIDTH)
    x = torch.randn(1, HEIGHT * COLUMNS, WIDTH)
    plane = x[0].unflatten(0, (HEIGHT, COLUMNS))
    left, right = run_diagonal_lstm(mixer, plane, 0), run_diagonal_lstm(mixer, plane.flip(1), 1).flip(1)
    both = left + torch.cat((torch.zeros_like(right[:1]), right[:-1]))
    expected = mixer.output(both.flatten(0, 1))
    torch.testing.assert_close(mixer(x, View.of(x))[0], expected)


def test_what_has_no_plane_is_refused() -> None:
    with pytest.raises(SpecError, match="kernel: 4 has no middle"):
        Masked(kernel=4).build(WIDTH)
    with pytest.raises(SpecError, match="kernel: 2 has no middle"):
        RowLSTM(kernel=2).build(WIDTH)
    with pytest.raises(SpecError, match="would mix nothing"):
        Masked(kernel=1).build(WIDTH)
    with pytest.raises(SpecError, match="row begins with the picture, and 1 positions stand before it"):
        RowLSTM().lie_on(Grid(2, 3, first=1))
    assert RowLSTM().lie_on(Grid(2, 3, channels=2)) == RowLSTM(columns=3, channels=2)


def test_another_mixer_leaves_the_first_convolution() -> None:
    spec = preset("pixelrnn-diagonal", mix="row").decoder
    assert spec is not None
    assert [block.mix.kind for block in spec.layout() if block.mix] == ["masked", *["row"] * 7]
