"""Nodes of graphs as vectors: what sort of node each is, numbers that it has, and where it stands in its graph.

A node has no place in an order. What stands for one are the eigenvectors of the graph's Laplacian (Dwivedi & Bresson
2020; their signs mean nothing, so they are drawn while training) and how likely a random walk is to be back after 1, 2,
… steps (Dwivedi et al. 2022). Both are computed once for each graph where batches are made (`data/graph.py`), and come
as extras: `laplacian` and `walks`, (rows, time, channels).
"""

from __future__ import annotations

import math
from typing import Literal, Self

import torch
from torch import Tensor

from regard.core.dense import Dense, Lookup
from regard.core.dropout import dropout
from regard.core.edges import Edges
from regard.core.mixer import Part
from regard.core.role import EmbeddingSpec, GraphReading, NodeOrder
from regard.core.spec import Count, Rate, Size
from regard.core.view import View
from regard.errors import InputError
from regard.parts.embedding import Embedding

SORTS = 2**12  # of edges, for each of which there may be a vector ahead


class Nodes(EmbeddingSpec):
    """The sum of a vector for each category of a node, of its numbers projected, and of its positions projected."""

    kind: Literal["nodes"] = "nodes"
    categories: tuple[Size, ...] = (256,)
    """A node has a category of each sort, and there are this many of each; the data says how many."""
    channels: Count = 0
    """A node has this many numbers, in the place of categories."""
    edge_kinds: tuple[Size, ...] = ()
    """An edge has a category of each sort, and there are this many of each; the data says how many."""
    edge_vectors: bool = True
    """Messages hear of what kind their edge is, where edges are of several."""
    laplacian: Count = 0
    """Nodes know their places by this many eigenvectors of the graph's Laplacian."""
    walks: Count = 0
    """Nodes know how likely a random walk is to be back after each of this many steps."""
    order: NodeOrder = "given"
    """Nodes come in this order: as the file has them (given), by chance anew each time (random), by degree with chance
    among equals and the important last (degree), by the Laplacian's second eigenvector (eigenvector), as a random walk
    meets them (random-walk), by distance from the node of the largest degree (breadth-first), or group by group
    (cluster)."""
    dropout: Rate = 0.0
    """This share of the sum is dropped while training."""

    @property
    def graph(self) -> GraphReading:
        return GraphReading(self.order, self.laplacian, self.walks)

    @property
    def token_count(self) -> int | None:
        return self.categories[0] if len(self.categories) == 1 and not self.channels else None

    def resize(self, tokens: int) -> Self:
        return self.replace(categories=(tokens,))

    def read_graphs(self, categories: tuple[int, ...], channels: int, edge_kinds: tuple[int, ...]) -> Self:
        return self.replace(
            categories=categories, channels=channels, edge_kinds=edge_kinds if self.edge_vectors else ()
        )

    def build(self, width: int, table: Lookup | None = None) -> Part:
        return NodeEmbedding(self, width)


class NodeEmbedding(Embedding):
    table = None

    def __init__(self, spec: Nodes, width: int) -> None:
        super().__init__()
        self.spec, self.width = spec, width
        sizes = () if spec.channels else spec.categories
        self.nodes = torch.nn.ModuleList(Lookup(size, width) for size in sizes)
        self.numbers = Dense(spec.channels, width) if spec.channels else None
        self.kinds = torch.nn.ModuleList(Lookup(size, width) for size in spec.edge_kinds)
        self.laplacian = Dense(spec.laplacian, width) if spec.laplacian else None
        self.walks = Dense(spec.walks, width) if spec.walks else None

    def measure(self, inputs: Tensor) -> tuple[int, int]:
        wanted = self.spec.channels or len(self.spec.categories)
        shape = inputs.shape if inputs.dim() == 3 else (*inputs.shape, 1)
        if len(shape) != 3 or shape[2] != wanted or inputs.is_floating_point() != bool(self.spec.channels):
            sort = "floats" if self.spec.channels else "integers"
            given = f"{inputs.dtype} {tuple(inputs.shape)}"
            raise InputError(f"nodes are {sort} of shape (rows, nodes, {wanted}), not {given}")
        return shape[0], shape[1]

    def describe_edges(self, edges: Edges) -> Edges:
        if not len(self.kinds):
            return edges
        if edges.kinds is None or edges.kinds.shape[1] != len(self.kinds):
            there = 0 if edges.kinds is None else edges.kinds.shape[1]
            raise InputError(f"edges have {there} categories, and this model reads {len(self.kinds)}")
        kinds, sizes = edges.kinds, self.spec.edge_kinds
        if bool((kinds < 0).any()) or bool((kinds >= kinds.new_tensor(sizes)).any()):
            raise InputError(f"edges have categories up to {kinds.amax(0).tolist()}, and there are {sizes} of each")
        if math.prod(sizes) > SORTS:
            return edges.describe(add_up(self.kinds, kinds), torch.arange(len(kinds), device=kinds.device))
        # few sorts of edges: a vector for each, instead of one for each edge
        every = torch.cartesian_prod(*(torch.arange(size, device=kinds.device) for size in sizes))
        sorts = kinds.new_zeros(len(kinds))
        for place, size in enumerate(sizes):
            sorts = sorts * size + kinds[:, place]
        return edges.describe(add_up(self.kinds, every.view(-1, len(sizes))), sorts)

    def forward(self, inputs: Tensor, view: View) -> Tensor:
        inputs = inputs if inputs.dim() == 3 else inputs[..., None]
        x = add_up(self.nodes, inputs) if self.numbers is None else self.numbers(inputs)
        for name, part in (("laplacian", self.laplacian), ("walks", self.walks)):
            if part is not None:
                x = x + part(self._locate(name, inputs, part.in_features, view).to(x.dtype))
        return dropout(x, self.spec.dropout) if self.spec.dropout and self.training else x

    @staticmethod
    def _locate(name: str, inputs: Tensor, channels: int, view: View) -> Tensor:
        """Where nodes stand: (rows, nodes, channels); nowhere, if they have no edges."""
        found = view.extras.get(name)
        if found is None and view.edges is None:
            return torch.zeros(*inputs.shape[:2], channels, device=inputs.device)
        if found is None or found.shape != (*inputs.shape[:2], channels):
            there = "there are none" if found is None else f"these are {tuple(found.shape)}"
            raise InputError(
                f"this model reads {channels} channels of {name} for each node, and {there}", f"extras={{'{name}': …}}"
            )
        return found


def add_up(tables: torch.nn.ModuleList, numbers: Tensor) -> Tensor:
    """The sum of what each table has for its own number: (…, tables) -> (…, width)."""
    found: Tensor = tables[0](numbers[..., 0])
    for place, table in enumerate(tables[1:], 1):
        found = found + table(numbers[..., place])
    return found
