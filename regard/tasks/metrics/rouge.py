"""ROUGE (Lin 2004): how much a summary shares with its reference, by words, by pairs of words, or in the same order.

F1 of each summary, averaged, in percent. Words are runs of letters and digits, whatever their case; they aren't
stemmed, which many papers do and which gives a point or two more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from regard.tasks.metrics.metric import MetricSpec

WORD = re.compile(r"[^\W_]+")


class Rouge(MetricSpec):
    """What the three share."""

    def count_shared(self, answer: Sequence[str], reference: Sequence[str]) -> tuple[int, int, int]:
        """What both have, what the answer has and what the reference has."""
        raise NotImplementedError

    def measure(self, answers: Sequence[str], references: Sequence[str]) -> float:
        pairs = zip(answers, references, strict=True)
        found = [self._compare(WORD.findall(one.lower()), WORD.findall(other.lower())) for one, other in pairs]
        return 100 * sum(found) / len(found)

    def _compare(self, answer: Sequence[str], reference: Sequence[str]) -> float:
        shared, own, wanted = self.count_shared(answer, reference)
        return 2 * shared / (own + wanted) if own + wanted else 0.0

    @property
    def signature(self) -> str:
        return "F1|mean|lower case|not stemmed"


class RougeWords(Rouge):
    """By words."""

    kind: Literal["rouge-1"] = "rouge-1"

    def count_shared(self, answer: Sequence[str], reference: Sequence[str]) -> tuple[int, int, int]:
        return count_runs(answer, reference, 1)


class RougePairs(Rouge):
    """By pairs of words that follow each other."""

    kind: Literal["rouge-2"] = "rouge-2"

    def count_shared(self, answer: Sequence[str], reference: Sequence[str]) -> tuple[int, int, int]:
        return count_runs(answer, reference, 2)


class RougeOrder(Rouge):
    """By the longest sequence of words that both have in the same order, whatever stands between."""

    kind: Literal["rouge-l"] = "rouge-l"

    def count_shared(self, answer: Sequence[str], reference: Sequence[str]) -> tuple[int, int, int]:
        return measure_common(answer, reference), len(answer), len(reference)


def count_runs(answer: Sequence[str], reference: Sequence[str], size: int) -> tuple[int, int, int]:
    """Runs of so many words: those that both have, the answer's and the reference's."""
    one, other = (
        Counter(tuple(words[n : n + size]) for n in range(len(words) - size + 1)) for words in (answer, reference)
    )
    return (one & other).total(), one.total(), other.total()


def measure_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How long the longest common subsequence is."""
    row = [0] * (len(other) + 1)
    for word in one:
        before = row
        row = [0]
        for place, beside in enumerate(other):
            row.append(before[place] + 1 if word == beside else max(before[place + 1], row[place]))
    return row[-1]
