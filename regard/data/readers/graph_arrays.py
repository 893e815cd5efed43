"""Graphs as arrays of NumPy, all of them one behind the other in a `.npz`:

`num_nodes` and `num_edges` (or `num_bonds`) say how many each graph has; `node_feat`, (nodes, features), `edges` (or
`bonds`), (edges, 2), which name the nodes of their own graph from 0 on, and perhaps `edge_feat` (or `bond_feat`) follow
each other. `labels` has a row for each graph: a class, or a 1 for each of several labels that holds; or `numbers` has
one.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import numpy as np

from regard.data.graph import Numbers, make_graph, read_number
from regard.data.log import Log, Unusable
from regard.data.reader import ReaderSpec
from regard.data.sample import Form, Sample
from regard.data.source import Paths, expand_paths
from regard.errors import DataError

NAMES = {  # of arrays, by what they hold
    "sizes": ("num_nodes", "node_counts"),
    "counts": ("num_edges", "num_bonds", "edge_counts"),
    "nodes": ("node_feat", "nodes"),
    "edges": ("edges", "bonds", "edge_index"),
    "kinds": ("edge_feat", "bond_feat", "edge_kinds"),
    "labels": ("labels", "y"),
    "numbers": ("numbers", "targets"),
}


class GraphArrays(ReaderSpec):
    """Graphs as arrays of NumPy."""

    form: ClassVar[Form] = "graphs"
    kind: Literal["graph-arrays"] = "graph-arrays"
    path: Paths
    """A .npz file, a glob, or a list of them."""
    names: tuple[str, ...] = ()
    """The names of the labels, in their order; unless given, their numbers from 0 on."""

    @classmethod
    def describe_files(cls) -> str:
        return "kind: graph-arrays for .npz"

    def samples(self, log: Log) -> Iterator[Sample]:
        for path in expand_paths(self.path):
            yield from self._read(path, load_arrays(path), log)

    def _read(self, path: str, arrays: dict[str, Numbers], log: Log) -> Iterator[Sample]:
        starts, ends = (np.concatenate(([0], np.cumsum(arrays[name], dtype=np.int64))) for name in ("sizes", "counts"))
        for name, last in (("nodes", starts[-1]), ("edges", ends[-1]), ("kinds", ends[-1])):
            if name in arrays and len(arrays[name]) != last:
                raise DataError(f"{path}: {len(arrays[name])} rows of {name}, and the counts come to {last}")
        for name in ("labels", "numbers"):
            if name in arrays and len(arrays[name]) != len(arrays["sizes"]):
                told = f"{len(arrays[name])} rows of {name}, and there are {len(arrays['sizes'])} graphs"
                raise DataError(f"{path}: {told}", f"one row of {name} for each graph")
        for n in range(len(arrays["sizes"])):
            place, part = f"{path}:{n + 1}", slice(ends[n], ends[n + 1])
            nodes = arrays["nodes"][starts[n] : starts[n + 1]]
            kinds = arrays["kinds"][part] if "kinds" in arrays else None
            try:
                sample = make_graph(nodes, arrays["edges"][part], kinds, place, log)
                answers = self._answer({name: arrays[name][n] for name in ("labels", "numbers") if name in arrays})
            except Unusable as error:
                log.skip(place, error.message)
                continue
            log.keep()
            yield {**sample, **answers, "place": place}

    def _answer(self, told: dict[str, Any]) -> Sample:
        found: Sample = {}
        if "labels" in told and np.size(told["labels"]) == 1:
            label = read_number(told["labels"].item(), "label")
            if label != int(label):
                raise Unusable(f"label: {label} isn't the number of a class")
            found["label"] = self._name(int(label))
        elif "labels" in told:
            row = np.ravel(told["labels"])
            odd = row[~np.isin(row, (0, 1))]
            if len(odd):
                raise Unusable(f"labels: one is {odd[0]}, and a label holds (1) or doesn't (0)")
            found["labels"] = [self._name(label) for label in np.flatnonzero(row).tolist()]
        if "numbers" in told:
            if np.size(told["numbers"]) != 1:
                raise Unusable(f"number: there are {np.size(told['numbers'])}, and a graph has one")
            found["number"] = float(read_number(told["numbers"].item(), "number"))
        return found

    def _name(self, label: int) -> str:
        if self.names and not 0 <= label < len(self.names):
            raise Unusable(f"label {label} has no name: there are {len(self.names)}")
        return self.names[label] if self.names else str(label)


def load_arrays(path: str) -> dict[str, Numbers]:
    """The arrays that say what graphs there are, by what they hold; nothing is unpickled."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            there = {what: next((name for name in names if name in archive), None) for what, names in NAMES.items()}
            found = {what: archive[name] for what, name in there.items() if name is not None}
            known = ", ".join(archive.files[:10])
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{path}: not arrays of NumPy: {error}", "check that the file is whole") from None
    missing = [what for what in ("sizes", "counts", "nodes", "edges") if what not in found]
    if missing:
        raise DataError(
            f"{path}: no {' or '.join(NAMES[missing[0]])}; there are {known}", "regard settings graph-arrays"
        )
    for what, array in found.items():
        wanted = "biuf" if what in ("nodes", "labels", "numbers") else "biu"
        if array.dtype.kind not in wanted or not array.ndim:
            raise DataError(f"{path}: {what} are {array.dtype} {array.shape}, and must be an array of numbers")
        if what in ("sizes", "counts") and (array.ndim > 1 or (array < 0).any()):
            raise DataError(f"{path}: {' or '.join(NAMES[what])} must be one list of numbers from 0 on")
    for what in ("nodes", "kinds"):
        if what in found and found[what].ndim == 1:
            found[what] = found[what][:, None]
    if found["edges"].ndim != 2 or found["edges"].shape[1] != 2:
        raise DataError(f"{path}: edges are (edges, 2), and not {found['edges'].shape}")
    return found
