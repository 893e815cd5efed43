"""Graphs that are made here, in which all nodes are alike, so that only the edges tell.

`skip-links` (Murphy et al. 2019): a ring of nodes, each linked to the next and to the one `skip` further on; the label
is the skip. All such graphs are 4-regular, so no message passing can tell them apart, however deep: the
Weisfeiler-Lehman test can't. `cycles`: one ring, or two of half the size. Again all nodes have two neighbours.
`trees`: a tree of chance, whose label is the parity of its leaves, which counting neighbours settles; as `number`, it
has the number of its leaves; as `node_labels` and `node_numbers`, how far each node is from the nearest leaf.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from regard.core.spec import Size
from regard.data.corpus import Generated, Split
from regard.data.graph import list_neighbours
from regard.data.sample import Form, Sample


class GraphCorpus(Generated):
    """Graphs without a download; nodes are named by chance, so that their order tells nothing."""

    gives: ClassVar[tuple[Form, ...]] = ("graphs",)
    train: Size = 1000
    validation: Size = 200
    test: Size = 200

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        chance = Random(f"{self.seed}/{self.kind}/{split}")
        while True:
            yield self.make(chance)

    def make(self, chance: Random) -> Sample:
        """One graph with what is known of it."""
        raise NotImplementedError


def draw_graph(nodes: int, edges: Sequence[tuple[int, int]], chance: Random) -> tuple[Sample, list[int]]:
    """A graph whose nodes were named anew, and the new name of each."""
    names = chance.sample(range(nodes), nodes)
    renamed = sorted({tuple(sorted((names[one], names[other]))) for one, other in edges})
    array = np.array(renamed, np.int32).reshape(-1, 2)
    return {"nodes": np.zeros((nodes, 1), np.int32), "edges": array, "size": nodes}, names


class SkipLinks(GraphCorpus):
    """Circular skip links: which skip does a ring have?"""

    kind: Literal["skip-links"] = "skip-links"
    nodes: Size = 41
    """A ring has this many nodes."""
    skips: tuple[Size, ...] = Field(default=(2, 3, 4, 5, 6, 9, 11, 12, 13, 16), min_length=2)
    """The second link of a node leads this many nodes further; each is a class."""

    @model_validator(mode="after")
    def check(self) -> Self:
        wrong = [skip for skip in self.skips if not 1 < skip < self.nodes / 2]
        if wrong:
            raise ValueError(f"skips: {wrong[0]} isn't between 1 and half of {self.nodes} nodes")
        return self

    def make(self, chance: Random) -> Sample:
        skip = chance.choice(self.skips)
        edges = [(node, (node + step) % self.nodes) for node in range(self.nodes) for step in (1, skip)]
        return {**draw_graph(self.nodes, edges, chance)[0], "label": str(skip)}


class Cycles(GraphCorpus):
    """One ring, or two?"""

    kind: Literal["cycles"] = "cycles"
    sizes: tuple[Size, Size] = (6, 16)
    """A graph has at least and at most this many nodes; always an even number."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if not 6 <= self.sizes[0] <= self.sizes[1]:
            raise ValueError(f"sizes: {list(self.sizes)} must rise, and two rings have six nodes at least")
        return self

    def make(self, chance: Random) -> Sample:
        half = chance.randint(-(-self.sizes[0] // 2), max(-(-self.sizes[0] // 2), self.sizes[1] // 2))
        rings = [[*range(2 * half)]] if chance.random() < 0.5 else [[*range(half)], [*range(half, 2 * half)]]
        edges = [(ring[n], ring[(n + 1) % len(ring)]) for ring in rings for n in range(len(ring))]
        return {**draw_graph(2 * half, edges, chance)[0], "label": "one" if len(rings) == 1 else "two"}


class Trees(GraphCorpus):
    """How many leaves has a tree: even or odd?"""

    kind: Literal["trees"] = "trees"
    sizes: tuple[Size, Size] = (4, 16)
    """A tree has at least and at most this many nodes."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if not 2 <= self.sizes[0] <= self.sizes[1]:
            raise ValueError(f"sizes: {list(self.sizes)} must rise, and a tree has two nodes at least")
        return self

    def make(self, chance: Random) -> Sample:
        count = chance.randint(*self.sizes)
        edges = [(node, chance.randrange(node)) for node in range(1, count)]
        sample, _ = draw_graph(count, edges, chance)
        depths = measure_depths(count, sample["edges"])
        leaves = depths.count(0)
        label = "even" if leaves % 2 == 0 else "odd"
        known = {"node_labels": [str(depth) for depth in depths], "node_numbers": depths}
        return {**sample, "label": label, "number": leaves, **known}


def measure_depths(nodes: int, edges: np.ndarray[tuple[int, ...], np.dtype[np.int32]]) -> list[int]:
    """How far each node is from the nearest leaf."""
    beside = list_neighbours(nodes, edges)
    depths = [0 if len(others) < 2 else -1 for others in beside]
    ring = [node for node in range(nodes) if depths[node] == 0]
    while ring:
        ahead = []
        for node in ring:
            for other in beside[node]:
                if depths[other] < 0:
                    depths[other] = depths[node] + 1
                    ahead.append(other)
        ring = ahead
    return depths
