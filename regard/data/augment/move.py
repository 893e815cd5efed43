"""Flipping pictures, shifting them, and cutting squares out of them (DeVries and Taylor 2017)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from regard.core.spec import Size
from regard.data.augment.prints import AugmentSpec, Luck, Prints, Share
from regard.data.canvas import Canvas
from regard.errors import SpecError


class Flip(AugmentSpec):
    """Mirror some pictures."""

    kind: Literal["flip"] = "flip"
    rate: Share = 0.5
    """This share of the pictures is mirrored."""
    direction: Literal["horizontal", "vertical"] = "horizontal"
    """Left and right change places, or top and bottom."""

    def apply(self, prints: Prints, luck: Luck) -> Prints:
        chosen = luck.random(len(prints)) < self.rate
        pictures = prints.pictures.copy()
        back = pictures[:, :, ::-1] if self.direction == "horizontal" else pictures[:, ::-1]
        pictures[chosen] = back[chosen]  # the right side is copied before it is written
        return prints.show(pictures)


class Crop(AugmentSpec):
    """Shift each picture by some pixels: it is padded on all sides, and a window of its size is cut out."""

    kind: Literal["crop"] = "crop"
    pixels: Size = 4
    """A picture is shifted by at most this many pixels, up or down and left or right."""
    padding: Literal["zero", "reflect"] = "zero"
    """What comes in at the sides is black, or a reflection of the picture."""

    def insist(self, canvas: Canvas) -> None:
        side = min(canvas.height, canvas.width)
        if self.pixels >= side:
            raise SpecError(
                f"task.augment: crop shifts by {self.pixels} pixels, and a picture's side has {side}",
                f"pixels: {max(1, side // 8)}",
            )

    def apply(self, prints: Prints, luck: Luck) -> Prints:
        rows, height, width, _ = prints.pictures.shape
        sides = ((0, 0), (self.pixels, self.pixels), (self.pixels, self.pixels), (0, 0))
        padded = np.pad(prints.pictures, sides, "constant" if self.padding == "zero" else "reflect")
        places = luck.integers(0, 2 * self.pixels + 1, (rows, 2)).tolist()
        # one window after another: an index for every pixel takes ten times as long
        windows = [padded[n, top : top + height, left : left + width] for n, (top, left) in enumerate(places)]
        return prints.show(np.stack(windows))


class Cutout(AugmentSpec):
    """Hide a square of each picture; where it reaches beyond the border, less is hidden."""

    kind: Literal["cutout"] = "cutout"
    pixels: Size | None = None
    """A square has sides of this many pixels; unless given, half of the picture's shorter side."""
    count: Size = 1
    """This many squares of a picture are hidden."""
    rate: Share = 1.0
    """This share of the pictures is changed."""
    fill: Literal["mean", "black", "noise"] = "mean"
    """A square is filled with the corpus's mean colour, with black, or with chance."""

    def apply(self, prints: Prints, luck: Luck) -> Prints:
        rows, height, width, _ = prints.pictures.shape
        side = self.pixels or max(1, min(height, width) // 2)
        size = np.full((rows, self.count), side)
        top, left = (luck.integers(0, most, (rows, self.count)) - side // 2 for most in (height, width))
        chosen = np.asarray(luck.random(rows) < self.rate)[:, None, None]
        hidden = cover(top, left, size, size, height, width).any(1) & chosen
        return prints.show(np.where(hidden[..., None], self._fill(prints, luck), prints.pictures))

    def _fill(self, prints: Prints, luck: Luck) -> np.ndarray:
        if self.fill == "noise":
            if prints.canvas.dtype == "uint8":
                return luck.integers(0, 256, prints.pictures.shape, np.uint8)
            spread = np.asarray(prints.canvas.spread, np.float32)
            return luck.standard_normal(prints.pictures.shape, np.float32) * spread + prints.mean
        return prints.mean if self.fill == "mean" else np.zeros_like(prints.mean)


def cover(top: np.ndarray, left: np.ndarray, tall: np.ndarray, wide: np.ndarray, height: int, width: int) -> np.ndarray:
    """Which pixels lie in rectangles that may reach beyond the border: (…, height, width)."""
    y, x = np.arange(height), np.arange(width)
    rows = (y >= top[..., None]) & (y < (top + tall)[..., None])
    columns = (x >= left[..., None]) & (x < (left + wide)[..., None])
    found: np.ndarray = rows[..., :, None] & columns[..., None, :]
    return found
