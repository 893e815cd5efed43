"""What is in a corpus, seen in one pass and bounded memory: how much, how long, which labels, what comes twice.

Duplicates are found by 64-bit hashes. Where there are more of them than are held, a fixed share of all hashes is looked
at and the rest is reckoned (Wegman's adaptive sampling, in Flajolet 1990), so a count is exact up to that size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.data.corpus import Split
from regard.data.likeness import PairSurvey
from regard.data.sample import Form, FormSpec, Sample
from regard.data.split import hash_text

HELD = 1_000_000  # different things that are held of each kind
EXAMPLES = 3
LENGTHS = 10_000  # different lengths that are held; more of them are told to three digits


class Distinct:
    """How many different things there are, and how often something came again."""

    def __init__(self, held: int = HELD) -> None:
        self.held, self.halvings, self.counts = held, 0, Counter[int | str]()

    def see(self, things: Iterable[int | str]) -> None:
        self.counts.update(things if not self.halvings else filter(self._is_chosen, things))
        while len(self.counts) > self.held:
            self.halvings += 1
            self.counts = Counter({thing: count for thing, count in self.counts.items() if self._is_chosen(thing)})

    def _is_chosen(self, thing: int | str) -> bool:
        return (thing if isinstance(thing, int) else hash_text(thing)) % (1 << self.halvings) == 0

    @property
    def is_exact(self) -> bool:
        return not self.halvings

    @property
    def different(self) -> int:
        return len(self.counts) << self.halvings

    @property
    def again(self) -> int:
        """How many were there before."""
        return (self.counts.total() - len(self.counts)) << self.halvings

    def count_common(self, other: Distinct) -> int:
        """How many of these are among others too, each as often as it comes here."""
        coarser = self if self.halvings > other.halvings else other
        chosen = (count for thing, count in self.counts.items() if coarser._is_chosen(thing) and thing in other.counts)
        return sum(chosen) << coarser.halvings


class LengthCount:
    """How long things are."""

    def __init__(self, held: int = LENGTHS) -> None:
        self.held, self.counts, self.rounded = held, Counter[int](), False
        self.longest = self.total = 0

    def see(self, length: int, times: int = 1) -> None:
        self.longest, self.total = max(self.longest, length), self.total + length * times
        self.counts[self._round(length)] += times
        if not self.rounded and len(self.counts) > self.held:
            before, self.rounded, self.counts = self.counts, True, Counter()
            for exact, count in before.items():
                self.counts[self._round(exact)] += count

    def _round(self, length: int) -> int:
        return length - length % 10 ** max(0, len(str(length)) - 3) if self.rounded else length

    def find_quantile(self, share: float) -> int:
        """The length that such a share of all doesn't exceed."""
        wanted, seen = share * self.counts.total(), 0
        for length in sorted(self.counts):
            seen += self.counts[length]
            if seen >= wanted:
                return length
        return 0

    def to_json(self) -> dict[str, int]:
        return {"median": self.find_quantile(0.5), "p95": self.find_quantile(0.95), "longest": self.longest}


def list_labels(sample: Sample) -> Sequence[str]:
    """The labels of a sample, whatever its task."""
    return sample["tags"] if "tags" in sample else [sample["label"]] if "label" in sample else ()


@dataclass
class SplitSurvey:
    """What is in one split."""

    form: FormSpec
    labels_of: Callable[[Sample], Sequence[str]] = list_labels
    samples: int = 0
    lengths: dict[str, LengthCount] = field(default_factory=dict)  # "source words", "source characters", …
    labels: Counter[str] = field(default_factory=Counter)
    words: Distinct = field(default_factory=Distinct)
    asked: Distinct = field(default_factory=Distinct)  # what a model is given
    sizes: Counter[tuple[int, ...]] = field(default_factory=Counter)  # of pictures
    whole: Distinct = field(default_factory=Distinct)  # with what it must answer
    examples: list[Sample] = field(default_factory=list)
    pairs: PairSurvey | None = None

    def __post_init__(self) -> None:
        self.pictures = self.form.list_pictures()

    def see(self, sample: Sample) -> None:
        self.samples += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(sample)
        self.labels.update(self.labels_of(sample))
        for name in self.form.list_fields():
            if name in sample and name not in ("label", "tags"):
                self._see_field(name, sample[name])
        question = self.form.identify(sample)
        self.asked.see([hash_text(question)])
        said = {name: value for name, value in self.form.condense(sample).items() if name not in ("place", "group")}
        self.whole.see([hash_text(repr(sorted(said.items())))])
        if self.pairs is not None:
            self.pairs.see(sample)

    def _see_field(self, name: str, value: Any) -> None:
        if isinstance(value, str):
            words = value.split()
            self.words.see(words)
            self._measure(f"{name} words", len(words))
            self._measure(f"{name} characters", len(value))
        elif isinstance(value, np.ndarray):
            if name in self.pictures and (value.shape in self.sizes or len(self.sizes) < LENGTHS):
                self.sizes[value.shape] += 1
        elif isinstance(value, Sequence) and self.form.parts:  # messages, whose lengths count together
            self._measure(name, len(value))
            self._see_field(name, "\n".join(message["content"] for message in value))
        elif isinstance(value, Sequence) and not self.form.spaced:
            self._measure(name, len(value))
            for text in value:
                self.words.see(words := text.split())
                self._measure(f"{name} words", len(words))
                self._measure(f"{name} characters", len(text))
        elif isinstance(value, Sequence):
            if value and isinstance(value[0], str):
                self.words.see(value)
            self._measure(name, len(value))

    def _measure(self, name: str, length: int) -> None:
        self.lengths.setdefault(name, LengthCount()).see(length)

    @property
    def contradictions(self) -> int:
        """How many questions come with another answer than before."""
        return max(0, self.whole.different - self.asked.different)

    @property
    def is_exact(self) -> bool:
        return self.words.is_exact and self.asked.is_exact and self.whole.is_exact


class Survey:
    """What is in a corpus, split by split."""

    def __init__(self, form: Form, labels_of: Callable[[Sample], Sequence[str]] = list_labels) -> None:
        self.form, self.labels_of, self.splits = form, labels_of, dict[Split, SplitSurvey]()

    def see(self, split: Split, sample: Sample) -> None:
        if split not in self.splits:
            pairs = PairSurvey() if self.form == "pairs" else None
            self.splits[split] = SplitSurvey(FormSpec.parse(self.form), self.labels_of, pairs=pairs)
        self.splits[split].see(sample)

    def count_common(self) -> Mapping[Split, int]:
        """How many samples of each other split are trained on too."""
        train = self.splits.get("train")
        others = {split: part for split, part in self.splits.items() if split != "train" and train is not None}
        return {split: part.asked.count_common(train.asked) for split, part in others.items() if train is not None}

    def find_unknown_labels(self) -> Mapping[Split, list[str]]:
        """The labels of each other split that training never sees."""
        known = self.splits["train"].labels if "train" in self.splits else Counter[str]()
        strange = {split: sorted(part.labels.keys() - known.keys()) for split, part in self.splits.items()}
        return {split: labels for split, labels in strange.items() if labels}
