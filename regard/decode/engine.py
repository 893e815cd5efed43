"""One loop under every way of decoding: rows come, step, go.

The rows of several requests are stepped together, and each is as if it were alone, whenever it came and wherever it
stands. The engine asks the scorer, keeps what was written, applies the rules, and moves the state. What becomes of the
scores is a request's own affair: a beam is widened and re-ordered, a sample is drawn, and a row that isn't chosen goes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.core.lazy import lazy
from regard.core.probe import Probe, Record
from regard.core.state import State
from regard.decode.best import Options, add_up, list_best
from regard.decode.filters import Context, Filter, explain
from regard.decode.trail import Trail
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

    def start(self, rows: int, memory: Any = None, *, room: int = 0) -> Any:
        """The state before the first token; `room`: positions to allocate ahead."""

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
    tokens: list[int]
    logs: list[float] | None = None  # the model's own log-probabilities of them, where they are known already
    afresh: bool = False  # the state is full, so the request will start anew from what it wrote

    def pick(self, places: Sequence[int]) -> Choice:
        """Some of them."""
        rows, tokens = ([part[at] for at in places] for part in (self.rows, self.tokens))
        return Choice(rows, tokens, None if self.logs is None else [self.logs[at] for at in places], self.afresh)


@dataclass
class StepScores:
    """What a step of the model says of the next tokens."""

    logits: Tensor  # (rows, vocabulary)
    seen: Mapping[str, Tensor]  # by name, what the last tokens looked at: (rows, heads, 1, keys)

    def at(self, rows: slice | Tensor) -> StepScores:
        """Those of some rows."""
        return StepScores(self.logits[rows], {name: weights[rows] for name, weights in self.seen.items()})


@dataclass
class Turn:
    """The scores of a request's next tokens, and how its rows came here."""

    logits: Tensor  # (rows, vocabulary)
    rules: Sequence[Filter]
    context: Context  # what was written so far, and for whom
    trail: Trail  # the same, with the model's own log-probabilities
    held: int  # positions that the state holds
    seen: Mapping[str, Tensor] = field(default_factory=dict)  # what the last token looked at, by the names it watches

    @property
    def written(self) -> int:
        return self.trail.written

    @lazy
    def norms(self) -> Tensor:
        """(rows, 1), what is subtracted from logits to make them log-probabilities."""
        return add_up(self.logits)

    @lazy
    def own(self) -> Tensor:
        """(rows, vocabulary), the model's own log-probabilities."""
        return self.logits - self.norms

    def weigh(self, rows: Sequence[int], tokens: Sequence[int]) -> list[float]:
        """The model's own log-probabilities of some rows' tokens."""
        row, token = torch.tensor([rows, tokens], dtype=torch.long, device=self.logits.device)
        weighed: list[float] = (self.logits[row, token] - self.norms[row, 0]).tolist()
        return weighed

    @lazy
    def scores(self) -> Tensor:
        """(rows, vocabulary), after the rules."""
        scores = self.own
        for rule in self.rules:
            scores = rule(scores, self.context)
        return scores

    @lazy
    def barred(self) -> list[int] | None:
        """The tokens that no row may write, where that is all that the rules say."""
        found = [rule.bar(self.context) for rule in self.rules]
        return None if None in found else sorted({token for tokens in found for token in tokens or ()})

    def list_best(self, sums: Tensor | None, sentences: int, count: int) -> Options:
        """For each sentence the best ways to go on, by what its rows have come to, (rows,), and the next tokens."""
        barred = self.barred
        if barred is not None:
            return list_best(self.logits, sums, sentences, count, barred, normal=True)
        # the rules say more, and what they make of the scores isn't the model's own
        found = list_best(self.scores, sums, sentences, count)
        return found._replace(logs=self.weigh(found.rows, found.tokens))

    @lazy
    def likeliest(self) -> list[int]:
        """What each row would write if there were no rules."""
        return list_best(self.logits, None, len(self.logits), 1).tokens

    def draw(self, shapes: Sequence[Filter], generators: Sequence[torch.Generator] | None) -> Choice:
        """A token for each row: from its own generator what the shapes leave, or without generators the best."""
        rows = len(self.context.owners)
        if generators is None:
            found = self.list_best(None, rows, 1)
        else:
            scores = self.scores
            for shape in shapes:
                scores = shape(scores, self.context)
            noise = torch.stack([torch.empty(scores.shape[1]).exponential_(generator=luck) for luck in generators])
            # Gumbel's way to draw from a softmax
            found = list_best(scores - noise.log().to(scores), None, rows, 1)
            found = found._replace(logs=self.weigh(found.rows, found.tokens))
        for row, total in enumerate(found.totals):
            if not total > -math.inf:  # what isn't a number is above nothing
                raise self.explain(row)
        return Choice(found.rows, found.tokens, found.logs)

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

    def make_context(self, trail: Trail, owners: list[int], logits: Tensor) -> Context:
        """What the rules are told."""
        return Context(trail, owners)


@dataclass
class Seat:
    """A request at work: what its rows have written."""

    request: Request
    owners: list[int]
    trail: Trail
    held: int = 0  # positions that the state holds
    afresh: bool = True  # it has no state yet

    def ask(self, given: StepScores) -> list[int]:
        """Let the request choose by its rows' scores, and write that down; the rows whose state goes on."""
        request, logits = self.request, given.logits
        context = request.make_context(self.trail, self.owners, logits)
        seen = {name: given.seen[name] for name in request.watched}  # a neighbour may have asked for more
        turn = Turn(logits, request.rules, context, self.trail, self.held, seen)
        choice = request.choose(turn)
        self.owners, self.afresh = [self.owners[row] for row in choice.rows], choice.afresh
        logs = turn.weigh(choice.rows, choice.tokens) if choice.logs is None else choice.logs
        self.trail.write(choice.rows, choice.tokens, logs)
        return [] if choice.afresh else choice.rows

    def fail(self, error: RegardError) -> None:
        """Let all of its rows go."""
        self.request.error, self.owners = error, []


class Engine:
    """The rows of all requests, in one state."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.device = scorer, scorer.device  # a model looks for it, which takes time
        self.state: State | None = None
        self.seats: list[Seat] = []  # in the order of their rows in the state
        self.waiting: list[Seat] = []  # those whose state is to be started
        self._left: list[State] = []  # those whose rows all went with the last step

    def admit(self, request: Request) -> None:
        """Take in a request; its first tokens come with the next step."""
        trail = Trail(len(request.owners), self.device)
        self.waiting.append(Seat(request, list(request.owners), trail))

    @property
    def busy(self) -> bool:
        """Whether anybody is left."""
        return bool(self.seats or self.waiting)

    @property
    def state_bytes(self) -> int:
        """What the model remembers, in bytes; once all have gone, what it remembered last."""
        return sum(state.nbytes for state in ([*self._left] if self.state is None else [self.state]))

    def step(self) -> list[Request]:
        """One token for every row; the requests that had their turn.

        One that can't go on is told so (`error`), and disturbs no other.
        """
        if torch.is_grad_enabled():  # to say that there are none takes a while, at every token
            with torch.no_grad():
                return self.step()
        seats, waiting = self.seats, self.waiting
        self.waiting, self._left = [], []
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
        last = [token for seat in seats for token in seat.trail.last]
        tokens = torch.tensor(last, device=self.device)
        scores = self._score(tokens, state, [name for seat in seats for name in seat.request.watched])
        first, kept = 0, list[int]()
        for seat in seats:
            end = first + len(seat.owners)
            seat.held += 1
            given = scores if len(seats) == 1 else scores.at(slice(first, end))
            try:
                kept += [first + row for row in seat.ask(given)]
            except RegardError as error:
                seat.fail(error)
            first = end
        return self._keep(state, kept, first)

    def _read(self, seat: Seat) -> list[State]:
        """Start a request: read what comes first, once for all the rows that share it, and let the request choose."""
        start = seat.request.start(self.scorer, seat.trail.tokens)
        scores = self._score(start.unread, start.state, seat.request.watched)
        given, seat.held = start.unread.shape
        fan = len(seat.owners) // given
        if fan > 1:
            scores = scores.at(torch.arange(given, device=self.device).repeat_interleave(fan))
        return self._keep(start.state, [row // fan for row in seat.ask(scores)], given)

    def _score(self, tokens: Tensor, state: State, watched: Sequence[str]) -> StepScores:
        """Read tokens, (rows,) or (rows, time), and score what may follow."""
        record = Record(*dict.fromkeys(watched)) if watched else None
        logits = self.scorer.step(tokens, state, probe=record).float()
        seen = {} if record is None else {name: record[name][:, :, -1:] for name in record}
        return StepScores(logits, seen)

    def _keep(self, state: State, rows: list[int], count: int) -> list[State]:
        """The rows of a state that go on, if any do; it has `count`."""
        if not rows:
            self._left.append(state)
            return []
        if rows == list(range(count)):
            return [state]
        return [state.hand_on(torch.tensor(rows, device=self.device))]
