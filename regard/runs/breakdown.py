"""Where runs differ: their measures by the length of samples, and by how often training saw a word or a label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.tasks.measures import RESAMPLES, Measure, ratio
from regard.tasks.scores import Portions, SampleScores
from regard.tasks.significance import Statistic, draw_values, enclose_values

DISTINCT = 8  # lengths up to which each is a group of its own
QUARTERS = (0.25, 0.5, 0.75)  # of the samples, where lengths are cut into groups otherwise
NAMED = 12  # labels up to which each is a group of its own
DECADES = (0, 1, 10, 100, 1_000, 10_000)  # where groups of frequencies begin


@dataclass(frozen=True)
class Breakdown:
    """One measure of each run in each group."""

    by: str  # what makes the groups
    measure: str
    rising: bool
    groups: list[str]
    counts: list[int]  # samples, words or labels that were expected in each group
    values: list[list[Measure | None]]  # (groups, runs); None where a run has nothing in a group

    def as_json(self) -> dict[str, Any]:
        told = [[None if one is None else one.named("value") for one in row] for row in self.values]
        return {**vars(self), "values": told}


def divide_by_length(name: str, runs: Sequence[SampleScores]) -> Breakdown | None:
    """A measure by the length of samples; None where they have none, or one alone."""
    sizes = np.asarray(runs[0].sizes, np.float64)
    groups = group_sizes(sizes)
    if len(groups) < 2:
        return None
    statistics = [run.statistics[name] for run in runs]
    values: list[list[Measure | None]] = [[_measure(one.only(rows)) for one in statistics] for rows in groups.values()]
    counts = [len(rows) for rows in groups.values()]
    return Breakdown(runs[0].size_name, name, statistics[0].rising, list(groups), counts, values)


def _measure(statistic: Statistic) -> Measure:
    return enclose_values(statistic.total(), draw_values([statistic], trials=RESAMPLES)[0])


def group_sizes(sizes: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, list[int]]:
    """Which samples are of like length: each length by itself where there are few, or quarters of the samples."""
    distinct = np.unique(sizes)
    if len(distinct) <= DISTINCT:
        return {f"{size:g}": np.flatnonzero(sizes == size).tolist() for size in distinct}
    cuts = np.unique(np.quantile(sizes, QUARTERS, method="nearest"))
    which = np.searchsorted(cuts, sizes)  # a sample at a cut belongs below it
    found = {}
    for n in np.unique(which):
        rows = np.flatnonzero(which == n)
        low, high = sizes[rows].min(), sizes[rows].max()
        found[f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"] = rows.tolist()
    return found


def divide_by_frequency(kind: str, runs: Sequence[SampleScores], counts: Mapping[str, int] | None) -> Breakdown | None:
    """What became of words or labels, by how often training saw them, or by how often they are here.

    `counts`: of training; None where they aren't known.
    """
    portions = [run.portions[kind] for run in runs]
    keys = dict.fromkeys(one.key for each in portions for sample in each.samples for one in sample)
    here = Counter[str]()
    for one in (one for sample in portions[0].samples for one in sample):
        here[one.key] += one.real
    known = here if counts is None else counts
    groups = name_groups(keys, known)
    sums = [_add_up(each, groups) for each in portions]
    # from rare to frequent
    order = list(dict.fromkeys(groups[key] for key in sorted(keys, key=lambda key: known.get(key, 0))))
    if len(order) < 2:
        return None
    values = [[_divide(one.get(group)) for one in sums] for group in order]
    sizes = Counter[str]()
    for key, count in here.items():
        sizes[groups[key]] += count
    where = "here" if counts is None else "in training"
    by = f"how often {kind} are {where}"
    return Breakdown(by, portions[0].measure, portions[0].rising, order, [sizes[group] for group in order], values)


def _divide(sums: tuple[list[float], list[float]] | None) -> Measure | None:
    return None if sums is None or not any(sums[1]) else ratio(*sums)


def name_groups(keys: Mapping[str, None], known: Mapping[str, int]) -> dict[str, str]:
    """The group of each word or label: few are named each by itself, many are grouped by powers of ten."""
    if len(keys) <= NAMED:
        return {key: f"{key} ({known.get(key, 0):,})" for key in keys}
    return {key: name_decade(known.get(key, 0)) for key in keys}


def name_decade(count: int) -> str:
    """The power of ten that a frequency belongs to."""
    n = max(place for place, first in enumerate(DECADES) if count >= first)
    if n == 0:
        return "never"
    return f"{DECADES[n]:,} or more" if n + 1 == len(DECADES) else f"{DECADES[n]:,} to {DECADES[n + 1] - 1:,}"


def _add_up(portions: Portions, groups: Mapping[str, str]) -> dict[str, tuple[list[float], list[float]]]:
    """What each sample adds to the ratio of each group."""
    count = len(portions.samples)
    found: dict[str, tuple[list[float], list[float]]] = {}
    for n, sample in enumerate(portions.samples):
        for key, above, below, _ in sample:
            sums = found.setdefault(groups[key], ([0.0] * count, [0.0] * count))
            sums[0][n] += above
            sums[1][n] += below
    return found
