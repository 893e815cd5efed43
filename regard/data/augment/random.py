"""Some operations of a list for each picture, all equally strong: RandAugment (Cubuk et al. 2020)."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from pydantic import field_validator

from regard.core.spec import Size
from regard.data.augment.operation import SIGNED, Operation, operate
from regard.data.augment.prints import AugmentSpec, Luck, Prints, Share, insist_on_bytes
from regard.data.canvas import Canvas


class RandomOperations(AugmentSpec):
    """Change each picture by operations that chance takes from a list."""

    kind: Literal["random"] = "random"
    operations: Size = 2
    """This many operations are made on each picture, one after another."""
    magnitude: Share = 0.3
    """All operations are so strong: 0 changes next to nothing, 1 is the most; the paper's 9 of 30 is 0.3."""
    of: tuple[Operation, ...] = get_args(Operation)
    """Operations are taken from this list; all are equally likely."""

    @field_validator("of")
    @classmethod
    def check_list(cls, given: tuple[Operation, ...]) -> tuple[Operation, ...]:
        if not given:
            raise ValueError("there is no operation in the list; leave it out to have all")
        return given

    def insist(self, canvas: Canvas) -> None:
        insist_on_bytes(self, canvas)

    def apply(self, prints: Prints, luck: Luck) -> Prints:
        pictures, mean = prints.pictures.copy(), prints.mean
        for _ in range(self.operations):
            chosen = luck.integers(len(self.of), size=len(pictures))
            sign = np.where(luck.random(len(pictures)) < 0.5, -1, 1).astype(np.float32)
            for number, name in enumerate(self.of):
                rows = np.flatnonzero(chosen == number)
                if len(rows):
                    strength = np.float32(self.magnitude) * (sign[rows] if name in SIGNED else np.abs(sign[rows]))
                    pictures[rows] = operate(name, pictures[rows], strength, mean)
        return prints.show(pictures)
