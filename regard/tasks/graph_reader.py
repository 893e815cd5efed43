"""A model that learned to say something of graphs: what it answers, how far that moves with the order of nodes, and
what it reads of one graph, to be looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from regard.core.model import Model, ModelSpec
from regard.core.role import GraphReading
from regard.core.stack import Stack
from regard.data.graph import Schema, make_graph
from regard.data.graph_batch import GivenGraph, Whereabouts, lay_out_graphs
from regard.data.lexicon import Lexicon
from regard.data.log import Log, Unusable
from regard.data.packing import strip_packing
from regard.data.reader import ReaderSpec
from regard.data.sample import Sample
from regard.decode.pipeline import Pipeline, refuse_target
from regard.decode.reading import Output, Reading, Strip
from regard.errors import InputError
from regard.tasks.answer import ANSWERS, Saying
from regard.tasks.measures import Numbers
from regard.tasks.task import Pulse

NODES = 4096  # of graphs that are read together where nothing is trained
READERS = {".jsonl": "graph-json", ".ndjson": "graph-json", ".npz": "graph-arrays", ".tsv": "edge-list", ".txt": "tu"}
OUTPUTS: dict[str, Output] = {"label": "softmax", "node-labels": "softmax", "labels": "sigmoid"}


def insist_on_schema(lexicon: Lexicon) -> Schema:
    """What graphs are made of; an error where nothing is known of them."""
    if lexicon.graphs is None:
        raise InputError("this model has read no graphs, so it isn't known what they are made of")
    return lexicon.graphs


def find_reading(model: ModelSpec) -> GraphReading:
    """What a model wants to know of a graph."""
    reading = model.main.embedding.graph
    if reading is None:
        raise InputError(f"this model reads {model.main.embedding.kind}, and no graphs", "model=gin")
    return reading


def insist_on_encoder(model: Model) -> Stack:
    """The stack that reads nodes."""
    if model.encoder is None:
        raise InputError("this model has no encoder to read nodes with", "model=gin")
    return model.encoder


@dataclass(repr=False)
class GraphReader(Pipeline):
    """A model that learned to say something of graphs.

    A graph is a sample: `nodes`, an array (nodes, features), and `edges`, an array (edges, 2) of int32.
    """

    reads: ClassVar[Literal["texts", "pictures", "graphs"]] = "graphs"
    verbs: ClassVar[tuple[str, ...]] = ("answer",)
    model: Model
    lexicon: Lexicon
    answers: Saying = "label"
    orders: int = 5  # over which answers are averaged, where the model sees an order

    def answer(self, graph: Sample | Sequence[Sample]) -> Any:
        """What there is to say of a graph; of a list of graphs, of each."""
        given = [tidy_graph(one, n) for n, one in enumerate([graph] if isinstance(graph, dict) else graph)]
        found = [ANSWERS[self.answers].tell(one, self.lexicon.labels) for one in self.read_all(given)]
        return found[0] if isinstance(graph, dict) else found

    @property
    def sees_order(self) -> bool:
        """Whether other names of the nodes may change an answer: by their order, or by the basis of eigenvectors."""
        return insist_on_encoder(self.model).ordered or find_reading(self.model.spec).laplacian > 0

    @property
    def averages(self) -> bool:
        """Whether answers are means over orders: chance has a part in these, and the model sees them."""
        return self.sees_order and find_reading(self.model.spec).order != "given"

    def read_all(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> list[Numbers]:
        """What the head gives for each sample, its mean over several orders if chance has a part in them."""
        return self.settle([self.read_once(samples, n, pulse) for n in range(self.orders if self.averages else 1)])

    def read_turns(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> list[list[Numbers]]:
        """What the head gives in each of several orders; who sees none says the same in each, as a law holds it to."""
        return [self.read_once(samples, turn, pulse) for turn in range(self.orders if self.sees_order else 1)]

    def settle(self, turns: Sequence[list[Numbers]]) -> list[Numbers]:
        """One answer for each sample, from those in several orders."""
        return [np.mean(rows, 0) for rows in zip(*turns, strict=True)] if self.averages else turns[0]

    @torch.no_grad()
    def read_once(self, samples: Sequence[Sample], turn: int, pulse: Pulse = lambda: None) -> list[Numbers]:
        """What the head gives in one order; `turn`: which. From the second on, nodes have other names too."""
        schema, where = insist_on_schema(self.lexicon), Whereabouts(find_reading(self.model.spec))
        encoder, found = insist_on_encoder(self.model), dict[int, Numbers]()
        for group in cut_groups([len(sample["nodes"]) for sample in samples]):
            pulse()
            graphs = [GivenGraph.of(samples[n], schema) for n in group]
            # chance depends on the graph, so that its answer doesn't depend on who else is asked
            seeds = [f"{turn}/{graph.digest()}" for graph in graphs]
            names = [Random(f"names/{seed}") for seed in seeds]
            shuffles = [name.sample(range(len(g.nodes)), len(g.nodes)) for name, g in zip(names, graphs, strict=True)]
            if turn:
                graphs = [graph.arrange(order) for graph, order in zip(graphs, shuffles, strict=True)]
            laid = lay_out_graphs(graphs, where, [Random(f"order/{seed}") for seed in seeds], encoder)
            given = self.model(laid.inputs.to(self.model.device)).float().cpu().numpy()
            if ANSWERS[self.answers].pooled:
                found.update(zip(group, given, strict=True))
                continue
            each = laid.split(given)
            for place, n in enumerate(group):
                order = np.asarray(laid.orders[place])
                order = np.asarray(shuffles[place])[order] if turn else order
                found[n] = np.empty_like(each[place])
                found[n][order] = each[place]
        return [found[n] for n in range(len(samples))]

    def measure(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> dict[str, Any]:
        """Every measure, and how far the main one moves with the order of the nodes; of one order that isn't known."""
        turns = self.read_turns(samples, pulse)
        found = ANSWERS[self.answers].measure(samples, self.settle(turns), self.lexicon.labels)
        tables = {name: value for name, value in found.items() if isinstance(value, dict)}
        plain = {name: value for name, value in found.items() if name not in tables}
        return plain | self.measure_spread(samples, turns) | tables

    def measure_spread(self, samples: Sequence[Sample], turns: Sequence[list[Numbers]]) -> dict[str, Any]:
        """How far the main measure moves with the order of the nodes; nothing where one order was wanted."""
        if self.orders == 1:
            return {}
        answer = ANSWERS[self.answers]
        goals = [answer.measure(samples, turn, self.lexicon.labels)[answer.goal] for turn in turns]
        return {"orders": len(goals), "order_mean": float(np.mean(goals)), "order_spread": float(np.std(goals))}

    def lay_out(self, text: Sample | str | Path, target: str | None = None) -> Reading:
        """What the model reads of one graph, a sample or `FILE[:NUMBER]`: its nodes, in the model's first order."""
        refuse_target(self, target)
        sample = tidy_graph(text if isinstance(text, dict) else find_graph(str(text)))
        graph, labels = GivenGraph.of(sample, insist_on_schema(self.lexicon)), self.lexicon.labels
        where, encoder = Whereabouts(find_reading(self.model.spec)), insist_on_encoder(self.model)
        laid = lay_out_graphs([graph], where, [Random(f"order/0/{graph.digest()}")], encoder)
        pieces = tuple(label_node(node, sample["nodes"][node]) for node in laid.orders[0])
        return Reading(
            laid.inputs,
            Strip(pieces, (False,) * len(pieces)),
            targets={0: None} if ANSWERS[self.answers].pooled else dict.fromkeys(range(len(pieces))),
            spell=lambda found: [labels[n] if labels else "number" for n in found],
            output=OUTPUTS.get(self.answers, "none"),
            text=f"{len(pieces)} nodes, {len(graph.edges)} edges",
        )


def tidy_graph(graph: Sample, number: int = 0) -> Sample:
    """A graph as readers make them: each edge once, nothing out of range."""
    kinds = graph.get("edge_kinds")
    try:
        nodes, edges = np.asarray(graph["nodes"]), np.asarray(graph["edges"]).reshape(-1, 2)
        made = make_graph(nodes, edges, None if kinds is None else np.asarray(kinds), f"graph {number}", Log())
    except (Unusable, KeyError, ValueError) as error:
        told = error.message if isinstance(error, Unusable) else f"it isn't one: {error!r}"
        raise InputError(f"graph {number}: {told}", "nodes (nodes, features), and edges (edges, 2)") from None
    return {**{name: value for name, value in graph.items() if name != "edge_kinds"}, **made}


def find_graph(place: str) -> Sample:
    """A graph of a file, `FILE` or `FILE:NUMBER`, counted from 1 on."""
    path, _, number = place.rpartition(":") if place.rpartition(":")[2].isdecimal() else (place, "", "1")
    kind = READERS.get(Path(strip_packing(path)).suffix.lower())
    if kind is None or not Path(path).is_file():
        told = "there is no such file" if kind is not None else f"graphs are in {', '.join(READERS)}"
        raise InputError(f"{path}: {told}", "--graph FILE.jsonl, or FILE.jsonl:3 for its third graph")
    log, count = Log(), 0
    for count, sample in enumerate(ReaderSpec.parse({"kind": kind, "path": path}).samples(log), 1):
        if count == int(number):
            return sample
    raise InputError(f"{path}: there is no graph {number}, but {count} that can be read", log.summary())


def label_node(node: int, features: Numbers) -> str:
    """A node's number, and what sort it is."""
    return f"{node}·{','.join(map(str, features.tolist()))}" if features.dtype.kind != "f" else str(node)


def cut_groups(sizes: Sequence[int]) -> list[list[int]]:
    """Graphs of like size together, as many as have so many nodes."""
    groups, total = list[list[int]](), 0
    for n in sorted(range(len(sizes)), key=sizes.__getitem__):
        total += sizes[n]
        if not groups or total > NODES:
            groups.append([])
            total = sizes[n]
        groups[-1].append(n)
    return groups
