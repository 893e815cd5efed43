"""Measures of labels and of means, each with an interval that says how far chance alone may have moved it.

The interval is a percentile bootstrap (Efron 1979): what was measured is drawn anew, with repetition, a thousand times.
What is drawn are sentences, not words, because the words of one sentence aren't independent. Everything follows from
counts that add up, so a resample is a matrix product and nothing is predicted again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

if TYPE_CHECKING:
    from regard.data.sample import Sample

RESAMPLES = 1000
DRAWN = 1 << 22  # draws at a time, so that memory doesn't grow with the data
TAIL = 2.5  # percent of the resamples on each side of an interval
SQUARE = 12  # labels up to which the confusion table is shown whole
PAIRS = 12  # pairs that are shown of a larger one
BINS = 15  # of certainty, equally wide

# Student's t at 97.5 %, by degrees of freedom; beyond thirty the normal distribution's is near enough
STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip

Numbers = NDArray[np.float64]
Codes = NDArray[np.int64]


class Measure(NamedTuple):
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    def exponential(self) -> Measure:
        """Of all three: a perplexity from a loss in nats."""
        return Measure(*(math.exp(min(value, 700.0)) for value in self))

    def named(self, name: str) -> dict[str, float]:
        """As measures: accuracy, accuracy_low, accuracy_high."""
        return {name: self.value, f"{name}_low": self.low, f"{name}_high": self.high}


def measure_labels(
    gold: Sequence[int],
    guesses: Sequence[int],
    names: Sequence[str],
    groups: Sequence[int] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Measures of guessed labels as plain data; `groups`: the sentence of each, if they aren't independent.

    Labels that occur neither in the gold nor among the guesses are left out.
    """
    truth, guessed, labels = encode(gold, guesses, names)
    counts = confusion(truth, guessed, len(labels))
    units, tallies = _group(truth, guessed, len(labels), groups)
    sums = resample(units, tallies, seed)
    whole = np.tensordot(np.bincount(units), tallies, 1)[None]
    return {
        **enclose(accuracy(whole), accuracy(sums)).named("accuracy"),
        **enclose(macro_f1(whole), macro_f1(sums)).named("macro_f1"),
        "count": len(truth),
        "labels": by_label(counts, labels),
        "confusion": {"labels": labels, "counts": counts.tolist()},
    }


def measure_parts(samples: Sequence[Sample], gold: Sequence[int], guesses: Sequence[int]) -> dict[str, Any]:
    """Accuracy by the part of the corpus that samples belong to, and the mean over parts, whatever their sizes.

    Nothing where the samples don't say.
    """
    found: dict[str, list[bool]] = {}
    for sample, wanted, guess in zip(samples, gold, guesses, strict=True):
        if "part" in sample:
            found.setdefault(sample["part"], []).append(wanted == guess)
    if not found:
        return {}
    # qa2 stands before qa10
    shares = {name: sum(found[name]) / len(found[name]) for name in sorted(found, key=lambda name: (len(name), name))}
    return {"mean_of_parts": sum(shares.values()) / len(shares), "by_part": shares}


def measure_probabilities(gold: Sequence[int], logs: Numbers, seed: int = 0) -> dict[str, float]:
    """Measures of how likely each label was said to be; `logs`: logarithms of probabilities, (rows, labels).

    `loss`: nats, of the right label; `top5`: the share whose right label is among the five likeliest; `calibration`:
    the expected calibration error (Naeini et al. 2015), how far certainty is from accuracy, in fifteen bins.
    """
    table = tabulate_probabilities(gold, logs)
    drawn, whole = resample(np.arange(len(table)), table, seed) / len(table), table.mean(0, keepdims=True)
    return {
        **enclose(whole[:, 0], drawn[:, 0]).named("loss"),
        **enclose(whole[:, 1], drawn[:, 1]).named("top5"),
        **enclose(np.abs(whole[:, 2:]).sum(1), np.abs(drawn[:, 2:]).sum(1)).named("calibration"),
    }


def tabulate_probabilities(gold: Sequence[int], logs: Numbers) -> Numbers:
    """A row for each: its loss, whether its label is among the first five, and its gap in its bin of certainty."""
    truth, rows = np.asarray(gold, np.int64), np.arange(len(gold))
    if logs.shape[:1] != truth.shape or not len(truth):
        raise InputError(f"{len(truth)} gold labels and {len(logs)} guesses: there must be a guess for each")
    right = logs[rows, truth]
    # ties count against a model that can't tell labels apart
    places = (logs >= right[:, None]).sum(1) - 1
    certain, sure = np.exp(logs.max(1)), logs.argmax(1) == truth
    gaps = np.zeros((len(truth), BINS))
    gaps[rows, np.minimum((certain * BINS).astype(np.int64), BINS - 1)] = certain - sure
    return np.concatenate((-right[:, None], (places < 5)[:, None], gaps), 1)


def average(values: Sequence[float]) -> Measure:
    """A mean over seeds and its 95 % interval by Student's t; of one value there is no interval."""
    found = np.asarray(values, np.float64)
    if not len(found):
        raise InputError("there are no values to average")
    mean = float(found.mean())
    if len(found) == 1:
        return Measure(mean, math.nan, math.nan)
    freedom = len(found) - 1
    reach = STUDENT[min(freedom, len(STUDENT)) - 1] if freedom <= len(STUDENT) else 1.96
    half = reach * float(found.std(ddof=1)) / math.sqrt(len(found))
    return Measure(mean, mean - half, mean + half)


def encode(gold: Sequence[int], guesses: Sequence[int], names: Sequence[str]) -> tuple[Codes, Codes, list[str]]:
    """Gold and guesses as numbers of the labels that occur, and those labels."""
    truth, guessed = np.asarray(gold, np.int64), np.asarray(guesses, np.int64)
    if len(truth) != len(guessed):
        raise InputError(f"{len(truth)} gold labels and {len(guessed)} guesses: there must be a guess for each")
    if not len(truth):
        raise InputError("there are no labels to measure")
    if len(set(names)) != len(names):
        raise InputError(f"{len(names)} labels, and only {len(set(names))} different names")
    both = np.concatenate((truth, guessed))
    if both.min() < 0 or both.max() >= len(names):
        raise InputError(f"labels go from 0 to {len(names) - 1} here, and there are {both.min()} to {both.max()}")
    present, codes = np.unique(both, return_inverse=True)
    return codes[: len(truth)], codes[len(truth) :], [names[number] for number in present]


def confusion(gold: Codes, guesses: Codes, labels: int) -> Codes:
    """How often each label was taken for each: (gold, guess)."""
    return np.bincount(gold * labels + guesses, minlength=labels * labels).reshape(labels, labels)


def by_label(counts: Codes, labels: Sequence[str]) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of each label, from a confusion table; 0 where nothing can be divided by."""
    right, real, guessed = counts.diagonal(), counts.sum(1), counts.sum(0)
    columns = {
        "precision": _over(right, guessed),
        "recall": _over(right, real),
        "f1": _over(2 * right, real + guessed),
    }
    return {
        label: {name: float(column[place]) for name, column in columns.items()} | {"count": int(real[place])}
        for place, label in enumerate(labels)
    }


def accuracy(sums: Numbers) -> Numbers:
    """The share that is right, from sums of tallies: (rows, 3, labels) -> (rows,)."""
    right, real, _ = sums.transpose(1, 0, 2)
    return right.sum(1) / real.sum(1)


def macro_f1(sums: Numbers) -> Numbers:
    """The mean F1 of the labels that occur in gold or guesses: (rows, 3, labels) -> (rows,)."""
    right, real, guessed = sums.transpose(1, 0, 2)
    return _over(2 * right, real + guessed).sum(1) / (real + guessed > 0).sum(1)


def ratio(sums: Sequence[float], counts: Sequence[float], seed: int = 0) -> Measure:
    """A mean over all that is counted, such as the loss of a token, from each sentence's sum and count.

    The exponents of the three numbers are a perplexity and its interval.
    """
    above, below = np.asarray(sums, np.float64), np.asarray(counts, np.float64)
    if len(above) != len(below):
        raise InputError(f"{len(above)} sums and {len(below)} counts: there must be a count for each")
    if not (np.isfinite(above).all() and np.isfinite(below).all() and (below >= 0).all()):
        raise InputError("sums must be finite numbers, and counts finite and not below 0")
    some = below > 0  # nothing was counted in the others, so they say nothing
    if not some.any():
        raise InputError("there is nothing to measure: all counts are 0")
    rows = np.stack((above[some], below[some]), 1)
    drawn = resample(np.arange(len(rows)), rows, seed)
    total = rows.sum(0, keepdims=True)
    return enclose(total[:, 0] / total[:, 1], drawn[:, 0] / drawn[:, 1])


def resample(units: Codes, rows: Numbers, seed: int) -> Numbers:
    """Sums of rows when as many units as there are are drawn with repetition: (resamples, …).

    `units`: the row of each unit, so that units which are alike can share one.
    """
    chance = np.random.default_rng(seed)
    flat = rows.reshape(len(rows), -1)
    at_once = max(1, DRAWN // max(len(units), len(rows)))
    found = []
    for first in range(0, RESAMPLES, at_once):
        some = min(at_once, RESAMPLES - first)
        drawn = units[chance.integers(len(units), size=(some, len(units)))]
        drawn += np.arange(some)[:, None] * len(rows)
        times = np.bincount(drawn.ravel(), minlength=some * len(rows)).reshape(some, len(rows))
        found.append(times.astype(np.float64) @ flat)
    return np.concatenate(found).reshape(RESAMPLES, *rows.shape[1:])


def _group(gold: Codes, guesses: Codes, labels: int, groups: Sequence[int] | None) -> tuple[Codes, Numbers]:
    """What is drawn in a resample, and its tallies: (rows, 3, labels) of right, real and guessed ones."""
    if groups is None:
        pairs, units = np.unique(gold * labels + guesses, return_inverse=True)
        return units, tally_labels(np.arange(len(pairs)), pairs // labels, pairs % labels, labels, len(pairs))
    if len(groups) != len(gold):
        raise InputError(f"{len(groups)} groups for {len(gold)} labels: there must be one for each")
    present, codes = np.unique(np.asarray(groups, np.int64), return_inverse=True)
    return np.arange(len(present)), tally_labels(codes, gold, guesses, labels, len(present))


def tally_labels(rows: Codes, gold: Codes, guesses: Codes, labels: int, count: int) -> Numbers:
    """How many of each label are right, are real and were guessed, by row: (count, 3, labels)."""
    size = count * labels
    right = gold == guesses
    kinds = (rows[right], gold[right]), (rows, gold), (rows, guesses)
    counted = [np.bincount(row * labels + label, minlength=size).reshape(-1, labels) for row, label in kinds]
    return np.stack(counted, 1).astype(np.float64)


def _over(above: NDArray[Any], below: NDArray[Any]) -> Numbers:
    """A quotient; 0 over 0 is 0."""
    return above / np.maximum(below, 1)


def enclose(value: Numbers, resamples: Numbers) -> Measure:
    """A value between percentiles; resamples lack rare labels, so those of an F1 can all lie beside the value."""
    low, high = np.percentile(resamples, (TAIL, 100 - TAIL))
    return Measure(float(value[0]), float(min(low, value[0])), float(max(high, value[0])))


def tables(measures: Mapping[str, Any]) -> list[str]:
    """What `labelled` found, as lines for a terminal: a row for each label, and what was taken for what."""
    shares = ("precision", "recall", "f1")
    rows = [
        [_escape(label), *(f"{found[share]:.1%}" for share in shares), f"{found['count']:,}"]
        for label, found in measures["labels"].items()
    ]
    labels = [_escape(label) for label in measures["confusion"]["labels"]]
    counts = measures["confusion"]["counts"]
    confused = _square(labels, counts) if len(labels) <= SQUARE else _pairs(labels, counts)
    return [*_align([["label", *shares, "count"], *rows], 1), "", *confused]


def _square(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> list[str]:
    rows = [
        [label, *(f"{count:,}" if count else "·" for count in row)] for label, row in zip(labels, counts, strict=True)
    ]
    return _align([["is \\ guessed", *labels], *rows], 1)


def _pairs(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> list[str]:
    """The pairs that are confused most often, with their share of what the first one is."""
    found = [
        (count, one, other)
        for one, row in enumerate(counts)
        for other, count in enumerate(row)
        if count and one != other
    ]
    if not found:
        return ["no label was taken for another"]
    found.sort(key=lambda pair: (-pair[0], pair[1:]))
    rows = [
        [labels[one], labels[other], f"{count:,}", f"{count / sum(counts[one]):.1%}"]
        for count, one, other in found[:PAIRS]
    ]
    more = [f"and {len(found) - PAIRS:,} more pairs"] if len(found) > PAIRS else []
    return [*_align([["is", "guessed", "count", "share"], *rows], 2), *more]


def _align(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Cells in columns, the first `left` of them to the left and the others to the right."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]

    def placed(cell: str, place: int) -> str:
        gap = " " * (widths[place] - cell_len(cell))
        return cell + gap if place < left else gap + cell

    return ["  ".join(placed(cell, place) for place, cell in enumerate(row)).rstrip() for row in rows]


def _escape(label: str) -> str:
    """A label that can't steer a terminal."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in label)
