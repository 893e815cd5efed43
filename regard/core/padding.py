"""Padding: where the real tokens of a batch stand, as far as the host knows it.

Whoever lays rows side by side knows their lengths before there is a tensor. What a mask must decide follows from them:
is anything padded, do the pads come last, how long is the longest row. So a mask that is given a padding never waits
for a device and never breaks a compiled graph. `valid` is made from the same lengths, so the two can't disagree.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import accumulate
from typing import Literal, Union

import torch
from torch import Tensor

from regard.errors import InputError

Side = Literal["right", "left"]
Valid = Union[Tensor, "Padding", None]  # (rows, time), True where a token is real; None: everywhere


class Padding:
    """The lengths of rows in a rectangle, and what follows from them: `Padding([3, 5])`.

    `time`: how wide the rectangle is, if not as wide as its longest row. `side`: where the pads stand.
    """

    valid: Tensor  # (rows, time), True where a token is real
    trailing: bool  # pads, if any, come last in every row
    documents: Tensor | None = None  # (rows, time): which document of its row a token belongs to, where rows pack them
    starts: Tensor | None = None  # where the documents begin, counting places through all rows; it stays on the host
    sizes: tuple[int, ...] = ()  # tokens of each document
    several: bool = False  # a row packs more than one document

    def __init__(self, lengths: Sequence[int], time: int | None = None, side: Side = "right") -> None:
        self._count(lengths, max(lengths, default=0) if time is None else time)
        self.trailing = self.whole or side == "right"
        count, place = torch.tensor(self.lengths, dtype=torch.long)[:, None], torch.arange(self.time)[None]
        self.valid = place < count if side == "right" else place >= self.time - count

    def _count(self, lengths: Sequence[int], time: int) -> None:
        least, most = min(lengths, default=time), max(lengths, default=0)
        if least < 0 or most > time:
            raise InputError(f"rows of {least} to {most} tokens don't fit {time} places")
        # a compiled graph holds for the values that it has read, so it reads these few and never the lengths
        self.lengths, self.time, self.longest, self.whole = tuple(lengths), time, most, least == time
        self.deepest = most  # tokens of the longest document

    @classmethod
    def packed(cls, documents: Sequence[Sequence[int]], time: int | None = None) -> Padding:
        """Rows that hold several documents, one after the other, by the lengths of these: `packed([[2, 3], [4]])`."""
        found = cls([sum(row) for row in documents], time)
        if not all(found.lengths):
            raise InputError(f"row {found.lengths.index(0)} packs documents without a token", "leave the row out")
        owners, starts = torch.zeros(len(documents), found.time, dtype=torch.long), list[int]()
        for number, row in enumerate(documents):
            begins = list(accumulate(row[:-1], initial=0))
            starts += [number * found.time + begin for begin, size in zip(begins, row, strict=True) if size]
            if len(row) > 1:
                own = torch.repeat_interleave(torch.tensor(row))  # the number of each, as often as it has tokens
                owners[number, : len(own)], owners[number, len(own) :] = own, own[-1]  # pads count to the last of them
        found.documents, found.starts = owners, torch.tensor(starts)
        found.sizes = tuple(size for row in documents for size in row if size)
        found.several, found.deepest = len(starts) > len(owners), max(found.sizes)
        return found

    @classmethod
    def read(cls, valid: Tensor) -> Padding:
        """What a tensor says, (rows, time), True where a token is real; its device is asked once."""
        later = (valid[:, 1:] & ~valid[:, :-1]).sum(1)  # stretches of real tokens that begin after the first place
        lengths, after, ahead = torch.stack((valid.sum(1), later, valid[:, 0].long())).tolist()
        if any(one + other > 1 for one, other in zip(after, ahead, strict=True)):
            raise InputError("valid has holes: the real tokens of a row must stand together", "pad on one side")
        found = cls.__new__(cls)
        found._count(lengths, valid.shape[1])
        found.valid, found.trailing = valid, not any(after)
        return found

    def without_last(self) -> Padding:
        """Each row without its own last token, as a decoder reads what it is taught to predict: every token that is
        left predicts the one behind it, so costs over the real ones are costs over the predictions.
        """
        if not self.trailing or self.documents is not None:
            raise InputError("only rows of one document with the pads at their end can be shortened")
        found = copy.copy(self)
        found._count([max(length - 1, 0) for length in self.lengths], self.time - 1)
        found.valid = self.valid[:, 1:]  # a token is left where another follows
        return found

    def to(self, device: torch.device | str) -> Padding:
        """The same with its tensors on a device."""
        found = copy.copy(self)
        found.valid = self.valid.to(device)
        found.documents = None if self.documents is None else self.documents.to(device)
        return found

    def fill(self, rows: Sequence[Sequence[int]], pad: int) -> Tensor:
        """Lay rows of numbers in the rectangle: (rows, time)."""
        blank = [[pad] * (self.time - length) for length in self.lengths]
        pairs = zip(rows, blank, strict=True)
        return torch.tensor([[*row, *pads] if self.trailing else [*pads, *row] for row, pads in pairs])


def check_valid(valid: Tensor | Padding | None, rows: int, time: int) -> None:
    """Refuse a `valid` that isn't a truth for each position."""
    real = valid.valid if isinstance(valid, Padding) else valid
    if real is not None and (real.shape != (rows, time) or real.dtype != torch.bool):
        given = f"{real.dtype} {tuple(real.shape)}"
        raise InputError(f"valid is a torch.bool of shape ({rows}, {time}) here, not {given}", "mask.bool()")
