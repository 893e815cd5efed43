"""Prints: the pictures of a batch as a model will see them; and what every change of them is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from regard.core.registry import Kinds
from regard.core.spec import Spec
from regard.data.canvas import Canvas
from regard.errors import SpecError

Pictures = NDArray[Any]  # (rows, height, width, channels), of the canvas's type
Share = Annotated[float, Field(ge=0, le=1)]
Luck = np.random.Generator


@dataclass(frozen=True)
class Prints:
    """Pictures, and how much of each class is in each of them, where they have classes."""

    pictures: Pictures
    canvas: Canvas
    shares: NDArray[np.float32] | None = None  # (rows, classes), each row adds up to 1

    def __len__(self) -> int:
        return len(self.pictures)

    def show(self, pictures: NDArray[Any]) -> Prints:
        """The same with other pictures, real numbers brought back to the canvas's type."""
        if self.canvas.dtype == "uint8" and pictures.dtype != np.uint8:
            pictures = np.clip(np.rint(pictures), 0, 255).astype(np.uint8)
        return replace(self, pictures=pictures)

    @property
    def mean(self) -> NDArray[Any]:
        """The mean colour of the corpus, which is nothing to a model: (channels,)."""
        mean = np.asarray(self.canvas.mean)
        return np.rint(mean * 255).astype(np.uint8) if self.canvas.dtype == "uint8" else mean.astype(np.float32)


class AugmentSpec(Spec):
    """A change of pictures by chance."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.data.augment")
    home: ClassVar[str | None] = "task.augment"

    @property
    def blends(self) -> bool:
        """Whether it puts pictures together, so that one has several classes."""
        return False

    @property
    def repeats(self) -> bool:
        """Whether it shows a picture several times, so that a batch has more of them."""
        return False

    def insist(self, canvas: Canvas) -> None:
        """Refuse pictures that can't be changed so."""

    def apply(self, prints: Prints, luck: Luck) -> Prints:
        """The pictures of a batch, changed; those that are given stay as they are."""
        raise NotImplementedError


def augment(prints: Prints, changes: Sequence[AugmentSpec], chance: Random) -> Prints:
    """Make all changes in turn; `chance`: of the batch's place in the order."""
    luck = np.random.default_rng(chance.getrandbits(128))
    for change in changes:
        prints = change.apply(prints, luck)
    return prints


def insist_on_bytes(change: AugmentSpec, canvas: Canvas) -> None:
    """Refuse maps of features where only colours can be changed."""
    if canvas.dtype != "uint8":
        raise SpecError(
            f"task.augment: {change.kind} changes colours, and these are maps of {canvas.channels} real numbers",
            "flip, crop and cutout change maps too",
        )
