"""The canvas: what the pictures that a model reads look like, and how their bytes become numbers.

All pictures of a run have one size and one number of channels; what came with another is fitted, or left out and
counted. A map that another network made of a picture is a picture too, with many channels of real numbers.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.array import ArrayField, describe
from regard.errors import DataError

Picture = NDArray[Any]  # (height, width, channels): uint8, or float32 for a map


@dataclass(frozen=True)
class PictureField(ArrayField):
    """A sample's field that holds a picture, or a map of features."""

    def __str__(self) -> str:
        return "a picture: an array (height, width, channels) of uint8, or of float32 for a map"

    def fits(self, value: object) -> bool:
        kinds = (np.dtype("uint8"), np.dtype("float32"))
        return isinstance(value, np.ndarray) and value.dtype in kinds and value.ndim == 3 and value.size > 0


@dataclass(frozen=True)
class Canvas:
    """Size, channels and type of all pictures; what is subtracted from each channel, and what it is divided by."""

    height: int
    width: int
    channels: int
    dtype: Literal["uint8", "float32"]
    mean: tuple[float, ...]  # one number a channel, in 0 … 1 for bytes
    spread: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.height, self.width, self.channels

    def normalise(self, pictures: NDArray[Any]) -> Tensor:
        """Pictures (rows, height, width, channels) as a model reads them: (rows, channels, height, width), floats."""
        if pictures.shape[1:] != self.shape or pictures.dtype != np.dtype(self.dtype):
            raise DataError(f"pictures are {describe(pictures)}, and the model reads {self.dtype} {self.shape}")
        # By NumPy, since a thread that runs ahead of the model asks for it. Torch would keep a second team of OpenMP's
        # threads for that one, and then waiting threads no longer spin: a captioner's step takes a quarter more time.
        x = np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)).astype(np.float32)
        scale = np.float32(255 if self.dtype == "uint8" else 1)
        mean, spread = (np.array(part, np.float32).reshape(-1, 1, 1) * scale for part in (self.mean, self.spread))
        np.subtract(x, mean, out=x)
        return torch.from_numpy(np.divide(x, spread, out=x))

    def light_as(self, other: Canvas) -> Canvas:
        """This size with the mean and spread that a model has learned with, if it reads such channels."""
        if (self.channels, self.dtype) != (other.channels, other.dtype):
            return self
        return replace(self, mean=other.mean, spread=other.spread)

    def to_fact(self) -> dict[str, Any]:
        """As lexicon.json has it."""
        return asdict(self)

    @classmethod
    def of_fact(cls, fact: Any, where: str) -> Canvas:
        """From lexicon.json, which may have been changed."""
        try:
            sizes = [fact[name] for name in ("height", "width", "channels")]
            lists = [fact["mean"], fact["spread"]]
            sound = all(type(size) is int and 1 <= size <= 2**14 for size in sizes)
            sound = sound and fact["dtype"] in ("uint8", "float32")
            sound = sound and all(isinstance(numbers, list) and len(numbers) == sizes[2] for numbers in lists)
            sound = sound and all(type(n) in (int, float) and math.isfinite(n) for numbers in lists for n in numbers)
            sound = sound and all(n > 0 for n in fact["spread"])
            if sound:
                height, width, channels = sizes
                mean, spread = (tuple(map(float, numbers)) for numbers in lists)
                return cls(height, width, channels, fact["dtype"], mean, spread)
        except (KeyError, TypeError):
            pass
        raise DataError(f"{where}: canvas isn't the description of pictures")


class Tally:
    """What the pictures of a corpus have in common: the size of the first, and the mean and spread of each channel."""

    def __init__(self) -> None:
        self.shape: tuple[int, ...] = ()
        self.dtype = np.dtype("uint8")
        self.count = 0
        self.sums = self.squares = np.zeros(0)

    def see(self, picture: Picture) -> None:
        """Count one more picture."""
        if not self.shape:
            self.shape, self.dtype = picture.shape, picture.dtype
            self.sums = self.squares = np.zeros(picture.shape[-1])
        flat = picture.reshape(-1, picture.shape[-1]).astype(np.float64)
        self.count += len(flat)
        self.sums, self.squares = self.sums + flat.sum(0), self.squares + np.square(flat).sum(0)

    def canvas(self) -> Canvas | None:
        """The canvas of all pictures so far; None where there were none."""
        if not self.count:
            return None
        scale = 255.0 if self.dtype == np.dtype("uint8") else 1.0
        mean = self.sums / self.count
        spread = np.sqrt(np.maximum(self.squares / self.count - np.square(mean), 0)) / scale
        spread[spread < 1e-3] = 1.0  # a channel that is the same everywhere says nothing
        dtype: Literal["uint8", "float32"] = "uint8" if self.dtype == np.dtype("uint8") else "float32"
        height, width, channels = self.shape
        return Canvas(height, width, channels, dtype, tuple((mean / scale).tolist()), tuple(spread.tolist()))
