"""State: what a model must remember between two calls, owned by the caller and never by a module.

Every tensor is batch-first, so one primitive, `map`, serves beams, batches and truncated back-propagation, and `join`
is its counterpart: rows of several states in one. A state is advanced in place by the module that it belongs to; what
`select` and `join` return takes the place of what they were given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.selection import Selection
from regard.errors import InputError, NotJoinable, NotRewindable

if TYPE_CHECKING:
    from regard.core.mask import Mask

Move = Callable[[Tensor], Tensor]
S = TypeVar("S", bound="State")


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

    def hand_on(self, rows: Tensor) -> Self:
        """As `select`, by somebody who won't touch this state again, so that its memory may serve as it stands."""
        return self.move(Selection(rows, takes_over=True))

    def move(self, chosen: Selection) -> Self:
        """As `map`, in place: a model has many states, and they are moved at every step of a beam."""
        if type(self).map is not State.map:  # it has a way of its own
            return self.map(chosen)
        held, names = vars(self), list_fields(type(self))  # type: ignore[arg-type]  # a class can be hashed
        for name in [name for name in held if name not in names] if len(held) > len(names) else ():
            del held[name]  # what was worked out before doesn't hold for other rows
        for name in names:
            value = held[name]
            if isinstance(value, Tensor):
                held[name] = chosen(value)
            elif isinstance(value, State):
                held[name] = value.move(chosen)
            elif isinstance(value, tuple):
                held[name] = tuple([_move_value(part, chosen) for part in value])
        return self

    @staticmethod
    def join(states: Sequence[S]) -> S:
        """The rows of several states in one, in order, each at the position that it has reached.

        What it returns takes their place. What can't stand side by side raises, and nothing is changed.
        """
        if len(states) == 1:
            return states[0]
        _refuse_others("states", states)
        first, where = states[0], type(states[0]).__name__
        level = first.level(states)
        joined = {
            name: _join_values(f"{where}.{name}", [vars(state)[name] for state in level])
            for name, _ in first._items()
            if name not in ("length", "lengths")
        }
        return replace(first, length=max(state.length for state in level), lengths=_join_lengths(level), **joined)

    @classmethod
    def level(cls, states: Sequence[Self]) -> Sequence[Self]:
        """The same states, padded until only their rows tell them apart."""
        return states

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
        return sum({id(tensor): tensor.nbytes for tensor in self._tensors()}.values())

    @property
    def rows(self) -> int | None:
        """How many rows it remembers; None where it holds nothing."""
        held = vars(self)  # asked at every step, so nothing is made for it
        for name in list_fields(type(self)):  # type: ignore[arg-type]
            value = held[name]
            for child in value if isinstance(value, tuple) else (value,):
                found = (
                    child.shape[0] if isinstance(child, Tensor) else child.rows if isinstance(child, State) else None
                )
                if found is not None:
                    return found
        return None

    def _items(self) -> Iterator[tuple[str, Any]]:
        return ((name, getattr(self, name)) for name in list_fields(type(self)))  # type: ignore[arg-type]

    def _states(self) -> Iterator[State]:
        yield self
        for _, value in self._items():
            for child in value if isinstance(value, tuple) else (value,):
                if isinstance(child, State):
                    yield from child._states()

    def _tensors(self) -> Iterator[Tensor]:
        for state in self._states():
            for _, value in state._items():
                parts = value if isinstance(value, tuple) else (value,)
                yield from (part for part in parts if isinstance(part, Tensor))


@cache
def list_fields(kind: type[State]) -> tuple[str, ...]:
    """What a kind of state consists of."""
    return tuple(item.name for item in fields(kind))


def _move_value(value: Any, chosen: Selection) -> Any:
    if isinstance(value, State):
        return value.move(chosen)
    return _map_value(value, chosen)


def _map_value(value: Any, fn: Move) -> Any:
    if isinstance(value, Tensor):
        return fn(value)
    if isinstance(value, State):
        return value.map(fn)
    if isinstance(value, tuple):
        return tuple(_map_value(item, fn) for item in value)
    return value


def _join_lengths(states: Sequence[State]) -> Tensor | None:
    """Positions of each row, in order; None where all rows are alike."""
    if all(state.lengths is None and state.length == states[0].length for state in states):
        return None
    parts = []
    for state in states:
        rows, device = state.rows, next((tensor.device for tensor in state._tensors()), None)
        if rows is None:
            raise NotJoinable(f"can't join a {type(state).__name__} that holds nothing: its rows aren't known")
        parts.append(torch.full((rows,), state.length, device=device) if state.lengths is None else state.lengths)
    return torch.cat(parts)


def _join_values(name: str, values: Sequence[Any]) -> Any:
    """One field of several states: tensors and states row by row, and whatever else where it is the same in all."""
    _refuse_others(name, values)
    first = values[0]
    if isinstance(first, Tensor):
        return torch.cat(tuple(values))
    if isinstance(first, State):
        return State.join(values)
    if isinstance(first, tuple):
        return tuple(_join_values(f"{name}.{n}", part) for n, part in enumerate(zip(*values, strict=True)))
    return first


def _refuse_others(name: str, values: Sequence[Any]) -> None:
    """Raise unless all are of one make."""
    makes = list(dict.fromkeys(map(_describe, values)))
    if len(makes) > 1:
        raise NotJoinable(f"can't join {name}: {makes[0]} in one and {makes[1]} in another")


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {('rows', *value.shape[1:])} on {value.device}"
    if isinstance(value, State):
        return type(value).__name__
    return f"{len(value)} parts" if isinstance(value, tuple) else repr(value)


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

    def move(self, chosen: Selection) -> Self:
        index, fan = chosen.groups(self.tensors[0].shape[0], self.fan)
        if index is not None or self.lengths is not None or fan != self.fan:
            return self.map(chosen)
        return self  # the hypotheses of each sentence have changed places, and that is nothing to it

    @classmethod
    def level(cls, states: Sequence[Self]) -> Sequence[Self]:
        """Each with as many keys as the longest, and with as many rows to an entry as they can all have."""
        keys, fan = max(state.keys for state in states), math.gcd(*(state.fan for state in states))
        return [state._spread(fan)._lengthen(keys) for state in states]

    def _spread(self, fan: int) -> Self:
        """The same with fewer rows to an entry, so with more entries."""
        if fan == self.fan:
            return self
        spread = self.map(lambda tensor: tensor.repeat_interleave(self.fan // fan, 0))
        return replace(spread, fan=fan, lengths=self.lengths)

    def _lengthen(self, keys: int) -> Self:
        """The same with more keys; a `Memory` says that they aren't real."""
        if keys == self.keys:
            return self
        return replace(self, tensors=tuple(F.pad(tensor, (0, 0, 0, keys - self.keys)) for tensor in self.tensors))

    def rewindable(self, length: int) -> bool:
        return True

    @property
    def keys(self) -> int:
        """What there is to look at for each entry: tensors are (entries, …, keys, size)."""
        return self.tensors[0].shape[-2]

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
    """What an encoder leaves behind: `states` for each position, `final` where a recurrence ended, and what it `read`,
    for who points at it.
    """

    valid: Tensor | None = None  # (sentences, keys), None: all real
    final: Tensor | None = None  # (sentences, pieces, layers, width); pieces: hidden, then cell if there is one
    read: Tensor | None = None  # (sentences, keys, …), tokens or numbers; None: positions weren't read one by one

    @classmethod
    def of(cls, mask: Mask, states: Tensor, final: Tensor | None, read: Tensor) -> Memory:
        """What a call leaves, each sentence's real positions first; a picture, of four axes, isn't read by position."""
        each = read.dim() <= 3 and read.shape[:2] == states.shape[:2]
        return cls(
            tensors=(mask.align(states),), valid=mask.aligned, final=final, read=mask.align(read) if each else None
        )

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
                moved.read = None if self.read is None else self.read.index_select(0, index)
        return moved

    @classmethod
    def level(cls, states: Sequence[Self]) -> Sequence[Self]:
        level = super().level(states)
        if all(state.valid is None for state in level) and len({state.keys for state in states}) == 1:
            return level
        return [
            replace(state, valid=state._mark_valid(before.keys)) for before, state in zip(states, level, strict=True)
        ]

    def _lengthen(self, keys: int) -> Self:
        longer = super()._lengthen(keys)
        if self.read is None or longer is self:
            return longer
        beside = (0, 0) * (self.read.dim() - 2)
        return replace(longer, read=F.pad(self.read, (*beside, 0, keys - self.keys)))

    def _mark_valid(self, real: int) -> Tensor:
        """`valid` over all keys, of which the first `real` were there before some were added."""
        device, keys = self.states.device, self.keys
        if self.valid is None:
            return (torch.arange(keys, device=device) < real).expand(self.states.shape[0], -1)
        return F.pad(self.valid, (0, keys - real))

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

    def move(self, chosen: Selection) -> Self:
        if self.lengths is not None or len(vars(self)) > len(list_fields(type(self))):  # type: ignore[arg-type]
            return super().move(chosen)
        self.parts = tuple([None if part is None else part.move(chosen) for part in self.parts])
        return self

    def rewindable(self, length: int) -> bool:
        return True


@dataclass
class Progress(State):
    """A decoder's state: what each block remembers, the memory that it looks at, and what a head remembers."""

    blocks: Group
    memory: Memory | None = None
    head: State | None = None
    dtype: torch.dtype = torch.float32  # of the model, which is asked once

    def rewindable(self, length: int) -> bool:
        return True
