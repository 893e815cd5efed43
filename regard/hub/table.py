"""The table of names: one row for each parameter, read in both directions (the grammar is in `layout.py`).

It is laid over a model that has shapes and no memory, so every name and shape is compared before a tensor is read.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.errors import CheckpointError
from regard.models.layout import Change, Layout, Match

NOTHING = "nothing"
MOST = 20  # problems of a kind that are listed
ROW = re.compile(r"(?P<theirs>\S+)\s+(?P<arrow>->|=>|-\w+->)\s+(?P<ours>\S+(\s+\|\s+\S+)*)")
TAILS = ("weight", "bias")
TURN = Change(lambda x, _: x.mT if x.dim() > 1 else x, lambda x, _: x.mT if x.dim() > 1 else x)


@dataclass(frozen=True)
class Row:
    """Their name and ours; several of ours where they keep one tensor."""

    theirs: str
    ours: tuple[str, ...]
    change: Change | None
    text: str

    @classmethod
    def parse(cls, line: str, changes: Mapping[str, Change]) -> Row:
        found = ROW.fullmatch(line.strip())
        assert found is not None, line
        arrow = found["arrow"]
        change = None if arrow == "->" else TURN if arrow == "=>" else changes[arrow[1:-2]]
        first, *others = re.split(r"\s+\|\s+", found["ours"])
        beside = first.rpartition(".")[0]  # the others are named by their last word
        return cls(found["theirs"], (first, *(f"{beside}.{name}" for name in others)), change, " ".join(line.split()))

    @property
    def exact(self) -> bool:
        """Whether it names one tensor, and not a weight and its bias."""
        return self.theirs.endswith(tuple(f".{tail}" for tail in TAILS))

    @property
    def stacked(self) -> bool:
        """Whether their side has a number that ours hasn't."""
        return bool(_slots(self.theirs) - _slots(self.ours[0])) and self.ours[0] != NOTHING


def _slots(pattern: str) -> set[str]:
    return set(re.findall(r"\{(\w)\}", pattern))


def _matcher(pattern: str, exact: bool) -> re.Pattern[str]:
    """A pattern as an expression; a name may have a tail, if the row doesn't say the tensor itself."""
    plain = re.sub(r"\\\{(\w)\\\}", r"(?P<\1>\\d+)", re.escape(pattern))
    return re.compile(plain if exact else rf"{plain}(\.(?P<tail>{'|'.join(TAILS)}))?")


@dataclass(frozen=True)
class Entry:
    """One of their tensors, or a stack of them, and those of ours that it holds."""

    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    row: Row
    sizes: tuple[int, ...]  # of ours, along the first axis

    def read(self, tensors: Callable[[str], Tensor], plan: Match) -> Iterator[tuple[str, Tensor]]:
        """Ours, from theirs."""
        change = self.row.change
        parts = [tensors(name) if change is None else change.read(tensors(name), plan) for name in self.theirs]
        whole = torch.stack(parts) if self.row.stacked else parts[0]
        yield from zip(self.ours, whole.split(self.sizes) if len(self.ours) > 1 else (whole,), strict=True)

    def write(self, tensors: Mapping[str, Tensor], plan: Match) -> Iterator[tuple[str, Tensor]]:
        """Theirs, from ours."""
        change = self.row.change
        parts = [tensors[name] for name in self.ours]
        whole = torch.cat(parts) if len(parts) > 1 else parts[0]
        for name, part in zip(self.theirs, whole.unbind() if self.row.stacked else (whole,), strict=True):
            yield name, (part if change is None else change.write(part, plan)).contiguous()


@dataclass
class Problems:
    """All that is wrong with a checkpoint, told at once."""

    kinds: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, line: str) -> None:
        self.kinds.setdefault(kind, []).append(line)

    def raise_if_any(self, name: str) -> None:
        if not self.kinds:
            return
        told = []
        for kind, lines in self.kinds.items():
            more = f"\n    and {len(lines) - MOST} more" if len(lines) > MOST else ""
            told.append(f"  {kind}:\n" + "\n".join(f"    {line}" for line in lines[:MOST]) + more)
        raise CheckpointError(f"{name}: it doesn't fit its config.json\n" + "\n".join(told))


class Table:
    """A layout's rows, laid over the tensors of one model."""

    def __init__(self, plan: Match, head: str, shapes: Mapping[str, torch.Size], bare: bool) -> None:
        self.plan, self.shapes = plan, shapes
        layout: Layout = plan.layout
        texts = layout.rows, layout.more(plan.settings), layout.heads[head].rows
        others = [other.rows for name, other in layout.heads.items() if name != head]
        self.spare = [Row.parse(line, layout.changes) for line in _lines(layout.spare)]
        self.rows = [*(Row.parse(line, layout.changes) for line in _lines(*texts)), *self.spare]
        self.strange = [Row.parse(line, layout.changes) for line in _lines(*others)]  # of heads that it hasn't
        self.cut = layout.prefix if bare else ""
        self.lacking: list[str] = []  # of ours, that no row knows
        self.entries = self._entries()

    def _entries(self) -> list[Entry]:
        """One for each of their tensors that this model needs; each of ours has exactly one row."""
        rows = sorted((row for row in self.rows if row.ours[0] != NOTHING), key=lambda row: not row.exact)
        known = [(row, n, _matcher(ours, row.exact)) for row in rows for n, ours in enumerate(row.ours)]
        entries: dict[tuple[str, ...], Entry] = {}
        for name, shape in self.shapes.items():
            found = ((row, n, match.groupdict()) for row, n, regex in known if (match := regex.fullmatch(name)))
            row, part, captured = next(found, (None, 0, {}))
            if row is None:
                self.lacking.append(name)
                continue
            if part:
                continue  # the first part brings the others along
            last = captured.pop("tail", None)
            tail = f".{last}" if last else ""
            ours = tuple(_fill(pattern, captured) + tail for pattern in row.ours)
            numbers = range(shape[0]) if row.stacked else range(1)
            theirs = tuple(self._shown(_fill(row.theirs, {"e": str(n), **captured}) + tail) for n in numbers)
            entries[theirs] = Entry(theirs, ours, row, tuple(self.shapes[one][0] for one in ours))
        return list(entries.values())

    def _shown(self, name: str) -> str:
        return name.removeprefix(self.cut)

    def names(self) -> list[str]:
        """All of theirs, in the order of ours."""
        return [name for entry in self.entries for name in entry.theirs]

    def copies(self, there: Collection[str]) -> list[tuple[str, str]]:
        """Tensors of a file that repeat others which this model reads, and those."""
        wanted = set(self.names())
        pairs = ((self._shown(one), self._shown(other)) for one, other in self.plan.layout.copies.items())
        return [(one, other) for one, other in pairs if one in there and one not in wanted and other in wanted]

    def compare(self, there: Mapping[str, tuple[int, ...]], problems: Problems) -> list[str]:
        """What of a checkpoint is wrong, given the shapes of its tensors; returned: what it has and nobody needs."""
        wanted = set(self.names())
        unused = []
        for name in there:
            if name not in wanted:
                row = self._row_of(name, self.rows)
                if (row and (row in self.spare or row.ours[0] == NOTHING)) or self._row_of(name, self.strange):
                    unused.append(name)
                else:
                    problems.add("names that no row knows, and the nearest row", self._nearest(name, row))
        for name in self.names():
            if name not in there:
                problems.add("names that are missing", name)
        for entry in self.entries:
            if all(name in there for name in entry.theirs):
                self._measure(entry, there, problems)
        return unused

    def read(self, tensors: Callable[[str], Tensor]) -> Iterator[tuple[str, Tensor]]:
        """All of ours, from theirs."""
        return (pair for entry in self.entries for pair in entry.read(tensors, self.plan))

    def _measure(self, entry: Entry, there: Mapping[str, tuple[int, ...]], problems: Problems) -> None:
        """Compare shapes, by doing to tensors without memory what will be done to the real ones."""
        wanted = {name: self.shapes[name] for name in entry.ours}
        told = f"{entry.theirs[0]} {tuple(there[entry.theirs[0]])} -> {', '.join(entry.ours)}"
        try:
            found = dict(entry.read(lambda name: torch.empty(there[name], device="meta"), self.plan))
            fits = all(found[name].shape == shape for name, shape in wanted.items())
        except (RuntimeError, IndexError, ValueError):
            fits = False
        if not fits:
            problems.add("wrong shapes", f"{told} {' and '.join(str(tuple(shape)) for shape in wanted.values())}")

    def _row_of(self, name: str, rows: Iterable[Row]) -> Row | None:
        """The row that knows one of their names, with the prefix that this file leaves out or without."""
        whole = {name, self.cut + name}
        return next((row for row in rows if any(_matcher(row.theirs, row.exact).fullmatch(n) for n in whole)), None)

    def _nearest(self, name: str, row: Row | None) -> str:
        if row is not None:
            return f"{name}  (the model that config.json describes has no such part; {row.text})"
        plain = re.sub(r"\.\d+\.", ".{i}.", name)
        close = difflib.get_close_matches(plain, [row.theirs for row in self.rows], 1, 0.0)
        near = next(row.text for row in self.rows if row.theirs == close[0])
        return f"{name}  ({near})"


def _lines(*texts: str) -> Iterator[str]:
    return (line for text in texts for line in text.splitlines() if line.strip())


def _fill(pattern: str, captured: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w)\}", lambda found: captured[found[1]], pattern)
