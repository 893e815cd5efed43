"""An experiment that was done: its tables, what they say, and the files that tell it to others.

`lab.json` holds everything; a CSV for each table, a PNG for each plot and one HTML page are made from it.
"""

from __future__ import annotations

import csv
import io
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import regard
from regard.errors import InputError, MissingPackage, warn
from regard.host.machine import describe_machine, give_way
from regard.host.meter import SILENT, Meter
from regard.host.output import check_place, put
from regard.lab.apparatus.bench import RUNS, Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Rows, Tables
from regard.lens.page import Figure, clean, make_page
from regard.lens.plot import Plot

FACTS = "lab.json"  # written before everything else, so it shows whose the files beside it are


@dataclass(frozen=True)
class Outcome:
    """What an experiment found, and how."""

    experiment: Experiment
    tables: Tables
    conclusion: Conclusion
    seed: int
    full: bool
    seconds: float
    trained: int = 0  # models
    found: Sequence[str] = field(default_factory=list)  # those of them that had been trained before

    def as_json(self) -> dict[str, Any]:
        """All of it as plain data."""
        told = self.experiment
        return dict(
            clean(
                {
                    "experiment": told.name,
                    "question": told.question,
                    "claim": told.claim,
                    "method": told.method,
                    "shown": self.conclusion.shown,
                    "finding": self.conclusion.sentence,
                    "tables": {title: list(map(dict, rows)) for title, rows in self.tables.items()},
                    "seed": self.seed,
                    "full": self.full,
                    "seconds": round(self.seconds, 1),
                    "trained": self.trained,
                    "found": list(self.found),
                    "machine": describe_machine(),
                    "regard": regard.__version__,
                }
            )
        )

    def plots(self) -> Sequence[Plot]:
        return self.experiment.draw(self.tables)

    def page(self) -> str:
        """One whole HTML file: the question first, what was found when the reader asks for it, plots, tables."""
        told = self.experiment
        question: dict[str, Any] = {"question": told.question, "claim": told.claim, "method": told.method}
        question |= {"finding": self.conclusion.sentence, "shown": self.conclusion.shown, "about": self.describe()}
        tables = [Figure("table", {"title": title, **_lay_out(rows)}) for title, rows in self.tables.items() if rows]
        figures = [Figure("question", question), *(plot.figure() for plot in self.plots()), *tables]
        return make_page(f"regard lab {told.name}", figures)

    def describe(self) -> str:
        """How it was done, in one line."""
        before = f", {len(self.found)} of them before" if self.found else ""
        models = f", {self.trained} model{'s' * (self.trained > 1)} trained{before}" if self.trained else ""
        full = ", --full" if self.full else ""
        return f"seed {self.seed}{full}, {self.seconds / 60:.1f} minutes{models}, regard {regard.__version__}"

    def save(self, folder: Path) -> list[Path]:
        """Write all files, each whole or not at all."""
        name = self.experiment.name
        written = [folder / FACTS]
        put(written[0], json.dumps(self.as_json(), indent=1, ensure_ascii=False).encode())
        for title, rows in self.tables.items():
            written.append(folder / f"{spell(title, name)}.csv")
            put(written[-1], write_csv(rows).encode())
        try:
            for n, plot in enumerate(self.plots()):
                picture = plot.png()
                written.append(folder / f"{name}{f'-{n + 1}' if n else ''}.png")
                put(written[-1], picture)
        except MissingPackage as error:
            warn(f"no PNG was written: {error}")
        written.append(folder / f"{name}.html")
        put(written[-1], self.page().encode())
        return written


def perform(experiment: Experiment, out: Path, seed: int = 1, full: bool = False, meter: Meter = SILENT) -> Outcome:
    """Do an experiment in a folder of its own, and leave its files there."""
    folder = out / experiment.name
    check_place(folder)
    insist_on_ours(folder, experiment)
    put(folder / FACTS, json.dumps({"experiment": experiment.name, "begun": time.time()}).encode())
    bench, began = Bench(folder, seed, full, meter), time.monotonic()
    with give_way():
        tables = experiment.measure(bench)
    seconds = time.monotonic() - began
    outcome = Outcome(experiment, tables, experiment.conclude(tables), seed, full, seconds, bench.trained, bench.found)
    outcome.save(folder)
    return outcome


def insist_on_ours(folder: Path, experiment: Experiment) -> None:
    """Refuse a folder where others' files have the names that an experiment writes, or runs are that it'd replace."""
    try:
        facts = json.loads((folder / FACTS).read_bytes())
        ours = isinstance(facts, dict) and facts.get("experiment") == experiment.name
    except (OSError, ValueError, RecursionError):
        ours = False
    strange = [*folder.glob(FACTS), *folder.glob(f"{experiment.name}*.*"), *folder.glob(RUNS)]
    if strange and not ours:
        raise InputError(f"{strange[0]}: is there already, and no experiment wrote it", "--out ANOTHER")


def write_csv(rows: Rows) -> str:
    """A table as a spreadsheet reads it; numbers are written in full."""
    told = io.StringIO()
    writer = csv.DictWriter(told, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return told.getvalue()


def spell(title: str, name: str) -> str:
    """The name of a table's file: the experiment's own, with the words of its title."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return f"{name}-{words}"


def _lay_out(rows: Rows) -> dict[str, Any]:
    columns = list(rows[0])
    return {"columns": columns, "rows": [[_show(row[column]) for column in columns] for row in rows]}


def _show(value: Any) -> Any:
    return "yes" if value is True else "no" if value is False else value
