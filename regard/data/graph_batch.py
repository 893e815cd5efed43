"""Graphs side by side, as a model reads them: a row each, nodes in the model's order, edges of all in one list.

What a graph's nodes know of their places is computed once and kept; the order, where chance has a part in it, is drawn
anew each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import torch

from regard.core.edges import Edges
from regard.core.inputs import Inputs
from regard.core.padding import Padding
from regard.core.role import GraphReading
from regard.data.graph import Numbers, Schema, find_eigenvectors, find_returns, order_nodes

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


@dataclass
class GraphLayout:
    """Graphs as inputs, and which node stands at each place of a row."""

    inputs: Inputs
    orders: list[list[int]]


def lay_out_graphs(
    graphs: Sequence[GivenGraph],
    where: Whereabouts,
    chances: Sequence[Random],
    connected: bool,
    training: bool = False,
    numbers: Sequence[int] | None = None,
) -> GraphLayout:
    """A row for each graph; `chances`: one a graph, `connected`: whether the model wants the edges."""
    reading, time = where.reading, max(len(graph.nodes) for graph in graphs)
    orders, arranged = list[list[int]](), list[GivenGraph]()
    tokens = np.zeros((len(graphs), time, graphs[0].nodes.shape[1]), graphs[0].nodes.dtype)
    channels = {"laplacian": reading.laplacian, "walks": reading.walks}
    extras = {name: np.zeros((len(graphs), time, n), np.float32) for name, n in channels.items() if n}
    for row, (graph, chance) in enumerate(zip(graphs, chances, strict=True)):
        count = len(graph.nodes)
        order = order_nodes(reading.order, count, graph.edges, chance)
        orders.append(order)
        arranged.append(graph if reading.order == "given" else graph.arrange(order))
        tokens[row, :count] = arranged[-1].nodes
        for name, places in where.locate(graph, None if numbers is None else numbers[row]).items():
            extras[name][row, :count] = places if reading.order == "given" else places[order]
        if training and "laplacian" in extras:
            # an eigenvector's sign means nothing, so that a model must not learn it
            extras["laplacian"][row] *= [chance.choice((-1, 1)) for _ in range(reading.laplacian)]
    inputs = Inputs(
        torch.from_numpy(tokens if tokens.dtype.kind == "f" else tokens.astype(np.int64)),
        Padding([len(graph.nodes) for graph in graphs]),
        extras={name: torch.from_numpy(places) for name, places in extras.items()},
        edges=join_edges(arranged, time) if connected else None,
    )
    return GraphLayout(inputs, orders)


def join_edges(graphs: Sequence[GivenGraph], time: int) -> Edges:
    """The edges of all graphs in one list."""
    kinds = [torch.from_numpy(graph.kinds) for graph in graphs if graph.kinds is not None]
    return Edges.join([torch.from_numpy(graph.edges) for graph in graphs], time, kinds or None)
