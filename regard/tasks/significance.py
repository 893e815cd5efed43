"""Whether a difference between two models may be chance: paired bootstrap, approximate randomisation, and Holm.

Both tests need of each sample only a row of numbers that add up (`Statistic`), so nothing is predicted again. They are
paired: both models answered the same samples, so what makes a sample hard for both says nothing about either.

- Paired bootstrap (Efron 1979; Koehn 2004): samples are drawn anew with repetition, the same ones for all models. The
  differences that come of it are moved to lie around zero, as they would if the models were equal; p is the share of
  them that are as far from zero as the one that was measured, on either side. (sacreBLEU's own counts one side.)
- Approximate randomisation (Noreen 1989; Riezler and Maxwell 2005): if the models were equal, it wouldn't matter which
  of them gave which answer. So answers change sides by the toss of a coin; p is the share of tosses that come out as
  far apart as what was measured.

Neither knows what another seed of training would have done: they speak of these weights, and of samples like these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from regard.errors import InputError
from regard.tasks.measures import DRAWN, TAIL, Measure, Numbers

TRIALS = 10_000  # of each test: a p-value is never below 1 in 10,001
LEVEL = 0.05  # a difference is said to be shown below this p-value
NEAR = 1e-12  # differences that are equal but for rounding are equal; relative to the values


def divide(sums: Numbers) -> Numbers:
    """A mean over all that is counted, from sums of what is counted and of how often: (trials, 2) -> (trials,)."""
    return sums[:, 0] / np.maximum(sums[:, 1], 1e-300)


@dataclass(frozen=True)
class Statistic:
    """A measure before it is added up: a row of numbers for each sample, and what the sums of rows come to."""

    rows: Numbers  # (samples, columns)
    rising: bool  # more of it is better
    value: Callable[[Numbers], Numbers] = divide  # sums (trials, columns) -> (trials,)
    per_token: bool = False  # it can't be compared where texts are cut into other tokens
    signature: str = ""  # sacreBLEU's: then the tests are sacreBLEU's as well

    @classmethod
    def mean(
        cls,
        sums: Sequence[float] | Numbers,
        counts: Sequence[float] | Numbers | None = None,
        *,
        rising: bool,
        per_token: bool = False,
    ) -> Statistic:
        """A mean; `counts`: how much was counted in each sample, if it isn't one."""
        above = np.asarray(sums, np.float64)
        below = np.ones(len(above)) if counts is None else np.asarray(counts, np.float64)
        return cls(np.stack((above, below), 1), rising, per_token=per_token)

    def __len__(self) -> int:
        return len(self.rows)

    def total(self) -> float:
        """The measure of all samples."""
        return float(self.value(self.rows.sum(0, keepdims=True))[0])

    def only(self, samples: Sequence[int]) -> Statistic:
        """The same of some samples."""
        rows = self.rows[np.asarray(samples, np.int64)]
        return Statistic(rows, self.rising, self.value, self.per_token, self.signature)


@dataclass(frozen=True)
class PairedDifference:
    """How far one model is from another on the same samples, and how likely chance alone brings that about."""

    value: float  # the first's measure less the second's
    low: float
    high: float  # a 95 % interval
    bootstrap: float  # p-values
    randomisation: float


def draw_values(statistics: Sequence[Statistic], seed: int = 0, trials: int = TRIALS) -> Numbers:
    """What a measure of each model comes to when samples are drawn anew, the same for all: (models, trials)."""
    count = _insist_on_pairs(statistics)
    chance, found = np.random.default_rng(seed), []
    for some in _take_turns(trials, count):
        drawn = chance.integers(count, size=(some, count)) + np.arange(some)[:, None] * count
        times = np.bincount(drawn.ravel(), minlength=some * count).reshape(some, count).astype(np.float64)
        found.append(np.stack([one.value(times @ one.rows) for one in statistics]))
    return np.concatenate(found, 1)


def enclose_values(value: float, drawn: Numbers) -> Measure:
    """A value with its 95 % interval, from what drawing anew came to."""
    low, high = np.percentile(drawn, (TAIL, 100 - TAIL))
    return Measure(value, float(min(low, value)), float(max(high, value)))


def compare_drawn(one: Statistic, other: Statistic, drawn: tuple[Numbers, Numbers], seed: int = 0) -> PairedDifference:
    """Both tests of two models; `drawn`: what their measures came to in the same draws, (trials,) each."""
    value, differences = one.total() - other.total(), drawn[0] - drawn[1]
    spread = enclose_values(value, differences)
    likely = shift_bootstrap(value, differences)
    return PairedDifference(value, spread.low, spread.high, likely, randomise(one, other, seed))


def shift_bootstrap(value: float, differences: Numbers) -> float:
    """The p-value of a paired bootstrap: differences moved to lie around zero, on both sides of it."""
    far = abs(value) - NEAR * max(1.0, abs(value))
    beyond = int((np.abs(differences - differences.mean()) >= far).sum())
    return (beyond + 1) / (len(differences) + 1)


def randomise(one: Statistic, other: Statistic, seed: int = 0, trials: int = TRIALS) -> float:
    """The p-value of approximate randomisation, two-sided, with ties counted against a difference."""
    _insist_on_pairs([one, other])
    whole = one.rows.sum(0), other.rows.sum(0)
    far = abs(one.total() - other.total())
    far -= NEAR * max(1.0, far)
    apart = other.rows - one.rows
    apart = apart[(apart != 0).any(1)]  # to change sides where both are alike changes nothing
    chance, beyond = np.random.default_rng(seed), 0
    for some in _take_turns(trials, len(apart)):
        moved = chance.integers(2, size=(some, len(apart)), dtype=np.int8).astype(np.float64) @ apart
        beyond += int((np.abs(one.value(whole[0] + moved) - other.value(whole[1] - moved)) >= far).sum())
    return (beyond + 1) / (trials + 1)


def correct_holm(likely: Sequence[float]) -> list[float]:
    """p-values of several comparisons, corrected so that one false alarm among all is as unlikely as it should be.

    The smallest is multiplied by how many there are, the next by one less, and so on (Holm 1979); none becomes smaller
    than one before it.
    """
    found, highest = [0.0] * len(likely), 0.0
    for place, n in enumerate(sorted(range(len(likely)), key=lambda n: likely[n])):
        highest = max(highest, min(1.0, likely[n] * (len(likely) - place)))
        found[n] = highest
    return found


def _take_turns(trials: int, width: int) -> Iterator[int]:
    """Trials in turns, so that memory doesn't grow with the data."""
    at_once = max(1, DRAWN // max(1, width))
    for first in range(0, trials, at_once):
        yield min(at_once, trials - first)


def _insist_on_pairs(statistics: Sequence[Statistic]) -> int:
    counts = {len(one) for one in statistics}
    if len(counts) != 1 or not min(counts):
        told = " and ".join(str(len(one)) for one in statistics)
        raise InputError(f"{told} samples: models are compared on the same ones", "one test set for all")
    return counts.pop()
