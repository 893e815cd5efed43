"""A report: one run, or several side by side, in one page that can be mailed.

What the folders tell is collected first (`account.py`), then each model is asked about a few samples and about chosen
texts (`examples.py`). The report is a value: `figures` are what a page shows of it, `as_json` is all of it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import regard
from regard.errors import InputError
from regard.host.meter import SILENT, Meter
from regard.host.output import put
from regard.lens.chart import TITLES
from regard.lens.curves import list_measures
from regard.lens.page import Figure, clean, make_page
from regard.runs.account import FACTS, Account, insist_on_run, read_account
from regard.runs.examples import Asked, ask_run
from regard.runs.precision import check_precision
from regard.runs.resolve import split_noun

SAMPLES = 5  # of a run that its model is asked about
MOST = 40  # texts that a user may choose: a page has an answer and a picture of each, for every run
PER_TOKEN = ("loss", "perplexity")  # measures that can't be compared where text is cut differently
LOG = ("gradient",)  # what is drawn on a logarithmic axis
NOISY = ("loss", "gradient", "tokens_per_second")  # what is drawn smooth, with what it was faint behind it


@dataclass
class RunReport:
    """What there is to tell of some runs, and when it was told."""

    runs: list[Account]
    asked: list[Asked] = field(default_factory=list)  # what each model answered; none where no model was loaded
    made: float = 0.0  # seconds since 1970

    @property
    def labels(self) -> list[str]:
        return [run.label for run in self.runs]

    @property
    def title(self) -> str:
        return f"{', '.join(self.labels[:4])}{f' and {len(self.runs) - 4} more' if len(self.runs) > 4 else ''}"

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        answers = [one.as_json() for one in self.asked] or [{} for _ in self.runs]
        told = [{**run.as_json(), "asked": one} for run, one in zip(self.runs, answers, strict=True)]
        differing = {key: values for key, values in compare_settings(self.runs).items() if not _agree(values)}
        # files may hold numbers that JSON doesn't know
        return dict(clean({"made": self.made, "regard": regard.__version__, "runs": told, "differences": differing}))

    def figures(self) -> list[Figure]:
        """What a page shows, from what matters most on."""
        found = [make_summary(self), make_curves(self.runs), make_evaluations(self.runs)]
        found += [make_samples(self)] if self.asked else []
        found += [make_looks(self)] if any(one.looks for one in self.asked) else []
        return [*found, make_settings(self.runs)]

    def page(self) -> str:
        """One whole HTML file."""
        return make_page(self.title, self.figures())

    def save(self, path: str | Path) -> Path:
        """Write the page, whole or not at all."""
        put(Path(path), self.page().encode())
        return Path(path)


def collect_report(
    nouns: Sequence[str],
    texts: Sequence[str] = (),
    samples: int = SAMPLES,
    *,
    model: bool = True,
    meter: Meter = SILENT,
    precision: str | None = None,
) -> RunReport:
    """Collect all that is known of runs, and ask their models; a run that is damaged is told of, and isn't an error.

    `texts`: what every model is asked beside its own samples. `model`: False loads no weights, and asks nothing.
    `precision`: what the models' weights are packed to.
    """
    check_precision(precision)
    if not nouns:
        raise InputError("a report is of one run at least", "regard runs lists those that there are")
    if len(texts) > MOST:
        raise InputError(f"{len(texts)} texts: a report shows {MOST} of them at most", "fewer texts")
    for noun in nouns:
        insist_on_run(noun)
    labels = label_runs(nouns)
    with meter.watch("reading runs", len(nouns)) as advance:
        runs = []
        for noun, label in zip(nouns, labels, strict=True):
            runs.append(read_account(noun, label))
            advance()
    asked = []
    if model and (samples or texts):
        with meter.watch("asking models", len(nouns)) as advance:
            for noun in nouns:
                asked.append(ask_run(noun, samples, texts, precision))
                advance()
    return RunReport(runs, asked, time.time())


def label_runs(nouns: Sequence[str]) -> list[str]:
    """What a report calls its runs: their folders' names, or as much of the paths as tells them apart."""
    twice = next((noun for noun in nouns if sum(_place(noun) == _place(other) for other in nouns) > 1), None)
    if twice is not None:
        raise InputError(f"{twice}: this run is there twice", "each run once; RUN@best and RUN@latest are two")
    parts = [(*folder.parts[:-1], f"{folder.name}{which}") for folder, which in map(_place, nouns)]
    labels = []
    for own in parts:
        others = [other for other in parts if other is not own]
        size = next(n for n in range(1, len(own) + 1) if all(other[-n:] != own[-n:] for other in others))
        labels.append("/".join(own[-size:]))
    return labels


def _place(noun: str) -> tuple[Path, str]:
    name, which = split_noun(noun)
    return Path(name).resolve(), f"@{which}" if which else ""


def compare_settings(runs: Sequence[Account]) -> dict[str, list[str | None]]:
    """Every setting with its value in each run, as it is written in a run file; None where a run hasn't got it."""
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    parts = list(dict.fromkeys(key.partition(".")[0] for key in keys))
    keys = dict.fromkeys(sorted(keys, key=lambda key: parts.index(key.partition(".")[0])))  # model's beside model's
    return {key: [_write(run.settings[key]) if key in run.settings else None for run in runs] for key in keys}


def _write(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _agree(values: Sequence[object]) -> bool:
    return all(value == values[0] for value in values)


def make_summary(report: RunReport) -> Figure:
    """The facts of each run, and what is missing or damaged."""
    told = [
        {"name": name, "unit": unit, "values": [run.facts.get(name) for run in report.runs]}
        for name, unit in FACTS.items()
        if any(name in run.facts for run in report.runs)
    ]
    notes = [{"run": n, "text": note} for n, run in enumerate(report.runs) for note in run.notes]
    data = {"runs": report.labels, "states": [run.row.state for run in report.runs], "facts": told, "notes": notes}
    return Figure("summary", data | {"made": report.made, "version": regard.__version__})


def make_curves(runs: Sequence[Account]) -> Figure:
    """The curves of all runs, a panel for each quantity that some run has."""
    measured = dict.fromkeys([*(run.goal for run in runs), *(name for run in runs for name in run.curves.measures)])
    logged = dict.fromkeys(name for run in runs for name in run.curves.series)
    measures = [name for name in measured if any(name in run.curves.measures for run in runs)]
    names = dict.fromkeys([*(["loss"] if "loss" in logged else []), *measures, *logged])
    panels = [
        {
            "name": name,
            "title": name_quantity(name),
            "logarithmic": name in LOG,
            "noisy": name in NOISY or name.startswith("costs."),
        }
        for name in names
    ]
    smooth = any(_is_smoothed(run) for run in runs)
    told = "In training the loss is measured with label smoothing, in validation without." if smooth else ""
    curves = [{"label": run.label, **run.curves.as_json()} for run in runs]
    return Figure("curves", {"runs": curves, "panels": panels, "note": told})


def _is_smoothed(run: Account) -> bool:
    return bool(run.settings.get("task.smoothing")) and "loss" in run.curves.measures


def name_quantity(name: str) -> str:
    """How people call what is measured."""
    known = TITLES | {"tokens_per_second": "tokens a second", "bits_per_byte": "bits a byte", "macro_f1": "macro F1"}
    plain = name.removeprefix("costs.")
    return known.get(name, f"cost: {plain}" if plain != name else plain.replace("_", " "))


def make_evaluations(runs: Sequence[Account]) -> Figure:
    """Every evaluation in training, the best of each run, and what was recorded afterwards."""
    rising = {name: up for run in runs for name, up in run.rising.items()}
    rows = [row for n, run in enumerate(runs) for row in _list_evaluations(n, run)]
    best = [row for row in rows if row["chosen"]]
    tests = [_read_test(n, entry) for n, run in enumerate(runs) for entry in run.tests]
    names = dict.fromkeys(name for row in (*rows, *tests) for name in row["values"])
    blind, note = find_incomparable([run for run in runs if run.best is not None])
    data = {
        "runs": [run.label for run in runs],
        "goals": [run.goal for run in runs],
        "measures": [{"name": name, "title": name_quantity(name), "rising": rising.get(name)} for name in names],
        "rows": rows,
        "winners": find_winners(best, {name: up for name, up in rising.items() if name not in blind}),
        "tests": tests,
        "note": note,
    }
    return Figure("evaluations", data)


def _list_evaluations(number: int, run: Account) -> list[dict[str, Any]]:
    curves, found = run.curves, []
    for n, step in enumerate(curves.evaluated.step):
        values = {name: [one.value[n], one.low[n], one.high[n]] for name, one in curves.measures.items()}
        told = {"run": number, "step": step, "minutes": curves.evaluated.minutes[n], "chosen": n == run.best}
        found.append(told | {"values": values, "counts": curves.counts[n]})
    return found


def _read_test(number: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded evaluation as a row."""
    found = entry["measures"]
    values = {name: [found[name], found.get(f"{name}_low"), found.get(f"{name}_high")] for name in list_measures(found)}
    also = entry.get("with")
    others = [str(one) for one in also] if isinstance(also, list) else []
    packed = f", {entry['precision']}" if isinstance(entry.get("precision"), str) else ""
    told = {"run": number, "step": entry["step"], "data": f"{entry.get('data', '')}{packed}", "with": others}
    return told | {"time": entry.get("time"), "values": values}


def find_incomparable(runs: Sequence[Account]) -> tuple[set[str], str]:
    """Which measures of runs must not be compared, and why."""
    names = {name for run in runs for name in run.curves.measures}
    if len({run.row.task for run in runs}) > 1:
        return names, "These runs learned different tasks, so their measures aren't compared."
    if len({run.digest for run in runs}) > 1:
        return names, "These runs were measured on different data, so none of them is marked as the best."
    if len({json.dumps(run.tokenizers, sort_keys=True) for run in runs}) > 1 and names & set(PER_TOKEN):
        told = "These runs cut text into different tokens: what is counted a token (loss, perplexity) isn't compared."
        return names & set(PER_TOKEN), told
    return set(), ""


def find_winners(rows: Sequence[Mapping[str, Any]], rising: Mapping[str, bool]) -> dict[str, list[int]]:
    """The runs whose best evaluation is the best of all, measure by measure; none where only one run has it."""
    found = {}
    for name, more in rising.items():
        values = {row["run"]: row["values"][name][0] for row in rows if name in row["values"]}
        there = {run: value for run, value in values.items() if value is not None}
        if len(there) > 1:
            top = max(there.values()) if more else min(there.values())
            found[name] = [run for run, value in there.items() if value == top]
    return found


def make_samples(report: RunReport) -> Figure:
    """What each model was given, and what they answered side by side."""
    groups: dict[str, dict[str, Any]] = {}
    notes = [{"run": n, "text": note} for n, one in enumerate(report.asked) for note in one.notes]
    for n, one in enumerate(report.asked):
        for example in one.examples:
            side = {"given": list(example.given), "expected": list(example.expected), "aligned": example.aligned}
            asked = {"roles": list(one.roles), **side}
            group = groups.setdefault(json.dumps(asked), {**asked, "answers": []})
            answer = {"run": n, "answer": list(example.answer), "right": example.right, "note": example.note}
            group["answers"].append(answer)
    splits = dict.fromkeys(one.split for one in report.asked if one.split)
    return Figure(
        "samples", {"runs": report.labels, "groups": list(groups.values()), "splits": list(splits), "notes": notes}
    )


def make_looks(report: RunReport) -> Figure:
    """What each model looked at in each text: the runs of a text one after the other."""
    texts: dict[str, list[dict[str, Any]]] = {}
    arrays: dict[str, Any] = {}
    for run, one in enumerate(report.asked):
        for number, (text, figure) in enumerate(one.looks.items()):
            own = f"{run}/{number}/"  # maps of the same name are in every look
            maps = [{**each, "array": own + each["array"]} for each in figure.data["maps"]]
            texts.setdefault(text, []).append({"run": run, "data": {**figure.data, "maps": maps}})
            arrays |= {own + name: array for name, array in figure.arrays.items()}
    told = [{"text": text, "looks": looks} for text, looks in texts.items()]
    return Figure("looks", {"runs": report.labels, "texts": told}, arrays)


def make_settings(runs: Sequence[Account]) -> Figure:
    """What differs between the run files, what doesn't, and the files themselves."""
    found = compare_settings(runs)
    differing = [{"key": key, "values": values} for key, values in found.items() if not _agree(values)]
    equal = [{"key": key, "value": values[0]} for key, values in found.items() if _agree(values)]
    files = [{"run": n, "text": run.text} for n, run in enumerate(runs) if run.text]
    data = {"runs": [run.label for run in runs], "differing": differing, "equal": equal, "files": files}
    return Figure("settings", data)
