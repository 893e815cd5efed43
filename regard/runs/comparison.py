"""What a comparison of runs found, as a value: measures, differences, facts, groups, examples; and as a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import regard
from regard.host.output import put
from regard.lens.page import Figure, clean, make_page
from regard.lens.plot import Plot, Point
from regard.runs.breakdown import Breakdown
from regard.tasks.example import Example
from regard.tasks.measures import Measure
from regard.tasks.significance import LEVEL, TRIALS, PairedDifference

# what is told beside the measures, with what it is counted in
COSTS = {
    "parameters": "count",
    "training tokens": "count",
    "training time": "seconds",
    "training speed": "tokens a second",
    "peak memory": "bytes",
    "state of a token": "bytes",
    "state of a source token": "bytes",
    "state whatever the length": "bytes",
    "state at 1,000 tokens": "bytes",
    "answering": "samples a second",
    "writing": "tokens a second",
}


@dataclass(frozen=True)
class RunPair:
    """Two runs by one measure: how far apart they are, and whether that may be chance."""

    measure: str
    one: str  # labels of runs
    other: str
    rising: bool
    difference: PairedDifference
    holm: float  # the p-value of randomisation, corrected for the number of pairs
    doubt: str = ""  # why a difference between these weights says nothing of what they were made by

    @property
    def winner(self) -> str | None:
        """The run that is shown to be better; None where none is."""
        if self.holm >= LEVEL or self.difference.value == 0 or self.doubt:
            return None
        return self.one if (self.difference.value > 0) == self.rising else self.other

    @property
    def is_doubted(self) -> bool:
        """Whether these weights differ, and it is still not shown that what they were made by does."""
        return bool(self.doubt) and self.holm < LEVEL

    @property
    def verdict(self) -> str:
        return "no difference shown" if self.winner is None else f"{self.winner} is better"

    def as_json(self) -> dict[str, Any]:
        told = {"measure": self.measure, "one": self.one, "other": self.other, **vars(self.difference)}
        return told | {"holm": self.holm, "winner": self.winner, "verdict": self.verdict, "doubt": self.doubt}


@dataclass(frozen=True)
class Contrast:
    """A sample that runs answered very differently."""

    number: int  # of the sample, from 0
    examples: list[Example]  # one for each run
    values: list[float]  # what each answer is worth

    def as_json(self) -> dict[str, Any]:
        sides = {"given": list(self.examples[0].given), "expected": list(self.examples[0].expected)}
        answers = [
            {"answer": list(one.answer), "note": one.note, "value": value}
            for one, value in zip(self.examples, self.values, strict=True)
        ]
        return {"sample": self.number, **sides, "answers": answers}


@dataclass
class RunComparison:
    """Runs on the same samples, side by side."""

    task: str
    data: str  # files, or the split that the runs kept
    samples: int
    labels: list[str]
    main: str  # the measure that matters most
    rising: Mapping[str, bool]
    measures: dict[str, list[Measure]]  # of each run
    pairs: list[RunPair]
    costs: list[dict[str, float]]  # by COSTS; what isn't known of a run isn't there
    precisions: list[str]  # what the weights of each run were packed to
    by_length: list[Breakdown] = field(default_factory=list)
    by_frequency: list[Breakdown] = field(default_factory=list)
    contrasts: list[Contrast] = field(default_factory=list)
    telling: str = ""  # the measure that contrasts are found by
    roles: tuple[str, str, str] = ("given", "expected", "answer")
    signatures: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        runs = [
            {"run": label, "precision": precision, "measures": {}, "costs": costs}
            for label, precision, costs in zip(self.labels, self.precisions, self.costs, strict=True)
        ]
        for name, values in self.measures.items():
            for run, value in zip(runs, values, strict=True):
                run["measures"] |= value.named(name)  # type: ignore[operator]
        told = {
            "task": self.task,
            "data": self.data,
            "samples": self.samples,
            "main": self.main,
            "rising": dict(self.rising),
            "runs": runs,
            "pairs": [pair.as_json() for pair in self.pairs],
            "by_length": [one.as_json() for one in self.by_length],
            "by_frequency": [one.as_json() for one in self.by_frequency],
            "telling": self.telling,
            "examples": [one.as_json() for one in self.contrasts],
            "signatures": dict(self.signatures),
            "trials": TRIALS,
            "level": LEVEL,
            "notes": self.notes,
            "regard": regard.__version__,
        }
        return dict(clean(told))

    @property
    def title(self) -> str:
        return f"{' and '.join(self.labels)} compared" if len(self.labels) < 4 else f"{len(self.labels)} runs compared"

    def figures(self) -> list[Figure]:
        """What a page shows, from what matters most on."""
        found = [self._draw_main(), self._list_measures(), self._list_pairs(), self._list_costs()]
        found += [draw_breakdown(one, self.labels) for one in self.by_length if one.measure == self.main]
        found += [draw_breakdown(one, self.labels) for one in self.by_frequency]
        found += [self._show_contrasts()] if self.contrasts else []
        return [*found, Figure("text", {"title": "How this was measured", "text": "\n".join(explain(self))})]

    def page(self) -> str:
        """One whole HTML file."""
        return make_page(self.title, self.figures())

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all."""
        put(Path(path), self.page().encode())
        return Path(path)

    def _draw_main(self) -> Figure:
        values = zip(self.labels, self.measures[self.main], strict=True)
        points = {label: [Point(self.main, *value)] for label, value in values}
        return Plot(f"{self.main}, with 95 % intervals", "", self.main, points).figure()

    def _list_measures(self) -> Figure:
        rows = [
            [name, label, *map(shorten, value)]
            for name, values in self.measures.items()
            for label, value in zip(self.labels, values, strict=True)
        ]
        note = f"{self.samples:,} samples of {self.data}; low and high are a 95 % interval."
        columns = ["measure", "run", "value", "low", "high"]
        return Figure("table", {"title": "Measures", "note": note, "columns": columns, "rows": rows})

    def _list_pairs(self) -> Figure:
        numbers = ("difference", "low", "high", "p bootstrap", "p random", "p Holm")
        rows: list[list[str | float]] = []
        for pair in self.pairs:
            values = map(shorten, (*vars(pair.difference).values(), pair.holm))
            rows.append([pair.measure, pair.one, pair.other, *values, pair.verdict + " *" * pair.is_doubted])
        columns = ["measure", "one", "other", *numbers, "verdict"]
        return Figure("table", {"title": "Differences", "columns": columns, "rows": rows})

    def _list_costs(self) -> Figure:
        names = [name for name in COSTS if any(name in costs for costs in self.costs)]
        rows: list[list[str | float | None]] = []
        for name in names:
            told = name if COSTS[name] == "count" else f"{name} ({COSTS[name]})"
            rows.append([told, *(shorten(costs[name]) if name in costs else None for costs in self.costs)])
        return Figure("table", {"title": "What they cost", "columns": ["", *self.labels], "rows": rows})

    def _show_contrasts(self) -> Figure:
        groups = [
            {
                "roles": list(self.roles),
                "given": list(one.examples[0].given),
                "expected": list(one.examples[0].expected),
                "aligned": one.examples[0].aligned,
                "answers": [
                    {"run": n, "answer": list(answer.answer), "right": answer.right, "note": answer.note}
                    for n, answer in enumerate(one.examples)
                ],
            }
            for one in self.contrasts
        ]
        return Figure("samples", {"runs": self.labels, "groups": groups, "splits": [self.data], "notes": []})


def shorten(value: float) -> float:
    """A number with as many digits as are worth reading; whole ones as they are."""
    return value if float(value).is_integer() else float(f"{value:.4g}")


def draw_breakdown(breakdown: Breakdown, labels: list[str]) -> Figure:
    """Groups as bars of each run, with their intervals."""
    series: dict[str, list[Point]] = {label: [] for label in labels}
    for group, row in zip(breakdown.groups, breakdown.values, strict=True):
        for label, value in zip(labels, row, strict=True):
            if value is not None:
                series[label].append(Point(group, *value))
    return Plot(f"{breakdown.measure} by {breakdown.by}", breakdown.by, breakdown.measure, series).figure()


def explain(found: RunComparison) -> list[str]:
    """How it was measured, and what to mind."""
    tests = (
        f"Intervals are 95 % of a bootstrap over samples. p: paired bootstrap, and approximate randomisation with "
        f"{TRIALS:,} trials; Holm's correction is for the number of pairs of each measure. A difference is shown where "
        f"the corrected p is below {LEVEL}. The tests know these weights and not what another seed would have made: "
        "compare several seeds of a recipe before you believe a small difference."
    )
    signed = [f"{name} and its tests are sacreBLEU's: {signature}" for name, signature in found.signatures.items()]
    costs = (
        "Answering was timed here, one run after the other. A state is that of one text in float32, at 1,000 tokens "
        "read and as many written."
    )
    return [tests, costs, *signed, *found.notes]
