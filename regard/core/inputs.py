"""Inputs: all that one call of a model reads, in one record.

A call that is wrapped (compiled, or spread over machines) goes through one door, and what is read can be moved, cut and
handed on as one thing. Whoever types `model(tokens, valid=…)` needn't know of it: `Inputs.of` makes the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Never

import torch
from torch import Tensor

from regard.core.edges import Edges
from regard.core.padding import Padding, Side
from regard.core.probe import Probe
from regard.core.state import Memory
from regard.errors import InputError

Extras = Mapping[str, Tensor]


@dataclass(frozen=True)
class Inputs:
    """Tokens, which of them are real, and what else a call may look at.

    Where `valid` is a `Padding`, it tells the lengths of the rows, and the documents that these pack if they do, and no
    device is asked.
    """

    tokens: Tensor  # (rows, time); or numbers, images: whatever the embedding takes
    valid: Tensor | Padding | None = None  # (rows, time), True where a token is real; None: everywhere
    documents: Tensor | None = None  # (rows, time): which document of its row each token belongs to; each as if alone
    memory: Memory | Inputs | None = None  # what a decoder looks at, or what the encoder is to read for it
    extras: Extras = field(default_factory=dict)  # what some embeddings want beside: segments, spellings
    probe: Probe | None = None  # who watches
    edges: Edges | None = None  # which positions are neighbours, where they are nodes of a graph

    def __post_init__(self) -> None:
        if self.documents is not None and isinstance(self.valid, Padding) and self.valid.documents is not None:
            raise InputError("the padding knows the documents of each row, and others are given", "leave one out")

    @classmethod
    def of(
        cls,
        tokens: Tensor | Inputs,
        memory: Memory | Inputs | None = None,
        *,
        valid: Tensor | Padding | None = None,
        documents: Tensor | None = None,
        extras: Extras | None = None,
        probe: Probe | None = None,
        **strange: Never,
    ) -> Inputs:
        """The record of a call that was typed out; one that is there already stands alone."""
        if strange:
            from regard.core.advice import refuse

            refuse(strange)
        if not isinstance(tokens, Inputs):
            return cls(tokens, valid, documents, memory, extras or {}, probe)
        if any(part is not None for part in (memory, valid, documents, extras, probe)):
            raise InputError("this call has an Inputs and something beside it", "Inputs(tokens, valid=…) holds all")
        return tokens

    @classmethod
    def pad(cls, rows: Sequence[Sequence[int]], pad: int, side: Side = "right") -> Inputs:
        """Rows of token numbers as a rectangle."""
        padding = Padding([len(row) for row in rows], side=side)
        return cls(padding.fill(rows, pad), padding)

    @property
    def real(self) -> Tensor:
        """Where tokens are real, as a tensor: (rows, time)."""
        if self.valid is None:
            return torch.ones(self.tokens.shape[:2], dtype=torch.bool, device=self.tokens.device)
        return self.valid.valid if isinstance(self.valid, Padding) else self.valid

    @property
    def owners(self) -> Tensor | None:
        """Which document of its row each token belongs to, be it given or known by the padding: (rows, time)."""
        return self.valid.documents if isinstance(self.valid, Padding) else self.documents

    def to(self, device: torch.device | str) -> Inputs:
        """The same on a device; a memory is where its encoder was."""
        return replace(
            self,
            tokens=self.tokens.to(device),
            valid=None if self.valid is None else self.valid.to(device),
            documents=None if self.documents is None else self.documents.to(device),
            memory=self.memory.to(device) if isinstance(self.memory, Inputs) else self.memory,
            extras={name: tensor.to(device) for name, tensor in self.extras.items()},
            edges=None if self.edges is None else self.edges.to(device),
        )

    def cut(self, size: int) -> Iterator[Inputs]:
        """Pieces of so many positions, in order, for a state to read one after the other; not of packed documents."""
        if isinstance(self.valid, Tensor):
            Padding.read(self.valid)  # a hole that two pieces share would be none of either
        for first in range(0, self.tokens.shape[1], size):
            places = slice(first, first + size)
            valid = None if self.valid is None else self.real[:, places]
            yield replace(self, tokens=self.tokens[:, places], valid=valid)

    def without_last(self) -> Inputs:
        """Each row without its own last token, as a decoder reads what it is taught to predict."""
        valid = self.valid
        if isinstance(valid, Tensor):
            valid = valid[:, :-1] & valid[:, 1:]
        return replace(
            self,
            tokens=self.tokens[:, :-1],
            valid=valid.without_last() if isinstance(valid, Padding) else valid,
        )
