"""Pictures as sequences of pixels: what a tokenizer is to texts, this is to pictures.

The values of a picture become a few levels, or only black and white, and stand one after the other in some order, the
channels of a pixel together. Binarisation: by a threshold; or by chance, where a value's brightness is the probability
of white. A static draw is made once for each picture, whoever reads it and wherever it stands, because it follows from
the picture's own bytes; a dynamic one is made anew whenever a picture is trained on (Salakhutdinov & Murray 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.core.order import BY_ROWS, Order, walk
from regard.data.canvas import Picture
from regard.errors import DataError, InputError

Binarisation = Literal["none", "threshold", "static", "dynamic"]
Values = NDArray[Any]  # (rows, height, width, channels), uint8
TOP = 255  # the largest value of a byte


@dataclass(frozen=True)
class PixelCoder:
    """How pictures become tokens and tokens become pictures again; the token after the last level begins a picture."""

    height: int
    width: int
    channels: int
    levels: int = 2
    binarise: Binarisation = "none"
    order: Order = "raster"
    seed: int = 0  # of a random order, and of static draws

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.height, self.width, self.channels

    @property
    def length(self) -> int:
        """How many tokens a picture has."""
        return self.height * self.width * self.channels

    @property
    def takes_two(self) -> bool:
        """Whether pictures must be black and white as they come."""
        return self.levels == 2 and self.binarise == "none"

    @property
    def begin(self) -> int:
        """The token that stands before every picture."""
        return self.levels

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Where each token of a sequence stands in the picture, as row, column and channel in one number."""
        pixels = walk(self.order, self.height, self.width, self.seed)
        return (pixels[:, None] * self.channels + np.arange(self.channels)).ravel()

    @cached_property
    def turns(self) -> NDArray[np.int64]:
        """When each place of the picture has its turn: the other way round."""
        return np.argsort(self.places)

    def encode(self, pictures: Values, chance: int | None = None) -> NDArray[np.int64]:
        """The tokens of pictures, (rows, length); `chance`: 128 bits that a dynamic draw follows from."""
        values = self.reduce(self._check(pictures), chance)
        return values.reshape(len(values), -1)[:, self.places].astype(np.int64)

    def decode(self, tokens: NDArray[Any]) -> Values:
        """Pictures that people can look at, from black to white: (rows, height, width, channels)."""
        # rounded up, so that each is read as the level that it was drawn from
        grey = -(-tokens[:, self.turns].astype(np.int32) * TOP // (self.levels - 1))
        return grey.astype(np.uint8).reshape(-1, *self.shape)

    def reduce(self, pictures: Values, chance: int | None = None) -> Values:
        """The level of each value, as a picture."""
        if self.binarise == "threshold":
            return (pictures > TOP // 2).astype(np.uint8)
        if self.binarise == "dynamic" and chance is not None:
            return (draw(chance, pictures.size).reshape(pictures.shape) < pictures).astype(np.uint8)
        if self.binarise in ("static", "dynamic"):  # a dynamic one is measured on a draw that stays
            return np.stack([self._draw_once(picture) for picture in pictures])
        if self.takes_two:
            return _take_two(pictures)
        return (pictures.astype(np.uint16) * self.levels >> 8).astype(np.uint8)

    def count_given(self, rows: int) -> int:
        """How many tokens the first rows of a picture are, where the order goes by rows."""
        if self.order not in BY_ROWS:
            raise InputError(
                f"this model draws in the order {self.order!r}, so no row is whole before the others",
                "--pixels N gives the first N pixels of its order",
            )
        return rows * self.width * self.channels

    def describe(self, pictures: Sequence[Picture]) -> str:
        """How these pictures became black and white, for whoever compares results."""
        if self.levels > 2:
            return "none" if self.levels > TOP else f"none; {self.levels} levels"
        if self.binarise == "none" or all(find_grey(picture) is None for picture in pictures):
            return "the file's own"
        if self.binarise == "dynamic":
            return f"dynamic; measured on one static draw, seed {self.seed}"
        return f"static, seed {self.seed}" if self.binarise == "static" else self.binarise

    def describe_order(self) -> str:
        """In which order pixels come, for whoever compares results."""
        return f"random, seed {self.seed}" if self.order == "random" else self.order

    def _draw_once(self, picture: Picture) -> Values:
        """Black and white by chance that follows from the picture itself."""
        digest = blake2b(picture.tobytes(), digest_size=16, salt=self.seed.to_bytes(16, "little")).digest()
        drawn = draw(int.from_bytes(digest, "little"), picture.size).reshape(picture.shape)
        return (drawn < picture).astype(np.uint8)

    def _check(self, pictures: Values) -> Values:
        if pictures.dtype != np.uint8 or pictures.shape[1:] != self.shape:
            size = "×".join(map(str, self.shape))
            raise DataError(f"pictures are {pictures.dtype} {pictures.shape[1:]}, and the model reads bytes, {size}")
        return pictures


def draw(chance: int, count: int) -> NDArray[np.uint8]:
    """Whole numbers from 0 to 254, all equally likely, so that v of 255 are below v."""
    # raw bits: how numpy makes numbers of them may change with its version, and a run that goes on must not
    raw = np.random.Philox(key=chance).random_raw(-(-count // 2)).view(np.uint32)[:count]
    return (raw.astype(np.uint64) * TOP >> 32).astype(np.uint8)


def find_grey(pictures: Values) -> int | None:
    """A value that is neither black nor white, if there is one; white is 255, or 1 where bits are kept as they are."""
    strange = (pictures > 1) & (pictures < TOP)
    return int(pictures[strange][0]) if strange.any() else None


def _take_two(pictures: Values) -> Values:
    """Black and white as the file has it."""
    grey = find_grey(pictures)
    if grey is not None:
        raise DataError(
            f"pictures have more than two values, such as {grey}, and the model knows two",
            "task.binarise=threshold, static or dynamic; or task.levels=256",
        )
    return (pictures > 0).astype(np.uint8)
