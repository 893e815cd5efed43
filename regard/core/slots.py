"""Slots: what attention remembers, one slot for each position, allocated ahead and written in place.

Slot p holds the token at position p, and positions count real tokens, so padding leaves no trace. With a window the
slots are a ring: position p goes to slot p modulo the window.

A beam is re-ordered at every step, and most of what attention remembers would be copied each time. Where our kernel
reads the slots, they stay where they were written, and a table says where each row's slots stand (`moved`): a row
writes position p into its own row, where nobody has written p before.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.lazy import lazy
from regard.core.mask import Mask
from regard.core.selection import Selection
from regard.core.state import Move, State
from regard.kernels.library import REGISTER, ready

DIMENSIONS = 4  # of tensors that a table can be kept for: (rows, heads, slots, size)


@dataclass
class Seen:
    """What a chunk's queries can look at, and which keys each query may see."""

    held: tuple[Tensor, ...]  # the tensors, or where `moved` says where a row's slots stand, what they are taken from
    allow: Callable[[], Tensor | None]  # makes `allowed`: who reads a whole sequence doesn't ask, and it isn't small
    positions: Callable[[], Tensor]  # of the keys: (1 or rows, keys), below 0 where there is none
    label: Hashable  # equal where the keys stand at equal positions, within one call
    ring: bool = False  # the keys don't stand in the order of their positions
    moved: Tensor | None = None  # (rows, keys), the row of `held` in which each stands; None: each in its own

    @lazy
    def tensors(self) -> tuple[Tensor, ...]:
        """(rows, …, keys, size)"""
        return self.held if self.moved is None else tuple(gather_slots(tensor, self.moved) for tensor in self.held)

    @lazy
    def allowed(self) -> Tensor | None:
        """(1 or rows, 1, queries, keys), None: all."""
        return self.allow()


@dataclass
class Slots(State):
    """Tensors of (rows, …, slots, size) that grow by doubling when there wasn't room enough."""

    tensors: tuple[Tensor, ...] = ()
    window: int | None = None
    moved: Tensor | None = None  # (rows, slots), the row of the tensors in which each stands; None: each in its own

    def map(self, fn: Move) -> Self:
        if isinstance(fn, Selection) and fn.takes_over and self._can_stay(fn):
            return self if fn.same(self._count) else replace(self, moved=self._turn(fn))
        return super(Slots, self.settle()).map(fn)

    def move(self, chosen: Selection) -> Self:
        # a table that was turned before belongs to a layer that is as this one: nothing is asked twice
        known = None if self.moved is None else chosen.turned.get((id(self.moved), self.length))
        if known is not None and self.lengths is None:
            self.moved = known[1]
            return self
        if not self._can_stay(chosen):
            return self.map(chosen)
        if not chosen.same(self._count):
            self.moved = self._turn(chosen)
        return self

    def _turn(self, chosen: Selection) -> Tensor:
        """The table after a choice of rows; layers that had one table and have read as much have one again."""
        table, held = self.moved, self.tensors[0]
        if table is None:
            shape = (self.length, held.shape[0], held.shape[-2])
            return chosen.once(shape, lambda: self._table().index_select(0, chosen.rows))
        # the table is kept beside what becomes of it, or another might get its number
        if (key := (id(table), self.length)) not in chosen.turned:
            chosen.turned[key] = table, table.index_select(0, chosen.rows)
        return chosen.turned[key][1]

    def _can_stay(self, chosen: Selection) -> bool:
        """Whether rows can be chosen by a table alone: our kernel reads it, and there is a row for each to write to."""
        held = self.tensors[0]
        if self.window is not None or self.lengths is not None or not self.length or held.dim() != DIMENSIONS:
            return False
        library = ready()
        if library is None or held.dtype != torch.float32 or held.device.type != "cpu":
            return False
        if held.shape[-1] % REGISTER[library.level]:
            return False
        return held.shape[0] // 2 < len(chosen.rows) <= held.shape[0]  # half of the memory isn't kept for nothing

    @property
    def _count(self) -> int:
        return self.tensors[0].shape[0] if self.moved is None else self.moved.shape[0]

    @property
    def rows(self) -> int | None:
        return self._count if self.tensors else None

    def _table(self) -> Tensor:
        if self.moved is not None:
            return self.moved
        held = self.tensors[0]
        return torch.arange(held.shape[0], device=held.device)[:, None].expand(-1, held.shape[-2])

    def settle(self) -> Self:
        """The same, with all slots in the rows that they belong to."""
        if self.moved is None:
            return self
        moved = self.moved
        return replace(self, tensors=tuple(gather_slots(tensor, moved) for tensor in self.tensors), moved=None)

    def _settle_here(self) -> None:
        settled = self.settle()
        self.tensors, self.moved = settled.tensors, None

    def rewindable(self, length: int) -> bool:
        return length == self.length or self.window is None or self.length <= self.window

    @classmethod
    def level(cls, states: Sequence[Self]) -> Sequence[Self]:
        """Each with as many slots as the largest; position p has the same slot in all of them, ring or not."""
        states = [state.settle() for state in states]
        slots = max(state.tensors[0].shape[-2] for state in states)
        return [replace(state, tensors=state._pad(slots)) for state in states]

    def extend(self, chunk: tuple[Tensor, ...], mask: Mask) -> Seen:
        """Remember a chunk of (rows, …, time, size), and return all that its queries can look at."""
        wraps = self.window is not None and mask.total > self.window
        seen = self._wrap(chunk, mask) if wraps else self._append(chunk, mask)
        self.advance(mask)
        return seen

    def make_room(self, total: int) -> None:
        """Room for so many positions, which a kernel will write into."""
        self._grow(total)

    def _append(self, chunk: tuple[Tensor, ...], mask: Mask) -> Seen:
        total = mask.total
        if self.moved is not None and not (mask.uniform and not torch.is_grad_enabled()):
            self._settle_here()
        if mask.uniform:
            assert isinstance(mask.past, int)
            past, time = mask.past, mask.time
            if _tracks_gradients(*chunk, *self.tensors):
                pairs = zip(self.tensors, chunk, strict=True)
                self.tensors = tuple(torch.cat((old[..., :past, :], new), -2) for old, new in pairs)
            else:
                self._grow(total)
                rows = self._count
                for old, new in zip(self.tensors, chunk, strict=True):
                    old[:rows].narrow(-2, past, time).copy_(new)
                if self.moved is not None:
                    self.moved[:, past:total] = torch.arange(rows, device=self.moved.device)[:, None]
        else:
            self._grow(total + 1)  # one more: pads are written to the last slot, which nobody looks at
            self._scatter(chunk, mask, mask.positions)
        kept = tuple(tensor[..., :total, :] for tensor in self.tensors)
        moved = None if self.moved is None else self.moved[:, :total]
        places = partial(torch.arange, total, device=mask.device)
        return Seen(kept, partial(mask.reach, total), lambda: places()[None], total, moved=moved)

    def _wrap(self, chunk: tuple[Tensor, ...], mask: Mask) -> Seen:
        window = self.window
        assert window is not None
        if mask.uniform and mask.time == 1 and not _tracks_gradients(*chunk, *self.tensors):
            assert isinstance(mask.past, int)
            self._grow(window)
            for old, new in zip(self.tensors, chunk, strict=True):
                old.narrow(-2, mask.past % window, 1).copy_(new)
            kept = tuple(tensor[..., :window, :] for tensor in self.tensors)
            positions = partial(self._held, mask.total, window, window, mask.device)
            return Seen(kept, lambda: None, positions, ("ring", window), ring=True)
        held = min(self.length, window)
        pairs = zip(self.tensors, chunk, strict=True)
        joined = tuple(torch.cat((old[..., :held, :], new), -2) for old, new in pairs)
        before = self._held(mask.past, held, window, mask.device)
        mine = mask.positions if mask.valid is None else mask.positions.masked_fill(~mask.valid, -1)
        rows = max(before.shape[0], mine.shape[0])
        keys = torch.cat((before.expand(rows, -1), mine.expand(rows, -1)), 1)

        def allow() -> Tensor:
            ahead = mask.positions[:, :, None] - keys[:, None, :]  # (1 or rows, queries, keys)
            return ((keys >= 0)[:, None, :] & (ahead >= 0) & (ahead < window))[:, None]

        self._grow(window + 1)
        ends = mask.total if mask.ends is None else mask.ends[:, None]
        lasting = mask.positions >= ends - window  # the rest is out of every later query's sight
        self._scatter(chunk, mask, torch.where(lasting, mask.positions % window, self.tensors[0].shape[-2] - 1))
        return Seen(joined, allow, lambda: keys, ("ring", window), ring=True)

    @staticmethod
    def _held(past: int | Tensor, slots: int, window: int, device: torch.device | str | None) -> Tensor:
        """The position that each ring slot holds after `past` tokens, below 0 where none: (1 or rows, slots)."""
        last = (torch.tensor([past], device=device) if isinstance(past, int) else past)[:, None] - 1
        return last - (last - torch.arange(slots, device=device)) % window

    def _grow(self, slots: int) -> None:
        have = self.tensors[0].shape[-2]
        if have >= slots:
            return
        wanted = max(slots, 2 * have)
        if self.window is not None:
            wanted = min(wanted, max(slots, self.window + 1))
        self.tensors = self._pad(wanted)
        if self.moved is not None:
            self.moved = F.pad(self.moved, (0, wanted - have))

    def _pad(self, slots: int) -> tuple[Tensor, ...]:
        """The tensors with so many slots."""
        have = self.tensors[0].shape[-2]
        if have == slots:
            return self.tensors
        # zeros, not empty: a slot that isn't filled yet has weight 0, and 0 * NaN would be NaN
        return tuple(F.pad(tensor, (0, 0, 0, slots - have)) for tensor in self.tensors)

    def _scatter(self, chunk: tuple[Tensor, ...], mask: Mask, slots: Tensor) -> None:
        """Write each real token to its slot, and pads to the last one."""
        last = self.tensors[0].shape[-2] - 1
        if mask.valid is not None:
            slots = slots.masked_fill(~mask.valid, last)
        written = []
        for old, given in zip(self.tensors, chunk, strict=True):
            new = given.to(old.dtype)
            rows, time = new.shape[0], new.shape[-2]
            index = slots.expand(rows, time).view(rows, *(1,) * (new.dim() - 3), time, 1).expand_as(new)
            written.append(old.scatter(-2, index, new) if _tracks_gradients(new, old) else old.scatter_(-2, index, new))
        self.tensors = tuple(written)


def gather_slots(tensor: Tensor, moved: Tensor) -> Tensor:
    """The slots of each row from the rows in which they stand: (rows, heads, slots, size)."""
    slots = torch.arange(moved.shape[1], device=moved.device)
    return tensor.transpose(1, 2)[moved, slots].transpose(1, 2)


def _tracks_gradients(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
