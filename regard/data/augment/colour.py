"""Other light: brightness, contrast and saturation of pictures."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regard.data.augment.prints import AugmentSpec, Luck, Prints, Share, insist_on_bytes
from regard.data.canvas import Canvas

LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # how bright red, green and blue look (ITU-R 601)
Reals = NDArray[np.float32]


class Colour(AugmentSpec):
    """Change the light of each picture, by factors that chance draws around 1."""

    kind: Literal["colour"] = "colour"
    brightness: Share = 0.2
    """A picture becomes darker or brighter by up to this share."""
    contrast: Share = 0.2
    """Differences from a picture's mean grey shrink or grow by up to this share."""
    saturation: Share = 0.2
    """Differences from a pixel's own grey shrink or grow by up to this share, where there are colours."""

    def insist(self, canvas: Canvas) -> None:
        insist_on_bytes(self, canvas)

    def apply(self, prints: Prints, luck: Luck) -> Prints:
        x = prints.pictures.astype(np.float32)
        spans = (self.brightness, self.contrast, self.saturation)
        bright, contrast, saturation = (luck.uniform(1 - span, 1 + span, len(x)).astype(np.float32) for span in spans)
        x *= bright[:, None, None, None]
        if self.contrast:
            stretch(x, grey(x).mean((1, 2), keepdims=True), contrast)
        if self.saturation and x.shape[-1] == 3:
            stretch(x, grey(x), saturation)
        return prints.show(x)


def grey(x: Reals) -> Reals:
    """How bright each pixel is: (rows, height, width, 1)."""
    return x @ LUMA[:, None] if x.shape[-1] == 3 else x


def stretch(x: Reals, middle: Reals, factor: Reals) -> None:
    """Scale, in place, what differs from a middle, picture by picture."""
    kept = factor[:, None, None, None]
    rest = middle * (1 - kept)  # before x changes, which may be the middle itself
    x *= kept
    x += rest
