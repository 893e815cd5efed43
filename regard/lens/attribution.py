"""What each token adds to an answer, by gradients at the token vectors: gradient × input, and integrated gradients.

Both split the score of an answer, its log-probability, among the tokens that the model reads. They describe the model's
function around this one text; they don't say why it learned that function, nor what it would do without a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.probe import Edit, Record
from regard.errors import InputError
from regard.lens.finding import Answers, Finding, Tap, ask, choose_answers, record, score_answers
from regard.lens.look import Look

Side = Literal["source", "target"]
NODES = 8  # places of a piece of the way at which a gradient is taken
QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)  # where the pieces of a way begin and end, to begin with
FROM_ZEROS = (0.0, *(2.0**-power for power in (12, 10, 8, 6, 4)), *QUARTERS[1:])  # close to zeros norms change most


@dataclass(frozen=True)
class Attribution(Finding):
    """What each token adds to the score of each answer."""

    method: str
    tokens: list[str]  # along the columns
    positions: list[int]  # along the rows: where the model answers
    answers: list[str]  # what it is asked about there
    values: Tensor  # (positions, tokens), in nats
    scores: Tensor  # (positions,), the log-probability of each answer
    baseline: Tensor | None = None  # (positions,), the same where the text is replaced by the baseline

    @property
    def gap(self) -> Tensor:
        """What the values leave of the difference between text and baseline: how exact they are, (positions,)."""
        if self.baseline is None:
            raise InputError(f"{self.method} has no baseline, so nothing has to add up", "integrated_gradients(look)")
        return self.scores - self.baseline - self.values.sum(-1)


def gradient_times_input(
    look: Look, positions: Sequence[int] | None = None, *, side: Side | None = None
) -> Attribution:
    """Each token's vector times the gradient of an answer's score by it (Shrikumar et al. 2016).

    It is the score's slope along the vector: exact for a linear model, and for others only what a small change does. A
    token that the model is sure of can have a slope of nothing and matter all the same. `positions`: where the model
    answers; without them, everywhere. `side`: the source's tokens where an encoder reads them, else the text's own.
    """
    name, tokens = find_side(look, side)
    answers = choose_answers(look, positions)
    tap = Tap(name)
    with torch.enable_grad():
        scores = score_answers(look, ask(look, tap), answers)[0]
        vectors = tap.record[name]
        rows = [(vectors * grad)[0].sum(-1).detach() for grad in slopes(scores, vectors)]
    return _attribution("gradient × input", look, tokens, answers, torch.stack(rows), scores.detach())


def integrated_gradients(
    look: Look,
    positions: Sequence[int] | None = None,
    *,
    side: Side | None = None,
    baseline: int | None = None,
    tolerance: float = 0.01,
    most: int = 1024,
) -> Attribution:
    """Gradients along the straight way from a baseline to the text, times the way (Sundararajan et al. 2017).

    The values of an answer add up to the difference between its scores on the text and on the baseline, within
    `tolerance` unless that takes more than `most` places on the way; `gap` is what is missing. Another baseline gives
    other values: unless given, zeros stand for every vector that enters the first block; a token's number, such as a
    pad's or a mask's, puts that token everywhere, positions kept. The way leads through vectors that no text has, and
    where a model has norms, nearly all of it happens close to the zeros: there a token is the better baseline, and
    the quicker one. Other settings are those of `gradient_times_input`.
    """
    if not tolerance > 0:
        raise InputError(f"tolerance: {tolerance} is not above 0", "tolerance=0.01")
    name, tokens = find_side(look, side)
    answers = choose_answers(look, positions)
    end = record(look, name)[name]
    start = torch.zeros_like(end) if baseline is None else read_baseline(look, name, baseline)
    way = Way(look, name, answers, start, end)
    values = way.integrate(FROM_ZEROS if baseline is None else QUARTERS, tolerance, most)
    return _attribution("integrated gradients", look, tokens, answers, values, way.score(1.0), way.score(0.0))


@dataclass(frozen=True)
class Leg:
    """A part of the way, what each token adds to each answer on it, and how much of the change that leaves out."""

    first: float
    last: float
    values: Tensor  # (answers, time)
    missing: Tensor  # (answers,)


class Way:
    """The straight way from a baseline's vectors, (time, width), to a text's."""

    def __init__(self, look: Look, name: str, answers: Answers, start: Tensor, end: Tensor) -> None:
        self.look, self.name, self.answers = look, name, answers
        self.start, self.step = start, end - start
        self.known: dict[float, Tensor] = {}
        self.nodes, self.shares = (torch.from_numpy(each) for each in np.polynomial.legendre.leggauss(NODES))

    def integrate(self, bounds: Sequence[float], tolerance: float, most: int) -> Tensor:
        """What each token adds to each answer on the whole way: (answers, time).

        How much the scores change on a piece of the way is known, so each piece tells how exact its own integral is.
        The worst is halved, over and over.
        """
        pieces = [self.integrate_piece(first, last) for first, last in pairwise(bounds)]
        while NODES * len(pieces) < most:
            missing = torch.stack([piece.missing for piece in pieces])  # (pieces, answers)
            # errors of either sign may cancel by chance, so that their sum alone says too little
            if float(torch.maximum(missing.sum(0).abs(), missing.norm(dim=0)).max()) <= tolerance:
                break
            worst = int(missing.abs().amax(1).argmax())
            first, last = pieces[worst].first, pieces[worst].last
            middle = (first + last) / 2
            pieces[worst : worst + 1] = [self.integrate_piece(first, middle), self.integrate_piece(middle, last)]
        return torch.stack([piece.values for piece in pieces]).sum(0)

    def integrate_piece(self, first: float, last: float) -> Leg:
        """A part of the way by a Gauss-Legendre rule."""
        places = (first + (self.nodes + 1) / 2 * (last - first)).to(self.step)
        shares = (self.shares / 2 * (last - first)).to(self.step)
        vectors = (self.start + places[:, None, None] * self.step).requires_grad_()
        with torch.enable_grad():
            scores = score_answers(self.look, self.ask(vectors), self.answers).sum(0)
            grads = [torch.einsum("p,ptw->tw", shares, grad) for grad in slopes(scores, vectors)]
        values = (torch.stack(grads) * self.step).sum(-1)  # (answers, time)
        missing = self.score(last) - self.score(first) - values.sum(-1)
        return Leg(first, last, values, missing)

    @torch.no_grad()
    def score(self, place: float) -> Tensor:
        """Every answer's score at a place between the baseline, 0, and the text, 1: (answers,)."""
        if place not in self.known:
            vectors = (self.start + place * self.step)[None]
            self.known[place] = score_answers(self.look, self.ask(vectors), self.answers)[0]
        return self.known[place]

    def ask(self, vectors: Tensor) -> Tensor:
        return ask(self.look, Edit({self.name: lambda _: vectors}), len(vectors))


def slopes(scores: Tensor, vectors: Tensor) -> Iterator[Tensor]:
    """The gradient of each score by the vectors."""
    for number, score in enumerate(scores):
        (grad,) = torch.autograd.grad(score, vectors, retain_graph=number + 1 < len(scores), materialize_grads=True)
        yield grad


def find_side(look: Look, side: Side | None) -> tuple[str, list[str]]:
    """Under which name the vectors of some tokens enter the model, and these tokens."""
    translates = look.reading.source is not None
    if side == "source" and not translates:
        raise InputError("this model reads one text and has no source beside it", "side=target, or none")
    if translates and side != "target":
        assert look.reading.source is not None
        return "encoder.embedded", list(look.reading.source.pieces)
    stack = "decoder" if look.model.decoder is not None else "encoder"
    return f"{stack}.embedded", list(look.reading.tokens.pieces)


@torch.no_grad()
def read_baseline(look: Look, name: str, token: int) -> Tensor:
    """The vectors of a text that is one token over and over, as they enter the first block: (time, width)."""
    stack, inputs = name.partition(".")[0], look.inputs
    spec = look.model.spec.encoder if stack == "encoder" else look.model.spec.decoder
    assert spec is not None
    if spec.embedding.speller is not None:
        raise InputError("this model spells its words, and a token's number has no letters", "the baseline of zeros")
    count = spec.embedding.token_count
    if count is None or not 0 <= token < count:
        raise InputError(f"baseline: there is no token {token} among {count}", "the number of a token, such as a pad's")
    seen = Record(name)
    if stack == "encoder" and isinstance(inputs.memory, Inputs):
        memory = replace(inputs.memory, tokens=torch.full_like(inputs.memory.tokens, token))
        ask(look, seen, inputs=replace(inputs, memory=memory))
    else:
        ask(look, seen, inputs=replace(inputs, tokens=torch.full_like(inputs.tokens, token)))
    return seen[name][0]


def _attribution(
    method: str, look: Look, tokens: list[str], answers: Answers, values: Tensor, *scores: Tensor
) -> Attribution:
    words = look.reading.spell(list(answers.values()))
    return Attribution(method, tokens, list(answers), words, values, *scores)
