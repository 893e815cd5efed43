"""Embeddings of pictures, a vector for each place: patches (Dosovitskiy et al. 2021), which may overlap, or see their
surroundings too (Lee et al. 2021). What reads pictures in another way stands on the same ground.
"""

from __future__ import annotations

from typing import Literal, Self

import torch
import torch.nn.functional as F
from pydantic import model_validator
from torch import Tensor, nn

from regard.core.dense import Dense, Lookup
from regard.core.dropout import dropout
from regard.core.grid import Grid
from regard.core.mixer import Part
from regard.core.role import AbsoluteSpec, EmbeddingSpec
from regard.core.spec import Positive, Rate, Size
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.parts.embedding import Embedding, join_positions, make_projection
from regard.parts.position import Learned


class Pictures(EmbeddingSpec):
    """What all that read pictures share: their size, learned tokens in front, and positions by their places."""

    image: Size | tuple[Size, Size] = 224
    """A picture is a square with sides of this many pixels, or has this height and width."""
    channels: Size = 3
    """A pixel has this many channels."""
    first: bool = True
    """A learned class token stands in front."""
    taught: bool = False
    """A second learned token follows the first, for what a teacher says (DeiT)."""
    position: AbsoluteSpec | Literal["own", "none"] = "own"
    """Positions are known by this; own: a learned vector for each place of the picture."""
    position_std: Positive | None = None
    """The learned vectors of places start with this standard deviation; unless given, as the model's matrices do."""
    dropout: Rate = 0.0
    """This share of the vectors is dropped while training."""

    @property
    def height(self) -> int:
        return self.image if isinstance(self.image, int) else self.image[0]

    @property
    def width(self) -> int:
        return self.image if isinstance(self.image, int) else self.image[1]

    @property
    def sides(self) -> tuple[int, int]:
        """How many places a picture has from top to bottom, and from left to right."""
        raise NotImplementedError

    @model_validator(mode="after")
    def check_tokens(self) -> Self:
        if self.taught and not self.first:
            raise ValueError("taught: a second token needs a first one; try first=true")
        return self

    @property
    def offset(self) -> float:
        """How far the middle of what a place sees is from that of its part of the picture, in places."""
        return 0.0

    @property
    def grid(self) -> Grid:
        return Grid(*self.sides, first=int(self.first) + int(self.taught), offset=self.offset)

    @property
    def picture(self) -> tuple[int, int, int]:
        return self.height, self.width, self.channels

    def redraw(self, height: int, width: int, channels: int) -> Self:
        if (height, width, channels) == self.picture:
            return self
        changed = self.replace(image=height if height == width else (height, width), channels=channels)
        position = self.position
        if isinstance(position, Learned) and position.context == self.limit:
            return changed.replace(position=position.replace(context=changed.limit))
        return changed

    @property
    def limit(self) -> int:
        return self.grid.count

    @property
    def absolute(self) -> AbsoluteSpec | None:
        if isinstance(self.position, AbsoluteSpec):
            return self.position
        return Learned(context=self.limit) if self.position == "own" else None

    def locate(self, position: AbsoluteSpec | None) -> Self:
        if position is None:
            return self.replace(position="none")
        if isinstance(position, Learned) and position.join == "add":
            if position.context not in (None, self.limit):
                raise SpecError(
                    f"position.context: an image has {self.limit} places, and not {position.context}",
                    "leave position.context out",
                )
            return self.replace(position="own")
        return self.replace(position=position)


class PictureEmbedding(Embedding):
    """A picture's places as vectors, (rows, places, width), with tokens before them and positions; dropout."""

    table = None
    grid: Grid

    def __init__(self, spec: Pictures, width: int) -> None:
        super().__init__()
        self.spec, self.grid = spec, spec.grid
        self.first = nn.Parameter(torch.zeros(1, 1, width)) if spec.first else None
        self.second = nn.Parameter(torch.zeros(1, 1, width)) if spec.taught else None
        self.position: nn.Parameter | nn.Module | None = None
        self.beside: Dense | None = None
        if isinstance(spec.position, AbsoluteSpec):
            self.position = spec.position.build(width)
            self.beside = make_projection(spec.position, width)
        elif spec.position == "own":
            self.position = nn.Parameter(torch.zeros(1, spec.limit, width))
        own = {name for name, weight in self.named_parameters(recurse=False)}
        self.undecayed = tuple(sorted(own))  # the tokens and the places, as in DeiT and timm

    def reset(self) -> None:
        if isinstance(self.position, nn.Parameter) and self.spec.position_std is not None:
            std = self.spec.position_std
            nn.init.trunc_normal_(self.position, std=std, a=-2 * std, b=2 * std)

    def refit(self, name: str, weight: Tensor, other: Part) -> Tensor | None:
        """Learned positions of pictures of another size, interpolated."""
        if not isinstance(other, PictureEmbedding) or self.grid.first != other.grid.first:
            return None
        if name == "position":
            return interpolate_places(weight, other.grid, self.grid)
        if name == "position.table.weight" and len(weight) == other.grid.count:
            return interpolate_places(weight[None], other.grid, self.grid)[0]
        return None

    def measure(self, inputs: Tensor) -> tuple[int, int]:
        height, width, channels = self.spec.picture
        wanted = (channels, height, width)
        if inputs.dim() != 4 or inputs.shape[1:] != wanted or not inputs.is_floating_point():
            given = f"{inputs.dtype} {tuple(inputs.shape)}"
            raise InputError(f"images are floats of shape (rows, {', '.join(map(str, wanted))}), not {given}")
        return inputs.shape[0], self.spec.limit

    def read(self, inputs: Tensor) -> Tensor:
        """A vector for each place, row by row: (rows, places, width)."""
        raise NotImplementedError

    def forward(self, inputs: Tensor, view: View) -> Tensor:
        x = self.read(inputs)
        front = [token.expand(x.shape[0], -1, -1) for token in (self.first, self.second) if token is not None]
        if front:
            x = torch.cat((*front, x), 1)
        if isinstance(self.position, nn.Module):
            x = join_positions(x, self.position(view), self.beside)
        elif self.position is not None:
            x = x + self.position
        return dropout(x, self.spec.dropout) if self.spec.dropout and self.training else x


def interpolate_places(vectors: Tensor, there: Grid, here: Grid) -> Tensor:
    """A vector for each place of one grid, from those of another, bicubically; tokens in front keep theirs.

    (1, positions, width) to the same; as in ViT's own code and in others' that read its checkpoints.
    """
    front, places = vectors[:, : there.first], vectors[:, there.first :]
    plane = places.unflatten(1, (there.height, there.width)).permute(0, 3, 1, 2).float()
    plane = F.interpolate(plane, (here.height, here.width), mode="bicubic", align_corners=False)
    return torch.cat((front, plane.permute(0, 2, 3, 1).flatten(1, 2).to(vectors.dtype)), 1)


class Patches(Pictures):
    """A picture cut into squares, each projected to a vector, a class token in front, and learned positions."""

    kind: Literal["patches"] = "patches"
    patch: Size = 16
    """A patch is a square with sides of this many pixels."""
    stride: Size | None = None
    """The next patch begins this many pixels further; unless given, a patch's side. Below it, patches overlap."""
    shifted: bool = False
    """A patch is read together with what stands half a patch away in the four diagonal directions, and a norm comes
    before the projection: shifted patch tokenization."""
    scaled: bool = False
    """The projection starts with a variance of 2/inputs (He et al. 2015), instead of as the model's matrices do."""

    @property
    def step(self) -> int:
        return self.stride or self.patch

    @property
    def sides(self) -> tuple[int, int]:
        return (self.height - self.patch) // self.step + 1, (self.width - self.patch) // self.step + 1

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.step > self.patch:
            raise ValueError(f"stride: steps of {self.step} would pass over pixels between patches of {self.patch}")
        for side in (self.height, self.width):
            if side < self.patch or (side - self.patch) % self.step:
                near = find_sides(side, self.patch, self.step)
                if self.step == self.patch:
                    fault = f"image {side} is not divisible by patch {self.patch}"
                else:
                    fault = f"image {side} doesn't hold patches of {self.patch}, each {self.step} further, to its edge"
                raise ValueError(f"patch: {fault}; {' or '.join(map(str, near))} would do, as would {self._other()}")
        return self

    def _other(self) -> str:
        """A size of patch that suits both sides."""
        fitting = [n for n in range(1, self.height + 1) if self.height % n == 0 and self.width % n == 0]
        return f"patch={min(fitting, key=lambda n: (abs(n - self.patch), n))}"

    def build(self, width: int, table: Lookup | None = None) -> Part:
        return PatchEmbedding(self, width)


def find_sides(side: int, patch: int, step: int) -> list[int]:
    """The sides nearest to one, below and above it, that patches fill."""
    below = patch + (side - patch) // step * step
    return [near for near in (below, below + step) if near >= patch]


class PatchEmbedding(PictureEmbedding):
    def __init__(self, spec: Patches, width: int) -> None:
        super().__init__(spec, width)
        self.patch, self.step, self.scaled = spec.patch, spec.step, spec.scaled
        self.shift = spec.patch // 2 if spec.shifted else None
        inputs = spec.channels * spec.patch**2 * (5 if spec.shifted else 1)
        self.norm = nn.LayerNorm(inputs) if spec.shifted else None
        self.project = Dense(inputs, width)

    def reset(self) -> None:
        super().reset()
        if self.scaled:
            nn.init.kaiming_normal_(self.project.weight)

    def read(self, inputs: Tensor) -> Tensor:
        if self.shift is not None:
            inputs = torch.cat((inputs, *shift_diagonally(inputs, self.shift)), 1)
        squares = cut_squares(inputs, self.patch) if self.step == self.patch else self.overlap(inputs)
        return self.project(squares if self.norm is None else self.norm(squares))

    def overlap(self, inputs: Tensor) -> Tensor:
        return F.unfold(inputs, self.patch, stride=self.step).mT  # (rows, patches, channels * patch²)


def cut_squares(pictures: Tensor, side: int) -> Tensor:
    """Squares that don't overlap, in reading order: (rows, patches, channels * side²)."""
    cut = pictures.unflatten(3, (-1, side)).unflatten(2, (-1, side))  # (rows, channels, down, side, across, side)
    return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def shift_diagonally(pictures: Tensor, by: int) -> list[Tensor]:
    """The pictures moved to each of the four corners; what comes in from outside is 0."""
    height, width = pictures.shape[2:]
    wide = F.pad(pictures, (by, by, by, by))
    return [wide[:, :, y : y + height, x : x + width] for y in (2 * by, 0) for x in (2 * by, 0)]
