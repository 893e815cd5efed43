"""Which continuations a beam goes on with: the best, the best of groups that differ, or those that owe words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from regard.decode.best import Options
from regard.decode.constraints import Duty, share_out


class Candidate(NamedTuple):
    """A row of the batch, the token that it would write, and the sum of log-probabilities then."""

    total: float
    row: int
    token: int


def join_options(sentences: Sequence[Sequence[Candidate]]) -> tuple[Options, list[Sequence[int]]]:
    """Candidates of several sentences, as options, and the places of each sentence's."""
    items, places = [item for found in sentences for item in found], list[Sequence[int]]()
    first = 0
    for found in sentences:
        places.append(range(first, first + len(found)))
        first += len(found)
    return Options([item.total for item in items], [item.row for item in items], [item.token for item in items]), places


def owing(
    totals: Tensor, first: int, found: list[Candidate], duties: Sequence[Duty], beam: int, ends: Sequence[int]
) -> list[Candidate]:
    """Add every required token that could come next and each row's own best, then share the beam among the banks.

    totals and duties are those of one sentence, whose rows begin at `first`. What ends comes first.
    """
    top = totals.argmax(-1).tolist()
    wanted = {(row, token) for row, duty in enumerate(duties) for token in (*duty.next, top[row])}
    extra = (Candidate(float(totals[row, token]), first + row, token) for row, token in wanted)
    pool = sorted({*found, *(item for item in extra if item.total > -math.inf)}, reverse=True)
    going = [item for item in pool if item.token not in ends]
    met = [duties[item.row - first].after(item.token).met for item in going]
    return [item for item in pool if item.token in ends] + [going[n] for n in share_out(met, beam)]


def in_groups(
    totals: Tensor, first: int, beam: int, groups: int, diversity: float, ends: Sequence[int]
) -> list[Candidate]:
    """Diverse beam search (Vijayakumar et al. 2018): a token that an earlier group writes in this step costs more.

    A group goes on from its own rows. Its places come together in the answer, so that it keeps them; one that has fewer
    continuations than places repeats a row, without hope.
    """
    size = beam // groups
    rows, words = totals.shape
    cost, found, ended = totals.new_zeros(words), [], []
    for group in range(groups):
        begin = 0 if rows < beam else group * size  # the first step has one row for all
        part = totals[begin : begin + size]
        _, places = (part - diversity * cost).flatten().topk(min(2 * size, part.numel()))
        chosen = []
        for rank, at in enumerate(places.tolist()):
            item = Candidate(float(part.flatten()[at]), first + begin + at // words, at % words)
            if not item.total > -math.inf:  # ruled out, or not a number
                continue
            if item.token not in ends:
                chosen.append(item)
            elif rank < size and item not in ended:
                ended.append(item)
                cost[item.token] += 1
        for item in chosen[:size]:
            cost[item.token] += 1
        hopeless = Candidate(-math.inf, first + begin, next(token for token in range(words) if token not in ends))
        found += chosen[:size] + [hopeless] * (size - len(chosen))
    return ended + found
