"""BLEU and chrF for comparisons: sacreBLEU's counts of each text, its formulas and its paired tests (Post 2018)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from regard.tasks.measures import Numbers
from regard.tasks.significance import TRIALS, Statistic

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

RESAMPLES = 1000  # of a paired bootstrap: sacreBLEU's own number, since it keeps all of them in memory


class TextTest(NamedTuple):
    """What sacreBLEU's tests say of two models, by one metric."""

    bootstrap: float  # p-values
    randomisation: float


def make_metrics() -> dict[str, Metric]:
    """The metrics with sacreBLEU's own settings; what untrained models write looks tokenised, and needs no warning."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    return {"bleu": BLEU(force=True), "chrf": CHRF()}


def score_texts(answers: Sequence[str], references: Sequence[str]) -> dict[str, Statistic]:
    """BLEU and chrF of texts, from counts that add up."""
    found = {}
    for name, metric in make_metrics().items():
        rows = metric._extract_corpus_statistics(list(answers), [list(references)])
        signature = str(metric.get_signature())
        found[name] = Statistic(np.asarray(rows, np.float64), True, _make_value(metric), signature=signature)
    return found


def _make_value(metric: Any) -> Callable[[Numbers], Numbers]:
    def value(sums: Numbers) -> Numbers:
        return np.array([metric._compute_score_from_stats(row.tolist()).score for row in sums])

    return value


def compare_texts(
    answers: Sequence[Sequence[str]], references: Sequence[str]
) -> tuple[dict[tuple[str, int, int], TextTest], dict[str, str]]:
    """Both tests of every pair of models, by metric and pair; and each metric's signature, with how it was tested."""
    from sacrebleu.significance import PairedTest

    likely: dict[tuple[str, str, int, int], float] = {}
    signatures = {}
    sizes = {"bs": RESAMPLES, "ar": TRIALS}
    for kind, size in sizes.items():
        for first in range(len(answers) - 1):
            systems = [(str(n), answers[n]) for n in range(first, len(answers))]
            metrics = make_metrics()
            signed, results = PairedTest(systems, metrics, [list(references)], kind, size)()
            # it calls metrics by names of its own, in their order
            for (name, sign), column in zip(zip(metrics, signed.values(), strict=True), signed, strict=True):
                sign.update("bs", RESAMPLES)
                sign.update("ar", TRIALS)
                signatures[name] = str(sign)
                for offset, result in enumerate(results[column][1:], 1):
                    assert not isinstance(result, str) and result.p_value is not None
                    likely[kind, name, first, first + offset] = result.p_value
    pairs = [(name, *pair) for name in signatures for pair in combinations(range(len(answers)), 2)]
    return {key: TextTest(likely["bs", *key], likely["ar", *key]) for key in pairs}, signatures
