"""State: what a model must remember between two calls, owned by the caller and never by a module.

Every tensor is batch-first, so one primitive, `map`, serves beams, batches and truncated back-propagation. A state is
advanced in place by the module that it belongs to; what `select` returns takes the old one's place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from regard.errors import InputError, NotRewindable

if TYPE_CHECKING:
    from regard.core.mask import Mask

Move = Callable[[Tensor], Tensor]


@dataclass
class State:
    """What is remembered after `length` positions; `lengths` only where rows differ."""

    length: int = field(default=0, kw_only=True)
    lengths: Tensor | None = field(default=None, kw_only=True)  # (rows,)

    def map(self, fn: Move) -> Self:
        """Apply a function to every tensor, here and below."""
        return replace(self, **{name: _map_value(value, fn) for name, value in self._items()})

    def select(self, rows: Tensor) -> Self:
        """Repeat rows for a beam, reorder them, or drop the finished ones.

        What it returns takes this state's place: where nothing moves, both share their memory. To keep both, `copy`.
        """
        return self.map(Selection(rows))

    def copy(self) -> Self:
        """A state of its own: stepping one doesn't move the other."""
        return self.map(Tensor.clone)

    def detach(self) -> Self:
        """Cut the graph here, for truncated back-propagation."""
        return self.map(Tensor.detach)

    def recount(self) -> None:
        """Count positions from 0 again, for a state that holds none: only what recurrences remember."""
        for state in self._states():
            state.length, state.lengths = 0, None

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` positions, or raise and change nothing."""
        if not 0 <= length <= self.length:
            raise NotRewindable(f"can't rewind to {length}: the state holds {self.length} positions")
        states = list(self._states())
        for state in states:
            if not state.rewindable(length):
                raise NotRewindable(
                    f"can't rewind {type(state).__name__} from {state.length} to {length}: what came before is gone",
                    "start again and feed the prefix",
                )
        for state in states:
            state.length = min(state.length, length)
            if state.lengths is not None:
                state.lengths = state.lengths.clamp(max=length)

    def rewindable(self, length: int) -> bool:
        """Whether this state, its children aside, still holds what it knew at `length`."""
        return length == self.length

    def advance(self, mask: Mask) -> None:
        """Count the real tokens of a chunk."""
        self.length, self.lengths = mask.total, mask.ends

    def summary(self) -> Tensor | None:
        """What a recurrence that ends here hands on: (rows, pieces, layers, width), or None."""
        return None

    @property
    def past(self) -> int | Tensor:
        """Positions consumed so far: one number, or one for each row."""
        return self.length if self.lengths is None else self.lengths

    @property
    def nbytes(self) -> int:
        """Bytes that the tensors hold, each counted once."""
        sizes: dict[int, int] = {}

        def count(tensor: Tensor) -> Tensor:
            sizes[id(tensor)] = tensor.nbytes
            return tensor

        self.map(count)
        return sum(sizes.values())

    @property
    def rows(self) -> int | None:
        """How many rows it remembers; None where it holds nothing."""
        for _, value in self._items():
            for child in value if isinstance(value, tuple) else (value,):
                found = (
                    child.shape[0] if isinstance(child, Tensor) else child.rows if isinstance(child, State) else None
                )
                if found is not None:
                    return found
        return None

    def _items(self) -> Iterator[tuple[str, Any]]:
        return ((item.name, getattr(self, item.name)) for item in fields(self))

    def _states(self) -> Iterator[State]:
        yield self
        for _, value in self._items():
            for child in value if isinstance(value, tuple) else (value,):
                if isinstance(child, State):
                    yield from child._states()


def _map_value(value: Any, fn: Move) -> Any:
    if isinstance(value, Tensor):
        return fn(value)
    if isinstance(value, State):
        return value.map(fn)
    if isinstance(value, tuple):
        return tuple(_map_value(item, fn) for item in value)
    return value


class Selection:
    """Rows to keep, as a function on batch-first tensors that copies nothing when nothing moves."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows
        self._same: dict[int, bool] = {}
        self._groups: dict[tuple[int, int], tuple[Tensor | None, int]] = {}

    def __call__(self, tensor: Tensor) -> Tensor:
        return tensor if self.same(tensor.shape[0]) else tensor.index_select(0, self.rows)

    def same(self, count: int) -> bool:
        """Whether the rows stay as they are."""
        if count not in self._same:
            rows = self.rows
            self._same[count] = rows.shape[0] == count and bool((rows == torch.arange(count, device=rows.device)).all())
        return self._same[count]

    def groups(self, owners: int, fan: int) -> tuple[Tensor | None, int]:
        """Which owners to keep when each serves `fan` rows (None: all, unmoved), and how many rows each serves then."""
        if (owners, fan) not in self._groups:
            self._groups[owners, fan] = self._regroup(owners, fan)
        return self._groups[owners, fan]

    def _regroup(self, owners: int, fan: int) -> tuple[Tensor | None, int]:
        owner = self.rows // fan
        count = owner.shape[0]
        if count and count % owners == 0:
            same = torch.arange(owners, device=owner.device).repeat_interleave(count // owners)
            if bool((owner == same).all()):
                return None, count // owners
        if count % fan == 0:
            table = owner.view(-1, fan)
            if bool((table == table[:, :1]).all()):
                return table[:, 0], fan
        return owner, 1


@dataclass
class Shared(State):
    """Tensors that several rows look at: each first-axis entry serves `fan` consecutive rows.

    The hypotheses of one sentence share its memory, so re-ordering them within the sentence moves nothing.
    """

    tensors: tuple[Tensor, ...] = ()
    fan: int = 1

    def map(self, fn: Move) -> Self:
        if not isinstance(fn, Selection):
            return super().map(fn)
        index, fan = fn.groups(self.tensors[0].shape[0], self.fan)
        lengths = None if self.lengths is None else fn(self.lengths)
        if index is None:
            return replace(self, fan=fan, lengths=lengths)
        kept = tuple(tensor.index_select(0, index) for tensor in self.tensors)
        return replace(self, tensors=kept, fan=fan, lengths=lengths)

    def rewindable(self, length: int) -> bool:
        return True

    @property
    def rows(self) -> int:
        return self.tensors[0].shape[0] * self.fan

    def fold(self, x: Tensor) -> Tensor:
        """Lay the rows that share an owner side by side as queries: (rows, time, …) -> (owners, fan * time, …)."""
        return x if self.fan == 1 else x.reshape(-1, self.fan * x.shape[1], *x.shape[2:])

    def unfold(self, x: Tensor) -> Tensor:
        """The inverse of `fold`."""
        return x if self.fan == 1 else x.reshape(x.shape[0] * self.fan, -1, *x.shape[2:])


@dataclass
class Memory(Shared):
    """What an encoder leaves behind: `states` for each position, and `final` where a recurrence ended."""

    valid: Tensor | None = None  # (sentences, keys), None: all real
    final: Tensor | None = None  # (sentences, pieces, layers, width); pieces: hidden, then cell if there is one

    @property
    def states(self) -> Tensor:
        """(sentences, keys, width)"""
        return self.tensors[0]

    def map(self, fn: Move) -> Self:
        moved = super().map(fn)
        if isinstance(fn, Selection):
            index, _ = fn.groups(self.states.shape[0], self.fan)
            if index is not None:
                moved.valid = None if self.valid is None else self.valid.index_select(0, index)
                moved.final = None if self.final is None else self.final.index_select(0, index)
        return moved

    def serve(self, rows: int) -> Memory:
        """The same memory for more rows: each sentence's rows stand together."""
        sentences = self.states.shape[0]
        if rows % sentences:
            raise InputError(f"{rows} rows can't share the memory of {sentences} sentences evenly")
        return replace(self, fan=rows // sentences)

    @property
    def allowed(self) -> Tensor | None:
        """(sentences, 1, 1, keys), True where there is something to look at."""
        return None if self.valid is None else self.valid[:, None, None, :]


@dataclass
class Group(State):
    """The states of several modules, in order."""

    parts: tuple[State | None, ...] = ()

    def rewindable(self, length: int) -> bool:
        return True
