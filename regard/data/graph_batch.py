"""Graphs side by side, as a model reads them: packed into rows, nodes in the model's order, edges of all in one list.

What a graph's nodes know of their places is computed once and kept; the order, where chance has a part in it, is drawn
anew each time.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from random import Random
from typing import Any, Protocol

import numpy as np
import torch

from regard.core.edges import Edges
from regard.core.inputs import Inputs
from regard.core.padding import Padding
from regard.core.role import GraphReading
from regard.data.graph import Numbers, Schema, find_eigenvectors, find_returns, order_nodes

SOME = 4  # average graphs that have room in a row
Places = dict[str, Numbers]  # what a node knows of its place, by the name of the extra: (nodes, channels)


@dataclass(frozen=True)
class GivenGraph:
    """Nodes, edges (each once), and the edges' kinds, where they have any."""

    nodes: Numbers
    edges: Numbers
    kinds: Numbers | None = None

    @classmethod
    def of(cls, sample: Mapping[str, Any], schema: Schema) -> GivenGraph:
        """The graph of a sample, with categories that the model knows."""
        kinds = sample.get("edge_kinds")
        if not len(sample["edges"]):  # then nobody knows whether edges would have kinds, and it doesn't matter
            kinds = np.zeros((0, len(schema.edge_kinds)), np.int32) if schema.edge_kinds else None
        schema.insist(sample["nodes"], kinds)
        numbers = None if kinds is None else schema.number_edges(kinds)
        return cls(schema.number_nodes(sample["nodes"]), sample["edges"], numbers)

    def digest(self) -> str:
        """What tells it from other graphs, wherever it is read: of its nodes and edges, as they are named."""
        parts = (self.nodes, self.edges) if self.kinds is None else (self.nodes, self.edges, self.kinds)
        return hashlib.sha256(b"".join(str(part.shape).encode() + part.tobytes() for part in parts)).hexdigest()

    def shuffle(self, chance: Random) -> GivenGraph:
        """The same graph with its nodes named otherwise."""
        return self.arrange(chance.sample(range(len(self.nodes)), len(self.nodes)))

    def arrange(self, order: Sequence[int]) -> GivenGraph:
        """The same graph with its nodes in an order: which of them stands at each place."""
        places = np.empty(len(order), np.int32)
        places[np.asarray(order)] = np.arange(len(order), dtype=np.int32)
        return GivenGraph(self.nodes[np.asarray(order)], places[self.edges], self.kinds)


@dataclass
class Whereabouts:
    """What nodes know of their places, computed once for each graph that has a number."""

    reading: GraphReading
    kept: dict[int, Places] = field(default_factory=dict)

    def locate(self, graph: GivenGraph, number: int | None = None) -> Places:
        if number is not None and number in self.kept:
            return self.kept[number]
        count, found = len(graph.nodes), Places()
        if self.reading.laplacian:
            found["laplacian"] = find_eigenvectors(count, graph.edges, self.reading.laplacian)
        if self.reading.walks:
            found["walks"] = find_returns(count, graph.edges, self.reading.walks)
        if number is not None:
            self.kept[number] = found
        return found


class Reader(Protocol):
    """Whoever reads graphs: whether it wants edges, and whether nodes hear of others than their neighbours."""

    @property
    def connected(self) -> bool: ...

    @property
    def reaches(self) -> bool: ...


@dataclass
class GraphLayout:
    """Graphs as inputs, and which node stands at each place of a graph."""

    inputs: Inputs
    orders: list[list[int]]
    starts: list[int]  # each graph's first place, counting through all rows

    def split(self, found: Numbers) -> list[Numbers]:
        """What was found for the nodes of each graph: (rows, time, …) to (nodes, …) each."""
        flat = found.reshape(-1, *found.shape[2:])
        return [flat[start : start + len(order)] for start, order in zip(self.starts, self.orders, strict=True)]


def lay_out_graphs(
    graphs: Sequence[GivenGraph],
    where: Whereabouts,
    chances: Sequence[Random],
    reader: Reader,
    training: bool = False,
    numbers: Sequence[int] | None = None,
) -> GraphLayout:
    """Rows that pack whole graphs one after the other; `chances`: one a graph."""
    reading, sizes = where.reading, [len(graph.nodes) for graph in graphs]
    rows = fill_rows(sizes, choose_time(sizes, reader))
    padding = Padding.packed(rows)
    starts = [
        row * padding.time + start for row, known in enumerate(rows) for start in accumulate(known[:-1], initial=0)
    ]
    orders, arranged, places = list[list[int]](), list[GivenGraph](), len(rows) * padding.time
    tokens = np.zeros((places, graphs[0].nodes.shape[1]), graphs[0].nodes.dtype)
    channels = {"laplacian": reading.laplacian, "walks": reading.walks}
    extras = {name: np.zeros((places, n), np.float32) for name, n in channels.items() if n}
    for place, (graph, chance, start, count) in enumerate(zip(graphs, chances, starts, sizes, strict=True)):
        order, here = order_nodes(reading.order, count, graph.edges, chance), slice(start, start + count)
        orders.append(order)
        arranged.append(graph if reading.order == "given" else graph.arrange(order))
        tokens[here] = arranged[-1].nodes
        for name, known in where.locate(graph, None if numbers is None else numbers[place]).items():
            extras[name][here] = known if reading.order == "given" else known[order]
        if training and "laplacian" in extras:
            # an eigenvector's sign means nothing, so that a model must not learn it
            extras["laplacian"][here] *= [chance.choice((-1, 1)) for _ in range(reading.laplacian)]
    shape = len(rows), padding.time
    inputs = Inputs(
        torch.from_numpy(tokens if tokens.dtype.kind == "f" else tokens.astype(np.int64)).unflatten(0, shape),
        padding,
        extras={name: torch.from_numpy(known).unflatten(0, shape) for name, known in extras.items()},
        edges=join_edges(arranged, starts) if reader.connected else None,
    )
    return GraphLayout(inputs, orders, starts)


def choose_time(sizes: Sequence[int], reader: Reader) -> int:
    """How many places a row has: all, so that there are no pads, where only neighbours hear each other; where all nodes
    of a row are compared, so many that a row of average graphs has few pads."""
    return max(*sizes, math.ceil(SOME * sum(sizes) / len(sizes))) if reader.reaches else sum(sizes)


def fill_rows(sizes: Sequence[int], time: int) -> list[list[int]]:
    """Sizes in order, a row for as many as have room in it."""
    rows, left = list[list[int]](), 0
    for size in sizes:
        if size > left:
            rows.append([])
            left = time
        rows[-1].append(size)
        left -= size
    return rows


def join_edges(graphs: Sequence[GivenGraph], starts: Sequence[int]) -> Edges:
    """The edges of all graphs in one list."""
    kinds = [torch.from_numpy(graph.kinds) for graph in graphs if graph.kinds is not None]
    return Edges.join([torch.from_numpy(graph.edges) for graph in graphs], starts, kinds or None)
