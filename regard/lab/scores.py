"""Which score? How a decoder compares its state with the source's words, when it looks, and whether it is told again.

Dot, multiplicative ("general") and location are Luong et al.'s (2015), additive is Bahdanau et al.'s (2015), the
reduced-rank one is what a Transformer's head computes. Luong et al. attend after the cell and feed the result to the
next step; Bahdanau et al. attend before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from regard.core.model import Model
from regard.data.batches import Batch
from regard.decode.translator import Translator
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.clock import time_sides
from regard.lab.apparatus.experiment import Conclusion, Experiment, Tables
from regard.lab.apparatus.recipe import make_translation
from regard.lab.apparatus.translation import batch_pairs, link_split
from regard.lens.plot import Plot, Point
from regard.runs.folder import Run
from regard.runs.load import load_translator
from regard.tasks.entropy import cross_entropy
from regard.tasks.measures import average
from regard.tasks.translation import list_pairs, predict

TABLE = "quality, alignment and speed"
SCORES = ("dot", "scaled", "multiplicative", "reduced", "additive", "location")
USUAL = "multiplicative"
# every score after the cell and without feeding; then one score in the three other ways
CELLS: tuple[tuple[str, str, bool], ...] = (
    *((score, "after", False) for score in SCORES),
    *((USUAL, when, feed) for when, feed in (("after", True), ("before", False), ("before", True))),
)
# chosen on validation sentences with another seed, for the multiplicative and the reduced score: 0.003, 0.0045, 0.007
RATE = 0.007
TIMES = ("after", "before")
SENTENCES = 48  # of a step whose time is taken: about as many tokens as a batch of training has
ROUNDS = 5
Row = Mapping[str, Any]


class AttentionScores(Experiment):
    """Six scores, and four ways to use one of them."""

    name = "scores"
    place = 80
    question = "Which score?"
    claim = (
        "A multiplicative score is as good as an additive one and quicker, one by location alone is worse, and "
        "feeding the attention to the next step helps."
    )
    method = (
        "Two recurrent networks of one width learn from the same sentences with each score; with the multiplicative "
        "one also before the cell and with input feeding. Measured on test sentences: loss, exact match, the error "
        "rate of attention's links against the corpus's own, and the tokens a second of a step of training. Each model "
        "is trained once, so a small difference may be chance; --full trains each three times."
    )
    minutes = 4
    full_minutes = 35

    def measure(self, bench: Bench) -> Tables:
        tokens, seeds = bench.choose(240_000, 800_000), bench.seeds(1, 3)
        runs = bench.train(
            {
                name_run(cell, seed): make_translation(describe_model(*cell), tokens, RATE, test=800, batch=256)
                | {"seed": seed}
                for cell in CELLS
                for seed in seeds
            }
        )
        rows = []
        with bench.watch("measuring, models", len(CELLS)) as advance:
            for cell in CELLS:
                rows.append(dict(zip(("score", "when", "feed"), cell, strict=True)))
                rows[-1] |= measure_quality(bench, [runs[name_run(cell, seed)] for seed in seeds])
                advance()
        speeds = measure_speeds({n: runs[name_run(cell, bench.seed)] for n, cell in enumerate(CELLS)})
        return {TABLE: [row | {"tokens/s": round(speeds[n])} for n, row in enumerate(rows)]}

    def conclude(self, tables: Tables) -> Conclusion:
        rows = {(row["score"], row["when"], row["feed"]): row for row in tables[TABLE]}
        usual, additive, location = (rows[score, "after", False] for score in (USUAL, "additive", "location"))
        gains = {when: rows[USUAL, when, True]["exact"] - rows[USUAL, when, False]["exact"] for when in TIMES}
        best = max(tables[TABLE], key=lambda row: row["exact"])
        speed = usual["tokens/s"] / additive["tokens/s"]
        told = (
            f"The multiplicative score gets {usual['exact']:.0%} of the sentences right and {usual['AER']:.0%} of its "
            f"links wrong; the additive one {additive['exact']:.0%} and {additive['AER']:.0%}, at {1 / speed:.1f} "
            f"times the speed; location alone {location['exact']:.0%} and {location['AER']:.0%}; feeding changes exact "
            f"match by {100 * gains['after']:+.0f} points after the cell and by {100 * gains['before']:+.0f} before "
            f"it; the best of all is {tell_cell(best)} with {best['exact']:.0%}."
        )
        shown = (
            not beats(additive, usual)
            and speed > 1
            and beats(usual, location)
            and beats(rows[USUAL, "after", True], usual)
        )
        return Conclusion(shown, told)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        rows = tables[TABLE]
        exact = [Point(tell_cell(row), 100 * row["exact"], 100 * row["low"], 100 * row["high"]) for row in rows]
        wrong = [Point(tell_cell(row), 100 * row["AER"]) for row in rows]
        speed = [Point(tell_cell(row), row["tokens/s"]) for row in rows]
        return [
            Plot("Exact match by the score", "score", "% right to the letter", {"exact match": exact}),
            Plot("Error rate of attention's links", "score", "%", {"error rate": wrong}),
            Plot("Speed of a step of training", "score", "target tokens a second", {"tokens/s": speed}),
        ]


def beats(one: Row, other: Row) -> bool:
    """Whether one's exact match is higher, and their 95 % intervals don't meet."""
    return bool(one["low"] > other["high"])


def tell_cell(row: Row) -> str:
    """A row's score, and in which way it is used where that isn't the usual one."""
    ways = [f"{row['when']} the cell"] * (row["when"] != "after") + ["with feeding"] * row["feed"]
    return " ".join((row["score"], *ways))


def name_run(cell: tuple[str, str, bool], seed: int) -> str:
    score, when, feed = cell
    return f"{score}-{when}{'-feed' * feed}-{seed}"


def describe_model(score: str, when: str, feed: bool) -> dict[str, Any]:
    """Two recurrent networks with attention, which differ in this alone."""
    return {
        "kind": "luong",
        "cell": "gru",
        "width": 128,
        "dropout": 0.0,
        "score": score,
        "attention": when,
        "feed": feed,
    }


def measure_quality(bench: Bench, runs: Sequence[Run]) -> dict[str, float]:
    """Loss, exact match and alignment error of runs that differ in their seeds alone, on their test sentences."""
    measured = [bench.evaluate(run, beam=1) for run in runs]
    linked = [link_split(str(run.folder)).score for run in runs]
    exact = average([each["exact"] for each in measured])
    # of one run, the interval is that of the test sentences
    low, high = (measured[0]["exact_low"], measured[0]["exact_high"]) if len(runs) == 1 else (exact.low, exact.high)
    return {
        "loss": average([each["loss"] for each in measured]).value,
        "exact": exact.value,
        "low": low,
        "high": high,
        "AER": average([each.error_rate for each in linked if each is not None]).value,
    }


def measure_speeds(runs: Mapping[int, Run]) -> dict[int, float]:
    """Target tokens a second, forward and backward over the same sentences; the models take turns.

    The journals tell the speed of training too, but each of another minute, in which the machine may have been busy.
    """
    translators = {n: load_translator(str(run.folder)) for n, run in runs.items()}
    first = next(iter(runs.values()))
    pairs = list_pairs(first.prepared().samples("test"))[:SENTENCES]
    batch = batch_pairs(next(iter(translators.values())), pairs)  # they share one tokenizer
    sides = {str(n): partial(take_step, each, batch) for n, each in translators.items()}
    seconds = time_sides(sides, ROUNDS)
    return {n: batch.tokens / seconds[str(n)] for n in runs}


def take_step(translator: Translator, batch: Batch) -> None:
    """One pass forward and backward, as training does it."""
    model = translator.model
    assert isinstance(model, Model)
    found = predict(model.train(), batch, translator.target)
    cross_entropy(found.factors, found.targets, 0.0).backward()
    model.zero_grad()
