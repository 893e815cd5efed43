"""Who remembers? Problems that need what was read some time ago, by its length, for models of equal size.

Attention keeps every token, so it can look back at any of them. A recurrence has one state, whatever it read, and must
choose what to keep: a linear one like S4D can't choose by content, and Mamba can (Gu & Dao 2023; Jelassi et al. 2024 on
copying).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Rows, Tables
from regard.lab.apparatus.recipe import make_algorithm
from regard.lab.apparatus.solved import allow_chance, average_sizes
from regard.lens.plot import Plot, make_series
from regard.runs.load import load_bundle
from regard.tasks.measures import average

SUMMARY, CURVES = "problems solved by length", "problems solved by size"
TEST, ROWS = 300, 32
LEARNED = 0.9  # of the shorter half
# About 100,000 weights each; the table says how many. All are trained alike, each at the better of two rates, 0.002 and
# 0.004, by the validation problems that it solves with another seed. Longer problems were tried at first, of which most
# models had learned little in a budget of minutes.
MODELS: dict[str, dict[str, Any]] = {
    "RNN": {"kind": "rnn", "width": 160, "depth": 2, "dropout": 0.0},
    "LSTM": {"kind": "lstm", "width": 80, "depth": 2, "dropout": 0.0},
    "S4D": {"kind": "ssm", "width": 128, "depth": 2},
    "Mamba": {"kind": "mamba-130m", "width": 80, "depth": 2},
    "attention": {"kind": "decoder-tiny", "width": 64, "depth": 2, "heads": 2, "position": "rotary"},
    "hybrid": {"kind": "hybrid", "width": 64, "depth": 2, "every": 2, "heads": 2},
}
RATES = {"LSTM": 0.004, "S4D": 0.004}  # the others have 0.002
STATES = ("RNN", "LSTM", "S4D")  # a fixed size, and what is kept isn't chosen as Mamba chooses it
# by name: the longest problem of training and that of --full; each begins where it can
TASKS: dict[str, tuple[int, int, dict[str, Any]]] = {
    "induction": (24, 128, {"vocabulary": 8}),
    "copy": (8, 24, {"symbols": 8}),
    "selective-copy": (24, 128, {"tokens": 3, "symbols": 6}),
}


class Recall(Experiment):
    """Six models of one size, three problems, and the share that each solves by length."""

    name = "recall"
    place = 120
    question = "Who remembers?"
    claim = (
        "Attention recalls whatever it read; a state of fixed size forgets as texts grow longer, and selection makes "
        "up for some of it."
    )
    method = (
        "Six models with about as many weights each learn on the same problems to say what followed a mark "
        "(induction), to copy letters, and to copy those that stand among noise. Shares of problems solved: in the "
        "shorter half of the trained lengths, in the longer half, and beyond, up to twice as long."
    )
    minutes = 5
    full_minutes = 40

    def measure(self, bench: Bench) -> Tables:
        steps = bench.choose(1000, 4000)
        longest = {task: bench.choose(usual, full) for task, (usual, full, _) in TASKS.items()}
        runs = bench.train(
            {
                f"{task}-{model}": describe_run(task, model, longest[task], steps, bench.seed) | {"seed": bench.seed}
                for task in TASKS
                for model in MODELS
            }
        )
        summary, curves = [], []
        for task, last in longest.items():
            for model in MODELS:
                run = runs[f"{task}-{model}"]
                solved = bench.evaluate(run, beam=1)["by_size"]
                count = load_bundle(str(run.folder)).model.parameter_count()
                told = {"task": task, "longest": last, "model": model, "parameters": count}
                summary.append(told | divide_lengths(solved, last))
                curves += [{"task": task, "model": model, "size": size, "solved": solved[size]} for size in solved]
        return {SUMMARY: summary, CURVES: curves}

    def conclude(self, tables: Tables) -> Conclusion:
        rows = tables[SUMMARY]
        means = {model: average_long(rows, model) for model in MODELS}
        best = max(STATES, key=lambda model: means[model])
        selective = {row["model"]: row["long"] for row in rows if row["task"] == "selective-copy"}
        told = ", ".join(f"{model} {share:.0%}" for model, share in sorted(means.items(), key=lambda item: -item[1]))
        sentence = (
            f"Of the longer half of the trained lengths, a mean over {len(TASKS)} problems, each solves: {told}; "
            f"letters among noise: Mamba {selective['Mamba']:.0%}, S4D {selective['S4D']:.0%}, "
            f"attention {selective['attention']:.0%}"
        )
        # who can't do it at short lengths hasn't forgotten: it hasn't learned, which says nothing of memory
        late = [f"{row['model']} ({row['task']})" for row in rows if row["short"] < LEARNED]
        sentence += f"; not learned in this budget even at short lengths: {', '.join(late)}." if late else "."
        # a quarter of the test's problems have these lengths
        recalled = means["attention"] - means[best] > allow_chance(TEST // 4 * len(TASKS))
        selected = selective["Mamba"] - selective["S4D"] > allow_chance(TEST // 4)
        return Conclusion(recalled and selected, sentence)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        curves = [{**row, "percent": 100 * row["solved"]} for row in smooth(tables[CURVES])]
        return [
            Plot(
                f"{task}: problems solved by length",
                "length",
                "percent",
                make_series([row for row in curves if row["task"] == task], "model", "size", "percent"),
            )
            for task in dict.fromkeys(row["task"] for row in curves)
        ]


def divide_lengths(solved: Mapping[int, float], longest: int) -> dict[str, float]:
    """Shares of the shorter half of the trained lengths, of the longer half, and beyond."""
    half = longest // 2
    return {
        "short": average_sizes(solved, 1, half),
        "long": average_sizes(solved, half + 1, longest),
        "beyond": average_sizes(solved, longest + 1, 2 * longest),
    }


def average_long(rows: Rows, model: str) -> float:
    """The mean over tasks of what a model solves in the longer half."""
    return average([row["long"] for row in rows if row["model"] == model]).value


def smooth(curves: Rows, points: int = 8) -> list[dict[str, Any]]:
    """The same curves by stretches of sizes: few problems have one size, and a mean of several shows the trend."""
    found = []
    for task in dict.fromkeys(row["task"] for row in curves):
        there = [row for row in curves if row["task"] == task]
        first, last = min(row["size"] for row in there), max(row["size"] for row in there)
        stretch = max(1, math.ceil((last - first + 1) / points))
        for model in dict.fromkeys(row["model"] for row in there):
            solved = {row["size"]: row["solved"] for row in there if row["model"] == model}
            for begin in range(first, last + 1, stretch):
                share = average_sizes(solved, begin, begin + stretch - 1)
                if not math.isnan(share):
                    middle = begin + (stretch - 1) / 2
                    found.append({"task": task, "model": model, "size": middle, "solved": share})
    return found


def describe_run(task: str, model: str, longest: int, steps: int, seed: int) -> dict[str, Any]:
    """One task for one model; the data and their order are equal."""
    first = 4 if task == "induction" else 3
    sizes = {"sizes": [first, longest], "test_sizes": [first, 2 * longest]}
    corpus = {"kind": task, "train": min(ROWS * steps, 100_000), "test": TEST, "seed": seed, **sizes, **TASKS[task][2]}
    return make_algorithm(corpus, MODELS[model], steps, RATES.get(model, 0.002), ROWS)
