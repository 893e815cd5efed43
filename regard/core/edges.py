"""Edges: which positions of a batch are neighbours. Whoever reads graphs is given them, and the view carries them.

All edges of a batch stand in one list that counts places through all rows, so that passing messages is one gather and
one sum for the whole batch, however many edges each graph has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.errors import InputError


@dataclass(frozen=True)
class Edges:
    """Pairs of places; an edge that goes both ways is there twice."""

    links: Tensor  # (2, edges): from where, to where; place = row * time + position
    kinds: Tensor | None = None  # (edges, features): what sort of edge each is, as numbers of categories
    table: Tensor | None = None  # (sorts, width): a vector for each sort of edge, as an embedding has it
    sorts: Tensor | None = None  # (edges,): which of these vectors is an edge's

    def __post_init__(self) -> None:
        if self.links.dim() != 2 or self.links.shape[0] != 2 or self.links.is_floating_point():
            raise InputError(
                f"edges are integers of shape (2, edges), not {self.links.dtype} {tuple(self.links.shape)}"
            )
        if self.kinds is not None and len(self.kinds) != self.links.shape[1]:
            raise InputError(f"there are {self.links.shape[1]} edges, and kinds of {len(self.kinds)}")

    @classmethod
    def none(cls, device: torch.device | str | None = None) -> Edges:
        """No edge at all: every position is alone."""
        return cls(torch.empty(2, 0, dtype=torch.long, device=device))

    @classmethod
    def join(cls, graphs: Sequence[Tensor], starts: Sequence[int], kinds: list[Tensor] | None = None) -> Edges:
        """The edges of several graphs, (edges, 2), which go both ways and are given once; `starts`: each one's first
        place."""
        pairs = torch.cat([graph.long() + start for graph, start in zip(graphs, starts, strict=True)]).view(-1, 2)
        links = torch.cat((pairs, pairs.flip(1))).mT.contiguous()
        return cls(links, None if kinds is None else torch.cat(kinds).long().repeat(2, 1))

    def insist(self, rows: int, time: int, valid: Tensor | None) -> None:
        """Refuse edges that lead out of their row, or to a pad."""
        links = self.links
        if not links.numel():
            return
        if int(links.min()) < 0 or int(links.max()) >= rows * time:
            raise InputError(f"edges name places up to {int(links.max())}, and there are {rows} rows of {time}")
        if bool((links[0] // time != links[1] // time).any()):
            raise InputError("an edge leads from one row to another", "place = row * time + position")
        if valid is not None and not bool(valid.flatten()[links].all()):
            raise InputError("an edge leads to a pad, which is no node")

    def move(self, places: Tensor) -> Edges:
        """The same where each place has gone to another: (rows · time,)."""
        return replace(self, links=places[self.links])

    def describe(self, table: Tensor, sorts: Tensor) -> Edges:
        """The same with what an embedding makes of the kinds."""
        return replace(self, table=table, sorts=sorts)

    @property
    def vectors(self) -> Tensor | None:
        """What an embedding makes of each edge's kinds: (edges, width)."""
        return None if self.table is None or self.sorts is None else self.table.index_select(0, self.sorts)

    def to(self, device: torch.device | str) -> Edges:
        """The same on a device."""
        parts = (self.kinds, self.table, self.sorts)
        return Edges(self.links.to(device), *(None if part is None else part.to(device) for part in parts))
