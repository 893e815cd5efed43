"""Slots: what attention remembers, one slot for each position, allocated ahead and written in place.

Slot p holds the token at position p, and positions count real tokens, so padding leaves no trace. With a window the
slots are a ring: position p goes to slot p modulo the window.
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
from regard.core.state import State


@dataclass
class Seen:
    """What a chunk's queries can look at: tensors (rows, …, keys, size), and which keys each query may see."""

    tensors: tuple[Tensor, ...]
    allow: Callable[[], Tensor | None]  # makes `allowed`: who reads a whole sequence doesn't ask, and it isn't small
    positions: Callable[[], Tensor]  # of the keys: (1 or rows, keys), below 0 where there is none
    label: Hashable  # equal where the keys stand at equal positions, within one call
    ring: bool = False  # the keys don't stand in the order of their positions

    @lazy
    def allowed(self) -> Tensor | None:
        """(1 or rows, 1, queries, keys), None: all."""
        return self.allow()


@dataclass
class Slots(State):
    """Tensors of (rows, …, slots, size) that grow by doubling when there wasn't room enough."""

    tensors: tuple[Tensor, ...] = ()
    window: int | None = None

    def rewindable(self, length: int) -> bool:
        return length == self.length or self.window is None or self.length <= self.window

    @classmethod
    def level(cls, states: Sequence[Self]) -> Sequence[Self]:
        """Each with as many slots as the largest; position p has the same slot in all of them, ring or not."""
        slots = max(state.tensors[0].shape[-2] for state in states)
        return [replace(state, tensors=state._pad(slots)) for state in states]

    def extend(self, chunk: tuple[Tensor, ...], mask: Mask) -> Seen:
        """Remember a chunk of (rows, …, time, size), and return all that its queries can look at."""
        wraps = self.window is not None and mask.total > self.window
        seen = self._wrap(chunk, mask) if wraps else self._append(chunk, mask)
        self.advance(mask)
        return seen

    def _append(self, chunk: tuple[Tensor, ...], mask: Mask) -> Seen:
        total = mask.total
        if mask.uniform:
            assert isinstance(mask.past, int)
            past, time = mask.past, mask.time
            if _tracks_gradients(*chunk, *self.tensors):
                pairs = zip(self.tensors, chunk, strict=True)
                self.tensors = tuple(torch.cat((old[..., :past, :], new), -2) for old, new in pairs)
            else:
                self._grow(total)
                for old, new in zip(self.tensors, chunk, strict=True):
                    old.narrow(-2, past, time).copy_(new)
        else:
            self._grow(total + 1)  # one more: pads are written to the last slot, which nobody looks at
            self._scatter(chunk, mask, mask.positions)
        kept = tuple(tensor[..., :total, :] for tensor in self.tensors)
        return Seen(kept, partial(mask.reach, total), lambda: torch.arange(total, device=mask.device)[None], total)

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

    def _pad(self, slots: int) -> tuple[Tensor, ...]:
        """The tensors with so many slots."""
        if self.tensors[0].shape[-2] == slots:
            return self.tensors
        # zeros, not empty: a slot that isn't filled yet has weight 0, and 0 * NaN would be NaN
        return tuple(F.pad(tensor, (0, 0, 0, slots - tensor.shape[-2])) for tensor in self.tensors)

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


def _tracks_gradients(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
