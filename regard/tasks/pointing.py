"""Pointing: some of the points that are given, in order, such as corners of their convex hull (Vinyals et al. 2015).

The vocabulary of the answers is the input itself. Any model with an encoder and a decoder can learn it: the task gives
it coordinates to read, the chosen points to go on from, and a head that points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.role import HeadSpec
from regard.data.batches import Batch, BatchSpec
from regard.data.column import ColumnSpec
from regard.data.corpora.points import UNIT
from regard.data.lexicon import Lexicon
from regard.data.log import Unusable
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.sieve import Row
from regard.decode.pipeline import Pipeline
from regard.decode.pointing import STOP, PointSelector, check_points, lay_points, parse_points
from regard.decode.search import Search
from regard.errors import SpecError
from regard.tasks.example import Example
from regard.tasks.measures import ratio
from regard.tasks.scores import SampleScores, take_time
from regard.tasks.significance import Statistic
from regard.tasks.task import Pulse, Task, TaskSpec

ROWS = 64  # samples that are measured together


class PointingTaskSpec(TaskSpec):
    """Learn to point at what was read."""

    form: ClassVar[Form] = "points"
    words: ClassVar[bool] = False
    searches: ClassVar[bool] = True
    measures: ClassVar[Mapping[str, bool]] = {"loss": False, "exact": True}
    roles: ClassVar[tuple[str, str, str]] = ("points", "order", "answer")
    kind: Literal["pointing"] = "pointing"
    head: HeadSpec | None = None
    """This head points; unless given, the paper's, by v · tanh(W state + U memory)."""
    once: bool = True
    """A point is chosen at most once when the model is used."""
    search: Search = Search()
    """Validation points in this way while training goes on, and so does the trained model unless told otherwise; a hull
    has min_tokens=3 corners at least."""

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        if model.encoder is None or model.decoder is None:
            told = "pointing needs an encoder that reads the points and a decoder that chooses among them"
            raise SpecError(f"model: {told}", "model=pointer-network, or model=transformer-tiny")
        head = HeadSpec.parse("pointer") if self.head is None else self.head
        if head.answers != "positions":
            raise SpecError(f"task.head: {head.kind} answers with {head.answers}, and not with positions", "pointer")
        coordinates = {"kind": "numbers", "channels": 3}
        return model.replace(
            encoder=model.encoder.replace(embedding=coordinates),
            decoder=model.decoder.replace(embedding={"kind": "pointed", "of": coordinates}),
            head=head.replace(memory=model.encoder.width),
            share=False,
        )

    def receive(self, sample: Sample) -> Sample:
        points, target = sample["points"], sample["target"]
        outside = next((point for point in points if not all(0 <= number <= 1 for number in point)), None)
        if outside is not None:
            raise Unusable(f"the point {outside} isn't in the unit square", "scale all points to 0 … 1")
        if not target or not all(1 <= place <= len(points) for place in target):
            raise Unusable(f"a target of {len(points)} points has places from 1 to {len(points)}, not {target}")
        return sample

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        return {"x": ColumnSpec(below=UNIT + 1), "y": ColumnSpec(below=UNIT + 1), "target": ColumnSpec()}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        return [
            {
                "x": [round(point[0] * UNIT) for point in sample["points"]],
                "y": [round(point[1] * UNIT) for point in sample["points"]],
                "target": sample["target"],
            }
            for sample in samples
        ]

    def places(self, row: Row) -> Mapping[str, int]:
        return {"encoder": len(row["x"]) + 1, "decoder": len(row["target"]) + 1}  # with the stop, and with a beginning

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> PointingTask:
        return PointingTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return PointSelector

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> PointSelector:
        return PointSelector(network, self.search, self.once)

    def measure(
        self, pipeline: PointSelector, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> Mapping[str, Any]:
        answers = choose_points(pipeline, samples, self.search, pulse)
        sums, counts = sum_losses(pipeline.model, samples, pulse)
        right = [is_right(sample, answer) for sample, answer in zip(samples, answers, strict=True)]
        by_size: dict[int, list[bool]] = {}
        for sample, one in zip(samples, right, strict=True):
            by_size.setdefault(len(sample["points"]), []).append(one)
        shares = {size: sum(some) / len(some) for size, some in sorted(by_size.items())}
        exact = ratio([float(one) for one in right], [1] * len(right))
        return ratio(sums, counts).named("loss") | exact.named("exact") | {"sets": len(samples), "by_size": shares}

    def score_samples(
        self, pipeline: PointSelector, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> SampleScores:
        answers, seconds = take_time(lambda: choose_points(pipeline, samples, self.search, pulse))
        sums, counts = sum_losses(pipeline.model, samples, pulse)
        pairs = list(zip(samples, answers, strict=True))
        return SampleScores(
            {
                "exact": Statistic.mean([float(is_right(*pair)) for pair in pairs], rising=True),
                "loss": Statistic.mean(sums, counts, rising=False, per_token=True),
            },
            [self._compare(*pair) for pair in pairs],
            telling="exact",
            seconds=seconds,
            written=sum(len(answer) + 1 for answer in answers),
            sizes=[len(sample["points"]) for sample in samples],
            size_name="points",
        )

    def demonstrate(self, pipeline: PointSelector, samples: Sequence[Sample]) -> list[Example]:
        answers = choose_points(pipeline, samples, pipeline.search)
        return [self._compare(sample, answer) for sample, answer in zip(samples, answers, strict=True)]

    def make_sample(self, text: str) -> Sample:
        points = parse_points(text)
        check_points([points])
        return {"points": points}

    def _compare(self, sample: Sample, answer: Sequence[int]) -> Example:
        given, found = ", ".join(f"{x:g} {y:g}" for x, y in sample["points"]), " ".join(map(str, answer))
        if "target" not in sample:
            return Example((given,), (), (found,))
        return Example((given,), (" ".join(map(str, sample["target"])),), (found,), is_right(sample, answer))


def is_right(sample: Sample, answer: Sequence[int]) -> bool:
    """Whether an answer is the one that is wanted; a ring may begin anywhere."""
    wanted, found = list(sample["target"]), list(answer)
    if not sample.get("ring") or wanted[0] not in found:
        return found == wanted
    first = found.index(wanted[0])
    return found[first:] + found[:first] == wanted


def choose_points(
    pipeline: PointSelector, samples: Sequence[Sample], search: Search, pulse: Pulse = lambda: None
) -> list[list[int]]:
    """What a model chooses of the points of each sample."""
    found: list[list[int]] = []
    for first in range(0, len(samples), ROWS):
        pulse()
        hypotheses = pipeline.find([sample["points"] for sample in samples[first : first + ROWS]], search)
        found += [[token for token in best[0].tokens if token != STOP] for best in hypotheses]
    return found


def make_batch(points: Sequence[Sequence[Sequence[float]]], targets: Sequence[Sequence[int]]) -> Batch:
    """Points, and what is pointed at from the beginning to the stop."""
    target = Inputs.pad([[STOP, *row, STOP] for row in targets], STOP)
    return Batch(lay_points(points), target, sum(len(row) + 1 for row in targets))


def price(model: Model, batch: Batch) -> Tensor:
    """What each pointing costs in nats: (rows, time), 0 at pads."""
    device = model.device
    inputs = replace(batch.target.without_last().to(device), memory=batch.source.to(device))
    logs: Tensor = model(inputs)  # (rows, time, points)
    wanted, kept = batch.target.tokens[:, 1:].to(device), batch.target.real[:, 1:].to(device)
    lost = F.nll_loss(logs.float().transpose(1, 2), wanted, reduction="none")
    return lost.masked_fill(~kept, 0.0)


@torch.no_grad()
def sum_losses(model: Model, samples: Sequence[Sample], pulse: Pulse) -> tuple[list[float], list[int]]:
    """The cross-entropy of each answer, and how many pointings it has; those of like size are read together."""
    order = sorted(range(len(samples)), key=lambda n: len(samples[n]["points"]))
    sums, counts = [0.0] * len(samples), [0] * len(samples)
    for first in range(0, len(order), ROWS):
        pulse()
        group = order[first : first + ROWS]
        batch = make_batch([samples[n]["points"] for n in group], [samples[n]["target"] for n in group])
        for n, lost in zip(group, price(model, batch).double().sum(1).tolist(), strict=True):
            sums[n], counts[n] = lost, len(samples[n]["target"]) + 1
    return sums, counts


class PointingTask(Task[Batch]):
    """The task on one prepared corpus."""

    goal, rising = "exact", True
    sorted_by = ("x", "target")

    def make_batch(self, rows: list[int], chance: Random) -> Batch:
        xs, ys, targets = (self.columns[name] for name in ("x", "y", "target"))
        points = [[(x / UNIT, y / UNIT) for x, y in zip(xs[n], ys[n], strict=True)] for n in rows]
        return make_batch(points, [targets[n] for n in rows])

    def size(self, batch: Batch) -> int:
        return batch.tokens

    def loss(self, model: Model, batch: Batch) -> Tensor:
        return price(model, batch).sum()

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        measured = self.spec.measure(self.spec.pipeline(model, self.lexicon), self.validation, pulse)
        assert isinstance(measured, Mapping)
        return measured
