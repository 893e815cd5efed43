"""Positions by row and column, against what they say one place at a time."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from regard.core.grid import Grid
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.models import preset
from regard.parts.plane import PlanarRotary, PlanarSinusoidal


def look(time: int, grid: Grid | None) -> View:
    view = View.of(torch.zeros(1, time, 1))
    view.grid = grid
    return view


def test_sinusoids_are_those_of_the_row_and_of_the_column() -> None:
    grid = Grid(2, 3, first=1)
    found = PlanarSinusoidal(base=50.0).build(8)(look(7, grid))[0]
    assert torch.equal(found[0], torch.zeros(8))
    for place in range(6):
        row, column = divmod(place, 3)
        rates = [50.0 ** (-2 * i / 4) for i in range(2)]
        wanted = [f(at * rate) for at in (row, column) for f in (math.sin, math.cos) for rate in rates]
        torch.testing.assert_close(found[1 + place], torch.tensor(wanted), atol=1e-6, rtol=1e-5)


def test_rotations_turn_half_of_the_pairs_by_row_and_half_by_column() -> None:
    grid, size = Grid(3, 2, first=1), 8
    turn: Any = PlanarRotary(base=10.0).build(1, size)
    x = torch.randn(1, 1, 7, size)
    found = turn.rotate(x, look(7, grid))
    assert torch.equal(found[:, :, 0], x[:, :, 0])  # the class token
    for place in range(6):
        row, column = divmod(place, 2)
        for pair in range(4):
            angle = (row if pair < 2 else column) * 10.0 ** (-2 * (pair % 2) / 4)
            a, b = x[0, 0, 1 + place, pair], x[0, 0, 1 + place, pair + 4]
            wanted = torch.stack((a * math.cos(angle) - b * math.sin(angle), b * math.cos(angle) + a * math.sin(angle)))
            torch.testing.assert_close(found[0, 0, 1 + place, [pair, pair + 4]], wanted, atol=1e-5, rtol=1e-5)


def test_scores_depend_on_how_far_places_are_apart() -> None:
    """The same step down and to the right gives the same score, wherever it is taken."""
    turn: Any = PlanarRotary().build(1, 8)
    q, k = torch.randn(8).expand(1, 1, 16, 8), torch.randn(8).expand(1, 1, 16, 8)
    view = look(16, Grid(4, 4))
    scores = (turn.rotate(q, view) @ turn.rotate(k, view).mT)[0, 0].view(4, 4, 4, 4)
    torch.testing.assert_close(scores[0, 0, 1, 2], scores[2, 1, 3, 3])
    assert not torch.isclose(scores[0, 0, 1, 2], scores[0, 0, 2, 1])


def test_channels_of_one_pixel_share_its_place() -> None:
    found = PlanarSinusoidal().build(4)(look(12, Grid(2, 2, channels=3)))[0].view(4, 3, 4)
    assert torch.equal(found[:, 0], found[:, 2]) and not torch.equal(found[1], found[2])


def test_what_has_no_rows_and_columns_refuses_them() -> None:
    for kind in ("rotary-2d", "sinusoidal-2d"):
        with pytest.raises(SpecError, match=f"{kind} asks for rows and columns, and what tokens reads has none"):
            preset("bert-tiny", position=kind).build("meta")
        assert preset("vit-tiny", position=kind).build()(torch.randn(2, 1, 8, 8)).shape == (2, 10)
    with pytest.raises(InputError, match="need a picture"):
        PlanarSinusoidal().build(4)(look(3, None))
    with pytest.raises(SpecError, match="head size 6 is not divisible by 4"):
        PlanarRotary().build(1, 6)
