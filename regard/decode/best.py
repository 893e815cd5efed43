"""The best of a large table of scores, and what they must be divided by to be probabilities, at little cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from ctypes import addressof, c_float, c_int64
from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.library import Library, ready

BLOCK = 64  # scores that are looked at together
WORTH = 4  # times as many blocks as are wanted make it worth while


class Options(NamedTuple):
    """Rows and the tokens that they would write."""

    totals: list[float]  # the sum of log-probabilities then
    rows: list[int]
    tokens: list[int]
    logs: list[float] | None = None  # of the tokens alone, where the model itself said them

    def pick(self, places: Sequence[int]) -> Options:
        """Some of them, in this order."""
        totals, rows, tokens, logs = self
        return Options(
            [totals[at] for at in places],
            [rows[at] for at in places],
            [tokens[at] for at in places],
            None if logs is None else [logs[at] for at in places],
        )

    def split(self, sentences: int) -> list[Sequence[int]]:
        """The places of each sentence's, equally many and best first, without what can't be written."""
        size, found = len(self.rows) // sentences, list[Sequence[int]]()
        for first in range(0, sentences * size, size):
            places: Sequence[int] = range(first, first + size)
            # what is no number is at the front, and what is ruled out at the end
            if not (self.totals[first] == self.totals[first] and self.totals[first + size - 1] > -math.inf):
                places = [at for at in places if self.totals[at] > -math.inf]
            found.append(places)
        return found


def list_best(
    scores: Tensor,
    sums: Tensor | None,
    sentences: int,
    count: int,
    barred: Sequence[int] = (),
    *,
    normal: bool = False,
) -> Options:
    """For each sentence its `count` best continuations, best first; equally many rows and options belong to each.

    scores: (rows, vocabulary), log-probabilities, or logits if `normal`, which makes them such. sums: (rows,), what
    each row has come to before. barred: tokens that no row may write. Of equal ones the lower row comes first, and
    within a row the lower token.
    """
    library, plain = ready(), scores.dtype == torch.float32 and scores.device.type == "cpu" and scores.stride(1) == 1
    fan, words = scores.shape[0] // sentences, scores.shape[1]
    if library is not None and plain:
        return _list_compiled(library, scores, sums, (sentences, fan), min(count, fan * words), barred, normal)
    values, tokens = find_best(scores, count + len(barred))
    if barred:
        # among so many more are as many that aren't ruled out
        out = torch.isin(tokens, torch.tensor(barred, device=tokens.device))
        values, places = find_best(values.masked_fill(out, -math.inf), count)
        tokens = tokens.gather(1, places)
    logs = values - add_up(scores) if normal else values
    totals = logs if sums is None else sums[:, None] + logs
    if fan == 1:
        tokens, rows = tokens.flatten(), torch.arange(sentences).repeat_interleave(totals.shape[1])
        return Options(totals.flatten().tolist(), rows.tolist(), tokens.tolist(), logs.flatten().tolist())
    options = totals.shape[1]
    found, places = find_best(totals.reshape(sentences, -1), count)
    firsts = torch.arange(0, scores.shape[0], fan, device=places.device)[:, None]
    rows = (firsts + places // options).flatten()
    tokens, logs = (part.reshape(sentences, -1).gather(1, places).flatten() for part in (tokens, logs))
    return Options(found.flatten().tolist(), rows.tolist(), tokens.tolist(), logs.tolist())


def _list_compiled(
    library: Library,
    scores: Tensor,
    sums: Tensor | None,
    shape: tuple[int, int],
    count: int,
    barred: Sequence[int],
    normal: bool,
) -> Options:
    size = shape[0] * count
    values, numbers = (c_float * (2 * size))(), (c_int64 * (2 * size))()
    library.functions.regard_best(
        scores.data_ptr(),
        None if sums is None else sums.data_ptr(),
        (c_int64 * len(barred))(*barred),
        addressof(values),
        addressof(numbers),
        (c_int64 * 7)(*shape, scores.shape[1], scores.stride(0), count, len(barred), normal),
        library.level,
    )
    found, places = values[:], numbers[:]
    return Options(found[:size], places[:size], places[size:], found[size:])


def find_best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best of each row, best first, and their places: (rows, count) of each, or as many as a row has.

    Of equal ones the lower place comes first, as our kernel has it too; what is no number is above all others.
    """
    words = scores.shape[1]
    count = min(count, words)
    if count == 1:
        places = scores.argmax(1, keepdim=True)
        return scores.gather(1, places), places
    # with one more, a tie at the border is seen; topk itself says nothing of the order of equal ones
    values, places = find_topmost(scores, min(count + 1, words))
    falls = values[:, :-1] - values[:, 1:]  # 0 where two are equal; what is ruled out, -inf, may stand in any order
    values, places = values[:, :count], places[:, :count]
    if not bool(falls.all()):
        ties = (falls == 0).any(1)
        places[ties] = scores[ties].sort(dim=1, descending=True, stable=True).indices[:, :count]
    return values, places


def find_topmost(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """As `find_best`, but equal ones come in any order.

    The `count` best stand in the `count` blocks with the largest maxima, so all but those are read once and not sorted.
    """
    words = scores.shape[1]
    blocks = words // BLOCK
    if blocks < count * WORTH:
        found = scores.topk(count)
        return found.values, found.indices
    even = blocks * BLOCK
    heads = scores[:, :even].unflatten(1, (blocks, BLOCK)).amax(-1).topk(count, sorted=False).indices  # (rows, count)
    places = (heads[..., None] * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    if even < words:
        rest = torch.arange(even, words, device=scores.device).expand(len(scores), -1)
        places = torch.cat((places, rest), 1)
    values, order = scores.gather(1, places).topk(count)
    return values, places.gather(1, order)


def add_up(logits: Tensor) -> Tensor:
    """log Σ eˣ of each row: (rows, 1). What is subtracted from logits to make them log-probabilities."""
    library = ready()
    plain = logits.dtype == torch.float32 and logits.device.type == "cpu" and logits.stride(1) == 1
    if library is None or not plain:
        return logits.logsumexp(-1, keepdim=True)
    found = logits.new_empty(len(logits), 1)
    library.functions.regard_totals(logits.data_ptr(), *logits.shape, logits.stride(0), found.data_ptr(), library.level)
    return found
