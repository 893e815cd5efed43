"""What every metric is: a number for texts beside what they should have been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from regard.core.registry import Kinds
from regard.core.spec import Spec


class MetricSpec(Spec):
    """How good texts are, by their references. Its `kind` is the measure's name."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds("regard.tasks.metrics")
    home: ClassVar[str | None] = "task.metrics"
    rising: ClassVar[bool] = True  # whether more of it is better

    def measure(self, answers: Sequence[str], references: Sequence[str]) -> float:
        """One number for a whole test set; there is one reference for each answer."""
        raise NotImplementedError

    @property
    def signature(self) -> str:
        """How it is computed, for those who compare; nothing where its name says it all."""
        return ""


def _once(metrics: tuple[MetricSpec, ...]) -> tuple[MetricSpec, ...]:
    kinds = [metric.kind for metric in metrics]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise ValueError(f"{kind} is there twice, and a measure has one name")
    return metrics


Metrics = Annotated[tuple[MetricSpec, ...], AfterValidator(_once)]


def measure_all(
    metrics: Sequence[MetricSpec], answers: Sequence[str], references: Sequence[str], measures: Mapping[str, Any]
) -> dict[str, Any]:
    """Measures of texts, with those of further metrics: each under its kind, and signed if it has a signature."""
    found = {metric.kind: float(metric.measure(answers, references)) for metric in metrics}
    signed = {metric.kind: metric.signature for metric in metrics if metric.signature}
    return {**measures, **found, "signatures": {**measures["signatures"], **signed}}
