"""Positions in a picture, by row and by column: sinusoids beside the vectors, and rotations inside attention.

The view says which place a position is (`View.grid`); a stack whose positions are no places of a picture is refused.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.core.role import AbsoluteSpec, RelativeSpec
from regard.core.spec import Positive
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.parts.position import Position, RotaryPositions, frequencies


class PlanarSinusoidal(AbsoluteSpec):
    """Sines and cosines of the row in one half of the channels, and of the column in the other (Beyer et al. 2022)."""

    kind: Literal["sinusoidal-2d"] = "sinusoidal-2d"
    base: Positive = 10000.0
    """The base of the wavelengths."""

    @property
    def planar(self) -> bool:
        return True

    def build(self, width: int) -> nn.Module:
        width, name = (width, "width") if self.size is None else (self.size, "position.size")
        insist_on_quarters(width, name)
        return PlanarWaves(width, self.base)


class PlanarWaves(nn.Module):
    """[sin, cos] of row * rates, then [sin, cos] of column * rates; zeros for what stands before the picture."""

    def __init__(self, width: int, base: float) -> None:
        super().__init__()
        self.width, self.base = width, base

    def forward(self, view: View) -> Tensor:
        rates = frequencies(self.width // 2, self.base).to(view.device)
        row, column, inside = view.once("planar places", lambda: find_places(view))
        down, across = row[..., None] * rates, column[..., None] * rates
        waves = torch.cat((down.sin(), down.cos(), across.sin(), across.cos()), -1)
        return waves * inside[..., None]  # (1 or rows, time, width)


class PlanarRotary(RelativeSpec):
    """Half of the pairs of channels turn with the row, and the others with the column; a class token isn't turned.

    Pairs are channels i and i + size/2, as in one dimension. Rotations are slower to begin with: pictures are small.
    """

    kind: Literal["rotary-2d"] = "rotary-2d"
    base: Annotated[float, Field(gt=1, allow_inf_nan=False)] = 100.0
    """The base of the angles: the larger, the slower the last channels of each half turn."""

    @property
    def planar(self) -> bool:
        return True

    def build(self, heads: int, size: int) -> Position:
        insist_on_quarters(size, "head size")
        return PlanarRotations(self, size)


class PlanarRotations(RotaryPositions):
    """Angles by row and by column, computed once a call and shared by all layers."""

    def __init__(self, spec: PlanarRotary, size: int) -> None:
        Position.__init__(self)
        self.base, self.size = spec.base, size
        self.key = (spec, size)

    def angles(self, view: View) -> tuple[Tensor, Tensor]:
        """Cosines and sines: (1 or rows, 1, time, size / 2)."""
        rates = frequencies(self.size // 2, self.base).to(view.device)
        row, column, _ = view.once("planar places", lambda: find_places(view))
        angles = torch.cat((row[..., None] * rates, column[..., None] * rates), -1)[:, None]
        return angles.cos(), angles.sin()


def insist_on_quarters(width: int, name: str) -> None:
    """Insist on pairs for rows and as many for columns."""
    if width % 4:
        raise SpecError(
            f"position: rows and columns need pairs of channels each, and {name} {width} is not divisible by 4",
            f"{'width' if name == 'head size' else name}={4 * -(-width // 4)}",
        )


def find_places(view: View) -> tuple[Tensor, Tensor, Tensor]:
    """Row and column of each position, and whether it is in the picture at all: each (1 or rows, time)."""
    grid = view.grid
    if grid is None:
        raise InputError("positions by row and column need a picture, and these positions are none of its places")
    place = view.positions - grid.first
    inside, place = place >= 0, place.clamp(min=0) // grid.channels
    return place // grid.width, place % grid.width, inside
