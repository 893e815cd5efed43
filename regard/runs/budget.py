"""A budget in words: `tokens=2M`, `minutes=5`, `flops=1e15`. It takes the place of every budget that a recipe has."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast, get_args

from regard.errors import SpecError

Unit = Literal["tokens", "minutes", "flops", "steps"]
SCALES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12, "p": 1e15}
NUMBER = re.compile(r"(\d+(?:[_,]\d{3})*(?:\.\d*)?(?:e[+-]?\d+)?)([kmbgtp]?)", re.IGNORECASE)
KEYS = ("steps", "epochs", "tokens", "minutes")  # of `train`, each of which may end a run


@dataclass(frozen=True)
class Budget:
    """So much of something that training uses up."""

    unit: Unit
    amount: float

    @classmethod
    def read(cls, text: str) -> Budget:
        """`tokens=2M`, `minutes=5` or `flops=1e15`."""
        unit, sign, amount = text.partition("=")
        if not sign or unit not in get_args(Unit):
            told = f"--budget {text}: it is said in tokens, minutes or flops"
            raise SpecError(told, "--budget tokens=2M, --budget minutes=5 or --budget flops=1e15")
        return cls(cast(Unit, unit), read_amount(amount, f"--budget {text}"))

    def spell(self) -> list[str]:
        """The words that give a run this budget and no other."""
        if self.unit == "flops":
            raise SpecError(f"--budget {self}: operations must be counted first")
        whole = self.amount if self.unit == "minutes" else int(self.amount)
        return [f"train.{key}={whole if key == self.unit else 'null'}" for key in KEYS]

    def __str__(self) -> str:
        return f"{self.unit}={self.amount:g}" if self.amount < 1e6 else f"{self.unit}={format_amount(self.amount)}"


def read_amount(text: str, place: str) -> float:
    """A number above 0, such as 500000, 500k, 2M, 1.5B or 1e15."""
    match = NUMBER.fullmatch(text.strip())
    if match is None:
        raise SpecError(f"{place}: {text!r} isn't a number above 0", "500000, 500k, 2M or 1e15")
    amount = float(re.sub("[_,]", "", match[1])) * SCALES[match[2].lower()]
    if not 0 < amount < float("inf"):
        raise SpecError(f"{place}: {text!r} isn't a number above 0", "500000, 500k, 2M or 1e15")
    return amount


def format_amount(amount: float) -> str:
    """2M, 1.5T: three digits."""
    for letter, scale in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if amount >= scale:
            return f"{amount / scale:.3g}{letter}"
    return f"{amount:.3g}"
