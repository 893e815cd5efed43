"""How cost grows: `python -m bench.growth [--quick]`.

Time and memory of a training step and of decoding, each with one size doubled and doubled again while the others stay:
batch, length, depth, width, vocabulary. What is told are exponents: 1 is twice the cost for twice the size, 2 is four
times. They are slopes of the logarithms, by least squares; memory is what is held above a process with the smallest
model that has done the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bench.harness import (
    Missing,
    Side,
    Worker,
    find_versions,
    finish,
    make_parser,
    read_words,
    report,
    say,
    take_turns,
    watch_others,
)
from bench.page import Table

USUAL = {"batch": 8, "length": 128, "depth": 4, "width": 256, "vocabulary": 8000}
SMALL = {"batch": 2, "length": 16, "depth": 1, "width": 64, "vocabulary": 500}
LEAST = {"batch": 1, "length": 4, "depth": 1, "width": 64, "vocabulary": 100}  # what memory is counted above
FACTORS = (1, 2, 4)
TABLE = Table(
    "How cost grows",
    "exponents: cost grows with this power of the size",
    ("time", "memory"),
    command="python -m bench.growth",
)


def fit_exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The power of the size that costs grow with: the slope of their logarithms, by least squares."""
    if len(sizes) < 2 or min(*sizes, *costs) <= 0:
        raise Missing(f"no exponent through {len(sizes)} points with costs {', '.join(f'{c:.3g}' for c in costs)}")
    x, y = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    mean, middle = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean) * (b - middle) for a, b in zip(x, y, strict=True))
    return slope / sum((a - mean) ** 2 for a in x)


def measure_point(job: str, sizes: dict[str, Any], rounds: int, threads: int) -> tuple[float, float]:
    """Seconds at best and megabytes at most, in processes of their own."""
    found = []
    for what, turns in (("time", rounds), ("memory", 1)):
        worker = Worker(Side(what, "grower", job, {**sizes, "what": what}, "ours"), threads)
        try:
            found.append(take_turns({what: worker.measure}, turns, "less")[what])
        finally:
            worker.close()
    seconds, megabytes = found
    assert not isinstance(seconds, str) and not isinstance(megabytes, str)
    return seconds, megabytes


def main() -> None:
    words = read_words(make_parser(__doc__))
    usual = SMALL if words.quick else USUAL
    versions = ", ".join(f"{name} {number}" for name, number in find_versions(("torch",)).items())
    for job in ("train", "write"):
        _, ground = measure_point(job, LEAST, 1, words.threads)
        for name in usual:
            case = f"{'a training step' if job == 'train' else 'decoding'}, by {name}"
            if words.only not in case:
                continue
            say(f"{TABLE.title}: {case}")
            with watch_others() as others:
                sizes = [usual[name] * factor for factor in FACTORS]
                points = [measure_point(job, {**usual, name: size}, words.rounds, words.threads) for size in sizes]
            figures: dict[str, float | str] = {}
            held = {"time": [seconds for seconds, _ in points], "memory": [most - ground for _, most in points]}
            for what, costs in held.items():
                try:
                    figures[what] = fit_exponent(sizes, costs)
                except Missing as error:
                    figures[what] = str(error)
            report(TABLE, case, figures, words, versions, others[0])
    finish(True, words)


if __name__ == "__main__":
    main()
