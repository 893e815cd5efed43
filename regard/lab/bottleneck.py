"""Does one vector suffice? Exact match by the length of the sentence, with one vector between two networks and without.

A decoder that is given the encoder's last state alone must find a whole sentence in it (Sutskever et al. 2014); one
that attends looks at all states again for each word (Bahdanau et al. 2015). The mean of all states stands between: it
sees everything, and can't choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Rows, Tables
from regard.lab.apparatus.fit import average
from regard.lab.apparatus.recipe import make_translation
from regard.lab.apparatus.translation import translate_split
from regard.lens.plot import Plot, Point
from regard.runs.demo import LENGTHS, by_length
from regard.runs.folder import Run
from regard.runs.load import load_bundle

QUALITY = "exact match by words of the English sentence"
NONE, MEAN, ATTENTION, TRANSFORMER = "one vector", "mean", "multiplicative", "transformer"
SCORES = ("dot", "scaled", ATTENTION, "reduced", "additive", "location")
SHORT, *_, LONG = LENGTHS
RECURRENT = {"cell": "gru", "dropout": 0.0}
# each has the width that makes nearly 480,000 parameters with 2,000 pieces, as the demo's attention has at 128; a width
# is even, as both directions of the reader share it, and a Transformer's goes by 16: 8 heads of pairs of channels
WIDTHS = {
    NONE: 138,
    MEAN: 132,
    "dot": 132,
    "scaled": 132,
    ATTENTION: 128,
    "reduced": 128,
    "additive": 126,
    "location": 130,
    TRANSFORMER: 112,
}
MODELS: dict[str, dict[str, Any]] = {
    NONE: {"kind": "seq2seq", **RECURRENT},
    MEAN: {"kind": "seq2seq-mean", **RECURRENT},
    **{score: {"kind": "luong", **RECURRENT, "score": score} for score in SCORES},
    TRANSFORMER: {
        "kind": "transformer-tiny",
        "depth": 1,
        "heads": 8,
        "mix": {"kind": "attention", "heads": 8, "position": "rotary"},
        "dropout": 0.0,
    },
}
# the demo's, which were chosen on validation sentences; whatever attends, or takes a mean, has one rate
RATES = dict.fromkeys(MODELS, 0.0045) | {NONE: 0.008, TRANSFORMER: 0.004}


class Bottleneck(Experiment):
    """Nine translators of one size on the same sentences."""

    name = "bottleneck"
    place = 20
    question = "Does one vector suffice?"
    claim = "One vector is a bottleneck: the longer the sentence, the more a translator with attention is ahead."
    method = (
        "Two recurrent networks that pass one vector, the same with the mean of all states, with each score of "
        "attention, and a Transformer learn from the same sentences in the same order, all with nearly as many "
        "parameters. Each test sentence is right to the letter, or wrong."
    )
    minutes = 3.5
    full_minutes = 35

    def measure(self, bench: Bench) -> Tables:
        tokens, seeds = bench.choose(300_000, 800_000), bench.seeds(1, 3)
        runs = bench.train(
            {
                name_run(name, seed): make_translation(describe_model(name), tokens, RATES[name], test=1000)
                | {"seed": seed}
                for name in MODELS
                for seed in seeds
            }
        )
        rows = []
        with bench.watch("translating, models", len(MODELS)) as advance:
            for name in MODELS:
                each = [runs[name_run(name, seed)] for seed in seeds]
                rows.append({"model": name, "parameters": count_parameters(each[0]), **measure_lengths(each)})
                advance()
        return {QUALITY: rows}

    def conclude(self, tables: Tables) -> Conclusion:
        rows = {row["model"]: row for row in tables[QUALITY]}
        narrow, wide, mean = rows[NONE], rows[ATTENTION], rows[MEAN]
        near, far = (wide[length] - narrow[length] for length in (SHORT, LONG))
        told = (
            f"With one vector, {narrow[SHORT]:.0%} of the sentences with {SHORT} are right and {narrow[LONG]:.0%} of "
            f"those with {LONG}; with attention {wide[SHORT]:.0%} and {wide[LONG]:.0%}, so its lead goes from "
            f"{100 * near:.0f} to {100 * far:.0f} points. The mean of all states gets {mean['exact']:.0%} of all "
            f"sentences, one vector {narrow['exact']:.0%}, attention {wide['exact']:.0%}."
        )
        return Conclusion(far > max(near, 0.0), told)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        rows: Rows = tables[QUALITY]
        series = {row["model"]: [Point(length, 100 * row[length]) for length in LENGTHS] for row in rows}
        return [Plot("Exact match by the length of the English sentence", "length", "% right to the letter", series)]


def describe_model(name: str) -> dict[str, Any]:
    """One of the models at its width, as a run file has it."""
    return {**MODELS[name], "width": WIDTHS[name]}


def name_run(name: str, seed: int) -> str:
    return f"{name.replace(' ', '-')}-{seed}"


def count_parameters(run: Run) -> int:
    return load_bundle(str(run.folder)).model.parameter_count()


def measure_lengths(runs: Sequence[Run]) -> dict[str, float]:
    """Loss and exact match over all test sentences, then exact match by length; each the mean over runs."""
    values = []
    for run in runs:
        found = translate_split(run)
        whole = {name: found.measures[name] for name in ("loss", "exact")}
        values.append(whole | by_length(found.pairs, found.texts))
    return {name: average([each[name] for each in values]).value for name in values[0]}
