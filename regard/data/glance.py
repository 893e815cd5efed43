"""What is told of a corpus on its way to training: a few lines, for which nothing is read twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from regard.data.array import describe as describe_array
from regard.data.prepared import Prepared
from regard.data.sample import FormSpec, Sample
from regard.data.survey import LengthCount

EXAMPLES = 3
LABELS = 8  # that are listed
PIECE = 1_000_000  # samples whose lengths are held at once
WIDTH = 66  # of an example: with what stands before it on the screen, 80 columns


@dataclass
class Glance:
    """Labels and the first samples, seen as they pass."""

    labels_of: Callable[[Sample], Sequence[str]]
    labels: Counter[str] = field(default_factory=Counter)
    examples: list[Sample] = field(default_factory=list)

    def watch(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """The same samples."""
        for sample in samples:
            if len(self.examples) < EXAMPLES:
                self.examples.append(sample)
            self.labels.update(self.labels_of(sample))
            yield sample


def describe_prepared(prepared: Prepared, glance: Glance) -> list[str]:
    """What will be trained on, in a few lines."""
    form = str(prepared.facts["form"])
    counts = {split: number for split, number in prepared.facts["samples"].items() if number}
    fields = " and ".join(FormSpec.parse(form).holds)
    lines = [f"{', '.join(f'{number:,} samples of {split}' for split, number in counts.items())}: {fields}"]
    if glance.labels:
        lines.append(f"{len(glance.labels)} labels: {_list_labels(glance.labels)}")
    unit = "numbers" if prepared.lexicon.words is None else "tokens"
    lines += [f"{unit} of {name}: {told}" for name, told in _measure_columns(prepared).items()]
    return [*lines, *(f"such as {show_sample(sample, form)}" for sample in glance.examples)]


def _list_labels(labels: Counter[str]) -> str:
    listed = ", ".join(f"{label} {number:,}" for label, number in labels.most_common(LABELS))
    return listed + (f" and {len(labels) - LABELS:,} more" if len(labels) > LABELS else "")


def _measure_columns(prepared: Prepared) -> dict[str, str]:
    """How long the columns are that hold several things each, in words."""
    found = dict[str, str]()
    for name in prepared.columns:
        lengths, column = LengthCount(), prepared.columns[name]
        if column.spec.below == 2:  # truths, one for each token of another column
            continue
        if column.spec.below is None and prepared.lexicon.words is not None:  # tokens have a bound, and counts don't
            continue
        for first in range(0, len(column), PIECE):
            pieces = np.diff(column.bounds(first, min(first + PIECE, len(column))))
            for length, times in zip(*np.unique(pieces, return_counts=True), strict=True):
                lengths.see(int(length), int(times))
        if lengths.longest > 1:  # one number each: a label
            told = lengths.to_json()
            found[name] = f"median {told['median']:,}, 95 % up to {told['p95']:,}, longest {told['longest']:,}"
    return found


def show_sample(sample: Sample, form: str) -> str:
    """A sample on one line, with the beginning of each of its fields."""
    fields = {name: sample[name] for name in FormSpec.parse(form).list_fields() if name in sample}
    texts = {name: flatten(value) for name, value in fields.items()}
    left, rooms = WIDTH - sum(len(name) + 4 for name in texts), dict[str, int]()
    # what is short leaves its room to what is long
    for number, name in enumerate(sorted(texts, key=lambda name: len(texts[name]))):
        rooms[name] = min(len(texts[name]), left // (len(texts) - number))
        left -= rooms[name]
    return ", ".join(f"{name}: {cut(text, rooms[name])}" for name, text in texts.items())


def flatten(value: object) -> str:
    """A value on one line; its beginning, since it may be a book."""
    if isinstance(value, np.ndarray):
        return describe_array(value)
    if isinstance(value, dict):  # a message
        return f"{value['role']}: {flatten(value['content'])}"
    text = " ".join(map(flatten, value[:WIDTH])) if isinstance(value, list) else str(value)[: 4 * WIDTH]
    return " ".join(text.split())


def cut(text: str, width: int) -> str:
    """The beginning of a text, if it has no room."""
    return text if len(text) <= width else text[: width - 1].rstrip() + "…"
