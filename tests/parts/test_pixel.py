"""The embedding of pixels: where a position stands in the picture, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.core.grid import Grid
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.models import preset
from regard.parts.pixel import Pixels
from regard.parts.position import Learned, Sinusoidal

WIDTH = 6


def test_a_position_is_the_sum_of_its_row_column_and_channel() -> None:
    embedding: Any = Pixels(height=2, width=3, channels=2, levels=4).build(WIDTH)
    tokens = torch.randint(5, (2, 12))
    found = embedding(tokens, View.of(tokens))
    plane = embedding.position
    for position in range(12):
        place, channel = divmod(position, 2)
        row, column = divmod(place, 3)
        where = plane.row.weight[row] + plane.column.weight[column] + plane.channel.weight[channel]
        torch.testing.assert_close(found[:, position], embedding.tokens.weight[tokens[:, position]] + where)


def test_it_knows_its_picture() -> None:
    spec = Pixels(levels=4).redraw(2, 3, 2)
    assert (spec.grid, spec.picture, spec.limit, spec.token_count) == (Grid(2, 3, 2), (2, 3, 2), 12, 5)
    assert spec.resize(9).levels == 8
    assert spec.locate(None).position == "none"
    assert spec.locate(Learned()).absolute == Learned(context=12)
    assert spec.locate(Sinusoidal()).absolute == Sinusoidal()
    assert spec.locate(Learned()).redraw(4, 3, 2).absolute == Learned(context=24)
    with pytest.raises(SpecError, match="a picture has 12 positions, and not 7"):
        spec.locate(Learned(context=7))


def test_what_is_no_picture_is_refused() -> None:
    model = preset("pixel-gpt", image=(2, 3), width=8, depth=1, heads=1).build()
    assert model(torch.zeros(1, 6, dtype=torch.long)).shape == (1, 6, 2)
    with pytest.raises(InputError, match="7 positions, and a picture of 2×3×1 has 6"):
        model(torch.zeros(1, 7, dtype=torch.long))
    with pytest.raises(InputError, match="pixels are integers"):
        model(torch.zeros(1, 6))


def test_in_another_order_a_position_knows_the_places_of_both_values() -> None:
    """Of the one that is to be predicted and of the one that was read; no mixer may take them for a raster."""
    embedding: Any = Pixels(height=2, width=2, channels=2, levels=4).reorder("s-curve").build(WIDTH)
    tokens = torch.randint(5, (2, 8))
    found = embedding(tokens, View.of(tokens))
    places = [(0, 0), (0, 1), (1, 1), (1, 0)]
    assert embedding.grid is None

    def where(plane: Any, value: int) -> torch.Tensor:
        row, column = places[value // 2]
        found: torch.Tensor = plane.row.weight[row] + plane.column.weight[column] + plane.channel.weight[value % 2]
        return found

    for position in range(1, 8):
        vector = embedding.tokens.weight[tokens[:, position]]
        both = where(embedding.position, position) + where(embedding.behind, position - 1)
        torch.testing.assert_close(found[:, position], vector + both)
