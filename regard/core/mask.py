"""Masks: which tokens of a chunk are real, how many came before, and so who may look at whom.

One rule: a padded token changes nothing. Nobody looks at it and no state moves on it. Positions count real tokens, so
a left-padded prompt is decoded as if it were alone. Within a row the real tokens of a chunk stand together.

A whole row may pack several documents, one after the other. Positions start anew at each, and no document knows of
its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.lazy import lazy
from regard.core.padding import Padding
from regard.errors import InputError


class Mask:
    """The padding of one chunk of `time` tokens after `past` real ones.

    `valid`: a tensor, (rows, time), of which the device is asked once, or a `Padding`, which knows without asking.
    `documents`, (rows, time), tells which document of its row each token belongs to; the numbers never fall. It is for
    whole sequences whose pads, if any, come last, and None where every row holds just one, or where a padding tells.
    """

    def __init__(
        self,
        rows: int,
        time: int,
        valid: Tensor | Padding | None = None,
        past: int | Tensor = 0,
        device: torch.device | str | None = None,
        documents: Tensor | None = None,
    ) -> None:
        self.rows, self.time, self.past = rows, time, past
        self.blind = isinstance(valid, Tensor) and torch.compiler.is_exporting()  # values aren't there to look at
        if isinstance(valid, Tensor) and not self.blind:
            valid = Padding.read(valid)
        self.padding = valid if isinstance(valid, Padding) else None
        real = valid.valid if isinstance(valid, Padding) else valid
        self.device = device if real is None else real.device
        self.valid = None if self.padding is not None and self.padding.whole else real  # (rows, time)
        self.documents = None if documents is None else self._packed(documents)
        if self.padding is not None and self.padding.several:
            self._insist_on_whole_rows()
            self.documents = self.padding.documents
        self._tables: dict[tuple[bool, int | None, bool], Tensor | None] = {}
        self._reaches: dict[int, Tensor | None] = {}

    def _packed(self, documents: Tensor) -> Tensor | None:
        """The documents, pads counted to the last of their row; None where there is nothing to keep apart."""
        if documents.shape != (self.rows, self.time) or documents.is_floating_point():
            given = f"{documents.dtype} {tuple(documents.shape)}"
            raise InputError(f"documents are integers of shape ({self.rows}, {self.time}) here, not {given}")
        self._insist_on_whole_rows()
        if self.valid is not None:
            last = documents.gather(1, (self.counts - 1).clamp(min=0)[:, None])
            documents = torch.where(self.valid, documents, last)
        falls = (documents[:, 1:] < documents[:, :-1]).any(1)
        if bool(falls.any()):
            row = int(falls.int().argmax())
            raise InputError(f"documents of row {row} go back to an earlier one", "number them in order: 0, 0, 1, 2, 2")
        return documents if bool((documents != documents[:, :1]).any()) else None

    def _insist_on_whole_rows(self) -> None:
        if not isinstance(self.past, int) or self.past:
            raise InputError("packed documents are whole, and this chunk follows another", "one document a row")
        if not self.trailing:
            raise InputError("packed documents have pads before them", "pad at the end of the rows")

    @property
    def uniform(self) -> bool:
        """Whether all rows are alike: no padding here or before, and no documents packed."""
        return self.valid is None and isinstance(self.past, int) and self.documents is None

    @property
    def trailing(self) -> bool:
        """Whether pads, if any, come last in every row."""
        return self.valid is None or (self.padding is not None and self.padding.trailing)

    @lazy
    def counts(self) -> Tensor:
        """Real tokens in each row of the chunk: (rows,)."""
        if self.valid is None:
            return torch.full((self.rows,), self.time, device=self.device)
        return self.valid.sum(1)

    @lazy
    def positions(self) -> Tensor:
        """How many real tokens of its document came before each token: (1 or rows, time)."""
        steps = torch.arange(self.time, device=self.device)[None]
        if self.documents is not None:
            first = torch.where(self.begins, steps, 0).cummax(1).values
            return torch.minimum(steps, (self.counts - 1).clamp(min=0)[:, None]) - first
        if self.valid is not None:
            steps = (self.valid.cumsum(1) - 1).clamp(min=0)
        return steps + (self.past if isinstance(self.past, int) else self.past[:, None])

    @lazy
    def ends(self) -> Tensor | None:
        """Real tokens consumed by each row after the chunk: (rows,), or None where all rows are alike."""
        return None if self.uniform else self.counts + self.past

    @lazy
    def total(self) -> int:
        """Real tokens consumed by the longest row after the chunk; of packed documents, by the longest of them."""
        known = self.padding
        if self.documents is not None:
            return known.deepest if known is not None and known.several else self.apart.mask.time
        if isinstance(self.past, int):
            return self.past + (self.time if known is None else known.longest)
        assert self.ends is not None
        return int(self.ends.max()) if self.rows else 0

    def table(self, causal: bool, window: int | None, explicit: bool = False) -> Tensor | None:
        """Who may look at whom within the chunk: (1 or rows, 1, queries, keys), True where allowed.

        None when the kernel's own causal flag says it all, unless `explicit`.
        """
        key = (causal, window, explicit)
        if key not in self._tables:
            self._tables[key] = self._table(causal, window, explicit)
        return self._tables[key]

    def _table(self, causal: bool, window: int | None, explicit: bool) -> Tensor | None:
        narrow = window is not None and window < self.time
        if not (narrow or (explicit and causal)) and self.by_distance(causal):
            return None
        return self.allow(slice(None), slice(None), causal, window if narrow else None)

    def by_distance(self, causal: bool) -> bool:
        """Whether it is for their distance alone that one token may look at another or not."""
        # pads that come last are out of a causal query's sight anyway
        return self.documents is None and (self.valid is None or (causal and self.trailing))

    def allow(self, queries: slice, keys: slice, causal: bool, window: int | None) -> Tensor:
        """A part of the table: which of these keys each of these queries may look at."""
        index = torch.arange(self.time, device=self.device)
        distance = index[queries, None] - index[None, keys]  # (queries, keys)
        allowed = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
        if window is not None:
            allowed = allowed & (distance.abs() < window)
        allowed = allowed[None, None]
        if self.documents is not None:
            allowed = allowed & (self.documents[:, None, queries, None] == self.documents[:, None, None, keys])
        if self.valid is not None and not (causal and self.trailing):
            allowed = allowed & self.valid[:, None, None, keys]
        return allowed

    def reach(self, slots: int) -> Tensor | None:
        """Which stored positions a causal query may look at, the chunk's among them: (1 or rows, 1, queries, slots).

        Slot p holds the token at position p. None: all of them.
        """
        if slots not in self._reaches:
            whole = self.uniform and self.time == 1
            slot = torch.arange(slots, device=self.device)
            self._reaches[slots] = None if whole else (slot <= self.positions[:, :, None])[:, None]
        return self._reaches[slots]

    @lazy
    def order(self) -> Tensor:
        """For each row, its real tokens first and in order, then its pads: (rows, time)."""
        assert self.valid is not None
        return torch.argsort(self.valid.logical_not().to(torch.uint8), dim=1, stable=True)

    def align(self, x: Tensor) -> Tensor:
        """Move each row's real tokens to the front: (rows, time, …) to the same."""
        if self.valid is None or self.trailing:
            return x
        return x.gather(1, self.order.view(*self.order.shape, *(1,) * (x.dim() - 2)).expand_as(x))

    @property
    def aligned(self) -> Tensor | None:
        """`valid` after `align`: (rows, time), or None where all is real."""
        if self.valid is None or self.trailing:
            return self.valid
        return self.valid.gather(1, self.order)

    def restore(self, x: Tensor) -> Tensor:
        """The inverse of `align`."""
        if self.valid is None or self.trailing:
            return x
        return torch.zeros_like(x).scatter(1, self.order[..., None].expand_as(x), x)

    def take_end(self, x: Tensor) -> Tensor:
        """What stands at each row's last real token: (rows, time, …) -> (rows, 1, …)."""
        if self.valid is None:
            return x if self.time == 1 else x[:, -1:]
        last = (self.valid * torch.arange(self.time, device=x.device)).argmax(1)
        return x.gather(1, last.view(-1, *(1,) * (x.dim() - 1)).expand(-1, 1, *x.shape[2:]))

    def take_last(self, x: Tensor, length: int) -> Tensor:
        """The last vectors of each row's real ones: (rows, length + time, width) -> (rows, length, width).

        `x` is aligned, and the `length` vectors before the chunk stand in front of it.
        """
        if self.valid is None:
            return x[:, x.shape[1] - length :]
        index = self.counts[:, None] + torch.arange(length, device=x.device)
        return x.gather(1, index[..., None].expand(-1, -1, x.shape[-1]))

    @lazy
    def begins(self) -> Tensor:
        """Where a packed document begins: (rows, time)."""
        assert self.documents is not None
        changes = self.documents[:, 1:] != self.documents[:, :-1]
        return torch.cat((torch.ones_like(changes[:, :1]), changes), 1)

    @lazy
    def apart(self) -> Apart:
        """The packed documents as rows of their own."""
        begins, positions = self.begins.flatten(), self.positions.flatten()
        known = self.padding if self.padding is not None and self.padding.several else None
        first = begins.nonzero()[:, 0] if known is None else known.starts  # (documents,), counting through all rows
        assert first is not None
        first = first.to(begins.device)
        last = torch.cat((first[1:], first.new_tensor([begins.numel()]))) - 1
        lengths = positions[last, None] + 1  # (documents, 1)
        sizes = Padding(lengths[:, 0].tolist() if known is None else known.sizes)
        steps = torch.arange(sizes.time, device=self.device)
        document = begins.cumsum(0) - 1
        return Apart(
            # a pad repeats its own document's last token: nothing of another gets in
            source=first[:, None] + torch.minimum(steps, lengths - 1),
            home=(document * len(steps) + positions).view(self.rows, self.time),
            mask=Mask(len(first), len(steps), sizes.to(positions.device)),
        )

    def unpack(self, x: Tensor) -> Tensor:
        """Give each packed document a row: (rows, time, width) -> (documents, longest, width)."""
        return pick(x, self.apart.source)

    def pack(self, x: Tensor) -> Tensor:
        """The inverse of `unpack`."""
        return pick(x, self.apart.home)


@dataclass(frozen=True)
class Apart:
    """Packed documents as rows of their own, padded at the end: who goes where, and who comes back."""

    source: Tensor  # (documents, longest): which token of all the rows stands here
    home: Tensor  # (rows, time): which place of all the documents a token went to
    mask: Mask


def pick(x: Tensor, index: Tensor) -> Tensor:
    """The vectors of x, (rows, time, width), at an index that counts through all rows: (*index, width)."""
    return x.flatten(0, 1).index_select(0, index.flatten()).unflatten(0, index.shape)


def choose(x: Tensor, kept: Tensor) -> Tensor:
    """What stands at some positions, row by row: (rows, time, …) to (kept, …); as x[kept], with a cheaper way back."""
    flat = x.flatten(0, 1)
    places = kept.flatten().nonzero()[:, 0]
    return flat if len(places) == len(flat) else flat.index_select(0, places)


def average(x: Tensor, valid: Tensor | None) -> Tensor:
    """The mean of each row's real positions: (rows, time, width) -> (rows, width)."""
    if valid is None:
        return x.mean(1)
    return (x * valid[..., None]).sum(1) / valid.sum(1, keepdim=True).clamp(min=1)
