"""Pixels as tokens: a picture is read value by value, row by row, and each value is predicted from those before it.

Slot t holds value t - 1, and slot 0 a token of its own, so that the vectors of slot t may become a prediction of value
t; that slot's place in the picture is the place of the value that it predicts (van den Oord et al. 2016). Where pixels
come in another order than row by row, a slot knows the place of the value that it holds, too.
"""

from __future__ import annotations

from functools import cache
from typing import Literal, Self

import torch
from torch import Tensor, nn

from regard.core.dense import Dense, Lookup
from regard.core.dropout import dropout
from regard.core.grid import Grid
from regard.core.order import Order, walk
from regard.core.role import AbsoluteSpec, EmbeddingSpec
from regard.core.spec import Count, Rate, Size
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
    order: Order = "raster"
    """The pixels come in this order."""
    seed: Count = 0
    """A random order follows from this number."""
    dropout: Rate = 0.0
    """This share of the vectors is dropped while training."""

    @property
    def grid(self) -> Grid | None:
        # positions that come in another order aren't places row by row, and nobody may take them for that
        return Grid(self.height, self.width, self.channels) if self.order == "raster" else None

    @property
    def picture(self) -> tuple[int, int, int]:
        return self.height, self.width, self.channels

    def redraw(self, height: int, width: int, channels: int) -> Self:
        drawn = self.replace(height=height, width=width, channels=channels)
        if isinstance(self.position, Learned) and self.position.context == self.limit:
            return drawn.replace(position=self.position.replace(context=drawn.limit))
        return drawn

    def reorder(self, order: Order, seed: int = 0) -> Self:
        return self.replace(order=order, seed=seed)

    @property
    def token_count(self) -> int:
        return self.levels + 1

    def resize(self, tokens: int) -> Self:
        return self.replace(levels=tokens - 1)

    @property
    def limit(self) -> int:
        return self.height * self.width * self.channels

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

    def __init__(self, spec: Pixels, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.row, self.column = Lookup(spec.height, width), Lookup(spec.width, width)
        self.channel = Lookup(spec.channels, width) if spec.channels > 1 else None

    def forward(self, view: View, back: int = 0) -> Tensor:
        """(1 or rows, time, width); `back`: of the value that comes so many before the one that is predicted."""
        spec = self.spec
        positions = (view.positions - back).clamp(0, spec.limit - 1)  # pads may stand behind the end
        places = positions if spec.channels == 1 else positions // spec.channels
        if spec.order != "raster":
            places = list_places(spec.order, spec.height, spec.width, spec.seed).to(places.device)[places]
        x = self.row(places // spec.width) + self.column(places % spec.width)
        return x if self.channel is None else x + self.channel(positions % spec.channels)


@cache
def list_places(order: Order, height: int, width: int, seed: int) -> Tensor:
    """The places of a picture's pixels in the order in which they come."""
    return torch.from_numpy(walk(order, height, width, seed))


class PixelEmbedding(Embedding):
    def __init__(self, spec: Pixels, width: int) -> None:
        super().__init__()
        self.spec, self.grid = spec, spec.grid
        self.tokens = Lookup(spec.token_count, width)
        self.position: nn.Module | None = None
        self.beside: Dense | None = None
        self.behind: Plane | None = None
        if isinstance(spec.position, AbsoluteSpec):
            self.position, self.beside = spec.position.build(width), make_projection(spec.position, width)
        elif spec.position == "own":
            self.position = Plane(spec, width)
            # in a raster the value that was read lies beside the one to predict, and elsewhere anywhere
            self.behind = Plane(spec, width) if spec.order != "raster" else None

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
        if self.behind is not None:
            x = x + self.behind(view, back=1)
        return dropout(x, self.spec.dropout) if self.spec.dropout and self.training else x
