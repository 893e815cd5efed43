"""Pixels as tokens: a picture is read value by value, row by row, and each value is predicted from those before it.

Slot t holds value t - 1, and slot 0 a token of its own, so that the vectors of slot t may become a prediction of value
t; that slot's place in the picture is the place of the value that it predicts (van den Oord et al. 2016).
"""

from __future__ import annotations

from typing import Literal, Self

from torch import Tensor, nn

from regard.core.dense import Dense, Lookup
from regard.core.dropout import dropout
from regard.core.grid import Grid
from regard.core.spec import AbsoluteSpec, EmbeddingSpec, Rate, Size
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.parts.embedding import Embedding, join_positions, make_projection
from regard.parts.position import Learned


class Pixels(EmbeddingSpec):
    """A vector for each value of a pixel's channel, and one to begin with; positions know row, column and channel."""

    kind: Literal["pixels"] = "pixels"
    height: Size = 28
    """A picture has this many rows."""
    width: Size = 28
    """A row has this many pixels."""
    channels: Size = 1
    """A pixel has this many channels; each is a position of its own, and they follow each other."""
    levels: Size = 2
    """A channel of a pixel has this many values; the token after the last of them begins a picture."""
    position: AbsoluteSpec | Literal["own", "none"] = "own"
    """Positions are known by this; own: a learned vector for each row, each column and each channel."""
    dropout: Rate = 0.0
    """This share of the vectors is dropped while training."""

    @property
    def grid(self) -> Grid:
        return Grid(self.height, self.width, self.channels)

    @property
    def picture(self) -> tuple[int, int, int]:
        return self.height, self.width, self.channels

    def redraw(self, height: int, width: int, channels: int) -> Self:
        return self.replace(height=height, width=width, channels=channels)

    @property
    def token_count(self) -> int:
        return self.levels + 1

    def resize(self, tokens: int) -> Self:
        return self.replace(levels=tokens - 1)

    @property
    def limit(self) -> int:
        return self.grid.count

    @property
    def absolute(self) -> AbsoluteSpec | None:
        return self.position if isinstance(self.position, AbsoluteSpec) else None

    def locate(self, position: AbsoluteSpec | None) -> Self:
        if position is None:
            return self.replace(position="none")
        if isinstance(position, Learned):
            if position.context is None:
                position = position.replace(context=self.limit)
            if position.limit < self.limit:
                raise SpecError(
                    f"position.context: a picture has {self.limit} positions, and not {position.context}",
                    "leave position.context out",
                )
        return self.replace(position=position)

    def build(self, width: int, table: Lookup | None = None) -> Embedding:
        if table is not None:
            raise SpecError("share: a picture's values can't take their vectors from a table of words", "share=false")
        return PixelEmbedding(self, width)


class Plane(nn.Module):
    """A learned vector for each row, each column and each channel of a picture; a position has the sum of its three."""

    def __init__(self, grid: Grid, width: int) -> None:
        super().__init__()
        self.grid = grid
        self.row, self.column = Lookup(grid.height, width), Lookup(grid.width, width)
        self.channel = Lookup(grid.channels, width) if grid.channels > 1 else None

    def forward(self, view: View) -> Tensor:
        """(1 or rows, time, width)"""
        grid, positions = self.grid, view.positions.clamp(max=self.grid.count - 1)  # pads may stand behind the end
        places = positions if grid.channels == 1 else positions // grid.channels
        x = self.row(places // grid.width) + self.column(places % grid.width)
        return x if self.channel is None else x + self.channel(positions % grid.channels)


class PixelEmbedding(Embedding):
    def __init__(self, spec: Pixels, width: int) -> None:
        super().__init__()
        self.spec, self.grid = spec, spec.grid
        self.tokens = Lookup(spec.token_count, width)
        self.position: nn.Module | None = None
        self.beside: Dense | None = None
        if isinstance(spec.position, AbsoluteSpec):
            self.position, self.beside = spec.position.build(width), make_projection(spec.position, width)
        elif spec.position == "own":
            self.position = Plane(spec.grid, width)

    @property
    def table(self) -> Lookup:  # type: ignore[override]
        return self.tokens

    def measure(self, inputs: Tensor) -> tuple[int, int]:
        if inputs.dim() != 2 or inputs.is_floating_point():
            given = f"{inputs.dtype} {tuple(inputs.shape)}"
            raise InputError(f"pixels are integers of shape (rows, time), channel after channel, not {given}")
        return inputs.shape[0], inputs.shape[1]

    def forward(self, inputs: Tensor, view: View) -> Tensor:
        if view.mask.total > self.spec.limit:
            height, width, channels = self.spec.picture
            raise InputError(
                f"{view.mask.total} positions, and a picture of {height}×{width}×{channels} has {self.spec.limit}",
                "begin another picture",
            )
        x = self.tokens(inputs)
        if self.position is not None:
            x = join_positions(x, self.position(view), self.beside)
        return dropout(x, self.spec.dropout) if self.spec.dropout and self.training else x
