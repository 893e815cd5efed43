"""Learning from graphs: one label for each, several, a number, or a label for each node.

Nodes have no order, and most mixers see one. So a figure of a model that sees the order of its nodes comes with its
spread: the same graphs with their nodes named otherwise, several times. What such a model answers is the mean over
several orders, where chance has a part in them (Wang et al. 2024 take five).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from regard.core.model import Model, ModelSpec
from regard.core.role import GraphReading
from regard.core.spec import Rate, Size
from regard.core.stack import Stack
from regard.data.batches import BatchSpec
from regard.data.column import ColumnSpec
from regard.data.graph import Schema
from regard.data.graph_batch import GivenGraph, Whereabouts, lay_out_graphs
from regard.data.lexicon import Lexicon
from regard.data.log import Unusable
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.sieve import Row
from regard.decode.pipeline import Pipeline
from regard.errors import InputError, SpecError
from regard.tasks.answer import ANSWERS, Answer, NodeLabels, OneLabel, OneNumber, SeveralLabels
from regard.tasks.example import Example
from regard.tasks.measures import Numbers
from regard.tasks.scores import SampleScores, take_time
from regard.tasks.task import Pulse, Task, TaskSpec, layer_of, one_stack

NODES = 4096  # that are read together where nothing is trained


class GraphTaskSpec(TaskSpec):
    """Learn what to say of graphs, or of their nodes."""

    form: ClassVar[Form] = "graphs"
    words: ClassVar[bool] = False
    measures: ClassVar[Mapping[str, bool]] = OneLabel.measures  # of the usual answer
    roles: ClassVar[tuple[str, str, str]] = ("graph", "right", "answer")
    kind: Literal["graphs"] = "graphs"
    answer: Literal["label", "labels", "number", "node-labels"] = "label"
    """A graph has one label, several or none of many (labels), a number, or each node has a label (node-labels)."""
    orders: Size = 5
    """Where a model sees the order of nodes, its answer is the mean over this many orders, and its spread is told."""
    smoothing: Rate = 0.0
    """This share of the right label's probability is shared among all labels (label smoothing)."""

    @property
    def wanted(self) -> Answer:
        return ANSWERS[self.answer]

    def known_measures(self) -> Mapping[str, bool]:
        return self.wanted.measures

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "learning from graphs")
        if model.encoder is None:
            raise SpecError("model: a decoder sees only the nodes before each", "model=gin, or model=graph-gps")
        schema = insist_on_schema(lexicon)
        embedding = model.encoder.embedding.read_graphs(schema.categories, schema.channels, schema.edge_kinds)
        count = self.wanted.count_outputs(len(lexicon.labels))
        layer = layer_of(model, "classes", "tags")
        if self.wanted.pooled:
            head: dict[str, Any] = {"kind": "classes", "classes": count, "pool": "mean", **layer}
        else:
            head = {"kind": "tags", "tags": count, **{name: value for name, value in layer.items() if name != "pool"}}
        return model.replace(encoder=model.encoder.replace(embedding=embedding), head=head)

    def receive(self, sample: Sample) -> Sample:
        self.wanted.insist(sample)
        return sample

    def texts(self, sample: Sample) -> Sequence[str]:
        return ()

    def labels(self, sample: Sample) -> Sequence[str]:
        return self.wanted.list_labels(sample)

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        schema = insist_on_schema(lexicon)
        nodes = ColumnSpec(dtype="int32", shape=(None, len(schema.categories)))
        if schema.channels:
            nodes = ColumnSpec(dtype="float32", shape=(None, schema.channels))
        found = {"nodes": nodes, "edges": ColumnSpec(dtype="int32", shape=(None, 2))}
        if schema.edge_kinds:
            found["edge_kinds"] = ColumnSpec(dtype="int32", shape=(None, len(schema.edge_kinds)))
        return {**found, "right": self.wanted.column(len(lexicon.labels))}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        labels = {label: number for number, label in enumerate(lexicon.labels)}
        schema, rows = insist_on_schema(lexicon), list[Row]()
        for sample in samples:
            try:
                graph = GivenGraph.of(sample, schema)
            except Unusable as error:
                rows.append({"fault": error.message, "nodes": sample["nodes"]})
                continue
            kinds = {} if graph.kinds is None else {"edge_kinds": graph.kinds}
            right = self.wanted.encode(sample, labels)
            rows.append({"nodes": graph.nodes, "edges": graph.edges, **kinds, "right": right})
        return rows

    def find_fault(self, row: Row) -> str:
        return str(row.get("fault", ""))

    def count_tokens(self, row: Row) -> int:
        return len(row["nodes"])

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> GraphTask:
        tasks: dict[str, type[GraphTask]] = {
            "label": GraphLabelTask,
            "labels": GraphLabelsTask,
            "number": GraphNumberTask,
            "node-labels": NodeLabelTask,
        }
        return tasks[self.answer](self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return GraphReader

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> GraphReader:
        return GraphReader(network, lexicon, self.answer, self.orders)

    def measure(
        self, pipeline: GraphReader, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> Mapping[str, Any]:
        return pipeline.measure(samples, pulse)

    def score_samples(
        self, pipeline: GraphReader, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> SampleScores:
        found, seconds = take_time(lambda: pipeline.read_all(samples, pulse))
        statistics = self.wanted.score(samples, found, pipeline.lexicon.labels)
        return SampleScores(
            statistics,
            [self._compare(*pair, pipeline.lexicon) for pair in zip(samples, found, strict=True)],
            telling=next(iter(statistics)),
            seconds=seconds,
            sizes=[len(sample["nodes"]) for sample in samples],
            size_name="nodes of the graph",
        )

    def demonstrate(self, pipeline: GraphReader, samples: Sequence[Sample]) -> list[Example]:
        found = pipeline.read_all(samples)
        return [self._compare(*pair, pipeline.lexicon) for pair in zip(samples, found, strict=True)]

    def _compare(self, sample: Sample, found: Numbers, lexicon: Lexicon) -> Example:
        told, right = self.wanted.tell(found, lexicon.labels), sample.get(self.wanted.field)
        sides = [
            () if side is None else tuple(side if isinstance(side, list) else [str(side)]) for side in (right, told)
        ]
        what = f"{len(sample['nodes'])} nodes, {len(sample['edges'])} edges"
        given = f"{sample['place']}: {what}" if "place" in sample else what
        return Example(
            (given,), sides[0], sides[1], None if right is None or isinstance(told, float) else told == right
        )


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


@dataclass
class GraphBatch:
    """Graphs side by side, and what is right of each, or of each of their nodes in one list."""

    graphs: list[GivenGraph]
    numbers: list[int]  # of the graphs, in the corpus
    right: Tensor
    chance: int  # the seed of what chance does to them
    nodes: list[Numbers] = field(default_factory=list)  # what is right of each graph's nodes


class GraphTask(Task[GraphBatch]):
    """The task on one prepared corpus."""

    answer: ClassVar[Answer]
    sorted_by = ("nodes",)
    counts = "graphs"
    _where: Whereabouts | None = None

    def make_batch(self, rows: list[int], chance: Random) -> GraphBatch:
        columns = self.columns
        kinds = columns.get("edge_kinds")
        graphs = [
            GivenGraph(columns["nodes"].read(n), columns["edges"].read(n), None if kinds is None else kinds.read(n))
            for n in rows
        ]
        drawn = chance.getrandbits(63)
        if not self.answer.pooled:
            nodes = [columns["right"].read(n) for n in rows]
            return GraphBatch(graphs, rows, torch.empty(0), drawn, nodes)
        right = columns["right"].gather(rows)
        return GraphBatch(graphs, rows, torch.from_numpy(right.astype(right.dtype.newbyteorder("="))), drawn)

    def size(self, batch: GraphBatch) -> int:
        return sum(map(len, batch.nodes)) if batch.nodes else len(batch.graphs)

    def loss(self, model: Model, batch: GraphBatch) -> Tensor:
        if self._where is None:
            self._where = Whereabouts(find_reading(model.spec))
        chances = [Random(f"{batch.chance}/{n}") for n in batch.numbers]
        connected = insist_on_encoder(model).connected
        laid = lay_out_graphs(batch.graphs, self._where, chances, connected, True, batch.numbers)
        inputs = laid.inputs.to(model.device)
        given, right = model(inputs), batch.right
        if batch.nodes:
            given = given[inputs.real]
            pairs = zip(batch.nodes, laid.orders, strict=True)
            right = torch.from_numpy(np.concatenate([labels[order] for labels, order in pairs]).astype(np.int64))
        return self.answer.loss(given, right.to(model.device), self.spec.smoothing)

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        # one order will do to choose a checkpoint by
        found = GraphReader(model, self.lexicon, self.spec.answer, 1).measure(self.validation, pulse)
        return {name: value for name, value in found.items() if not isinstance(value, dict)}


class GraphLabelTask(GraphTask):
    answer = OneLabel()
    goal, rising = OneLabel.goal, OneLabel.rising


class GraphLabelsTask(GraphTask):
    answer = SeveralLabels()
    goal, rising = SeveralLabels.goal, SeveralLabels.rising


class GraphNumberTask(GraphTask):
    answer = OneNumber()
    goal, rising = OneNumber.goal, OneNumber.rising


class NodeLabelTask(GraphTask):
    answer = NodeLabels()
    goal, rising = NodeLabels.goal, NodeLabels.rising
    counts = "nodes"


@dataclass(repr=False)
class GraphReader(Pipeline):
    """A model that learned to say something of graphs.

    A graph is a sample: `nodes`, an array (nodes, features), and `edges`, an array (edges, 2) of int32.
    """

    verbs: ClassVar[tuple[str, ...]] = ("answer",)
    model: Model
    lexicon: Lexicon
    answers: Literal["label", "labels", "number", "node-labels"] = "label"
    orders: int = 5  # over which answers are averaged, where the model sees an order

    def answer(self, graph: Sample | Sequence[Sample]) -> Any:
        """What there is to say of a graph; of a list of graphs, of each."""
        given = [graph] if isinstance(graph, dict) else list(graph)
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
        return self._settle([self.read_once(samples, n, pulse) for n in range(self.orders if self.averages else 1)])

    def _settle(self, turns: Sequence[list[Numbers]]) -> list[Numbers]:
        """One answer for each sample, from those in several orders."""
        return [np.mean(rows, 0) for rows in zip(*turns, strict=True)] if self.averages else turns[0]

    @torch.no_grad()
    def read_once(self, samples: Sequence[Sample], turn: int, pulse: Pulse = lambda: None) -> list[Numbers]:
        """What the head gives in one order; `turn`: which. From the second on, nodes have other names too."""
        schema, where = insist_on_schema(self.lexicon), Whereabouts(find_reading(self.model.spec))
        connected, found = insist_on_encoder(self.model).connected, dict[int, Numbers]()
        for group in cut_groups([len(sample["nodes"]) for sample in samples]):
            pulse()
            names = [Random(f"names/{turn}/{n}") for n in group]
            graphs = [GivenGraph.of(samples[n], schema) for n in group]
            shuffles = [name.sample(range(len(g.nodes)), len(g.nodes)) for name, g in zip(names, graphs, strict=True)]
            if turn:
                graphs = [graph.arrange(order) for graph, order in zip(graphs, shuffles, strict=True)]
            laid = lay_out_graphs(graphs, where, [Random(f"order/{turn}/{n}") for n in group], connected)
            given = self.model(laid.inputs.to(self.model.device)).float().cpu().numpy()
            for row, n in enumerate(group):
                if ANSWERS[self.answers].pooled:
                    found[n] = given[row]
                    continue
                order = np.asarray(laid.orders[row])
                order = np.asarray(shuffles[row])[order] if turn else order
                found[n] = np.empty_like(given[row, : len(order)])
                found[n][order] = given[row, : len(order)]
        return [found[n] for n in range(len(samples))]

    def measure(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> dict[str, Any]:
        """Every measure, and how far the main one moves with the order of the nodes; of one order that isn't known."""
        answer, labels = ANSWERS[self.answers], self.lexicon.labels
        # who sees no order says the same in each, which a law holds it to
        turns = [self.read_once(samples, turn, pulse) for turn in range(self.orders if self.sees_order else 1)]
        found = answer.measure(samples, self._settle(turns), labels)
        if self.orders == 1:
            return found
        goals = [answer.measure(samples, turn, labels)[answer.goal] for turn in turns]
        spread = {"orders": len(goals), "order_mean": float(np.mean(goals)), "order_spread": float(np.std(goals))}
        tables = {name: value for name, value in found.items() if isinstance(value, dict)}
        return {name: value for name, value in found.items() if name not in tables} | spread | tables


def cut_groups(sizes: Sequence[int]) -> list[list[int]]:
    """Graphs of like size together, as many as have so many nodes with their pads."""
    groups: list[list[int]] = []
    for n in sorted(range(len(sizes)), key=sizes.__getitem__):
        if not groups or (len(groups[-1]) + 1) * sizes[n] > NODES:
            groups.append([])
        groups[-1].append(n)
    return groups
