"""The map of a picture that a decoder looks at: what all models that caption share.

A map is a vector for each place. It is made by convolutions, by patches, or by another network before (features).
"""

from __future__ import annotations

from typing import Any, Literal

from regard.core.role import EmbeddingSpec
from regard.core.spec import Count, Size
from regard.models import Settings
from regard.parts.convolutions import Convolutions
from regard.parts.picture import Patches

LEAST = 16  # channels of a convolution before the last
SPREAD = 0.1  # of the learned vectors of places, as they start


class MapSettings(Settings):
    """How a picture is read, beside what a family of captioners has of its own."""

    map: Literal["convolutional", "patches", "features"] = "convolutional"
    """A place is what convolutions make of its surroundings, a patch, or a vector that another network made."""
    image: Size | tuple[Size, Size] = 48
    """A picture, or a map of features, is a square with sides of this many pixels or places, or has this height and
    width; in a run, the pictures say how many."""
    channels: Size = 3
    """A pixel, or a place of a map of features, has this many channels; in a run, the pictures say how many."""
    convolutions: Size = 3
    """Pictures are read through this many convolutions, each of which halves the sides."""
    kernel: Size | tuple[Size, ...] = 3
    """A convolution sees squares with sides of this many pixels or places; or one number for each."""
    halving: Literal["pool", "stride"] = "pool"
    """Sides are halved by max-pooling behind each convolution, or by convolutions that take every second place, at a
    quarter of the cost."""
    narrowest: Size | None = None
    """The first convolution has this many channels, and each later one twice as many; unless given, so that the last
    but one has a quarter of the width."""
    groups: Count = 8
    """Channels of a convolution are normalised in this many groups; at 0 they aren't."""
    normed: Literal["before", "behind"] = "before"
    """They are normalised before the pooling, or behind it, at a quarter of the cost."""
    residuals: Count | tuple[Count, ...] = 0
    """Behind each convolution come this many pairs whose input is added to their output; or one number for each."""
    patch: Size = 8
    """A patch is a square with sides of this many pixels."""

    def make_map(self, width: int) -> EmbeddingSpec:
        """The places of a picture, each as a vector of so many numbers."""
        shared: dict[str, Any] = {
            "image": self.image,
            "channels": self.channels,
            "first": False,
            "position_std": SPREAD,
        }
        if self.map == "convolutional":
            middle = tuple(self.count_channels(width, layer) for layer in range(self.convolutions - 1))
            strided = self.halving == "stride"
            return Convolutions(
                layers=self.convolutions,
                middle=middle,
                kernel=self.kernel,
                stride=2 if strided else 1,
                pool=0 if strided else 3,
                groups=self.groups,
                normed=self.normed,
                residuals=self.residuals,
                **shared,
            )
        return Patches(patch=1 if self.map == "features" else self.patch, **shared)

    def count_channels(self, width: int, layer: int) -> int:
        """Of a convolution before the last: twice as many as the one before, and in whole groups."""
        step = self.groups or 1
        if self.narrowest is not None:
            return self.narrowest << layer
        return -(-max(LEAST, width >> (self.convolutions - layer)) // step) * step
