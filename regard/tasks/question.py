"""Questions about tables: learned from the answers alone, a number or the cells that were looked up.

A number costs by Huber's loss, and what was looked up by a log loss on its cells, as in Neelakantan et al. (2015).
Three things differ from the paper. Sums are ten times as large as counts, and what a sum is off by in a question for a
count would drive all sums out before the question is understood; so numbers are compared as asinh(x / `compress`),
which is x where that is small and a logarithm elsewhere. Where a number is asked for, cells that are looked up cost
too. And hard programs are tried beside the soft one (`exploration.py`), where the paper adds noise to gradients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.model import Model, ModelSpec
from regard.core.probe import Record
from regard.core.spec import Positive
from regard.data.batches import BatchSpec
from regard.data.column import ColumnSpec
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.sieve import Row
from regard.decode.pipeline import Pipeline
from regard.tasks.example import Example
from regard.tasks.exploration import CHOICES, explore
from regard.tasks.programmer import Programmer, TableAnswer, write_number
from regard.tasks.scores import SampleScores, take_time
from regard.tasks.significance import Statistic
from regard.tasks.tabular import (
    QuestionBatch,
    collect,
    encode_sample,
    list_columns,
    list_texts_of,
    make_cutter,
)
from regard.tasks.task import Pulse, Task, TaskSpec, one_stack

SURE = 1e-6  # no cell is taken to be surer than this, or a mistake would cost without end


class QuestionTaskSpec(TaskSpec):
    """Learn to answer questions about tables, by programs that nobody shows."""

    form: ClassVar[Form] = "questions"
    measures: ClassVar[Mapping[str, bool]] = {"exact": True}
    roles: ClassVar[tuple[str, str, str]] = ("question", "right answer", "answer")
    kind: Literal["question"] = "question"
    delta: Positive = 0.1
    """A difference between numbers costs by its square below this, and in proportion above (Huber's loss)."""
    compress: Positive | None = 1.0
    """Numbers are compared by asinh(x / this): as they are where they are small, by their logarithm where they are
    large; none: as they are everywhere, as in the paper."""
    lookup: Positive = 1.0
    """The weight of the log loss of cells that are looked up beside that of numbers."""
    trials: bool = True
    """Every short program is tried for each question while training, and those that answer right are made likelier;
    false: soft programs alone, as in the paper."""

    @classmethod
    def rename(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        given = super().rename(settings)
        if not {"tries", "chance"} <= given.keys():
            return given
        # runs of an earlier version drew programs by chance, and kept how
        tried = bool(given.pop("tries"))
        return {name: value for name, value in given.items() if name not in ("chance", "wild")} | {"trials": tried}

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "question")
        programs = model.head is not None and model.head.kind == "program"
        return model if programs else model.replace(head={"kind": "program", "pool": "mean"})

    def texts(self, sample: Sample) -> Sequence[str]:
        return (" ".join(list_texts_of(sample)),)

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        return list_columns(len(lexicon.tokenizer))

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        cut = make_cutter(lexicon.tokenizer)
        return [encode_sample(sample, cut) for sample in samples]

    def count_tokens(self, row: Row) -> int:
        return len(row["question"])

    def find_fault(self, row: Row) -> str:
        return "" if len(row["question"]) else "its question has no words"

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> QuestionTask:
        return QuestionTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Programmer

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Programmer:
        return Programmer(network, lexicon)

    def measure(
        self, pipeline: Programmer, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> Mapping[str, Any]:
        return pipeline.measure(samples, pulse)

    def score_samples(
        self, pipeline: Programmer, samples: Sequence[Sample], pulse: Pulse = lambda: None
    ) -> SampleScores:
        answers, seconds = take_time(lambda: pipeline.answer_all(samples, pulse))
        pairs = list(zip(samples, answers, strict=True))
        return SampleScores(
            {"exact": Statistic.mean([float(answer.is_right(sample)) for sample, answer in pairs], rising=True)},
            [self._compare(*pair) for pair in pairs],
            telling="exact",
            seconds=seconds,
            sizes=[len(sample["cells"]) // len(sample["names"]) for sample in samples],
            size_name="rows of the table",
        )

    def demonstrate(self, pipeline: Programmer, samples: Sequence[Sample]) -> list[Example]:
        return [self._compare(*pair) for pair in zip(samples, pipeline.answer_all(samples), strict=True)]

    def _compare(self, sample: Sample, answer: TableAnswer) -> Example:
        wanted = (
            [write_number(float(sample["number"]))]
            if "number" in sample
            else [sample["cells"][n] for n in sample["chosen"]]
        )
        return Example(
            (sample["question"],),
            (", ".join(wanted) or "no cell",),
            (answer.text,),
            answer.is_right(sample),
            "; ".join(str(step) for step in answer.program),
        )


class QuestionTask(Task[QuestionBatch]):
    """The task on one prepared corpus."""

    goal, rising = "exact", True
    counts = "questions"
    sorted_by = ("cells",)
    usual_rows = 64

    def make_batch(self, rows: list[int], chance: Random) -> QuestionBatch:
        samples = [{name: column[n] for name, column in self.columns.items()} for n in rows]
        return collect(samples, self.tokenizer.pad)

    def size(self, batch: QuestionBatch) -> int:
        return len(batch.numbers)

    def loss(self, model: Model, batch: QuestionBatch) -> Tensor:
        batch, seen = batch.to(model.device), Record(*CHOICES)
        inputs = replace(batch.inputs, probe=seen) if self.spec.trials else batch.inputs
        answers: Tensor = model(inputs).float()
        looked, chosen, real = batch.looked, batch.chosen, batch.real
        found, wanted = self._compress(answers[:, 0]), self._compress(batch.numbers)
        # in proportion to delta, so that another one doesn't change what look-ups weigh
        numbers = F.huber_loss(found, wanted, reduction="none", delta=self.spec.delta) / self.spec.delta
        cells = answers[:, 1:].view_as(chosen).clamp(SURE, 1 - SURE)
        costs = F.binary_cross_entropy(cells, chosen, reduction="none") * real
        total = (numbers * ~looked + self.spec.lookup * costs.sum((1, 2)) / real.sum((1, 2))).sum()
        return total + explore(seen, batch).sum() if self.spec.trials else total

    def _compress(self, numbers: Tensor) -> Tensor:
        return numbers if self.spec.compress is None else torch.asinh(numbers / self.spec.compress)

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        found = Programmer(model, self.lexicon).measure(self.validation, pulse)
        return {name: value for name, value in found.items() if not isinstance(value, dict)}
