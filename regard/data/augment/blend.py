"""Pictures put together, whose classes are shared in proportion: mixup (Zhang et al. 2018), cutmix (Yun et al. 2019);
and pictures that come several times in a batch, each changed by itself (Hoffer et al. 2020).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import field_validator

from regard.core.spec import Positive, Size
from regard.data.augment.move import cover
from regard.data.augment.prints import AugmentSpec, Luck, Prints, Share
from regard.data.canvas import Canvas


class Mixup(AugmentSpec):
    """Add to each picture another one of the batch."""

    kind: Literal["mixup"] = "mixup"
    alpha: Positive = 0.2
    """A picture's share is drawn from Beta(alpha, alpha): 1 draws all shares alike, less keeps nearly one picture."""
    rate: Share = 1.0
    """This share of the pictures is mixed."""

    @property
    def blends(self) -> bool:
        return True

    def apply(self, prints: Prints, luck: Luck) -> Prints:
        own, other = _draw_shares(prints, self.alpha, self.rate, luck)
        weight, x = own[:, None, None, None], prints.pictures.astype(np.float32)
        return _share_classes(prints.show(weight * x + (1 - weight) * x[other]), own, other)


class Cutmix(AugmentSpec):
    """Put a rectangle of another picture of the batch into each."""

    kind: Literal["cutmix"] = "cutmix"
    alpha: Positive = 1.0
    """The share of a picture that stays is drawn from Beta(alpha, alpha), before the border cuts the rectangle."""
    rate: Share = 1.0
    """This share of the pictures gets a rectangle of another."""

    @property
    def blends(self) -> bool:
        return True

    def apply(self, prints: Prints, luck: Luck) -> Prints:
        own, other = _draw_shares(prints, self.alpha, self.rate, luck)
        rows, height, width, _ = prints.pictures.shape
        side = np.sqrt(1 - own)
        tall, wide = ((side * most).astype(np.int64) for most in (height, width))
        top = luck.integers(0, height, rows) - tall // 2
        left = luck.integers(0, width, rows) - wide // 2
        foreign = cover(top, left, tall, wide, height, width)  # (rows, height, width)
        stays = 1 - foreign.mean((1, 2), dtype=np.float64).astype(np.float32)  # as the border left it
        pictures = np.where(foreign[..., None], prints.pictures[other], prints.pictures)
        return _share_classes(prints.show(pictures), stays, other)


class Repeat(AugmentSpec):
    """Show each picture several times in a batch; what stands behind this changes each by itself."""

    kind: Literal["repeat"] = "repeat"
    times: Size = 3
    """A picture comes this many times, so a batch has as many times its rows."""

    @property
    def repeats(self) -> bool:
        return True

    def apply(self, prints: Prints, luck: Luck) -> Prints:
        shares = None if prints.shares is None else np.repeat(prints.shares, self.times, 0)
        return replace(prints, pictures=np.repeat(prints.pictures, self.times, 0), shares=shares)


class Either(AugmentSpec):
    """Make one of several changes, another one for each batch."""

    kind: Literal["either"] = "either"
    of: tuple[AugmentSpec, ...]
    """One of these is made; all are equally likely."""

    @field_validator("of")
    @classmethod
    def check_list(cls, given: tuple[AugmentSpec, ...]) -> tuple[AugmentSpec, ...]:
        if not given:
            raise ValueError("there is no change in the list, and one of them is to be made")
        return given

    @property
    def blends(self) -> bool:
        return any(change.blends for change in self.of)

    @property
    def repeats(self) -> bool:
        return any(change.repeats for change in self.of)

    def insist(self, canvas: Canvas) -> None:
        for change in self.of:
            change.insist(canvas)

    def apply(self, prints: Prints, luck: Luck) -> Prints:
        return self.of[int(luck.integers(len(self.of)))].apply(prints, luck)


def _draw_shares(
    prints: Prints, alpha: float, rate: float, luck: Luck
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """How much of each picture is its own, and which other one the rest is of."""
    rows = len(prints)
    own = luck.beta(alpha, alpha, rows).astype(np.float32)
    own[luck.random(rows) >= rate] = 1
    return own, luck.permutation(rows)


def _share_classes(prints: Prints, own: NDArray[np.float32], other: NDArray[np.int64]) -> Prints:
    if prints.shares is None:
        return prints
    weight = own[:, None]
    return replace(prints, shares=weight * prints.shares + (1 - weight) * prints.shares[other])
