"""Reckoning: vectors of numbers are read, one a position, and each position has one or several answers, or none.

Problems have a size that says how hard they are, so accuracy is told by size; and where a model decides how long it
thinks, so are its steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.padding import Padding
from regard.core.probe import Record
from regard.core.role import Answers
from regard.core.spec import show_value
from regard.data.batches import BatchSpec
from regard.data.column import ColumnSpec
from regard.data.lexicon import Lexicon
from regard.data.origin import Origin
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.sieve import Row
from regard.decode.pipeline import Pipeline, refuse_target
from regard.decode.reading import Reading, Strip
from regard.errors import InputError, SpecError
from regard.tasks.example import Example
from regard.tasks.expectation import expect_loss
from regard.tasks.measures import ratio
from regard.tasks.scores import SampleScores, take_time
from regard.tasks.significance import Statistic
from regard.tasks.task import Pulse, Task, TaskSpec, one_stack

ROWS = 256  # problems that are read together
SILENT = -1  # stands where there is no answer


class ReckoningTaskSpec(TaskSpec):
    """Learn to answer vectors of numbers, position by position."""

    form: ClassVar[Form] = "vectors"
    words: ClassVar[bool] = False
    answers: ClassVar[Answers | None] = "tags"
    measures: ClassVar[Mapping[str, bool]] = {"exact": True, "accuracy": True, "loss": False, "steps": False}
    roles: ClassVar[tuple[str, str, str]] = ("problem", "solution", "answer")
    kind: Literal["reckoning"] = "reckoning"

    def fit_model(self, model: ModelSpec, lexicon: Lexicon) -> ModelSpec:
        one_stack(model, "reckoning")
        channels, answers = insist_on_vectors(lexicon)
        if len(lexicon.labels) < 2:
            raise SpecError(f"corpus: {len(lexicon.labels)} answers, and there must be two at least to choose from")
        side = "encoder" if model.decoder is None else "decoder"
        read = model.main.replace(embedding={"kind": "numbers", "channels": channels})
        return model.replace(**{side: read}, head={"kind": "tags", "tags": answers * len(lexicon.labels)})

    def texts(self, sample: Sample) -> Sequence[str]:
        return ()

    def labels(self, sample: Sample) -> Sequence[str]:
        return [answer for answers in sample["answers"] for answer in answers.split()]

    def columns(self, lexicon: Lexicon) -> Mapping[str, ColumnSpec]:
        channels, answers = insist_on_vectors(lexicon)
        return {
            "vectors": ColumnSpec(dtype="float32", shape=(None, channels)),
            "answers": ColumnSpec(dtype="int16", shape=(None, answers), least=SILENT, below=len(lexicon.labels)),
        }

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Row]:
        numbers = {label: number for number, label in enumerate(lexicon.labels)}
        _, most = insist_on_vectors(lexicon)
        return [
            {"vectors": sample["vectors"], "answers": number_answers(sample["answers"], numbers, most)}
            for sample in samples
        ]

    def build(self, prepared: Prepared, batches: BatchSpec, seed: int) -> ReckoningTask:
        return ReckoningTask(self, prepared, batches, seed)

    def choose_pipeline(self, model: ModelSpec) -> type[Pipeline]:
        return Reckoner

    def pipeline(self, network: Model, lexicon: Lexicon, origin: Origin | None = None) -> Reckoner:
        return Reckoner(network, lexicon)

    def measure(self, pipeline: Reckoner, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> Mapping[str, Any]:
        return pipeline.measure(samples, pulse)

    def score_samples(self, pipeline: Reckoner, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> SampleScores:
        found, seconds = take_time(lambda: pipeline.solve_all(samples, pulse))
        statistics = {
            "exact": Statistic.mean([float(one.right == one.asked) for one in found], rising=True),
            "loss": Statistic.mean([one.loss / max(1, one.asked) for one in found], rising=False),
        }
        return SampleScores(
            statistics,
            [compare(sample, one) for sample, one in zip(samples, found, strict=True)],
            telling="loss",
            seconds=seconds,
            sizes=[size_up(sample) for sample in samples],
            size_name="size of the problem",
        )

    def demonstrate(self, pipeline: Reckoner, samples: Sequence[Sample]) -> list[Example]:
        found = pipeline.solve_all(samples)
        return [compare(sample, one) for sample, one in zip(samples, found, strict=True)]


def insist_on_vectors(lexicon: Lexicon) -> tuple[int, int]:
    """How many numbers and answers a position has, which must be known."""
    if lexicon.vectors is None:
        raise InputError("nothing is known of the vectors that this model reads", "a run that learned task=reckoning")
    return lexicon.vectors


def number_answers(answers: Sequence[str], numbers: Mapping[str, int], most: int) -> NDArray[np.int16]:
    """The answers of each position by their numbers: (positions, most)."""
    found = np.full((len(answers), most), SILENT, np.int16)
    for row, answer in zip(found, answers, strict=True):
        words = answer.split()
        row[: len(words)] = [numbers[word] for word in words]
    return found


def size_up(sample: Sample) -> int:
    """How hard a problem is: what its corpus says, or else its length."""
    return int(sample.get("size", len(sample["vectors"])))


def parse_vectors(text: str) -> Any:
    """Vectors that somebody typed: [[0, 1, -1], [1, 1, 0]]."""
    hint = "[[0, 1, -1], [1, 1, 0]]: a list for each position"
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"this model reads vectors of numbers, and {show_value(text)} is no JSON", hint) from None
    rows = found if isinstance(found, list) else []
    listed = bool(rows) and all(isinstance(row, list) and len(row) == len(rows[0]) for row in rows)
    if not listed or not all(type(number) in (int, float) for row in rows for number in row):
        raise InputError(f"{show_value(text)} isn't a list of vectors of one size", hint)
    return found


@dataclass
class ReckoningBatch:
    """Vectors, pads last, and the numbers of their answers."""

    inputs: Inputs  # (rows, time, numbers)
    answers: Tensor  # (rows, time, answers), SILENT where there is none
    count: int  # answers that there are


def collect(vectors: NDArray[np.float32], answers: NDArray[np.int16], lengths: Sequence[int]) -> ReckoningBatch:
    """A batch from problems of any length, which stand one behind the other."""
    padding = Padding(lengths)
    given, wanted = torch.from_numpy(vectors), torch.from_numpy(answers.astype(np.int64))
    if padding.whole:
        numbers, asked = (each.unflatten(0, (len(lengths), -1)) for each in (given, wanted))
    else:
        numbers = pad_sequence(given.split(list(lengths)), batch_first=True)
        asked = pad_sequence(wanted.split(list(lengths)), batch_first=True, padding_value=SILENT)
    inputs = Inputs(numbers, None if padding.whole else padding)
    return ReckoningBatch(inputs, asked, int((answers != SILENT).sum()))


def charge_answers(logits: Tensor, answers: Tensor) -> Tensor:
    """The loss of each position, in nats, the sum over its answers: (rows, time)."""
    scores = logits.unflatten(-1, (answers.shape[-1], -1))  # (rows, time, answers, labels)
    losses = F.cross_entropy(scores.movedim(-1, 1), answers, ignore_index=SILENT, reduction="none")
    return losses.sum(-1)


class ReckoningTask(Task[ReckoningBatch]):
    """The task on one prepared corpus."""

    goal, rising = "exact", True
    counts = "answers"
    sorted_by = ("vectors",)
    usual_rows = 128
    expects = True

    def make_batch(self, rows: list[int], chance: Random) -> ReckoningBatch:
        vectors, lengths = self.columns["vectors"].gather_parts(rows)
        answers, _ = self.columns["answers"].gather_parts(rows)
        return collect(vectors, answers, lengths.tolist())

    def size(self, batch: ReckoningBatch) -> int:
        return batch.count

    def loss(self, model: Model, batch: ReckoningBatch) -> Tensor:
        answers = batch.answers.to(model.device)
        return expect_loss(model, batch.inputs.to(model.device), lambda logits: charge_answers(logits, answers)).sum()

    def measure(self, model: Model, pulse: Pulse) -> Mapping[str, Any]:
        return Reckoner(model, self.lexicon).measure(self.validation, pulse)


@dataclass(frozen=True)
class Solution:
    """What a model made of a problem."""

    answers: list[str]  # of each position, as the samples have them; nothing where nothing was asked
    asked: int
    right: int
    loss: float  # the sum over its answers, in nats
    steps: float  # that a position took on the average: 1 where the model doesn't decide on them


@dataclass(repr=False)
class Reckoner(Pipeline):
    """A model that learned to answer vectors of numbers, with its answers."""

    verbs: ClassVar[tuple[str, ...]] = ("solve",)
    model: Model
    lexicon: Lexicon

    def solve(self, vectors: NDArray[np.float32] | Sequence[Sequence[float]]) -> list[str]:
        """The answers at each position of (positions, numbers); several are divided by spaces."""
        given = self.read(vectors)
        return self._solve([given], [np.zeros((len(given), insist_on_vectors(self.lexicon)[1]), np.int16)])[0].answers

    def read(self, vectors: NDArray[np.float32] | Sequence[Sequence[float]]) -> NDArray[np.float32]:
        """What a user hands in, as this model reads it."""
        given, (channels, _) = np.asarray(vectors, np.float32), insist_on_vectors(self.lexicon)
        if given.ndim != 2 or not len(given) or given.shape[1] != channels:
            raise InputError(f"a problem is an array of (positions, {channels}) numbers, and {given.shape} is given")
        if not np.isfinite(given).all():
            raise InputError("a problem has numbers that aren't finite")
        return given

    def lay_out(self, text: Any, target: str | None = None) -> Reading:
        """What the model reads of a problem, to be looked at: an array, or the same as JSON; positions count from 1."""
        refuse_target(self, target)
        given, labels = self.read(parse_vectors(text) if isinstance(text, str) else text), self.lexicon.labels
        pieces = tuple(str(n + 1) for n in range(len(given)))
        return Reading(
            Inputs(torch.from_numpy(given)[None]),
            Strip(pieces, (False,) * len(pieces)),
            targets=dict.fromkeys(range(len(given))),
            spell=lambda found: [labels[n % len(labels)] for n in found],
            output="softmax" if insist_on_vectors(self.lexicon)[1] == 1 else "none",
            text=f"{len(given)} vectors",
        )

    def solve_all(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> list[Solution]:
        """What the model makes of each sample, in their order."""
        numbers = {label: number for number, label in enumerate(self.lexicon.labels)}
        _, most = insist_on_vectors(self.lexicon)
        order = sorted(range(len(samples)), key=lambda n: len(samples[n]["vectors"]))
        found: dict[int, Solution] = {}
        for first in range(0, len(order), ROWS):
            pulse()
            chosen = order[first : first + ROWS]
            answers = [number_answers(samples[n]["answers"], numbers, most) for n in chosen]
            found |= dict(zip(chosen, self._solve([samples[n]["vectors"] for n in chosen], answers), strict=True))
        return [found[n] for n in range(len(samples))]

    @torch.no_grad()
    def _solve(self, vectors: Sequence[NDArray[np.float32]], answers: Sequence[NDArray[np.int16]]) -> list[Solution]:
        lengths = [len(each) for each in vectors]
        batch, model = collect(np.concatenate(vectors), np.concatenate(answers), lengths), self.model
        names = [name for name in model.names() if name.endswith(".steps")]
        record = Record(*names) if names else None
        inputs = Inputs(batch.inputs.tokens, batch.inputs.valid, probe=record)
        logits = model(inputs.to(model.device)).float().cpu()
        losses = charge_answers(logits, batch.answers)  # (rows, time)
        best = logits.unflatten(-1, (batch.answers.shape[-1], -1)).argmax(-1)  # (rows, time, answers)
        asked = batch.answers != SILENT
        steps = None if record is None else torch.stack([record[name][..., 0].cpu() for name in names]).sum(0)
        found = []
        for row, time in enumerate(lengths):
            wanted, mine = asked[row, :time], best[row, :time]
            right = int((wanted & (mine == batch.answers[row, :time])).sum())
            texts = [
                " ".join(self.lexicon.labels[n] for n, one in zip(numbers, said, strict=True) if one)
                for numbers, said in zip(mine.tolist(), wanted.tolist(), strict=True)
            ]
            mean = 1.0 if steps is None else float(steps[row, :time].mean())
            found.append(Solution(texts, int(wanted.sum()), right, float(losses[row, :time].sum()), mean))
        return found

    def measure(self, samples: Sequence[Sample], pulse: Pulse = lambda: None) -> dict[str, Any]:
        """The share of problems that are solved, and of answers that are right; by size, with the steps it took."""
        found = self.solve_all(samples, pulse)
        asked = [one.asked for one in found]
        told = ratio([float(one.right == one.asked) for one in found], [1] * len(found)).named("exact")
        told |= ratio([one.right for one in found], asked).named("accuracy")
        told |= ratio([one.loss for one in found], asked).named("loss")
        by_size: dict[int, list[Solution]] = {}
        for sample, one in zip(samples, found, strict=True):
            by_size.setdefault(size_up(sample), []).append(one)
        groups = sorted(by_size.items())
        shares = {size: sum(one.right == one.asked for one in group) / len(group) for size, group in groups}
        steps = {size: sum(one.steps for one in group) / len(group) for size, group in groups}
        mean = sum(one.steps for one in found) / len(found)
        return told | {"problems": len(found), "steps": mean, "by_size": shares, "steps_by_size": steps}


def compare(sample: Sample, solution: Solution) -> Example:
    """A problem beside what a model made of it."""
    time, channels = sample["vectors"].shape
    given = f"size {size_up(sample)}: {time} × {channels} numbers"
    note = "" if solution.steps == 1 else f"{solution.steps:.1f} steps a position"
    wanted = tuple(answer for answer in sample.get("answers", ()) if answer)
    answers = tuple(answer for answer in solution.answers if answer)
    return Example((given,), wanted, answers, solution.right == solution.asked if wanted else None, note)
