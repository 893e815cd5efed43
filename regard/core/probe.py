"""Probes: look at what a model computes, or change it on the way.

A module names what it computes as `path.name`, its path being the prefix of its weights too: weights, probes and
edits speak one language. A module that nobody watches does no extra work, and nothing is kept on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase

import torch.nn.functional as F
from torch import Tensor, cat, stack

See = Callable[[str, Tensor], Tensor]


class Probe:
    """Asked before a value is computed openly, and handed the value; what it returns is used."""

    def wants(self, name: str) -> bool:
        raise NotImplementedError

    def __call__(self, name: str, value: Tensor) -> Tensor:
        raise NotImplementedError


class Both(Probe):
    """Two probes in the place of one; each is handed what it wants, the second what the first made of it."""

    def __init__(self, first: Probe, second: Probe) -> None:
        self.probes = first, second

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
    """Replace values on the way, by their names or by patterns of names.

    >>> import regard, torch
    >>> model = regard.preset("gpt2", width=32, depth=2, heads=2, vocabulary=100).build().eval()
    >>> without = regard.Edit({"decoder.blocks.0.mix.output": torch.zeros_like})  # the sublayer adds nothing
    >>> tokens = torch.tensor([[5, 6, 7]])
    >>> bool((model(tokens) == model(tokens, probe=without)).all())
    False
    """

    def __init__(self, edits: Mapping[str, Callable[[Tensor], Tensor]]) -> None:
        self.edits = dict(edits)

    def wants(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.edits)

    def __call__(self, name: str, value: Tensor) -> Tensor:
        for pattern, change in self.edits.items():
            if fnmatchcase(name, pattern):
                value = change(value)
        return value
