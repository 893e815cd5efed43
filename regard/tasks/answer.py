"""What is to be said of a graph: one label, several, a number, or a label or a number for each node. Each kind of
answer knows its head, its loss and its measures.

Several labels are measured by the average precision of each, then the mean over labels, as the Long Range Graph
Benchmark does (Dwivedi et al. 2022).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.column import ColumnSpec
from regard.data.log import Unusable
from regard.data.sample import Sample
from regard.errors import SpecError
from regard.tasks.measures import Numbers, enclose, measure_labels, measure_probabilities, ratio
from regard.tasks.scores import score_labels, score_shares
from regard.tasks.significance import Statistic

Saying = Literal["label", "labels", "number", "node-labels", "node-numbers"]  # the kinds of answer
KNOWN = ("label", "labels", "number", "node_labels", "node_numbers")  # where samples have them
DRAWS = 200  # resamples of an average precision, each of which must be ranked anew


class Answer(ABC):
    """One kind of answer. What a model said of a sample is `found`: what its head gave, as numbers."""

    field: ClassVar[str]  # of a sample: what is right
    measures: ClassVar[Mapping[str, bool]]
    goal: ClassVar[str]
    rising: ClassVar[bool]
    pooled: ClassVar[bool] = True  # one answer a graph, and not one a node
    exact: ClassVar[bool] = True  # an answer is right or wrong, and not near

    def insist(self, sample: Sample) -> None:
        """Refuse a sample of which this isn't known."""
        if self.field not in sample:
            have = [name for name in KNOWN if name in sample]
            told = f"it has {', '.join(have)}: task.answer says which is learned" if have else "it has none"
            raise Unusable(f"no {self.field}: {told}")

    def list_labels(self, sample: Sample) -> Sequence[str]:
        return ()

    @abstractmethod
    def column(self, labels: int) -> ColumnSpec:
        """What is kept of an answer."""

    @abstractmethod
    def encode(self, sample: Sample, labels: Mapping[str, int]) -> Any:
        """A right answer as the column keeps it."""

    def count_outputs(self, labels: int) -> int:
        """How many numbers a head gives."""
        if labels < 1:
            raise SpecError(f"corpus: {labels} labels, and there must be some")
        return labels

    @abstractmethod
    def loss(self, given: Tensor, right: Tensor, smoothing: float) -> Tensor:
        """The sum over all answers; of nodes, those of all graphs in one list."""

    @abstractmethod
    def measure(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> dict[str, Any]:
        """Every measure."""

    @abstractmethod
    def score(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> dict[str, Statistic]:
        """What each answer is worth by itself."""

    @abstractmethod
    def tell(self, found: Numbers, labels: Sequence[str]) -> Any:
        """The answer as its users know it."""


class OneLabel(Answer):
    field = "label"
    goal, rising = "accuracy", True
    measures: ClassVar[Mapping[str, bool]] = {"accuracy": True, "macro_f1": True, "loss": False, "calibration": False}

    def list_labels(self, sample: Sample) -> Sequence[str]:
        return (sample["label"],)

    def column(self, labels: int) -> ColumnSpec:
        return ColumnSpec(shape=(), below=labels)

    def encode(self, sample: Sample, labels: Mapping[str, int]) -> Any:
        return labels[sample["label"]]

    def count_outputs(self, labels: int) -> int:
        if labels < 2:
            raise SpecError(f"corpus: {labels} labels, and there must be two at least")
        return labels

    def loss(self, given: Tensor, right: Tensor, smoothing: float) -> Tensor:
        return F.cross_entropy(given, right.long(), reduction="sum", label_smoothing=smoothing)

    def _judge(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> tuple[Any, Numbers]:
        numbers = {label: number for number, label in enumerate(labels)}
        logs = torch.from_numpy(np.stack(found)).double().log_softmax(-1).numpy()
        return [numbers[sample["label"]] for sample in samples], logs

    def measure(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> dict[str, Any]:
        gold, logs = self._judge(samples, found, labels)
        told = measure_labels(gold, logs.argmax(1).tolist(), labels)
        plain = {name: value for name, value in told.items() if not isinstance(value, dict)}
        sure = {name: value for name, value in measure_probabilities(gold, logs).items() if "top5" not in name}
        return plain | sure | {name: told[name] for name in ("labels", "confusion")}

    def score(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> dict[str, Statistic]:
        gold, logs = self._judge(samples, found, labels)
        guesses = [(labels[n],) for n in logs.argmax(1)]
        shares = {name: value for name, value in score_shares(gold, logs).items() if name != "top5"}
        return score_labels([(labels[n],) for n in gold], guesses, labels) | shares

    def tell(self, found: Numbers, labels: Sequence[str]) -> str:
        return labels[int(found.argmax())]


class SeveralLabels(Answer):
    field = "labels"
    goal, rising = "average_precision", True
    measures: ClassVar[Mapping[str, bool]] = {"average_precision": True, "loss": False}

    def list_labels(self, sample: Sample) -> Sequence[str]:
        listed: Sequence[str] = sample["labels"]
        return listed

    def column(self, labels: int) -> ColumnSpec:
        return ColumnSpec(dtype="uint8", shape=(labels,), below=2)

    def encode(self, sample: Sample, labels: Mapping[str, int]) -> Any:
        row = np.zeros(len(labels), np.uint8)
        row[[labels[label] for label in sample["labels"]]] = 1
        return row

    def loss(self, given: Tensor, right: Tensor, smoothing: float) -> Tensor:
        wanted = right.to(given.dtype) * (1 - smoothing) + smoothing / 2
        # a mean over labels, so that a graph counts once however many there are
        return F.binary_cross_entropy_with_logits(given, wanted, reduction="sum") / given.shape[-1]

    def _judge(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> tuple[Any, Numbers]:
        numbers = {label: number for number, label in enumerate(labels)}
        return np.stack([self.encode(sample, numbers) for sample in samples]), np.stack(found).astype(np.float64)

    def measure(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> dict[str, Any]:
        right, scores = self._judge(samples, found, labels)
        by_label = dict(zip(labels, (average_precision(right, scores)).tolist(), strict=True))
        return {
            **measure_precision(right, scores),
            **ratio(self._lose(right, scores), [1.0] * len(samples)).named("loss"),
            "count": len(samples),
            "average_precision_by_label": by_label,
        }

    def _lose(self, right: Any, scores: Numbers) -> list[float]:
        given, wanted = torch.from_numpy(scores), torch.from_numpy(right).double()
        losses: list[float] = F.binary_cross_entropy_with_logits(given, wanted, reduction="none").mean(1).tolist()
        return losses

    def score(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> dict[str, Statistic]:
        return {"loss": Statistic.mean(self._lose(*self._judge(samples, found, labels)), rising=False)}

    def tell(self, found: Numbers, labels: Sequence[str]) -> list[str]:
        return [label for label, score in zip(labels, found.tolist(), strict=True) if score > 0]


class OneNumber(Answer):
    field = "number"
    exact = False
    goal, rising = "error", False
    measures: ClassVar[Mapping[str, bool]] = {"error": False}

    def column(self, labels: int) -> ColumnSpec:
        return ColumnSpec(dtype="float32", shape=())

    def encode(self, sample: Sample, labels: Mapping[str, int]) -> Any:
        return np.array(sample["number"], np.float32)

    def count_outputs(self, labels: int) -> int:
        return 1

    def loss(self, given: Tensor, right: Tensor, smoothing: float) -> Tensor:
        return F.l1_loss(given[:, 0], right, reduction="sum")

    def _lose(self, samples: Sequence[Sample], found: Sequence[Numbers]) -> list[float]:
        return [abs(float(guess[0]) - sample["number"]) for sample, guess in zip(samples, found, strict=True)]

    def measure(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> dict[str, Any]:
        return ratio(self._lose(samples, found), [1.0] * len(samples)).named("error") | {"count": len(samples)}

    def score(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> dict[str, Statistic]:
        return {"error": Statistic.mean(self._lose(samples, found), rising=False)}

    def tell(self, found: Numbers, labels: Sequence[str]) -> float:
        return float(found[0])


class NodeLabels(Answer):
    field = "node_labels"
    goal, rising = "accuracy", True
    measures: ClassVar[Mapping[str, bool]] = {"accuracy": True, "macro_f1": True}
    pooled = False

    def list_labels(self, sample: Sample) -> Sequence[str]:
        listed: Sequence[str] = sample["node_labels"]
        return listed

    def column(self, labels: int) -> ColumnSpec:
        return ColumnSpec(below=labels)

    def encode(self, sample: Sample, labels: Mapping[str, int]) -> Any:
        return [labels[label] for label in sample["node_labels"]]

    def loss(self, given: Tensor, right: Tensor, smoothing: float) -> Tensor:
        return F.cross_entropy(given, right.long(), reduction="sum", label_smoothing=smoothing)

    def measure(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> dict[str, Any]:
        numbers = {label: number for number, label in enumerate(labels)}
        gold = [numbers[label] for sample in samples for label in sample["node_labels"]]
        groups = [n for n, sample in enumerate(samples) for _ in sample["node_labels"]]
        return measure_labels(gold, np.concatenate(found).argmax(1).tolist(), labels, groups)

    def score(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> dict[str, Statistic]:
        guesses = [self.tell(rows, labels) for rows in found]
        return score_labels([sample["node_labels"] for sample in samples], guesses, labels)

    def tell(self, found: Numbers, labels: Sequence[str]) -> list[str]:
        return [labels[n] for n in found.argmax(1).tolist()]


class NodeNumbers(Answer):
    field = "node_numbers"
    goal, rising = "error", False
    measures: ClassVar[Mapping[str, bool]] = {"error": False}
    pooled = False
    exact = False

    def column(self, labels: int) -> ColumnSpec:
        return ColumnSpec(dtype="float32")

    def encode(self, sample: Sample, labels: Mapping[str, int]) -> Any:
        return np.array(sample["node_numbers"], np.float32)

    def count_outputs(self, labels: int) -> int:
        return 1

    def loss(self, given: Tensor, right: Tensor, smoothing: float) -> Tensor:
        return F.l1_loss(given[:, 0], right, reduction="sum")

    def _lose(self, samples: Sequence[Sample], found: Sequence[Numbers]) -> tuple[list[float], list[int]]:
        """The sum of each graph's errors, and how many nodes it has."""
        wanted = [np.asarray(sample["node_numbers"], np.float64) for sample in samples]
        errors = [float(np.abs(rows[:, 0] - right).sum()) for rows, right in zip(found, wanted, strict=True)]
        return errors, [len(right) for right in wanted]

    def measure(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> dict[str, Any]:
        errors, counts = self._lose(samples, found)
        return ratio(errors, counts).named("error") | {"count": sum(counts)}

    def score(self, samples: Sequence[Sample], found: Sequence[Numbers], labels: Sequence[str]) -> dict[str, Statistic]:
        errors, counts = self._lose(samples, found)
        return {"error": Statistic.mean(errors, counts, rising=False)}

    def tell(self, found: Numbers, labels: Sequence[str]) -> list[float]:
        numbers: list[float] = found[:, 0].tolist()
        return numbers


ANSWERS: dict[str, Answer] = {
    "label": OneLabel(),
    "labels": SeveralLabels(),
    "number": OneNumber(),
    "node-labels": NodeLabels(),
    "node-numbers": NodeNumbers(),
}


def average_precision(right: Numbers, scores: Numbers, times: Numbers | None = None) -> Numbers:
    """Σₙ (recallₙ - recallₙ₋₁) precisionₙ over the thresholds of each label: (rows, labels) -> (labels,).

    What has one score has one threshold. NaN for a label that no row has. `times`: how often each row counts.
    """
    found = np.full(right.shape[1], np.nan)
    weights = np.ones(len(right)) if times is None else times
    for label in range(right.shape[1]):
        order = np.argsort(-scores[:, label], kind="stable")
        ranked, weight = scores[order, label], weights[order]
        ends = np.append(ranked[1:] != ranked[:-1], True)  # of groups with one score
        hits, all_of_them = (weight * right[order, label]).cumsum()[ends], weight.cumsum()[ends]
        if hits[-1] > 0:
            precision = hits / np.maximum(all_of_them, 1e-12)
            found[label] = (np.diff(hits, prepend=0.0) * precision).sum() / hits[-1]
    return found


def measure_precision(right: Numbers, scores: Numbers, seed: int = 0) -> dict[str, float]:
    """The mean average precision of the labels that occur, with an interval: graphs are drawn anew."""
    chance, count = np.random.default_rng(seed), len(right)
    draws = (np.bincount(chance.integers(count, size=count), minlength=count).astype(np.float64) for _ in range(DRAWS))
    drawn = [average_over_labels(average_precision(right, scores, times)) for times in draws]
    whole = average_over_labels(average_precision(right, scores))
    return enclose(np.array([whole]), np.array(drawn)).named("average_precision")


def average_over_labels(found: Numbers) -> float:
    """The mean over the labels that some graph has; 0 where there is none."""
    return float(np.nanmean(found)) if np.isfinite(found).any() else 0.0
