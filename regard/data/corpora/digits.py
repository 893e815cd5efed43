"""scikit-learn's digits: 1,797 handwritten ones of 8 × 8 pixels, real and small (Alpaydin and Kaynak 1998).

A digit belongs to one split by a stable hash of its pixels, so 7 in 10 are for training. People who wrote them stand on
both sides: scikit-learn doesn't say who wrote which.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from regard.data.canvas import Picture
from regard.data.corpus import CorpusSpec, Split
from regard.data.log import Log
from regard.data.sample import Form, Sample
from regard.data.split import hash_text, split_by_hash
from regard.errors import MissingPackage

KEPT = 0.15  # of all digits, for validation and for testing each
WHITEST = 16  # the largest value that scikit-learn's have


class Digits(CorpusSpec):
    """Scikit-learn's 1,797 real digits, where it is installed."""

    gives: ClassVar[tuple[Form, ...]] = ("images", "pictures")
    kind: Literal["digits"] = "digits"

    def splits(self) -> tuple[Split, ...]:
        return ("train", "validation", "test")

    def samples(self, form: Form, split: Split, folder: Path, log: Log) -> Iterator[Sample]:
        for number, (picture, label) in enumerate(load_digits(), 1):
            if split_by_hash(hash_text(picture.tobytes().hex()), KEPT, KEPT) == split:
                log.keep()
                sample: Sample = {"picture": picture, "place": f"digits:{number}"}
                yield sample | {"label": label} if form == "images" else sample


@cache
def load_digits() -> tuple[tuple[Picture, str], ...]:
    """Every digit as a picture (8, 8, 1) of bytes, white on black, and its name."""
    try:
        from sklearn import datasets
    except ModuleNotFoundError as error:
        if error.name != "sklearn":  # it is there, and something that it needs isn't
            raise
        raise MissingPackage("the corpus digits", "scikit-learn", "digits") from None
    found = datasets.load_digits()
    values = found.images.astype(np.int64)[..., None]  # (digits, 8, 8, 1), whole numbers though floats
    pictures = ((values * 255 + WHITEST // 2) // WHITEST).astype(np.uint8)
    return tuple(zip(pictures, map(str, found.target.tolist()), strict=True))
