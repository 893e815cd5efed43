"""Graphs: nodes, edges between them, and what can be said of where a node stands.

Edges go both ways and are kept once. Orders and positions are computed here with numpy, graph by graph, where batches
are made: they depend on the graph alone, and on chance where the order has ties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.role import NodeOrder
from regard.data.array import ArrayField, describe
from regard.data.log import Log, Unusable
from regard.errors import DataError

Numbers = NDArray[Any]
MOST = 2**16  # categories of one sort
LARGEST = float(np.finfo(np.float32).max)
SWEEPS = 10  # of label propagation; it is settled long before


class Misplaced(Unusable):
    """What is wrong with one line of a graph."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True)
class NodeField(ArrayField):
    """A sample's field that holds the nodes of a graph, one a row."""

    def __str__(self) -> str:
        return "nodes: an array (nodes, features) of int32 categories, or of float32 numbers"

    def fits(self, value: object) -> bool:
        kinds = (np.dtype("int32"), np.dtype("float32"))
        return isinstance(value, np.ndarray) and value.dtype in kinds and value.ndim == 2 and value.size > 0


@dataclass(frozen=True)
class EdgeField(ArrayField):
    """A sample's field that holds a row for each edge."""

    columns: int | None = None

    def __str__(self) -> str:
        return f"an array (edges, {self.columns or 'features'}) of int32"

    def fits(self, value: object) -> bool:
        right = isinstance(value, np.ndarray) and value.dtype == np.dtype("int32") and value.ndim == 2
        return right and self.columns in (None, value.shape[1])  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Schema:
    """What the graphs of a corpus are made of: how many categories nodes and edges have of each sort."""

    categories: tuple[int, ...]  # one more of each than there are: the last stands for those that weren't seen
    channels: int  # numbers of a node, where it has no categories
    edge_kinds: tuple[int, ...]

    def to_fact(self) -> dict[str, Any]:
        return {"categories": list(self.categories), "channels": self.channels, "edge_kinds": list(self.edge_kinds)}

    @classmethod
    def of_fact(cls, fact: Any, where: str) -> Schema:
        """As a lexicon's file says it."""
        try:
            found = cls(tuple(fact["categories"]), fact["channels"], tuple(fact["edge_kinds"]))
            sound = all(type(n) is int and 0 < n <= MOST + 1 for n in (*found.categories, *found.edge_kinds))
        except (KeyError, TypeError):
            sound = False
        if not sound or type(found.channels) is not int:
            raise DataError(f"{where}: what it says of graphs is damaged")
        return found

    def insist(self, nodes: Numbers, kinds: Numbers | None) -> None:
        """Refuse a graph that is made otherwise."""
        wanted = self.channels or len(self.categories)
        if nodes.shape[1] != wanted or (nodes.dtype.kind == "f") != bool(self.channels):
            raise Unusable(f"other nodes: {describe(nodes)}, and those of the first graph have {wanted} features")
        there = 0 if kinds is None else kinds.shape[1]
        if there != len(self.edge_kinds):
            raise Unusable(f"other edges: {there} categories, and those of the first graph have {len(self.edge_kinds)}")

    def number_nodes(self, nodes: Numbers) -> Numbers:
        """Categories that weren't seen in training become one of their own."""
        return nodes if self.channels else np.minimum(nodes, np.array(self.categories, np.int32) - 1)

    def number_edges(self, kinds: Numbers) -> Numbers:
        return np.minimum(kinds, np.array(self.edge_kinds, np.int32) - 1)


class SchemaTally:
    """What becomes a schema, graph by graph. The first says what all are made of; who learns leaves out the others."""

    def __init__(self) -> None:
        self.nodes: Numbers | None = None  # the largest category of each sort so far
        self.kinds: Numbers | None = None
        self.channels = 0
        self.connected = False  # whether a graph with edges was seen, which says what they are made of

    def see(self, nodes: Numbers, edges: Numbers, kinds: Numbers | None) -> None:
        numbers = nodes.shape[1] if nodes.dtype.kind == "f" else 0
        if self.nodes is None and not self.channels:
            self.channels = numbers
        elif numbers != self.channels or (self.nodes is not None and nodes.shape[1] != len(self.nodes)):
            return
        if not numbers:
            self.nodes = raise_to(self.nodes, nodes)
        if len(edges) and kinds is not None:
            like_the_first = self.kinds is not None and len(self.kinds) == kinds.shape[1]
            self.kinds = raise_to(self.kinds, kinds) if like_the_first or not self.connected else self.kinds
        self.connected = self.connected or len(edges) > 0

    def schema(self) -> Schema | None:
        """None where no graph was seen."""
        if self.nodes is None and not self.channels:
            return None
        sizes = [() if part is None else tuple((part + 2).tolist()) for part in (self.nodes, self.kinds)]
        return Schema(sizes[0], self.channels, sizes[1])


def raise_to(most: Numbers | None, rows: Numbers) -> Numbers:
    found = rows.max(0, initial=0) if most is None else np.maximum(most, rows.max(0, initial=0))
    if found.max(initial=0) >= MOST:
        raise DataError(f"a node or an edge has the category {int(found.max())}", f"categories are below {MOST}")
    return found


def clean_edges(
    nodes: int,
    edges: Sequence[Sequence[int]] | Numbers,
    kinds: Numbers | None,
    place: str,
    log: Log,
    places: Sequence[str] = (),
) -> tuple[Numbers, Numbers | None]:
    """Each edge once, smaller node first, and no node with itself; `Unusable` where an edge leads nowhere.

    `places`: where each edge stands, if it has a line of its own.
    """
    pairs = number_rows(edges, "an edge").reshape(-1, 2)
    if not nodes:
        raise Unusable("empty graph: it has no nodes")
    wrong = (pairs < 0) | (pairs >= nodes)
    if wrong.any():
        where = places[int(wrong.any(1).argmax())] if places else place
        told = f"it names node {int(pairs[wrong][0])}, and there are {nodes}, from 0 on"
        raise Misplaced(where, f"edge out of range: {told}")
    loops = pairs[:, 0] == pairs[:, 1]
    if loops.any():
        which = np.flatnonzero(loops).tolist()
        for n in which if places else which[:1]:
            told = "left out, that" if places else "left out, such as that"
            log.remark(places[n] if places else place, f"self-loop: {told} of node {int(pairs[n, 0])}")
        pairs, kinds = pairs[~loops], None if kinds is None else kinds[~loops]
    ends = np.sort(pairs, axis=1)
    found, first, same = np.unique(ends, axis=0, return_index=True, return_inverse=True)
    if kinds is not None and (kinds[first][same.reshape(-1)] != kinds).any():
        raise Unusable("one edge has two kinds: it is there twice")
    return found.astype(np.int32), None if kinds is None else kinds[first].astype(np.int32)


def number_rows(rows: Sequence[Any] | Numbers, what: str) -> Numbers:
    """Whole numbers as an array; `Unusable` where there is one that no array can hold."""
    try:
        return np.asarray(rows, np.int64)
    except OverflowError:
        raise Unusable(f"{what} has a number that is too large") from None


def read_index(text: str) -> int | None:
    """A number from 0 on; None where a text is none, or so large that nothing can have it."""
    return int(text) if text.isdecimal() and len(text) < 19 else None


def read_number(value: Any, name: str) -> int | float:
    """A number that a model can learn; `Unusable` where it is none, isn't finite, or is too large for float32."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST:
        raise Unusable(f"{name}: {str(value)[:40]!r} isn't one" if type(value) is not int else f"{name}: too large")
    return value


def list_neighbours(nodes: int, edges: Numbers) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(nodes)]
    for one, other in edges.tolist():
        found[one].append(other)
        found[other].append(one)
    return found


def connect(nodes: int, edges: Numbers) -> NDArray[np.float64]:
    """The matrix of neighbours: (nodes, nodes)."""
    matrix = np.zeros((nodes, nodes))
    matrix[edges[:, 0], edges[:, 1]] = matrix[edges[:, 1], edges[:, 0]] = 1.0
    return matrix


def find_eigenvectors(nodes: int, edges: Numbers, count: int) -> NDArray[np.float32]:
    """The first eigenvectors of the normalised Laplacian but for the constant one of each component: (nodes, count).

    Each has a mean square of 1, and its largest number is positive, so that its sign is nearly always the same. Where
    there are fewer, the rest is 0.
    """
    matrix = connect(nodes, edges)
    scale = 1 / np.sqrt(np.maximum(matrix.sum(1), 1))
    values, vectors = np.linalg.eigh(np.eye(nodes) - scale[:, None] * matrix * scale)
    lonely = int((matrix.sum(1) == 0).sum())  # a node without edges has the value 1 here, and isn't among the zeros
    alike = int((values < 1e-8).sum())
    chosen = vectors[:, alike : alike + count] * np.sqrt(nodes)
    if chosen.size and nodes > lonely:
        # rounded, since two nodes that mirror each other are equally far from 0 but for the last digits
        largest = np.take_along_axis(chosen, np.abs(chosen).round(6).argmax(0)[None], 0)
        chosen = chosen * np.where(largest < 0, -1.0, 1.0)
    found = np.zeros((nodes, count), np.float32)
    found[:, : chosen.shape[1]] = chosen
    return found


def find_returns(nodes: int, edges: Numbers, steps: int) -> NDArray[np.float32]:
    """How likely a random walk from each node is to be there again after 1, 2, … steps: (nodes, steps)."""
    matrix = connect(nodes, edges)
    scale = 1 / np.sqrt(np.maximum(matrix.sum(1), 1))
    # D⁻¹A to a power has the diagonal of S = D⁻½AD⁻½ to it; S is symmetric, so Sᵃ⁺ᵇ needs only the rows of Sᵃ and Sᵇ
    walk = scale[:, None] * matrix * scale
    found, before, now = np.zeros((nodes, steps), np.float32), np.eye(nodes), walk
    for step in range(steps):
        if step and step % 2 == 0:
            before, now = now, now @ walk
        found[:, step] = np.einsum("ij,ij->i", before if step % 2 == 0 else now, now)
    return found


def order_nodes(order: NodeOrder, nodes: int, edges: Numbers, chance: Random) -> list[int]:
    """Which node stands at each place; what the graph leaves open, chance decides."""
    ways: dict[NodeOrder, Callable[[int, Numbers, Random], list[int]]] = {
        "given": lambda nodes, _, __: list(range(nodes)),
        "random": lambda nodes, _, chance: chance.sample(range(nodes), nodes),
        "degree": order_by_degree,
        "eigenvector": order_by_eigenvector,
        "random-walk": order_by_walk,
        "breadth-first": order_by_distance,
        "cluster": order_by_cluster,
    }
    return ways[order](nodes, edges, chance)


def count_degrees(nodes: int, edges: Numbers) -> list[int]:
    found: list[int] = np.bincount(edges.reshape(-1), minlength=nodes).tolist()
    return found


def order_by_degree(nodes: int, edges: Numbers, chance: Random) -> list[int]:
    """Few neighbours first (Wang et al. 2024): who comes last in a sequence has heard of all others."""
    keys = [degree + chance.random() for degree in count_degrees(nodes, edges)]
    return sorted(range(nodes), key=keys.__getitem__)


def order_by_eigenvector(nodes: int, edges: Numbers, chance: Random) -> list[int]:
    values = find_eigenvectors(nodes, edges, 1)[:, 0].astype(float) * chance.choice((-1, 1))
    keys = [(round(value, 5), chance.random()) for value in values.tolist()]
    return sorted(range(nodes), key=keys.__getitem__)


def order_by_walk(nodes: int, edges: Numbers, chance: Random) -> list[int]:
    """As a walk meets nodes that goes to a new neighbour where there is one, and else goes back the way it came."""
    beside, found, seen = list_neighbours(nodes, edges), list[int](), [False] * nodes
    for start in chance.sample(range(nodes), nodes):
        way = [start] if not seen[start] else []
        while way:
            if not seen[way[-1]]:
                seen[way[-1]] = True
                found.append(way[-1])
            new = [node for node in beside[way[-1]] if not seen[node]]
            if new:
                way.append(chance.choice(new))
            else:
                way.pop()
    return found


def order_by_distance(nodes: int, edges: Numbers, chance: Random) -> list[int]:
    """Ring by ring from the node with the most neighbours; of each component in turn."""
    beside, found, seen = list_neighbours(nodes, edges), list[int](), [False] * nodes
    for start in reversed(order_by_degree(nodes, edges, chance)):
        ring = [] if seen[start] else [start]
        while ring:
            for node in ring:
                seen[node] = True
            found += ring
            ahead = dict.fromkeys(other for node in ring for other in beside[node] if not seen[other])
            ring = chance.sample(list(ahead), len(ahead))
    return found


def order_by_cluster(nodes: int, edges: Numbers, chance: Random) -> list[int]:
    """Group by group, as label propagation finds them (Raghavan et al. 2007); by degree within a group."""
    beside, labels = list_neighbours(nodes, edges), list(range(nodes))
    for _ in range(SWEEPS):
        before = list(labels)
        for node in chance.sample(range(nodes), nodes):
            votes = [labels[other] for other in beside[node]]
            if votes:
                most = max(votes.count(vote) for vote in votes)
                labels[node] = chance.choice(sorted(vote for vote in set(votes) if votes.count(vote) == most))
        if labels == before:
            break
    groups = {label: chance.random() for label in sorted(set(labels))}
    rank = {node: place for place, node in enumerate(order_by_degree(nodes, edges, chance))}
    return sorted(range(nodes), key=lambda node: (groups[labels[node]], rank[node]))


def make_graph(
    nodes: Numbers,
    edges: Sequence[Sequence[int]] | Numbers,
    kinds: Numbers | None,
    place: str,
    log: Log,
    places: Sequence[str] = (),
) -> dict[str, Any]:
    """The fields of a sample that say what graph it is; `Unusable` where it is none."""
    if nodes.ndim != 2 or (len(nodes) and not nodes.shape[1]):
        raise Unusable(f"not nodes: they are (nodes, features), and these have the shape {nodes.shape}")
    if nodes.dtype.kind == "f" and not (np.abs(nodes) <= LARGEST).all():
        raise Unusable("a node has a number that isn't finite")
    if nodes.dtype.kind != "f" and nodes.size and not 0 <= nodes.min() <= nodes.max() < MOST:
        raise Unusable(f"a node has the category {int(nodes.min())} or {int(nodes.max())}: they are 0 … {MOST - 1}")
    if kinds is not None and kinds.size and not 0 <= kinds.min() <= kinds.max() < MOST:
        raise Unusable(f"an edge has the kind {int(kinds.min())} or {int(kinds.max())}: they are 0 … {MOST - 1}")
    found, sorts = clean_edges(len(nodes), edges, kinds, place, log, places)
    told = {"nodes": nodes.astype(np.float32 if nodes.dtype.kind == "f" else np.int32), "edges": found}
    return told if sorts is None or not len(sorts) else {**told, "edge_kinds": sorts}
