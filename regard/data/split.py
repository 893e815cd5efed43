"""Which split a sample belongs to: a stable hash of its text says so, whatever the order, the machine or the time.

So the same text never stands on both sides, a corpus that grows keeps its test set, and nothing needs to be noted down.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from regard.core.registry import Kinds
from regard.core.spec import Count, Rate, Spec

TOP = 2**64  # of the hash
SHARE = 0.05  # of all samples, for validation and for testing each


class SplitSpec(Spec):
    """What is kept back of the samples to train on, by a hash of what a model is asked."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = "corpus.split"
    kind: Literal["split"] = "split"
    validation: Rate | None = None
    """This share is kept for validation; unless given, a twentieth but 2,000 samples at most; 0 keeps none."""
    test: Rate = 0.0
    """This share is kept for testing."""
    seed: Count = 0
    """Another number chooses other samples."""
    by: Count | str | None = None
    """Rows that agree in this column, by name or number, stay on one side."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if (self.validation or 0) + self.test >= 1:
            raise ValueError(f"validation {self.validation} and test {self.test} leave nothing to train on")
        return self


def hash_text(text: str, seed: int = 0) -> int:
    """A stable 64-bit hash."""
    key = str(seed).encode() if seed else b""
    return int.from_bytes(blake2b(text.encode(), digest_size=8, key=key).digest())


def split_by_text(text: str) -> Literal["train", "validation", "test"]:
    """The split of anything that a text stands for, whatever the seed or the machine."""
    return split_by_hash(hash_text(text))


def split_by_hash(value: int, validation: float = SHARE, test: float = SHARE) -> Literal["train", "validation", "test"]:
    """The split of a hash; `validation`, `test`: their shares."""
    if value < (1 - (validation + test)) * TOP:
        return "train"
    return "validation" if value < (1 - test) * TOP else "test"
