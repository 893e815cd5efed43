"""The page of figures: tables whose rows are keyed by a case, a machine and its instructions.

A run writes its own rows and leaves all others as they are, so rows from an AVX2 machine and from an AVX-512 machine
stand beside each other, each written by the run that measured it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Better = Literal["more", "less"]
Figures = Mapping[str, "float | str"]  # a number, or why there is none
HEAD = (
    "# Benchmarks\n"
    "Ours and theirs took turns on the same data, model size, threads and weights; the best of several rounds counts.\n"
    "Each row was written by the run that measured it (`make bench`); nothing here is written by hand. What couldn't\n"
    "be installed is said to be missing. A ratio is ours ÷ theirs; a cross says that it isn't yet what is wanted.\n"
    "\n"
    "What is fair, and what isn't: a side with several precisions counts by its best, ours and theirs alike, and all\n"
    "have as many rounds. Ours behaves as its command line does: it keeps large blocks of memory that were freed\n"
    "(`keep_memory`), and gives way to other processes. Others run as their documentation says, plain loops with what\n"
    "torch and glibc do by themselves. Sides without our kernels have torch's alone (`REGARD_KERNELS=off`).\n"
)
KEY = ("case", "instructions", "machine")
ABOUT = ("measured", "machine", "versions")


@dataclass(frozen=True)
class Bar:
    """A promise: the best of ours divided by the best of theirs, or less it, is at least, or at most, so much."""

    title: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    least: float | None = None
    most: float | None = None
    how: Literal["÷", "−"] = "÷"
    digits: int = 2  # behind the point

    def ratio(self, figures: Figures, better: Better) -> float | None:
        """Ours ÷ theirs, or ours − theirs; None where one of the two has no figure."""
        mine, other = (choose_best(figures, names, better) for names in (self.ours, self.theirs))
        if mine is None or other is None or (self.how == "÷" and not other):
            return None
        return mine / other if self.how == "÷" else mine - other

    def holds(self, figures: Figures, better: Better) -> bool:
        """Whether the promise is kept: one about a system that isn't there can't be broken, but ours must be there."""
        found = self.ratio(figures, better)
        if found is None:
            return choose_best(figures, self.ours, better) is not None
        return (self.least is None or found >= self.least) and (self.most is None or found <= self.most)

    def tell(self, figures: Figures, better: Better) -> str:
        """For a cell: `1.31 (≥ 1.2)`."""
        found = self.ratio(figures, better)
        sign = "+" if self.how == "−" else ""
        figure = "–" if found is None else f"{found:{sign}.{self.digits}f}"
        limits = (("≥", self.least), ("≤", self.most))
        wanted = ", ".join(f"{sign} {limit:g}" for sign, limit in limits if limit is not None)
        told = f" ({wanted})" if wanted else ""
        return f"{figure}{told}{'' if self.holds(figures, better) else ' ✗'}"


def choose_best(figures: Figures, names: Sequence[str], better: Better) -> float | None:
    """The best figure among some sides; None where none has one."""
    found = [value for name in names if isinstance(value := figures.get(name), int | float)]
    if not found:
        return None
    return max(found) if better == "more" else min(found)


@dataclass(frozen=True)
class Table:
    """What is measured, of whom, and what is promised."""

    title: str
    unit: str
    sides: tuple[str, ...]
    bars: tuple[Bar, ...] = ()
    better: Better = "more"
    command: str = ""
    note: str = ""  # what makes the comparison fair, and what doesn't
    places: int = 3  # that a small figure is told to

    @property
    def columns(self) -> list[str]:
        return [*KEY, *self.sides, *(bar.title for bar in self.bars), *ABOUT]

    def row(self, case: str, instructions: str, figures: Figures, about: Mapping[str, str]) -> dict[str, str]:
        """The cells of a case, by column."""
        cells = {name: tell_figure(figures[name], self.places) if name in figures else "–" for name in self.sides}
        ratios = {bar.title: bar.tell(figures, self.better) for bar in self.bars}
        return {"case": case, "instructions": instructions, **cells, **ratios, **about}


def tell_figure(value: float | str, places: int = 3) -> str:
    """A number to so many places or more, or why there is none."""
    if isinstance(value, str):
        return f"missing: {value.strip().split(chr(10))[0][:80]}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.{places}g}"


def put_table(page: str, table: Table, rows: Sequence[Mapping[str, str]]) -> str:
    """The page with these rows in the table's section; rows of other cases and other machines stay."""
    _, *others = re.split(r"(?m)^(?=## )", page)
    sections = [HEAD + "\n" if others else HEAD, *others]
    head = f"## {table.title}\n"
    place = next((n for n, section in enumerate(sections) if section.startswith(head)), len(sections))
    if place == len(sections):
        sections[-1] = sections[-1].rstrip("\n") + "\n\n"
        sections.append(head)
    kept = read_rows(sections[place])
    for row in rows:
        same = (n for n, other in enumerate(kept) if all(other.get(name) == row[name] for name in KEY))
        at = next(same, len(kept))
        kept[at : at + 1] = [dict(row)]
    # the instructions of one case stand beside each other, and cases stay in the order in which they came
    order = list(dict.fromkeys(row["case"] for row in kept))
    kept.sort(key=lambda row: (order.index(row["case"]), row["instructions"]))
    extra = [name for row in kept for name in row if name not in table.columns]
    columns = list(dict.fromkeys([*table.columns, *extra]))
    lines = [write_line(columns), write_line(["---"] * len(columns))]
    lines += [write_line([row.get(name, "–") for name in columns]) for row in kept]
    told = f"{table.unit[:1].upper()}{table.unit[1:]}." + (f" `{table.command}`" if table.command else "")
    notes = ["", table.note] if table.note else []
    sections[place] = "\n".join([head.rstrip("\n"), told, *notes, "", *lines]) + "\n\n"
    return "".join(sections).rstrip("\n") + "\n"


def read_rows(section: str) -> list[dict[str, str]]:
    """The rows of a section's table, by column."""
    lines = [split_line(line) for line in section.split("\n") if line.startswith("|")]
    if not lines:
        return []
    return [dict(zip(lines[0], cells, strict=False)) for cells in lines[2:]]


def split_line(line: str) -> list[str]:
    cells = re.split(r"(?<!\\)\|", line.strip())[1:-1]
    return [cell.strip().replace("\\|", "|") for cell in cells]


def write_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"
