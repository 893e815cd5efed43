"""Graphs as JSON, an object a line:

    {"nodes": [3, 0, 0], "edges": [[0, 1], [0, 2]], "label": "yes"}

A node is a category, or a list of categories or of numbers; an edge names two nodes, from 0 on, and stands once or in
both directions. `edge_kinds` has a category, or a list of them, for each edge. What is known is a `label`, a list of
`labels`, a `number`, or a label or a number for each node: `node_labels`, `node_numbers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np

from regard.core.spec import Size
from regard.data.encoding import UTF8, Encoding
from regard.data.graph import Numbers, make_graph, read_number
from regard.data.lines import LONGEST
from regard.data.log import Log, Unusable
from regard.data.reader import ReaderSpec
from regard.data.readers.jsonl import read_objects
from regard.data.sample import Form, Sample
from regard.data.source import Paths


class GraphJSON(ReaderSpec):
    """Graphs, a JSON object a line."""

    form: ClassVar[Form] = "graphs"
    inside: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    kind: Literal["graph-json"] = "graph-json"
    path: Paths
    longest: Size = LONGEST
    encoding: Encoding = UTF8

    @classmethod
    def describe_files(cls) -> str:
        return "kind: graph-json for .jsonl"

    def samples(self, log: Log) -> Iterator[Sample]:
        for path in self.find(self.path):
            for row in read_objects(path, log, self.longest, self.encoding):
                if row.cells is None:
                    log.drop()
                    continue
                try:
                    sample = read_graph(row.cells, row.place, log)
                except Unusable as error:
                    log.skip(row.place, error.message)
                    continue
                log.keep(row.repaired)
                yield {**sample, "place": row.place}


def read_graph(told: Any, place: str, log: Log) -> Sample:
    """A sample from an object; `Unusable` where it is none."""
    nodes = read_rows(told.get("nodes"), "nodes", whole=False)
    edges = read_rows(told.get("edges", []), "edges")
    if edges.size and edges.shape[1] != 2:
        raise Unusable(f"not an edge: it has {edges.shape[1]} ends")
    kinds = read_rows(told["edge_kinds"], "edge_kinds") if "edge_kinds" in told else None
    if kinds is not None and len(kinds) != len(edges):
        raise Unusable(f"edge_kinds: {len(kinds)} of them for {len(edges)} edges")
    return {**make_graph(nodes, edges, kinds, place, log), **read_answers(told, len(nodes))}


def read_rows(value: Any, name: str, whole: bool = True) -> Numbers:
    """A list of numbers, or of lists of them that are equally long, as an array (rows, features)."""
    if not isinstance(value, list):
        raise Unusable(f"no {name}: they are a list")
    try:
        found = np.array(value)
    except (ValueError, OverflowError):
        raise Unusable(f"{name} differ: their lists aren't equally long") from None
    if found.ndim > 2:
        raise Unusable(f"{name} are nested too deeply: a row is a number, or a list of numbers")
    found = found.reshape(len(value), -1) if len(value) else found.reshape(0, 2 if name == "edges" else 1)
    if len(value) and found.dtype.kind not in ("i" if whole else "if"):
        raise Unusable(f"{name} aren't {'whole ' if whole else ''}numbers: such as {str(value[0])[:40]}")
    return found if len(value) else found.astype(np.int64)


def read_answers(told: Any, nodes: int) -> Sample:
    """What is known of a graph, as a sample has it; a number will do for a label."""
    found: Sample = {}
    if "label" in told:
        found["label"] = spell(told["label"], "label")
    for name in ("labels", "node_labels"):
        if name in told:
            if not isinstance(told[name], list):
                raise Unusable(f"{name}: a list is wanted")
            found[name] = [spell(label, name) for label in told[name]]
    if "number" in told:
        found["number"] = read_number(told["number"], "number")
    if "node_numbers" in told:
        if not isinstance(told["node_numbers"], list):
            raise Unusable("node_numbers: a list is wanted")
        found["node_numbers"] = [read_number(number, "node_numbers") for number in told["node_numbers"]]
    for name in ("node_labels", "node_numbers"):
        if len(found.get(name, range(nodes))) != nodes:
            raise Unusable(f"{name}: {len(found[name])} of them for {nodes} nodes")
    return found


def spell(label: Any, name: str) -> str:
    if isinstance(label, bool) or not isinstance(label, str | int) or not str(label).strip():
        raise Unusable(f"{name}: {str(label)[:40]!r} isn't a label")
    return str(label).strip()
