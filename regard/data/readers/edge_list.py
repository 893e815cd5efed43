"""Graphs as a table of edges: graph, node, node, and perhaps a kind of edge, divided by tabs. Nodes are numbers from 0
on; the lines of a graph stand together.

A table beside it has the nodes: graph, node, category; and another the graphs: graph, label. Without the first, all
nodes are alike, and a graph has as many as its edges name.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np

from regard.core.spec import FileName
from regard.data.graph import Misplaced, Numbers, make_graph, read_index
from regard.data.lines import lines
from regard.data.log import Log, Unusable
from regard.data.reader import ReaderSpec
from regard.data.sample import Form, Sample
from regard.data.source import Paths, place_in
from regard.errors import DataError

Rows = list[tuple[str, list[str]]]  # place and cells of a line
Labels = dict[str, tuple[str, str]]  # of graphs, by their names: where it stands, and what it is
LONELY = 2**16  # nodes that a graph may have though its edges name fewer: one mistyped number must not fill the memory


class EdgeList(ReaderSpec):
    """Graphs as tables of edges, nodes and labels."""

    form: ClassVar[Form] = "graphs"
    inside: ClassVar[tuple[str, ...]] = (".tsv",)
    kind: Literal["edge-list"] = "edge-list"
    path: Paths
    """The table of edges: graph, node, node, and perhaps a kind."""
    labels: FileName | None = None
    """The table of labels: graph, label."""
    nodes: FileName | None = None
    """The table of nodes: graph, node, category."""

    @classmethod
    def describe_files(cls) -> str:
        return "kind: edge-list for .tsv"

    def under(self, folder: Path) -> Self:
        placed = super().under(folder)
        told = {"labels": self.labels, "nodes": self.nodes}
        return placed.replace(**{name: place_in(folder, path) for name, path in told.items() if path is not None})

    def samples(self, log: Log) -> Iterator[Sample]:
        labels, known, seen = self._read_labels(log), self._read_nodes(log), set[str]()
        for path in self.find(self.path):
            for name, rows in divide(read_rows(path, 3, log)):
                if name in seen and (self.nodes or self.labels):
                    told = f"graph named twice: {name!r} was in a file before, and the tables have one of that name"
                    log.skip(rows[0][0], told)
                    continue
                seen.add(name)
                yield from self._finish(name, rows, known.get(name, {}), labels, log)
        for name in [name for name in known if name not in seen]:  # graphs that have no edges
            seen.add(name)
            yield from self._finish(name, [], known[name], labels, log)
        for name in [name for name in labels if name not in seen]:
            log.skip(labels[name][0], f"no nodes: graph {name!r} has a label, and neither edges nor nodes")

    def _read_labels(self, log: Log) -> Labels:
        found: Labels = {}
        for place, row in [] if self.labels is None else read_rows(self.labels, 2, log):
            if row[0] in found:
                log.reject(place, f"label there twice: graph {row[0]!r} has one already")
            found.setdefault(row[0], (place, row[1]))
        return found

    def _read_nodes(self, log: Log) -> dict[str, dict[int, int]]:
        """The category of each node, by graph."""
        found: dict[str, dict[int, int]] = {}
        for place, row in [] if self.nodes is None else read_rows(self.nodes, 3, log):
            node, category = read_index(row[1]), read_index(row[2])
            if node is None or category is None:
                log.reject(place, f"not a node: {row[1]!r} {row[2]!r}, and both are numbers from 0 on")
            elif found.setdefault(row[0], {}).setdefault(node, category) != category:
                log.reject(place, f"node there twice: {node} of graph {row[0]!r} has a category already")
        return found

    def _finish(self, name: str, rows: Rows, known: dict[int, int], labels: Labels, log: Log) -> Iterator[Sample]:
        """A graph; nothing where it can't be used, and the log says why."""
        place = rows[0][0] if rows else f"{self.nodes}: graph {name}"
        try:
            edges, kinds = read_edges(rows)
            nodes = list_nodes(known, edges, rows, self.nodes is not None)
            sorts = np.array(kinds, np.int64)[:, None] if kinds else None
            sample = make_graph(nodes, edges, sorts, place, log, [where for where, _ in rows])
        except Misplaced as error:
            log.skip(error.place, error.message)
        except Unusable as error:
            log.skip(place, error.message)
        else:
            log.keep()
            yield {**sample, "place": place, **({"label": labels[name][1]} if name in labels else {})}


def read_edges(rows: Rows) -> tuple[list[tuple[int, int]], list[int]]:
    """The ends of each edge, and the kinds, where edges have any."""
    edges, kinds = list[tuple[int, int]](), list[int]()
    for place, cells in rows:
        numbers = [number for number in map(read_index, cells[1:4]) if number is not None]
        if len(numbers) < len(cells[1:4]):
            raise Misplaced(place, f"not an edge: {cells[1]!r} {cells[2]!r}, and nodes are numbers from 0 on")
        edges.append((numbers[0], numbers[1]))
        kinds += numbers[2:]
    if kinds and len(kinds) != len(edges):
        raise Unusable("edges differ: some have a kind, and others none")
    return edges, kinds


def list_nodes(known: dict[int, int], edges: list[tuple[int, int]], rows: Rows, listed: bool) -> Numbers:
    """The category of each node: (nodes, 1); `listed`: a table has them."""
    if known:
        if len(known) != max(known) + 1:
            raise Unusable(f"nodes have gaps: {len(known)} of them, and the last is {max(known)}")
        return np.array([[known[node]] for node in range(len(known))], np.int64)
    if listed:
        raise Unusable("no nodes: the table of nodes has none of this graph")
    limit = max(2 * len(edges), LONELY)
    for (place, _), pair in zip(rows, edges, strict=True):
        if max(pair) >= limit:
            raise Misplaced(place, f"node out of range: {max(pair)}, and without a table of nodes {limit} are the most")
    return np.zeros((1 + max(max(pair) for pair in edges), 1), np.int64)


def read_rows(path: str, least: int, log: Log) -> Iterator[tuple[str, list[str]]]:
    """Place and cells of every line that has enough of them."""
    for line in lines(path, log):
        cells = [cell.strip() for cell in (line.text or "").split("\t")]
        if line.text is not None and len(cells) < least:
            log.reject(line.place, f"too few columns: {len(cells)}, and there must be {least}, divided by tabs")
            continue
        if line.text is not None:
            yield line.place, cells


def divide(rows: Iterator[tuple[str, list[str]]]) -> Iterator[tuple[str, Rows]]:
    """The lines of each graph; one whose name comes again later is refused, since its lines must stand together."""
    seen, now = set[str](), Rows()
    for place, cells in rows:
        if now and cells[0] != now[0][1][0]:
            yield now[0][1][0], now
            now = []
        if not now and cells[0] in seen:
            raise DataError(f"{place}: graph {cells[0]!r} was there before", "sort the table by its first column")
        seen.add(cells[0])
        now.append((place, cells))
    if now:
        yield now[0][1][0], now
