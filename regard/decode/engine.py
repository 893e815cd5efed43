"""One loop under every way of decoding: rows come, step, go.

The rows of several requests are stepped together, and each is as if it were alone, whenever it came and wherever it
stands. The engine asks the scorer, keeps what was written, applies the rules, and moves the state. What becomes of the
scores is a request's own affair: a beam is widened and re-ordered, a sample is drawn, and a row that isn't chosen goes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.core.probe import Probe, Record
from regard.core.state import State
from regard.decode.best import add_up, find_best
from regard.decode.filters import Context, Filter, explain
from regard.errors import RegardError


class Scorer(Protocol):
    """What can be asked for the next token's scores: a model, an ensemble."""

    @property
    def alignments(self) -> tuple[str, ...]:
        """Names of the weights over a memory, for a probe to see."""

    def names(self) -> tuple[str, ...]:
        """All that a probe can see."""

    @property
    def device(self) -> torch.device: ...

    def start(self, rows: int, memory: Any = None) -> Any: ...

    def step(self, tokens: Tensor, state: Any, *, probe: Probe | None = None) -> Tensor: ...


@dataclass
class Beginning:
    """A state, and what is to be read before the first choice; a row of it may serve several rows of the request."""

    state: State
    unread: Tensor  # (rows or fewer, time)


@dataclass
class Choice:
    """The rows that go on, each with the token that it writes; a row may go on several times, or not at all."""

    rows: list[int]
    tokens: Tensor  # (chosen,)
    afresh: bool = False  # the state is full, so the request will start anew from what it wrote


@dataclass
class StepScores:
    """What a step of the model says of the next tokens."""

    logits: Tensor  # (rows, vocabulary)
    norms: Tensor  # (rows, 1), what is subtracted to make them log-probabilities
    seen: Mapping[str, Tensor]  # by name, what the last tokens looked at: (rows, heads, 1, keys)

    def at(self, rows: slice | Tensor) -> StepScores:
        """Those of some rows."""
        seen = {name: weights[rows] for name, weights in self.seen.items()}
        return StepScores(self.logits[rows], self.norms[rows], seen)


@dataclass
class Turn:
    """The scores of a request's next tokens, and how its rows came here."""

    logits: Tensor  # (rows, vocabulary)
    norms: Tensor  # (rows, 1), what is subtracted to make them log-probabilities
    rules: Sequence[Filter]
    context: Context  # what was written so far, and for whom
    logs: Tensor  # (rows, written), the model's own log-probabilities of that
    held: int  # positions that the state holds
    seen: Mapping[str, Tensor] = field(default_factory=dict)  # what the last token looked at, by the names it watches

    @property
    def written(self) -> int:
        return self.context.tokens.shape[1]

    @cached_property
    def own(self) -> Tensor:
        """(rows, vocabulary), the model's own log-probabilities."""
        return self.logits - self.norms

    def weigh(self, tokens: Tensor) -> Tensor:
        """The model's own log-probability of one token of each row: (rows,)."""
        return (self.logits.gather(1, tokens[:, None]) - self.norms)[:, 0]

    @cached_property
    def scores(self) -> Tensor:
        """(rows, vocabulary), after the rules."""
        scores = self.own
        for rule in self.rules:
            scores = rule(scores, self.context)
        return scores

    @cached_property
    def barred(self) -> list[int] | None:
        """The tokens that no row may write, where that is all that the rules say."""
        found = [rule.bar(self.context) for rule in self.rules]
        return None if None in found else sorted({token for tokens in found for token in tokens or ()})

    def find_best(self, count: int) -> tuple[Tensor, Tensor]:
        """The best tokens of each row, best first, and their scores: (rows, count) of each, or as many as there are."""
        barred = self.barred
        if barred is None:
            return find_best(self.scores, count)
        # among so many more are as many that aren't ruled out
        scores, tokens = find_best(self.logits, count + len(barred))
        if barred:
            out = torch.isin(tokens, torch.tensor(barred, device=tokens.device))
            scores, places = scores.masked_fill(out, -math.inf).topk(min(count, tokens.shape[1]))
            tokens = tokens.gather(1, places)
        return scores - self.norms, tokens

    def draw(self, shapes: Sequence[Filter], generators: Sequence[torch.Generator] | None) -> Tensor:
        """A token for each row: from its own generator what the shapes leave, or without generators the best."""
        if generators is None:
            scores = self.logits
            tokens = scores.argmax(-1)
            if self.barred is None or not set(self.barred).isdisjoint(tokens.tolist()):
                scores = self.scores
                tokens = scores.argmax(-1)
        else:
            scores = self.scores
            for shape in shapes:
                scores = shape(scores, self.context)
            noise = torch.stack([torch.empty(scores.shape[1]).exponential_(generator=luck) for luck in generators])
            scores = scores - noise.log().to(scores)  # Gumbel's way to draw from a softmax
            tokens = scores.argmax(-1)
        # what isn't a number is above nothing
        allowed = (scores.gather(1, tokens[:, None]) - self.norms)[:, 0] > -math.inf
        if not bool(allowed.all()):
            raise self.explain(int(allowed.int().argmin()))
        return tokens

    def explain(self, row: int) -> RegardError:
        """Why a row has no token to go on with."""
        return explain(self.own[row : row + 1], self.rules, self.context.at(row))


class Request:
    """Rows that come together and write in step; whoever makes one says how they begin and what they choose."""

    watched: tuple[str, ...] = ()  # names of the weights that it wants to know of each token

    def __init__(self, owners: Sequence[int], rules: Sequence[Filter]) -> None:
        self.owners, self.rules = list(owners), rules  # whom each row belongs to, as the rules know them
        self.error: RegardError | None = None  # what ended it, where it couldn't go on

    def start(self, scorer: Scorer, written: Tensor) -> Beginning:
        """The state to begin with, and what to read first; after (rows, written) tokens where it starts anew."""
        raise NotImplementedError

    def choose(self, turn: Turn) -> Choice:
        raise NotImplementedError

    def make_context(self, tokens: Tensor, owners: list[int], logits: Tensor) -> Context:
        """What the rules are told."""
        return Context(tokens, owners)


@dataclass
class Seat:
    """A request at work: what its rows have written."""

    request: Request
    owners: list[int]
    tokens: Tensor  # (rows, written)
    logs: Tensor  # (rows, written)
    held: int = 0  # positions that the state holds
    afresh: bool = True  # it has no state yet

    def ask(self, given: StepScores) -> list[int]:
        """Let the request choose by its rows' scores, and write that down; the rows whose state goes on."""
        request, logits = self.request, given.logits
        context = request.make_context(self.tokens, self.owners, logits)
        seen = {name: given.seen[name] for name in request.watched}  # a neighbour may have asked for more
        choice = request.choose(Turn(logits, given.norms, request.rules, context, self.logs, self.held, seen))
        self.owners, self.afresh = [self.owners[row] for row in choice.rows], choice.afresh
        index = torch.tensor(choice.rows, dtype=torch.long, device=logits.device)
        self.tokens = torch.cat((self.tokens[index], choice.tokens[:, None]), 1)
        self.logs = torch.cat((self.logs[index], (logits[index, choice.tokens] - given.norms[index, 0])[:, None]), 1)
        return [] if choice.afresh else choice.rows

    def fail(self, error: RegardError) -> None:
        """Let all of its rows go."""
        self.request.error, self.owners = error, []


class Engine:
    """The rows of all requests, in one state."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.state: State | None = None
        self.seats: list[Seat] = []  # in the order of their rows in the state
        self.waiting: list[Seat] = []  # those whose state is to be started
        self._bytes = 0

    def admit(self, request: Request) -> None:
        """Take in a request; its first tokens come with the next step."""
        rows = len(request.owners)
        nothing = torch.zeros(rows, 0, device=self.scorer.device)
        self.waiting.append(Seat(request, list(request.owners), nothing.long(), nothing))

    @property
    def busy(self) -> bool:
        """Whether anybody is left."""
        return bool(self.seats or self.waiting)

    @property
    def state_bytes(self) -> int:
        """What the model remembers, in bytes; once all have gone, what it remembered last."""
        return self._bytes if self.state is None else self.state.nbytes

    @torch.no_grad()
    def step(self) -> list[Request]:
        """One token for every row; the requests that had their turn.

        One that can't go on is told so (`error`), and disturbs no other.
        """
        seats, waiting = self.seats, self.waiting
        self.waiting, self._bytes = [], 0
        states = [] if self.state is None else self._advance(self.state, seats)
        for seat in waiting:
            try:
                states += self._read(seat)
            except RegardError as error:
                seat.fail(error)
        asked = [*seats, *waiting]
        self.seats = [seat for seat in asked if seat.owners and not seat.afresh]
        self.waiting += [seat for seat in asked if seat.owners and seat.afresh]
        self.state = State.join(states) if states else None
        return [seat.request for seat in asked]

    def run(self, request: Request) -> None:
        """Take in a request and step until all have gone; what ended it early is raised."""
        self.admit(request)
        while self.busy:
            self.step()
        if request.error is not None:
            raise request.error

    def _advance(self, state: State, seats: Sequence[Seat]) -> list[State]:
        """Read the tokens that were chosen last, and let each request choose again."""
        tokens = torch.cat([seat.tokens[:, -1] for seat in seats])
        scores = self._score(tokens, state, [name for seat in seats for name in seat.request.watched])
        first, kept = 0, list[int]()
        for seat in seats:
            last = first + len(seat.owners)
            seat.held += 1
            try:
                kept += [first + row for row in seat.ask(scores.at(slice(first, last)))]
            except RegardError as error:
                seat.fail(error)
            first = last
        return self._keep(state, kept)

    def _read(self, seat: Seat) -> list[State]:
        """Start a request: read what comes first, once for all the rows that share it, and let the request choose."""
        start = seat.request.start(self.scorer, seat.tokens)
        scores = self._score(start.unread, start.state, seat.request.watched)
        given, seat.held = start.unread.shape
        fan = len(seat.owners) // given
        if fan > 1:
            scores = scores.at(torch.arange(given, device=self.scorer.device).repeat_interleave(fan))
        return self._keep(start.state, [row // fan for row in seat.ask(scores)])

    def _score(self, tokens: Tensor, state: State, watched: Sequence[str]) -> StepScores:
        """Read tokens, (rows,) or (rows, time), and score what may follow."""
        record = Record(*dict.fromkeys(watched)) if watched else None
        logits = self.scorer.step(tokens, state, probe=record).float()
        seen = {} if record is None else {name: record[name][:, :, -1:] for name in record}
        return StepScores(logits, add_up(logits), seen)

    def _keep(self, state: State, rows: list[int]) -> list[State]:
        """The rows of a state that go on, if any do."""
        if not rows:
            self._bytes += state.nbytes
            return []
        return [state.hand_on(torch.tensor(rows, device=self.scorer.device))]
