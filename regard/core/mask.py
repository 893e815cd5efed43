"""Masks: which tokens of a chunk are real, how many came before, and so who may look at whom.

One rule: a padded token changes nothing. Nobody looks at it and no state moves on it. Positions count real tokens, so
a left-padded prompt is decoded as if it were alone. Within a row the real tokens of a chunk stand together.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from regard.errors import InputError


class Mask:
    """The padding of one chunk of `time` tokens after `past` real ones."""

    def __init__(
        self,
        rows: int,
        time: int,
        valid: Tensor | None = None,
        past: int | Tensor = 0,
        device: torch.device | str | None = None,
    ) -> None:
        self.rows, self.time, self.past = rows, time, past
        self.device = device if valid is None else valid.device
        self.blind = valid is not None and torch.compiler.is_exporting()  # values aren't there to look at
        self.valid = valid  # (rows, time)
        if valid is not None and not self.blind:
            self.valid = None if bool(valid.all()) else valid
            if bool(((valid[:, 1:] & ~valid[:, :-1]).sum(1) + valid[:, 0] > 1).any()):
                raise InputError("valid has holes: the real tokens of a row must stand together", "pad on one side")
        self._tables: dict[tuple[bool, int | None, bool], Tensor | None] = {}
        self._reaches: dict[int, Tensor | None] = {}

    @property
    def uniform(self) -> bool:
        """Whether all rows are alike: no padding here or before."""
        return self.valid is None and isinstance(self.past, int)

    @cached_property
    def trailing(self) -> bool:
        """Whether pads, if any, come last in every row."""
        return self.valid is None or (not self.blind and bool((self.valid[:, 1:] <= self.valid[:, :-1]).all()))

    @cached_property
    def counts(self) -> Tensor:
        """Real tokens in each row of the chunk: (rows,)."""
        if self.valid is None:
            return torch.full((self.rows,), self.time, device=self.device)
        return self.valid.sum(1)

    @cached_property
    def positions(self) -> Tensor:
        """How many real tokens came before each token: (1 or rows, time)."""
        steps = torch.arange(self.time, device=self.device)[None]
        if self.valid is not None:
            steps = (self.valid.cumsum(1) - 1).clamp(min=0)
        return steps + (self.past if isinstance(self.past, int) else self.past[:, None])

    @cached_property
    def ends(self) -> Tensor | None:
        """Real tokens consumed by each row after the chunk: (rows,), or None where all rows are alike."""
        return None if self.uniform else self.counts + self.past

    @cached_property
    def total(self) -> int:
        """Real tokens consumed by the longest row after the chunk."""
        if self.ends is None or self.blind:
            assert isinstance(self.past, int)
            return self.past + self.time
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
        far = self.time if window is None else window
        narrow = far < self.time
        # pads that come last are out of a causal query's sight anyway
        padded = self.valid is not None and not (causal and self.trailing)
        if not (narrow or padded or (explicit and causal)):
            return None
        index = torch.arange(self.time, device=self.device)
        distance = index[:, None] - index[None, :]  # (queries, keys)
        allowed = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
        if narrow:
            allowed = allowed & (distance.abs() < far)
        if padded and self.valid is not None:
            return allowed & self.valid[:, None, None, :]
        return allowed[None, None]

    def reach(self, slots: int) -> Tensor | None:
        """Which stored positions a causal query may look at, the chunk's among them: (1 or rows, 1, queries, slots).

        Slot p holds the token at position p. None: all of them.
        """
        if slots not in self._reaches:
            whole = self.uniform and self.time == 1
            slot = torch.arange(slots, device=self.device)
            self._reaches[slots] = None if whole else (slot <= self.positions[:, :, None])[:, None]
        return self._reaches[slots]

    @cached_property
    def order(self) -> Tensor:
        """For each row, its real tokens first and in order, then its pads: (rows, time)."""
        assert self.valid is not None
        return torch.argsort(self.valid.logical_not().to(torch.uint8), dim=1, stable=True)

    def align(self, x: Tensor) -> Tensor:
        """Move each row's real tokens to the front: (rows, time, width) to the same."""
        if self.valid is None or self.trailing:
            return x
        return x.gather(1, self.order[..., None].expand_as(x))

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


def average(x: Tensor, valid: Tensor | None) -> Tensor:
    """The mean of each row's real positions: (rows, time, width) -> (rows, width)."""
    if valid is None:
        return x.mean(1)
    return (x * valid[..., None]).sum(1) / valid.sum(1, keepdim=True).clamp(min=1)
