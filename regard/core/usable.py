"""What the rooms above can do with a model in hand.

They are asked through the package's surface, and only when somebody calls, so that this room still stands on nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.mixer import list_modules
from regard.core.visible import Visible

if TYPE_CHECKING:
    from regard.core.model import Model


class Usable(Visible):
    """A model that is loaded, kept, sent out and asked to write."""

    @classmethod
    def load(
        cls,
        noun: str | Path,
        where: Literal["auto", "cpu", "cuda", "mps"] = "auto",
        *,
        precision: str | None = None,
    ) -> Model:
        """The model of a run, of a folder that `save` wrote, or of one in Hugging Face layout, packed or as kept."""
        import regard

        return cast("Model", regard.load(noun, where, precision=precision).model)

    def save(self, folder: str | Path) -> Path:
        """Write the model to a new folder, which `Model.load` and every verb that needs no words takes."""
        import regard

        return regard.save(cast("Model", self), folder)

    def export(self, place: str | Path, to: str | None = None, precision: str | None = None) -> list[Path]:
        """Write the model for others: Hugging Face layout, another target, or packed, in our own; the files."""
        import regard

        return regard.export(cast("Model", self), place, to, precision)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Without dropout and without gradients for a while; each part is then as it was before."""
        training = [module for module in list_modules(self) if module.training]
        for module in training:
            module.training = False
        try:
            with torch.no_grad():
                yield
        finally:
            for module in training:
                module.training = True

    def generate(self, tokens: Tensor | Inputs, **settings: Any) -> list[list[int]]:
        """Go on from each row of tokens, or translate it: `generate(tokens, max_tokens=20, sample=True, seed=1)`."""
        import regard

        return regard.generate(cast("Model", self), tokens, **settings)
