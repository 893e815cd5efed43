"""Learning from graphs: one label for each, several, a number, or a label or a number for each node.

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
from regard.core.spec import Rate, Size
from regard.data.batches import BatchSpec
from regard.data.column import ColumnSpec
from regard.data.graph_batch import GivenGraph, Whereabouts, lay_out_graphs
from regard.data.lexicon import Lexicon
from regard.data.log import Unusable
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.sieve import Row
from regard.decode.pipeline import Pipeline
from regard.errors import SpecError
from regard.tasks.answer import ANSWERS, Answer, NodeLabels, NodeNumbers, OneLabel, OneNumber, Saying, SeveralLabels
from regard.tasks.example import Example
from regard.tasks.graph_reader import GraphReader, find_reading, insist_on_encoder, insist_on_schema
from regard.tasks.measures import Numbers
from regard.tasks.scores import SampleScores, take_time
from regard.tasks.task import Pulse, Task, TaskSpec, layer_of, one_stack


class GraphTaskSpec(TaskSpec):
    """Learn what to say of graphs, or of their nodes."""

    form: ClassVar[Form] = "graphs"
    words: ClassVar[bool] = False
    measures: ClassVar[Mapping[str, bool]] = OneLabel.measures  # of the usual answer
    roles: ClassVar[tuple[str, str, str]] = ("graph", "right", "answer")
    kind: Literal["graphs"] = "graphs"
    answer: Saying = "label"
    """A graph has one label, several or none of many (labels), a number, or each node has a label (node-labels) or a
    number (node-numbers)."""
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
            if head["pool"] in ("first", "last"):
                told = f"model: pool {head['pool']} takes one node for the graph, and nodes have no {head['pool']}"
                raise SpecError(told, "model.pool=mean, or sum")
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
            "node-numbers": NodeNumberTask,
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
        turns, seconds = take_time(lambda: pipeline.read_turns(samples, pulse))
        found, spread = pipeline.settle(turns), pipeline.measure_spread(samples, turns)
        note = ""
        if spread and pipeline.sees_order:
            told = f"{spread['order_mean']:.4g} ± {spread['order_spread']:.2g} over {spread['orders']} orders of nodes"
            note = f"{self.wanted.goal} is {told}"
        statistics = self.wanted.score(samples, found, pipeline.lexicon.labels)
        return SampleScores(
            statistics,
            [self._compare(*pair, pipeline.lexicon) for pair in zip(samples, found, strict=True)],
            telling=next(iter(statistics)),
            seconds=seconds if pipeline.averages else seconds / len(turns),  # an answer is one of them then
            sizes=[len(sample["nodes"]) for sample in samples],
            size_name="nodes of the graph",
            note=note,
        )

    def demonstrate(self, pipeline: GraphReader, samples: Sequence[Sample]) -> list[Example]:
        found = pipeline.read_all(samples)
        return [self._compare(*pair, pipeline.lexicon) for pair in zip(samples, found, strict=True)]

    def _compare(self, sample: Sample, found: Numbers, lexicon: Lexicon) -> Example:
        told, right = self.wanted.tell(found, lexicon.labels), sample.get(self.wanted.field)
        sides = [
            () if side is None else tuple(map(str, side if isinstance(side, list) else [side]))
            for side in (right, told)
        ]
        what = f"{len(sample['nodes'])} nodes, {len(sample['edges'])} edges"
        given = f"{sample['place']}: {what}" if "place" in sample else what
        return Example((given,), sides[0], sides[1], None if right is None or not self.wanted.exact else told == right)


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
    mixes = True  # graphs of one size have their labels in common too, and norms over a batch would take that away
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
        laid = lay_out_graphs(batch.graphs, self._where, chances, insist_on_encoder(model), True, batch.numbers)
        inputs = laid.inputs.to(model.device)
        given, right = model(inputs), batch.right
        if batch.nodes:
            given = given[inputs.real]
            pairs = zip(batch.nodes, laid.orders, strict=True)
            joined = np.concatenate([known[order] for known, order in pairs])
            right = torch.from_numpy(joined.astype(np.float32 if joined.dtype.kind == "f" else np.int64))
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


class NodeNumberTask(GraphTask):
    answer = NodeNumbers()
    goal, rising = NodeNumbers.goal, NodeNumbers.rising
    counts = "nodes"
