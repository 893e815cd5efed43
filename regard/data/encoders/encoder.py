"""What every encoder is: a network that was trained elsewhere, stays as it is, and makes a map of a picture.

A map is a picture again, with many channels of real numbers, so all that reads pictures reads maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from regard.core.registry import Kinds
from regard.core.spec import Spec
from regard.data.canvas import Picture


class EncoderSpec(Spec):
    """Which network looks at pictures before the model does. It isn't trained further."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.data.encoders")
    home: ClassVar[str | None] = "task.encoder"

    def map_pictures(self, pictures: Sequence[Picture]) -> list[Picture]:
        """A map (height, width, channels) of float32 for each picture of RGB pixels, whatever its size."""
        raise NotImplementedError
