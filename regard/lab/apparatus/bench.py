"""The bench: where an experiment works. It has a folder of its own, a seed, a budget, and trains runs side by side."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from regard.config import Document
from regard.data.corpus import Split
from regard.errors import RegardWarning
from regard.host.meter import SILENT, Advance, Meter
from regard.runs.campaign import Campaign
from regard.runs.evaluate import TestSet, evaluate
from regard.runs.folder import Run

T = TypeVar("T")
RUNS = "runs"  # the folder of the models that an experiment trains, in its own


@dataclass
class Bench:
    """What an experiment is given."""

    folder: Path  # the experiment's own
    seed: int = 1
    full: bool = False
    meter: Meter = SILENT
    trained: int = 0  # runs that were asked for so far
    found: list[str] = field(default_factory=list)  # those of them that had been trained before
    diverged: list[str] = field(default_factory=list)  # those that have no end, since their numbers weren't finite

    def choose(self, usual: T, full: T) -> T:
        """A size: the usual one, or that of --full."""
        return full if self.full else usual

    def seeds(self, usual: int, full: int) -> Sequence[int]:
        """So many seeds, from this bench's own on."""
        return range(self.seed, self.seed + self.choose(usual, full))

    def watch(self, what: str, total: int | None = None) -> AbstractContextManager[Advance]:
        """Show a piece of work for as long as it takes."""
        return self.meter.watch(what, total)

    def train(self, trees: Mapping[str, Mapping[str, Any]], lenient: bool = False) -> dict[str, Run]:
        """Train runs by their names, each a run file without `out`, with this bench's seed unless it has its own.

        They stay in the folder, to be looked into. Those that are there already are used, and one that was stopped
        goes on; one that was told something else is replaced. `lenient`: a run whose loss isn't finite any more is
        given back as it is, and its name is among `diverged`, where otherwise all would end.
        """
        documents = {
            name: Document({"seed": self.seed, **tree, "out": str(self.folder / RUNS / name)})
            for name, tree in trees.items()
        }
        campaign = Campaign(documents, redo=True, lenient=lenient)
        runs = campaign.conduct(self.meter)
        self.trained += len(runs)
        self.found += campaign.found
        self.diverged += campaign.diverged
        return runs

    def evaluate(self, run: Run, split: Split = "test", **search: Any) -> Mapping[str, Any]:
        """Every measure of a trained run on a split that it kept, as `regard eval` has it; `search`: beam=1, …"""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RegardWarning)  # young models write without end, which their measures show
            return evaluate([str(run.folder)], TestSet(split=split), search).measures
