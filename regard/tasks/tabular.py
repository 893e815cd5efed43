"""Questions and tables as numbers: what a programmer reads (`parts/program.py`), and how samples become batches of it.

A word of a question that is a number is read as one word whatever its value is, and its value stands beside. A cell is
a number if it can be read as one, or else a text, of which a table has each once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.padding import Padding
from regard.core.program import NOTHING
from regard.data.column import ColumnSpec
from regard.data.sample import Sample
from regard.data.tokenizer import Tokenizer

NUMBER = "#"  # the word that stands for every number
BLANK = -2  # of cells, one that holds nothing; a number is NOTHING among the texts
Cut = Callable[[str], Sequence[int]]
Precision = Literal["float32", "float64"]  # of a table's numbers: enough to learn from, and to answer people


def read_number(text: str) -> float | None:
    """The number that a word or a cell is; None: it is none."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) and "_" not in text else None


def hide_numbers(question: str) -> str:
    """A question as a tokenizer learns it."""
    return " ".join(NUMBER if read_number(word) is not None else word for word in question.split())


def list_texts_of(sample: Sample) -> list[str]:
    """All that a tokenizer is to know of a sample: its question, the columns, and the texts of the table, each once."""
    texts = dict.fromkeys(cell for cell in sample["cells"] if read_number(cell) is None)
    return [hide_numbers(sample["question"]), *sample["names"], *texts]


def make_cutter(tokenizer: Tokenizer) -> Cut:
    """What cuts a word or a text into tokens; one that was met before isn't cut again."""
    known: dict[str, Sequence[int]] = {}

    def cut(text: str) -> Sequence[int]:
        if text not in known:
            known[text] = tokenizer.encode([text])[0]
        return known[text]

    return cut


def list_columns(words: int, precision: Precision = "float32") -> dict[str, ColumnSpec]:
    """What `encode_sample` makes of a sample; `words`: how many different tokens there are."""
    tokens, sizes = ColumnSpec(below=words), ColumnSpec(dtype="uint32")
    numbers, places = ColumnSpec(dtype=precision), ColumnSpec(dtype="int32", least=BLANK)
    return {
        "question": tokens,
        "places": sizes,
        "pivots": numbers,
        "names": tokens,
        "name_sizes": sizes,
        "texts": tokens,
        "text_sizes": sizes,
        "numbers": numbers,
        "cells": places,
        "number": numbers,
        "chosen": sizes,
    }


def encode_sample(sample: Sample, cut: Cut, precision: Precision = "float32") -> dict[str, NDArray[Any]]:
    """A question, its table and its answer, if that is known, as columns of numbers."""
    question, places, pivots = list[int](), list[int](), list[float]()
    for word in sample["question"].split():
        value = read_number(word)
        question += cut(word if value is None else NUMBER)
        if value is not None:
            places.append(len(question) - 1)
            pivots.append(value)
    texts: dict[str, int] = {}
    values, cells = list[float](), list[int]()
    for cell in sample["cells"]:
        value = read_number(cell)
        values.append(value or 0.0)
        cells.append(NOTHING if value is not None else texts.setdefault(cell, len(texts)) if cell.strip() else BLANK)
    names, kept = [cut(name) for name in sample["names"]], [cut(text) for text in texts]
    found = {
        "question": question,
        "places": places,
        "pivots": pivots,
        "names": [token for name in names for token in name],
        "name_sizes": [len(name) for name in names],
        "texts": [token for text in kept for token in text],
        "text_sizes": [len(text) for text in kept],
        "numbers": values,
        "cells": cells,
        "number": [sample["number"]] if "number" in sample else [],
        "chosen": sample.get("chosen", []),
    }
    columns = list_columns(1, precision)
    return {name: np.asarray(numbers, columns[name].dtype) for name, numbers in found.items()}


@dataclass
class QuestionBatch:
    """Questions and tables as rectangles, and the answers: a number, or cells where `looked` is true."""

    inputs: Inputs
    numbers: Tensor  # (batch,)
    chosen: Tensor  # (batch, rows, columns), 1 where a cell is part of the answer
    looked: Tensor  # (batch,)

    def to(self, device: torch.device | str) -> QuestionBatch:
        """The same on a device."""
        numbers, chosen, looked = (part.to(device) for part in (self.numbers, self.chosen, self.looked))
        return QuestionBatch(self.inputs.to(device), numbers, chosen, looked)

    @property
    def real(self) -> Tensor:
        """Cells that are there: (batch, rows, columns)."""
        extras = self.inputs.extras
        return extras["real"][:, :, None] & (extras["names"] != NOTHING).any(-1)[:, None]


def collect(rows: Sequence[Mapping[str, Any]], pad: int) -> QuestionBatch:
    """A batch of encoded samples, its numbers in their precision."""
    count = len(rows)
    widths = [len(row["name_sizes"]) for row in rows]
    heights = [len(row["cells"]) // width for row, width in zip(rows, widths, strict=True)]
    shape = (count, max(heights), max(widths))
    dtype = np.asarray(rows[0]["numbers"]).dtype
    numbers, cells = np.zeros(shape, dtype), np.full(shape, BLANK, np.int64)
    chosen, real = np.zeros(shape, np.float32), np.zeros(shape[:2], bool)
    for n, (row, height, width) in enumerate(zip(rows, heights, widths, strict=True)):
        numbers[n, :height, :width] = np.reshape(row["numbers"], (height, width))
        cells[n, :height, :width] = np.reshape(row["cells"], (height, width))
        marked = np.zeros(height * width, np.float32)
        marked[np.asarray(row["chosen"], np.int64)] = 1.0
        chosen[n, :height, :width] = marked.reshape(height, width)
        real[n, :height] = True
    padding = Padding([len(row["question"]) for row in rows])
    tokens = padding.fill([np.asarray(row["question"], np.int64).tolist() for row in rows], pad)
    pivots = np.zeros((count, max(1, *(len(row["pivots"]) for row in rows), 1)), dtype)
    places = np.full(pivots.shape, NOTHING, np.int64)
    for n, row in enumerate(rows):
        pivots[n, : len(row["pivots"])], places[n, : len(row["places"])] = row["pivots"], row["places"]
    extras = {
        "question": tokens.masked_fill(~padding.valid, NOTHING),
        "pivots": torch.from_numpy(pivots),
        "places": torch.from_numpy(places),
        "names": fill_texts([cut_up(row["names"], row["name_sizes"]) for row in rows]),
        "texts": fill_texts([cut_up(row["texts"], row["text_sizes"]) for row in rows]),
        "numbers": torch.from_numpy(numbers),
        "numeric": torch.from_numpy((cells == NOTHING) & real[:, :, None]),
        "cells": torch.from_numpy(np.maximum(cells, NOTHING)),
        "real": torch.from_numpy(real),
    }
    answers = [float(row["number"][0]) if len(row["number"]) else 0.0 for row in rows]
    looked = torch.tensor([not len(row["number"]) for row in rows])
    return QuestionBatch(
        Inputs(tokens, padding, extras=extras), torch.tensor(answers), torch.from_numpy(chosen), looked
    )


def cut_up(tokens: Sequence[int], sizes: Sequence[int]) -> list[Sequence[int]]:
    """Texts that stand one behind the other, apart again."""
    ends = np.cumsum(np.asarray(sizes, np.int64))
    return [tokens[end - size : end] for end, size in zip(ends.tolist(), np.asarray(sizes).tolist(), strict=True)]


def fill_texts(texts: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """Texts of several tables as a box: (batch, texts, words)."""
    longest = max((len(text) for row in texts for text in row), default=0)
    box = np.full((len(texts), max(len(row) for row in texts), max(1, longest)), NOTHING, np.int64)
    for n, row in enumerate(texts):
        for m, text in enumerate(row):
            box[n, m, : len(text)] = text
    return torch.from_numpy(box)
