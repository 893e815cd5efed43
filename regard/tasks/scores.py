"""What a model's answers are worth, sample by sample: all that a comparison of several models needs of each of them.

A measure is kept as a row of numbers a sample (`Statistic`), so that samples can be drawn anew and change sides. Beside
that stand the answers themselves, how long each sample is, and what became of single words or labels, which are
compared by how often training saw them.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from regard.data.tokenizer import Tokenizer
from regard.tasks.example import Example
from regard.tasks.measures import Numbers, macro_f1, tabulate_probabilities, tally_labels
from regard.tasks.significance import Statistic

if TYPE_CHECKING:
    from regard.data.column import Column
    from regard.data.sample import Sample

T = TypeVar("T")
WORD = re.compile(r"\w+(?:['’-]\w+)*")
MOST = 100_000  # samples of a training split whose words are counted, from all over it
AT_ONCE = 4096  # samples whose tokens are made words again together


class Portion(NamedTuple):
    """One word or label of a sample, and what it adds to a ratio: F1 is 2 · matches / (in answer + in reference)."""

    key: str
    above: float
    below: float
    real: int = 1  # how often it is in what was expected


@dataclass(frozen=True)
class Portions:
    """What became of the words, or of the labels, of each sample."""

    measure: str  # what their ratio is called
    rising: bool
    samples: Sequence[Sequence[Portion]]


@dataclass
class SampleScores:
    """What one model made of samples: every list has an entry for each of them, in one order for all models."""

    statistics: Mapping[str, Statistic]
    examples: Sequence[Example]
    telling: str  # the measure by which single samples are told apart best
    seconds: float  # that the model took to answer
    written: int = 0  # tokens that it wrote
    tokens: str = ""  # what tells its predictions from others', beside a tokenizer
    sizes: Sequence[float] = ()  # how long each sample is; nothing where they have no length
    size_name: str = ""  # what that is counted in
    note: str = ""  # what else there is to know of its figures
    portions: Mapping[str, Portions] = field(default_factory=dict)  # by what they are: words, labels


def take_time(work: Callable[[], T]) -> tuple[T, float]:
    """What work gives, and how many seconds it took."""
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def score_labels(
    gold: Sequence[Sequence[str]], guesses: Sequence[Sequence[str]], names: Sequence[str]
) -> dict[str, Statistic]:
    """Accuracy and macro F1 of labels; each sample has one, or one for each of its words."""
    numbers = {label: number for number, label in enumerate(sorted(names))}  # columns are the same for all models
    rows = np.repeat(np.arange(len(gold)), [len(one) for one in gold])
    truth, guessed = (np.array([numbers[label] for one in side for label in one], np.int64) for side in (gold, guesses))
    tallies = tally_labels(rows, truth, guessed, len(names), len(gold))  # (samples, 3, labels)
    shape = (-1, 3, len(names))
    right, real = tallies[:, 0].sum(1), tallies[:, 1].sum(1)
    return {
        "accuracy": Statistic.mean(right, real, rising=True),
        "macro_f1": Statistic(tallies.reshape(len(gold), -1), True, lambda sums: macro_f1(sums.reshape(shape))),
    }


def score_shares(gold: Sequence[int], logs: Numbers) -> dict[str, Statistic]:
    """The loss, the share among the first five, and the calibration error, of probabilities (rows, labels)."""
    table = tabulate_probabilities(gold, logs)
    # a gap is a mean over all samples, so that its bins are sums over a count
    gaps = np.concatenate((table[:, 2:], np.ones((len(table), 1))), 1)
    return {
        "loss": Statistic.mean(table[:, 0], rising=False),
        "top5": Statistic.mean(table[:, 1], rising=True),
        "calibration": Statistic(gaps, False, lambda sums: np.abs(sums[:, :-1]).sum(1) / sums[:, -1]),
    }


def divide_labels(gold: Sequence[Sequence[str]], guesses: Sequence[Sequence[str]]) -> Portions:
    """Whether each label was found, by what it is."""
    found = [
        [Portion(label, float(label == guess), 1.0) for label, guess in zip(*sides, strict=True)]
        for sides in zip(gold, guesses, strict=True)
    ]
    return Portions("accuracy", True, found)


def score_tags(
    samples: Sequence[Sample], tags: Sequence[Sequence[str]], labels: Sequence[str], seconds: float
) -> SampleScores:
    """What the tags of sentences are worth, by tag and by word."""
    gold = [sample["tags"] for sample in samples]
    rows = zip((sample["words"] for sample in samples), gold, tags, strict=True)
    by_word = [[Portion(word, float(tag == guess), 1.0) for word, tag, guess in zip(*row, strict=True)] for row in rows]
    examples = [
        Example(tuple(sample["words"]), tuple(wanted), tuple(found), list(found) == list(wanted), aligned=True)
        for sample, wanted, found in zip(samples, gold, tags, strict=True)
    ]
    return SampleScores(
        score_labels(gold, tags, labels),
        examples,
        telling="accuracy",
        seconds=seconds,
        sizes=[len(one) for one in gold],
        size_name="words of the sentence",
        portions={"tags": divide_labels(gold, tags), "words": Portions("accuracy", True, by_word)},
    )


def match_words(answers: Sequence[str], references: Sequence[str]) -> Portions:
    """The F1 of words: how many of an answer are in its reference, and the other way round (as compare-mt does)."""
    found = []
    for answer, reference in zip(answers, references, strict=True):
        here, there = Counter(cut_words(answer)), Counter(cut_words(reference))
        words = dict.fromkeys((*there, *here))
        found.append(
            [Portion(word, 2 * min(here[word], there[word]), here[word] + there[word], there[word]) for word in words]
        )
    return Portions("F1 of words", True, found)


def cut_words(text: str) -> list[str]:
    """The words of a text, without signs."""
    return WORD.findall(text)


def count_words(column: Column, tokenizer: Tokenizer) -> Counter[str]:
    """How often each word is in a training column; of a large one, in as many samples as are looked at."""
    found: Counter[str] = Counter()
    step = max(1, -(-len(column) // MOST))
    rows = (column[n] for n in range(0, len(column), step))
    while some := list(islice(rows, AT_ONCE)):
        for text in tokenizer.decode(some):
            found.update(cut_words(text))
    return found if step == 1 else Counter({word: count * step for word, count in found.items()})


def count_labels(column: Column, labels: Sequence[str]) -> Counter[str]:
    """How often each label is in a training column."""
    codes = column.read_items(0, column.bounds(len(column) - 1, len(column))[-1]).ravel().astype(np.int64)
    counts = np.bincount(codes, minlength=len(labels)).tolist()
    return Counter(dict(zip(labels, counts, strict=True)))
