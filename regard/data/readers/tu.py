"""Graphs as TU Dortmund's collection has them, in either of two layouts, with folds if there are any.

One file (Xu et al. 2019): how many graphs; then each: how many nodes and its label, then a line a node: its tag, how
many neighbours it has, which, and perhaps numbers. Several files (Morris et al. 2020): `NAME_A.txt` has the edges,
`NAME_graph_indicator.txt` which graph each node belongs to, `NAME_graph_labels.txt` a label each, and perhaps
`NAME_node_labels.txt`, `NAME_node_attributes.txt` and `NAME_edge_labels.txt`; all counted from 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from regard.core.spec import Size
from regard.data.graph import Misplaced, make_graph, number_rows, read_index
from regard.data.lines import Line, lines
from regard.data.log import Log, Unusable
from regard.data.reader import ReaderSpec
from regard.data.sample import Form, Sample
from regard.data.source import Paths, expand_paths, open_bytes, place_in
from regard.errors import DataError

TABLE = "_A.txt"  # the ending that tells the layout of several files
DROPPED = "tags left out: nodes have numbers, and these are read"


class TU(ReaderSpec):
    """Graphs with a label each, and a category or numbers for each node."""

    form: ClassVar[Form] = "graphs"
    kind: Literal["tu"] = "tu"
    path: Paths
    """The file, packed or not; or NAME_A.txt, beside which its fellows lie."""
    folds: str | None = None
    """A JSON file of folds: {"1": {"train": [numbers of graphs from 0], "test": […]}, …}."""
    fold: Size | None = None
    """The fold that is read, from 1 on."""
    part: Literal["train", "test"] = "train"
    """This part of the fold is read."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if (self.folds is None) != (self.fold is None):
            raise ValueError("fold: folds is the file, and fold the number of the one that is meant; give both")
        return self

    def under(self, folder: Path) -> Self:
        placed = super().under(folder)
        return placed if self.folds is None else placed.replace(folds=place_in(folder, self.folds))

    def samples(self, log: Log) -> Iterator[Sample]:
        chosen = None if self.folds is None else self._read_fold(self.folds)
        number = -1
        for path in expand_paths(self.path):
            found = read_tables(path, log) if path.endswith(TABLE) else read_list(path, log)
            for draft in found:
                number += 1
                if chosen is not None and number not in chosen:
                    continue
                sample = draft.finish(log)
                if sample is not None:
                    yield sample
        if chosen and max(chosen) > number:
            told = f"it names graph {max(chosen)}, and there are {number + 1}, from 0 on"
            raise DataError(f"{self.folds}: {told}", "the folds of these graphs")

    def _read_fold(self, path: str) -> set[int]:
        with open_bytes(path) as stream:
            try:
                found = json.load(stream)[str(self.fold)][self.part]
                return {int(number) for number in found}
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                told = f"{path}: there is no list of graphs for fold {self.fold}, part {self.part}: {error!r}"
                raise DataError(told, '{"1": {"train": [0, 1, …], "test": […]}, …}') from None


@dataclass
class GraphDraft:
    """A graph as a file says it, before anybody has looked whether it is one."""

    place: str
    label: str
    tags: list[int] = field(default_factory=list)
    numbers: list[list[float]] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    places: list[str] = field(default_factory=list)  # where each edge stands
    kinds: list[int] = field(default_factory=list)
    fault: tuple[str, str] | None = None  # where and what

    def spoil(self, place: str, reason: str) -> None:
        self.fault = self.fault or (place, reason)

    def add_numbers(self, numbers: list[float], place: str) -> None:
        """What a node has; all nodes have as many, or else rows would belong to other nodes."""
        if self.numbers and len(numbers) != len(self.numbers[0]):
            told = f"this one has {len(numbers)} numbers, and the first has {len(self.numbers[0])}"
            self.spoil(place, f"nodes differ: {told}")
        self.numbers.append(numbers)

    def finish(self, log: Log) -> Sample | None:
        """The sample; None where it can't be used, and the log says why."""
        if self.fault is not None:
            log.skip(*self.fault)
            return None
        try:
            kinds = number_rows(self.kinds, "an edge")[:, None] if self.kinds else None
            nodes = np.array(self.numbers) if any(self.numbers) else number_rows(self.tags, "a node").reshape(-1, 1)
            sample = make_graph(nodes, self.edges, kinds, self.place, log, self.places)
        except Misplaced as misplaced:
            log.skip(misplaced.place, misplaced.message)
            return None
        except Unusable as unusable:
            log.skip(self.place, unusable.message)
            return None
        if any(self.numbers) and any(self.tags):
            log.remark(self.place, DROPPED)
        log.keep()
        return {**sample, "label": self.label, "place": self.place}


def read_list(path: str, log: Log) -> Iterator[GraphDraft]:
    """The graphs of one file; where a head can't be read, nobody knows where the next one is, and the rest is lost."""
    rows = iter(lines(path, log))
    count = read_whole(next(rows, None))
    if count is None or len(count) != 1:
        raise DataError(f"{path}:1: the first line says how many graphs there are", "tu reads such files; see its help")
    for number in range(count[0]):
        head = next(rows, None)
        told = (head.text or "").split() if head is not None else []
        size = read_index(told[0]) if len(told) == 2 else None
        if head is None or size is None:
            place = head.place if head is not None else f"{path}: the end"
            log.skip(place, f"not the head of a graph: nodes and label; graphs from number {number} on are lost")
            return
        draft = GraphDraft(head.place, told[1])
        for node in range(size):
            row = next(rows, None)
            if row is None:
                draft.spoil(head.place, f"cut short: {node} of {told[0]} nodes are there")
                break
            add_node(draft, node, row)
        yield draft
    rest = next((row for row in rows if (row.text or "").strip()), None)
    if rest is not None:
        log.skip(rest.place, f"more than announced: the first line says {count[0]} graphs, and this line follows them")


def add_node(draft: GraphDraft, node: int, row: Line) -> None:
    """A node's line: tag, number of neighbours, neighbours, and perhaps numbers."""
    try:
        cells = (row.text or "").split()
        tag, count = int(cells[0]), int(cells[1])
        beside = [int(cell) for cell in cells[2 : 2 + count]]
        numbers = [float(cell) for cell in cells[2 + count :]]
        sound = tag >= 0 and len(beside) == count
    except (ValueError, IndexError):
        sound = False
    if not sound:
        draft.spoil(row.place, "not a node: its tag, how many neighbours it has, and which")
        return
    draft.tags.append(tag)
    draft.add_numbers(numbers, row.place)
    draft.edges += [(node, other) for other in beside]
    draft.places += [row.place] * len(beside)


def read_whole(line: Line | None) -> list[int] | None:
    """The whole numbers of a line, divided by commas or spaces; None where it has others, or none."""
    try:
        cells = [] if line is None or not line.text else line.text.replace(",", " ").split()
        return [int(cell) for cell in cells] or None
    except ValueError:
        return None


def read_tables(path: str, log: Log) -> Iterator[GraphDraft]:
    """The graphs of several files, which are read whole: the edges of a graph may stand anywhere."""
    stem = path.removesuffix(TABLE)
    drafts, homes = list[GraphDraft](), list[tuple[int, int]]()  # of each node: its graph, and its number there
    for line in lines(f"{stem}_graph_labels.txt", log):
        drafts.append(GraphDraft(line.place, (line.text or "").strip()))
    counts = [0] * len(drafts)
    for line in lines(f"{stem}_graph_indicator.txt", log):
        found = read_whole(line)
        if found is None or not 0 < found[0] <= len(drafts):
            raise DataError(f"{line.place}: {line.text!r} isn't the number of one of {len(drafts)} graphs")
        homes.append((found[0] - 1, counts[found[0] - 1]))
        counts[found[0] - 1] += 1
    tags, numbers = read_beside(f"{stem}_node_labels.txt", log), read_beside(f"{stem}_node_attributes.txt", log)
    if tags is not None and numbers is not None:
        log.remark(f"{stem}_node_labels.txt:1", DROPPED)
    for node, (graph, _) in enumerate(homes):
        add_features(drafts[graph], node, tags, numbers)
    kinds = read_beside(f"{stem}_edge_labels.txt", log)
    for edge, line in enumerate(lines(path, log)):
        pair = read_whole(line)
        if pair is None or len(pair) != 2 or not all(0 < end <= len(homes) for end in pair):
            log.reject(line.place, f"edge out of range: {line.text!r}, and nodes go from 1 to {len(homes)}")
            continue
        (graph, one), (other_graph, other) = homes[pair[0] - 1], homes[pair[1] - 1]
        if graph != other_graph:
            drafts[graph].spoil(line.place, "edge out of range: it leads from one graph to another")
        drafts[graph].edges.append((one, other))
        drafts[graph].places.append(line.place)
        if kinds is not None:
            drafts[graph].kinds.append(read_kind(drafts[graph], kinds, edge))
    yield from drafts


def read_beside(path: str, log: Log) -> list[Line] | None:
    """All lines of a file that may be there."""
    return list(lines(path, log)) if Path(path).exists() else None


def read_kind(draft: GraphDraft, kinds: list[Line], edge: int) -> int:
    found = read_whole(kinds[edge]) if edge < len(kinds) else None
    if found is None or found[0] < 0:
        draft.spoil(kinds[edge].place if edge < len(kinds) else draft.place, "no kind: an edge without one")
        return 0
    return found[0]


def add_features(draft: GraphDraft, node: int, tags: list[Line] | None, numbers: list[Line] | None) -> None:
    """What a node is: its numbers where there are any, else its tag, else nothing but a node."""
    if numbers is not None:
        try:
            found = [float(cell) for cell in (numbers[node].text or "").replace(",", " ").split()]
        except (ValueError, IndexError):
            found = []
        if not found:
            draft.spoil(draft.place, f"no numbers: node {node + 1} has none that can be read")
        else:
            draft.add_numbers(found, numbers[node].place)
        return
    tag = [0] if tags is None else read_whole(tags[node]) if node < len(tags) else None
    if tag is None or tag[0] < 0:
        draft.spoil(draft.place, f"no tag: node {node + 1} has none that can be read")
    draft.tags.append(0 if tag is None else tag[0])
