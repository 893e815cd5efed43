"""What happened to each line: kept, repaired or skipped, with its place and the reason.

A bad line is never dropped in silence. The policy says what becomes of it: `skip` leaves it out, `repair` mends what
can be mended and leaves out the rest, `stop` ends the run at the first one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

from regard.errors import DataError

Policy = Literal["skip", "repair", "stop"]
BAD = "bad UTF-8"  # the reason of lines in some other encoding
ENCODING = "encoding=latin-1, or whatever the text is written in"
SHOWN = 3  # places of each reason that are held


class Unusable(DataError):
    """A sample, or what it is made of, that can't be used; whoever reads a corpus leaves it out and counts it."""


@dataclass
class Fault:
    """What was wrong with some lines: how many there are, and where the first ones stand."""

    count: int = 0
    places: list[str] = field(default_factory=list)


@dataclass
class Log:
    """Counts, and every problem as `file:line: reason` in a report file if one is wanted."""

    policy: Policy = "skip"
    report: Path | None = None
    kept: int = 0
    repaired: int = 0  # among the kept
    skipped: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)  # what to know of the corpus as a whole
    seen: list[str] = field(default_factory=list)  # what there is to train on, in a few lines
    split: str = "train"  # the one whose files are being read
    faults: dict[str, dict[str, Fault]] = field(default_factory=dict)  # by split and reason
    left_out: Counter[str] = field(default_factory=Counter)  # entries, by split
    full: dict[str, str] = field(default_factory=dict)  # the first place and whole reason, by its beginning
    remedy: str = "policy=skip"  # how whoever reads asks for less to stop at
    _file: IO[str] | None = field(default=None, repr=False)

    def reject(self, place: str, reason: str) -> None:
        """Something that can't be used; the entry that it belongs to is counted by `drop`, once."""
        if self.policy == "stop":
            raise DataError(f"{place}: {reason}", f"{self.remedy} leaves such lines out and counts them")
        self._note(place, reason, "skipped")

    def drop(self) -> None:
        """An entry is left out."""
        self.skipped += 1
        self.left_out[self.split] += 1

    def skip(self, place: str, reason: str) -> None:
        """An entry that can't be used is left out."""
        self.reject(place, reason)
        self.drop()

    def mend(self, place: str, reason: str) -> bool:
        """Something that could be repaired: whether it should be."""
        if self.policy != "repair":
            self.reject(place, reason)
            return False
        self._note(place, reason, "repaired")
        return True

    def remark(self, place: str, reason: str) -> None:
        """Something to know of an entry that is kept."""
        self._note(place, reason, "kept")

    def keep(self, repaired: bool = False) -> None:
        self.kept += 1
        self.repaired += repaired

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _note(self, place: str, reason: str, what: str) -> None:
        brief = reason.partition(":")[0]
        self.reasons[brief] += 1
        fault = self.faults.setdefault(self.split, {}).setdefault(brief, Fault())
        fault.count += 1
        if ":" in reason:
            self.full.setdefault(brief, f"{place}: {reason}")
        if len(fault.places) < SHOWN:
            fault.places.append(place)
        if self.report is not None:
            if self._file is None:
                self._file = self.report.open("w", encoding="utf-8")
            self._file.write(f"{place}: {reason} ({what})\n")

    def advise(self) -> str:
        """What to do about a corpus of which nothing can be used."""
        if BAD in self.reasons:
            return "encoding: latin-1, or whatever the text is written in (corpus.train.encoding=latin-1)"
        # what is wrong with nearly all of them is told in full, once: it says what to do
        usual = self.reasons.most_common(1)
        full = self.full.get(usual[0][0], "") if usual else ""
        return f"check the corpus's files, such as {full}" if full else "check the corpus's files"

    def summary(self) -> str:
        """One line for people."""
        counts = f"{self.kept:,} kept, {self.repaired:,} of them repaired, {self.skipped:,} skipped"
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in self.reasons.most_common())
        return f"{counts} ({reasons})" if reasons else counts
