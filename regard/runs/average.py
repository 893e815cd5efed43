"""One model from several checkpoints of a run: the mean of their weights (Junczys-Dowmunt et al. 2016)."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import torch
from torch import Tensor

from regard.errors import CheckpointError
from regard.host.meter import SILENT, Advance, Meter, ignore
from regard.runs.folder import Run
from regard.runs.load import read_weights
from regard.runs.resolve import list_best_steps
from regard.train.checkpoint import Checkpoint, Store, verify


def average(folder: Path, last: int = 0, best: int = 0, meter: Meter = SILENT) -> tuple[Checkpoint, list[int]]:
    """Write the mean of the last or of the best checkpoints to `RUN@average`; the steps that it is made of."""
    store = Run.open(folder).store
    chosen = _best(store, best) if best else store.list_steps()[-last:]
    wanted = best or last
    if len(chosen) < wanted:
        option, setting = ("--best", "train.best") if best else ("--last", "train.keep")
        fewer = f"regard average {quote(str(folder))} {option} {len(chosen)}, or " if len(chosen) > 1 else ""
        raise CheckpointError(
            f"{folder}: {wanted} checkpoints are asked for and {len(chosen)} are there: {setting} says how many stay",
            f"{fewer}{setting}={wanted} when it is trained",
        )
    checkpoints = []
    with meter.watch("reading checkpoints", len(chosen)) as advance:
        for found in chosen:
            checkpoints.append(verify(found.path))
            advance()
    parts = [read_weights(found) for found in checkpoints]
    with meter.watch("averaging, weights", len(parts[-1])) as advance:
        tensors = mean(parts, advance)
    steps = [found.step for found in checkpoints]
    newest = checkpoints[-1]
    names = sorted(path.name for path in newest.path.glob("*.json") if path.name.startswith(("tokenizer", "lexicon")))
    data = {"state": {**newest.json("state"), "average": steps}, "spec": newest.json("spec")}
    files = {name: newest.read(name) for name in names}
    written = Store(folder / "average").save(newest.step, {"model": tensors}, data, files)
    return written, steps


def _best(store: Store, count: int) -> list[Checkpoint]:
    newest = store.latest()
    there = {found.step: found for found in store.list_steps()}
    best = [] if newest is None else [there[step] for step in list_best_steps(newest) if step in there]
    return sorted(best[:count], key=lambda item: item.step)


def mean(parts: list[dict[str, Tensor]], advance: Advance = ignore) -> dict[str, Tensor]:
    """The mean of tensors by name, added up in double precision; whole numbers are the last part's."""
    found: dict[str, Tensor] = {}
    for name, last in parts[-1].items():
        if last.is_floating_point():
            total = torch.stack([part[name].double() for part in parts]).mean(0)
            found[name] = total.to(last.dtype)
        else:
            found[name] = last
        advance()
    return found
