"""Probes: look at what a model computes, or change it on the way.

A module names what it computes as `path.name`, its path being the prefix of its weights too: weights, probes and
edits speak one language. A module that nobody watches does no extra work, and nothing is kept on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase

import torch
import torch.nn.functional as F
from torch import Tensor, cat, stack

from regard.core.mask import Mask
from regard.errors import InputError

See = Callable[[str, Tensor], Tensor]
Change = Callable[[Tensor], Tensor]
NEAR = 5  # names that are offered where one isn't known


@dataclass(frozen=True)
class Sight:
    """What a probe is told when a call of the model begins."""

    names: frozenset[str]  # all that can be seen in the model
    mask: Mask | None = None  # where the call's tokens stand
    whole: bool = True  # the call is a whole sequence, and nothing follows
    past: frozenset[str] = frozenset()  # names that were computed when the state was started, and aren't in this call


class Probe:
    """Asked before a value is computed openly, and handed the value; what it returns is used."""

    def begin(self, sight: Sight) -> None:
        """A call of the model begins. Who looks for what isn't there says so now."""

    def wants(self, name: str) -> bool:
        raise NotImplementedError

    def __call__(self, name: str, value: Tensor) -> Tensor:
        raise NotImplementedError


class Both(Probe):
    """Two probes in the place of one; each is handed what it wants, the second what the first made of it."""

    def __init__(self, first: Probe, second: Probe) -> None:
        self.probes = first, second

    def begin(self, sight: Sight) -> None:
        for probe in self.probes:
            probe.begin(sight)

    def wants(self, name: str) -> bool:
        return any(probe.wants(name) for probe in self.probes)

    def __call__(self, name: str, value: Tensor) -> Tensor:
        for probe in self.probes:
            if probe.wants(name):
                value = probe(name, value)
        return value


def join_probes(own: Probe | None, other: Probe | None) -> Probe | None:
    """One probe, both of them, or none."""
    if own is None or other is None:
        return other if own is None else own
    return Both(own, other)


class Record(Probe, Mapping[str, Tensor]):
    """Keep every value whose name matches one of the patterns; afterwards it is a mapping of names to tensors.

    >>> import regard, torch
    >>> model = regard.preset("gpt2", width=32, depth=2, heads=2, vocabulary=100).build()
    >>> look = regard.Record("decoder.blocks.*.mix.weights")
    >>> _ = model(torch.tensor([[5, 6, 7]]), probe=look)
    >>> list(look)
    ['decoder.blocks.0.mix.weights', 'decoder.blocks.1.mix.weights']
    >>> look["decoder.blocks.0.mix.weights"].shape  # rows, heads, queries, keys
    torch.Size([1, 2, 3, 3])
    """

    # a probe is one thing and not its contents: two that saw the same aren't the same probe
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __init__(self, *patterns: str) -> None:
        self.patterns = patterns or ("*",)
        self.pieces: dict[str, list[Tensor]] = {}

    def begin(self, sight: Sight) -> None:
        insist(self.patterns, sight.names, sight.past)

    def wants(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    def __call__(self, name: str, value: Tensor) -> Tensor:
        self.pieces.setdefault(name, []).append(value)
        return value

    def __getitem__(self, name: str) -> Tensor:
        """What was reported under a name; several pieces are joined along time, the axis before the last."""
        pieces = self.pieces[name]
        if len(pieces) == 1:
            return pieces[0]
        if pieces[0].dim() < 2:  # nothing to do with time: a load, a balance
            return stack(pieces)
        widest = max(piece.shape[-1] for piece in pieces)  # keys grow from step to step
        return cat([F.pad(piece, (0, widest - piece.shape[-1])) for piece in pieces], dim=-2)

    def __contains__(self, name: object) -> bool:
        return name in self.pieces

    def __iter__(self) -> Iterator[str]:
        return iter(self.pieces)

    def __len__(self) -> int:
        return len(self.pieces)

    def __repr__(self) -> str:
        return f"<Record of {', '.join(self.patterns)}: {len(self)} values>"


class Edit(Probe):
    """Replace values on the way, by their names or by patterns of names; edits are joined by `|`.

    `head` is one of a value's heads, and `positions` are those of the text, counted from 0; without them, all. What
    generates goes on under an edit within `model.watch(edit)`.

    >>> import regard, torch
    >>> model = regard.preset("gpt2", width=32, depth=2, heads=2, vocabulary=100).build().eval()
    >>> without = regard.Edit.zero("decoder.blocks.0.mix.output")  # the sublayer adds nothing
    >>> tokens = torch.tensor([[5, 6, 7]])
    >>> bool((model(tokens) == model(tokens, probe=without)).all())
    False
    >>> weaker = regard.Edit.scale("decoder.blocks.*.mix.context", 0.5, head=1) | without
    >>> with model.watch(weaker):
    ...     len(model.generate(tokens, max_tokens=4)[0])
    4
    """

    def __init__(self, edits: Mapping[str, Change]) -> None:
        self.edits = [(pattern, _by_function(change)) for pattern, change in edits.items()]
        self.passed: dict[str, int] = {}  # how often each value was reported in this call

    @classmethod
    def zero(cls, name: str, *, head: int | None = None, positions: Sequence[int] | None = None) -> Edit:
        """Take a value away: a head (`….context`), what a sublayer adds (`….output`), one position of a stream."""
        return cls._of(name, _Place(lambda part, *_: torch.zeros_like(part), head, positions))

    @classmethod
    def scale(
        cls, name: str, factor: float, *, head: int | None = None, positions: Sequence[int] | None = None
    ) -> Edit:
        """Multiply a value."""
        return cls._of(name, _Place(lambda part, *_: part * factor, head, positions))

    @classmethod
    def replace(
        cls, name: str, value: Tensor, *, head: int | None = None, positions: Sequence[int] | None = None
    ) -> Edit:
        """Put a tensor in a value's place; it may be smaller where torch would broadcast it.

        One that has as many positions as are given has them in the same order.
        """
        several = positions is not None and value.dim() > 1 and value.shape[-2] == len(positions)

        def choose(part: Tensor, _: Change, which: list[int]) -> Tensor:
            return _spread(value[..., which, :] if several else value, part, name)

        return cls._of(name, _Place(choose, head, positions))

    @classmethod
    def patch(
        cls,
        name: str,
        other: Mapping[str, Tensor],
        *,
        head: int | None = None,
        positions: Sequence[int] | None = None,
    ) -> Edit:
        """Put in what another run of the model had at the same positions; `other`: that run's `Record`."""
        if name not in other:
            raise InputError(f"the other run has no {name}{_near(name, other)}", "record it there: Record(name)")
        given, there = other[name], other[name].shape[-2]
        chosen = list(range(there)) if positions is None else positions
        missing = [place for place in chosen if not 0 <= place < there]
        if missing:
            raise InputError(f"the other run's {name} has {there} positions, and {missing[0]} is asked for")
        return cls._of(name, _Place(lambda part, cut, _: _spread(cut(given), part, name), head, chosen))

    @classmethod
    def _of(cls, name: str, change: _Place) -> Edit:
        made = cls({})
        made.edits = [(name, change)]
        return made

    def __or__(self, other: Edit) -> Edit:
        """Both, this one first."""
        made = Edit({})
        made.edits = [*self.edits, *other.edits]
        return made

    def begin(self, sight: Sight) -> None:
        insist([pattern for pattern, _ in self.edits], sight.names, sight.past)
        self.sight, self.passed = sight, {}

    def wants(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern, _ in self.edits)

    def __call__(self, name: str, value: Tensor) -> Tensor:
        passed = self.passed.get(name, 0)
        self.passed[name] = passed + 1
        for pattern, change in self.edits:
            if fnmatchcase(name, pattern):
                value = change.apply(name, value, self.sight, passed)
        return value


@dataclass(frozen=True)
class _Place:
    """A change of one head, or of some positions, or of all."""

    # given that part, how the same is cut out of another run's value, and which of the positions are in it
    change: Callable[[Tensor, Change, list[int]], Tensor]
    head: int | None = None
    positions: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if self.positions is not None and len(set(self.positions)) < len(self.positions):
            raise InputError(f"positions {list(self.positions)}: one of them is there twice", "each once")

    def apply(self, name: str, value: Tensor, sight: Sight, passed: int) -> Tensor:
        if self.head is None and self.positions is None:
            return self.change(value, lambda other: other, [])
        if value.dim() < 3:
            raise InputError(f"{name} has neither heads nor positions: it is one value a call", "leave both out")
        places, absolute, which = self._places(name, value, sight, passed)
        heads = self._heads(name, value)
        # heads stand before the positions, which stand before the channels or the keys
        at = (slice(None), places) if heads is None else (slice(None), heads[:, None], places)
        there = (*at[:-1], absolute)
        changed = value.clone()
        changed[at] = self.change(value[at], lambda other: other.to(value)[there], which)
        return changed

    def _heads(self, name: str, value: Tensor) -> Tensor | None:
        """The heads that are meant, as an index; None: the value has none."""
        there = value.shape[1] if value.dim() > 3 else None
        if self.head is not None and there is None:
            raise InputError(f"{name} has no heads", "a value of attention, such as ….mix.context")
        if self.head is not None and there is not None and not 0 <= self.head < there:
            raise InputError(f"{name} has {there} heads, counted from 0, and head {self.head} is asked for")
        chosen = range(there or 0) if self.head is None else [self.head]
        return None if there is None else torch.tensor(chosen, device=value.device)

    def _places(self, name: str, value: Tensor, sight: Sight, passed: int) -> tuple[Tensor, Tensor, list[int]]:
        """Where the positions that are meant stand in this call's value, and in the text; and which of those asked.

        They come in the order in which they were asked for.
        """
        time, mask = value.shape[-2], sight.mask
        if self.positions is None:  # all of them, so it doesn't matter where each stands, nor whether rows agree
            everywhere = torch.arange(time, device=value.device)
            return everywhere, everywhere, []
        known = stand = torch.arange(time, device=value.device)
        looped = mask is not None and time == 1 and passed < mask.time  # it reports position by position
        if mask is not None and (mask.time == time or looped):  # else it is a memory's, whose tokens stand first
            every = mask.positions.to(value.device)
            if not bool((every == every[:1]).all()):
                raise InputError(f"{name}: positions can't be edited where rows have different ones", "a row at a time")
            known = every[0]
            stand = known if mask.time == time else known[passed : passed + 1]
        beyond = [place for place in self.positions if place < 0 or (sight.whole and place not in known)]
        if beyond:
            raise InputError(f"{name} has {len(known)} positions, counted from 0, and {beyond[0]} is asked for")
        places = {int(place): at for at, place in enumerate(stand.tolist())}
        which = [n for n, place in enumerate(self.positions) if place in places]
        here = torch.tensor([places[self.positions[n]] for n in which], dtype=torch.long, device=value.device)
        return here, stand[here], which


def _by_function(change: Change) -> _Place:
    """A function of the whole value, as a user wrote it."""
    return _Place(lambda value, *_: change(value))


def _spread(value: Tensor, there: Tensor, name: str) -> Tensor:
    """A value for the place of another, repeated where it is smaller."""
    try:
        return value.to(there).expand_as(there)
    except RuntimeError:
        raise InputError(
            f"{name}: a value of shape {tuple(value.shape)} can't stand for one of {tuple(there.shape)}"
        ) from None


def insist(patterns: Iterable[str], names: Iterable[str], past: frozenset[str] = frozenset()) -> None:
    """Refuse a name or a pattern that no value has, and say which are near it; or one that only `past` values had."""
    known = names if isinstance(names, frozenset) else frozenset(names)
    for pattern in patterns:
        if pattern in known - past:
            continue
        found = [name for name in known if fnmatchcase(name, pattern)]
        if not found:
            raise InputError(f"nothing here is called {pattern}{_near(pattern, known)}", "model.names() lists all")
        if past.issuperset(found):
            raise InputError(
                f"{pattern} was computed when the state was started, and a step doesn't see it",
                "with model.watch(probe): around start and the steps",
            )


def _near(pattern: str, names: Iterable[str]) -> str:
    """The names that look most like one that isn't there; a wildcard is no letter of it."""
    near = get_close_matches(pattern.replace("*", ""), sorted(names), NEAR, 0.4)
    return f"; near it: {', '.join(near)}" if near else ""
