"""Selections: which rows of a state go on, and in which order; what all its layers need to know of that, found once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from torch import Tensor

from regard.core.lazy import lazy

T = TypeVar("T")


class Selection:
    """Rows to keep, as a function on batch-first tensors that copies nothing when nothing moves."""

    def __init__(self, rows: Tensor, takes_over: bool = False) -> None:
        self.rows = rows
        self.takes_over = takes_over  # whoever had the state before won't touch it again
        self._same: dict[int, bool] = {}
        self._groups: dict[tuple[int, int], tuple[Tensor | None, int]] = {}
        self._made: dict[Hashable, Any] = {}
        # tables of slots, beside what they were before, by that and by how much was read
        self.turned: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def __call__(self, tensor: Tensor) -> Tensor:
        return tensor if self.same(tensor.shape[0]) else tensor.index_select(0, self.rows)

    @lazy
    def listed(self) -> list[int]:
        """The rows as numbers: so few are soonest compared without a tensor."""
        found: list[int] = self.rows.tolist()
        return found

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Compute what all layers share only once."""
        if key not in self._made:
            self._made[key] = make()
        found: T = self._made[key]
        return found

    def same(self, count: int) -> bool:
        """Whether the rows stay as they are."""
        if count not in self._same:
            self._same[count] = self.listed == list(range(count))
        return self._same[count]

    def groups(self, owners: int, fan: int) -> tuple[Tensor | None, int]:
        """Which owners to keep when each serves `fan` rows (None: all, unmoved), and how many rows each serves then."""
        if (owners, fan) not in self._groups:
            self._groups[owners, fan] = self._regroup(owners, fan)
        return self._groups[owners, fan]

    def _regroup(self, owners: int, fan: int) -> tuple[Tensor | None, int]:
        owner = [row // fan for row in self.listed]
        count = len(owner)
        if count and count % owners == 0:
            each = count // owners
            if owner == [at for at in range(owners) for _ in range(each)]:
                return None, each
        first = owner[::fan]
        if count % fan == 0 and owner == [at for at in first for _ in range(fan)]:
            return self.rows[::fan] // fan, fan
        return self.rows // fan, 1
