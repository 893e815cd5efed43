"""Windows: how whole documents are read to be measured, every prediction once.

A document is longer than what a model reads at once. So windows overlap, and of each only the predictions count that
no window before has made; or, where a state can be carried on, the document is read in one go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from regard.core.factors import Factors
from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.data.batches import pad_rows
from regard.tasks.entropy import losses
from regard.tasks.measures import Numbers
from regard.tasks.task import Pulse

WINDOWS = 16_384  # tokens that are evaluated at once
ROWS = 32  # documents that are read side by side


@dataclass(frozen=True)
class Window:
    """Inputs `first` to `last`, of which the predictions from `scored` on count."""

    first: int
    last: int
    scored: int


def windows(size: int, context: int, stride: int) -> Iterator[Window]:
    """Windows over so many predictions, such that each counts once."""
    first = done = 0
    while done < size:
        last = min(size, first + context)
        yield Window(first, last, done)
        done = last
        first = max(0, min(first + stride, size))


def read_windows(
    model: Model, rows: Sequence[Sequence[int]], context: int, stride: int, pad: int, pulse: Pulse
) -> list[list[Numbers]]:
    """The loss of every prediction of each document in nats, window by window."""
    views = [(n, view) for n, row in enumerate(rows) for view in windows(len(row) - 1, context, stride)]
    counts = [view.last - view.scored for _, view in views]
    order = sorted(range(len(views)), key=lambda n: views[n][1].last - views[n][1].first)
    found: dict[int, Numbers] = {}
    for group in group_windows(order, [view.last - view.first for _, view in views]):
        pulse()
        cut = [rows[views[n][0]][views[n][1].first : views[n][1].last + 1] for n in group]
        found |= dict(zip(group, lose_rows(model, cut, [counts[n] for n in group], pad), strict=True))
    pieces: list[list[Numbers]] = [[] for _ in rows]
    for n, (document, _) in enumerate(views):
        pieces[document].append(found[n])
    return pieces


def read_on(model: Model, rows: Sequence[Sequence[int]], chunk: int, pad: int, pulse: Pulse) -> list[list[Numbers]]:
    """The same, in one reading with the state carried on from chunk to chunk."""
    order = sorted(range(len(rows)), key=lambda n: len(rows[n]))
    pieces: list[list[Numbers]] = [[] for _ in rows]
    for first in range(0, len(order), ROWS):
        group = order[first : first + ROWS]
        state = model.start(len(group))
        for begin in range(0, len(rows[group[-1]]) - 1, chunk):
            pulse()
            going = [place for place, n in enumerate(group) if begin < len(rows[n]) - 1]
            if len(going) < len(group):
                group = [group[place] for place in going]
                state = state.select(torch.tensor(going, device=model.device))
            cut = [rows[n][begin : begin + chunk + 1] for n in group]
            inputs = Inputs.pad([row[:-1] for row in cut], pad).to(model.device)
            targets = [token for row in cut for token in row[1:]]
            features = model.advance(inputs, state)
            lost = losses(model.scored(features[inputs.real]), torch.tensor(targets, device=model.device))
            for n, part in zip(group, lost.split([len(row) - 1 for row in cut]), strict=True):
                pieces[n].append(part.double().cpu().numpy())
    return pieces


def group_windows(order: Sequence[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Windows in ascending length, as many as are evaluated at once."""
    group: list[int] = []
    for n in order:
        if group and (len(group) + 1) * sizes[n] > WINDOWS:
            yield group
            group = []
        group.append(n)
    if group:
        yield group


def lose_rows(model: Model, rows: Sequence[Sequence[int]], counts: Sequence[int], pad: int) -> list[Numbers]:
    """The losses of the last predictions of each row, in nats."""
    device = model.device
    inputs = Inputs.pad([row[:-1] for row in rows], pad)
    targets, valid = pad_rows([row[1:] for row in rows], pad)
    index = torch.arange(valid.shape[1])[None]
    keep = valid & (index >= (valid.sum(1) - torch.tensor(counts))[:, None])
    factors = model.factors(inputs.to(device), keep.to(device))
    wanted = targets.to(device)[keep.to(device)]
    if isinstance(factors, Factors) and factors.vectors.dim() > 2:
        factors = factors.only(0)
    return [part.double().cpu().numpy() for part in losses(factors, wanted).split(list(counts))]
