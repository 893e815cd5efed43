"""What all sides of a case are given alike: rows of random tokens, the same for everybody."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, TypeVar

Row = TypeVar("Row")  # tokens as numbers, or as words
FIRST = 4  # special tokens stand before it


def draw_rows(settings: Mapping[str, Any]) -> list[list[int]]:
    """Rows of tokens, shortest first: `rows` of them, each of `shortest` to `longest` tokens."""
    chance = Random(settings.get("seed", 7))
    lengths = sorted(chance.randint(settings["shortest"], settings["longest"]) for _ in range(settings["rows"]))
    return [[chance.randrange(FIRST, settings["vocabulary"]) for _ in range(length)] for length in lengths]


def slice_rows(rows: list[Row], size: int) -> list[list[Row]]:
    """Batches of neighbours."""
    return [rows[first : first + size] for first in range(0, len(rows), size)]
