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
from regard.data.graph import make_graph
from regard.data.lines import lines
from regard.data.log import Log, Unusable
from regard.data.reader import ReaderSpec
from regard.data.sample import Form, Sample
from regard.data.source import Paths, place_in
from regard.errors import DataError


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
        labels = {} if self.labels is None else {row[0]: row[1] for _, row in read_rows(self.labels, 2, log)}
        categories: dict[str, dict[int, int]] = {}
        for place, (name, node, category) in [] if self.nodes is None else read_rows(self.nodes, 3, log):
            if not (node.isdecimal() and category.isdecimal()):
                log.reject(place, f"not a node: {node!r} {category!r}, and both are numbers from 0 on")
                continue
            categories.setdefault(name, {})[int(node)] = int(category)
        for path in self.find(self.path):
            for name, rows in divide(read_rows(path, 3, log)):
                sample = self._finish(name, rows, categories.pop(name, {}), log)
                if sample is not None:
                    yield {**sample, **({"label": labels[name]} if name in labels else {})}
        for name, known in categories.items():  # graphs that have no edges
            sample = self._finish(name, [], known, log)
            if sample is not None:
                yield {**sample, **({"label": labels[name]} if name in labels else {})}

    def _finish(self, name: str, rows: list[tuple[str, list[str]]], known: dict[int, int], log: Log) -> Sample | None:
        """A graph; None where it can't be used, and the log says why."""
        place = rows[0][0] if rows else f"{self.nodes}: graph {name}"
        edges, kinds = list[tuple[int, int]](), list[int]()
        for where, cells in rows:
            if not all(cell.isdecimal() for cell in cells[1:4]):
                log.skip(where, f"not an edge: {cells[1]!r} {cells[2]!r}, and nodes are numbers from 0 on")
                return None
            edges.append((int(cells[1]), int(cells[2])))
            kinds += [int(cells[3])] if len(cells) > 3 else []
        if kinds and len(kinds) != len(edges):
            log.skip(place, "edges differ: some have a kind, and others none")
            return None
        count = len(known) or max((max(pair) for pair in edges), default=-1) + 1
        if known and sorted(known) != list(range(count)):
            log.skip(place, f"nodes have gaps: {count} of them, and the last is {max(known)}")
            return None
        nodes = np.array([[known.get(node, 0)] for node in range(count)], np.int32).reshape(count, 1)
        try:
            sorts = np.array(kinds, np.int32)[:, None] if kinds else None
            sample = make_graph(nodes, edges, sorts, place, log)
        except Unusable as error:
            log.skip(place, error.message)
            return None
        log.keep()
        return {**sample, "place": place}


def read_rows(path: str, least: int, log: Log) -> Iterator[tuple[str, list[str]]]:
    """Place and cells of every line that has enough of them."""
    for line in lines(path, log):
        cells = [cell.strip() for cell in (line.text or "").split("\t")]
        if line.text is not None and len(cells) < least:
            log.reject(line.place, f"too few columns: {len(cells)}, and there must be {least}, divided by tabs")
            continue
        if line.text is not None:
            yield line.place, cells


def divide(rows: Iterator[tuple[str, list[str]]]) -> Iterator[tuple[str, list[tuple[str, list[str]]]]]:
    """The lines of each graph; one whose name comes again later is refused, since its lines must stand together."""
    seen, now = set[str](), list[tuple[str, list[str]]]()
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
