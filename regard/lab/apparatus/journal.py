"""The page of the laboratory, which the experiments write themselves: `regard lab NAME --record docs/laboratory.md`.

An experiment has one section, in the order of the lectures. Doing it again puts the new section in the old one's place.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.host.output import check_file, put
from regard.lab.apparatus.experiment import Rows, list_experiments
from regard.lab.apparatus.outcome import Outcome
from regard.runs.results import machine

PAGE = (
    "# The laboratory\n"
    "Every claim of the lectures, tried. Each section was written by the command that it names; what its numbers\n"
    "don't support is said to be not shown. `regard lab` lists all experiments, `regard lab all` does them in order.\n"
)
MOST = 40  # rows of a table on the page; the CSV has all


def record_outcome(path: Path, outcome: Outcome) -> None:
    """Put an experiment's section on the page, and leave the rest as it is and where it is."""
    head, *sections = re.split(r"(?m)^(?=## )", read_page(path))
    names = [section.partition("\n")[0].removeprefix("## ").strip() for section in sections]
    name, places = outcome.experiment.name, {each.name: each.place for each in list_experiments()}
    if name in names:
        at = names.index(name)
        del sections[at]
    else:  # behind the last of those that come before it; what others wrote isn't moved
        before = [n for n, there in enumerate(names) if places.get(there, math.inf) < outcome.experiment.place]
        after = [n for n, there in enumerate(names) if places.get(there, -math.inf) > outcome.experiment.place]
        at = before[-1] + 1 if before else after[0] if after else len(names)
    sections.insert(at, write_section(outcome))
    put(path, ("\n\n".join(part.rstrip("\n") for part in (head, *sections)) + "\n").encode())


def read_page(path: Path) -> str:
    """The page as it is, or a new one."""
    check_file(path)
    try:
        return path.read_text(encoding="utf-8") if path.exists() else PAGE
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from None


def write_section(outcome: Outcome) -> str:
    """Question, claim, what was done, what was found, and the first table."""
    told = outcome.experiment
    command = f"regard lab {told.name}{' --full' if outcome.full else ''} --seed {outcome.seed}"
    title, rows = next(iter(outcome.tables.items()))
    lines = [
        f"## {told.name}",
        f"**{told.question}** {told.claim}",
        "",
        f"{told.method}",
        "",
        f"*{outcome.conclusion}*",
        "",
        f"{title}:",
        *write_table(rows[:MOST]),
        *([f"\n{len(rows) - MOST} more rows are in the CSV."] if len(rows) > MOST else []),
        "",
        f"`{command}`: {outcome.describe()}; {machine()}.",
        "",
    ]
    return "\n".join(lines)


def write_table(rows: Rows) -> list[str]:
    """A table in Markdown."""
    if not rows:
        return ["(nothing)"]
    columns = list(rows[0])
    told = [columns, ["---"] * len(columns), *([format_value(row[name]) for name in columns] for row in rows)]
    return ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in told]


def format_value(value: Any) -> str:
    """A cell as people read it: four figures, and a dash for what isn't there."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e5 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
