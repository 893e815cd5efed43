"""Regression: one number from a series of them, such as the sum of the two that are marked (the adding problem).

A guess that ignores the series and always says the mean has an error of 1/6 there; a model that remembers does better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.padding import Padding
from regard.data.batches import BatchSpec
from regard.data.column import ColumnSpec
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.decode.pipeline import Pipeline
from regard.tasks.example import Example
from regard.tasks.measures import ratio
from regard.tasks.scores import SampleScores, take_time
from regard.tasks.significance import Statistic
from regard.tasks.task import Pulse, Task, TaskSpec, one_stack

UNIT = 10_000  # numbers are kept as whole ten-thousandths
ROWS = 64  # series that are read together


class RegressionTaskSpec(TaskSpec):
    """Learn a number from a series."""

    form: ClassVar[Form] = "series"
    words: ClassVar[bool] = False
    measures: ClassVar[Mapping[str, bool]] = {"error": False}
    roles: ClassVar[tuple[str, str, str]] = ("series", "number", "answer")
    kind: Literal["regression"] = "regression"

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "regression")
        side = "encoder" if model.decoder is None else "decoder"
        stack = model.encoder or model.decoder
        assert stack is not None
        read = stack.replace(embedding={"kind": "numbers", "channels": 2})
        pool = "mean" if model.decoder is None else "last"
        return model.replace(**{side: read}, head={"kind": "classes", "classes": 1, "pool": pool})

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        bounds = {"values": UNIT + 1, "marks": 2, "target": 2 * UNIT + 1}
        return {name: ColumnSpec(below=bound) for name, bound in bounds.items()}

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Mapping[str, Sequence[int]]]:
        return [
            {
                "values": [round(value * UNIT) for value in sample["values"]],
                "marks": sample["marks"],
                "target": [round(sample["target"] * UNIT)],
            }
            for sample in samples
        ]

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> RegressionTask:
        return RegressionTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Regressor

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Regressor:
        return Regressor(network)

    def measure(self, pipeline: Regressor, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        return pipeline.measure(samples, pulse)

    def score_samples(
        self, pipeline: Regressor, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> SampleScores:
        answers, seconds = take_time(lambda: pipeline.predict_all(samples, pulse))
        pairs = list(zip(samples, answers, strict=True))
        errors = [(answer - float(sample["target"])) ** 2 for sample, answer in pairs]
        return SampleScores(
            {"error": Statistic.mean(errors, rising=False)},
            [self._compare(*pair) for pair in pairs],
            telling="error",
            seconds=seconds,
            sizes=[len(sample["values"]) for sample in samples],
            size_name="numbers of the series",
        )

    def demonstrate(self, pipeline: Regressor, samples: Sequence[Sample]) -> list[Example]:
        return [self._compare(sample, pipeline.predict(sample["values"], sample["marks"])) for sample in samples]

    def _compare(self, sample: Sample, answer: float) -> Example:
        values, marks, wanted = sample["values"], sample["marks"], float(sample["target"])
        marked = [f"{value:.4f}" for value, mark in zip(values, marks, strict=True) if mark]
        given = f"{len(values)} numbers, of which are marked: {', '.join(marked) or 'none'}"
        note = f"off by {abs(answer - wanted):.4f}"
        return Example((given,), (f"{wanted:.4f}",), (f"{answer:.4f}",), note=note)


@dataclass
class RegressionBatch:
    """Numbers and marks side by side, pads last, and what they come to."""

    inputs: Inputs  # (rows, time, 2)
    targets: Tensor  # (rows,)


def collect(
    values: Sequence[Sequence[float]], marks: Sequence[Sequence[int]], targets: Sequence[float]
) -> RegressionBatch:
    """A batch from series of any lengths."""
    rows = [
        torch.tensor(list(zip(*pair, strict=True)), dtype=torch.float32) for pair in zip(values, marks, strict=True)
    ]
    numbers = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return RegressionBatch(Inputs(numbers, Padding([len(row) for row in rows])), torch.tensor(list(targets)))


def guess(model: Model, batch: RegressionBatch) -> Tensor:
    """What the model makes of each series: (rows,)."""
    found: Tensor = model(batch.inputs.to(model.device))[:, 0]
    return found


class RegressionTask(Task[RegressionBatch]):
    """The task on one prepared corpus."""

    goal, rising = "error", False
    counts = "sequences"
    sorted_by = ("values",)

    def make_batch(self, rows: list[int], chance: Random) -> RegressionBatch:
        columns = self.columns
        values = [[value / UNIT for value in columns["values"][n]] for n in rows]
        targets = [columns["target"][n][0] / UNIT for n in rows]
        return collect(values, [columns["marks"][n] for n in rows], targets)

    def size(self, batch: RegressionBatch) -> int:
        return len(batch.targets)

    def loss(self, model: Model, batch: RegressionBatch) -> Tensor:
        return F.mse_loss(guess(model, batch), batch.targets.to(model.device), reduction="sum")

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        return Regressor(model).measure(self.validation, pulse)


@dataclass(repr=False)
class Regressor(Pipeline):
    """A model that learned to make a number of a series."""

    verbs: ClassVar[tuple[str, ...]] = ("predict",)
    model: Model

    @torch.no_grad()
    def predict(self, values: Sequence[float], marks: Sequence[int]) -> float:
        """The number that a series comes to."""
        return float(guess(self.model, collect([values], [marks], [0.0]))[0])

    @torch.no_grad()
    def predict_all(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> list[float]:
        """The numbers that the series of samples come to."""
        found: dict[int, float] = {}
        order = sorted(range(len(samples)), key=lambda n: len(samples[n]["values"]))
        for first in range(0, len(order), ROWS):
            pulse()
            group = [samples[n] for n in order[first : first + ROWS]]
            columns = ([sample[name] for sample in group] for name in ("values", "marks", "target"))
            batch = collect(*columns)
            found |= dict(zip(order[first : first + ROWS], guess(self.model, batch).tolist(), strict=True))
        return [found[n] for n in range(len(samples))]

    def measure(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> dict[str, Any]:
        """The mean squared error, over all series and over those of each length."""
        answers = self.predict_all(samples, pulse)
        errors = [(answer - sample["target"]) ** 2 for answer, sample in zip(answers, samples, strict=True)]
        by_size: dict[int, list[float]] = {}
        for sample, error in zip(samples, errors, strict=True):
            by_size.setdefault(len(sample["values"]), []).append(error)
        told = {size: sum(values) / len(values) for size, values in sorted(by_size.items())}
        whole = ratio(errors, [1] * len(samples))
        return whole.named("error") | {"series": len(samples), "error_by_size": told}
