"""One search for every model: greedy, beam, diverse beam, sampling.

It needs `step` and `state.select` and nothing else, so whatever has them can be searched: a model, an ensemble. A
sentence leaves the batch as soon as no hypothesis of it can become better than the finished ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from regard.core.probe import Probe, Record
from regard.core.spec import Count, Positive, Rate, Size, Spec
from regard.decode.beam import Candidate, best, in_groups, owing
from regard.decode.constraints import Duty
from regard.decode.filters import Context, Demands, explain, rules, shapes
from regard.decode.filters.filter import FilterSpec
from regard.errors import SpecError

MOST = 200  # tokens of a text that nothing else limits


class Scorer(Protocol):
    """What can be searched."""

    @property
    def alignments(self) -> tuple[str, ...]:
        """Names of the weights over a memory, for a probe to see."""

    @property
    def device(self) -> torch.device: ...

    def start(self, rows: int, memory: Any = None) -> Any: ...

    def step(self, tokens: Tensor, state: Any, *, probe: Probe | None = None) -> Tensor: ...


class Search(Spec):
    """How to look for the best sentence, or for a random one."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}
    kind: Literal["search"] = "search"
    beam: Size = 1  # with sampling, how many samples
    best: Size = 1  # how many hypotheses to return
    groups: Size = 1  # of the beam, each kept from what the others write
    diversity: Rate = 0.5  # what a token costs that an earlier group has just written
    length: Literal["gnmt", "average", "power", "none"] = "gnmt"
    alpha: Annotated[float, Field(gt=0, le=10)] = 0.6  # of GNMT's length penalty, or the power of the length
    # a sentence is done when nothing better can come, when nothing is better at this length, or when a beam is full
    until: Literal["sure", "likely", "full"] = "sure"
    coverage: Rate = 0.0  # GNMT's beta: a penalty for source words that nobody looked at
    sample: bool = False
    seed: Count = 0
    temperature: Positive = 1.0
    top_k: Count = 0  # 0: all
    top_p: Positive = 1.0
    min_p: Rate = 0.0
    typical: Positive = 1.0
    repetition: Positive = 1.0
    no_repeat: Count = 0  # no run of so many tokens twice
    filters: tuple[FilterSpec, ...] = ()  # of any kind, applied in this order
    minimum: Count | None = None  # tokens before the end; None: as many as the model's own files say, or 0
    maximum: Size | None = None  # tokens before the end; None: as many as the source suggests, or 200

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.beam % self.groups:
            raise ValueError(f"groups: beam {self.beam} is not divisible by groups {self.groups}")
        if self.best > self.beam:
            raise ValueError(f"best: {self.best} hypotheses from a beam of {self.beam}; try beam={self.best}")
        if self.maximum is not None and (self.minimum or 0) > self.maximum:
            raise ValueError(f"minimum: at least {self.minimum} tokens and at most {self.maximum}")
        return self

    def heed(self, given: Mapping[str, Any]) -> Self:
        """With what a user says; where only one limit is said, the other makes way for it."""
        chosen = self.replace(minimum=None, maximum=None).replace(**given)
        least = chosen.minimum if "minimum" in given else self.minimum
        most = chosen.maximum if "maximum" in given else self.maximum
        if least is not None and most is not None and least > most:
            least, most = (least, least) if "minimum" in given else (most, most)
        return chosen.replace(minimum=least, maximum=most)

    def norm(self, length: int) -> float:
        """What a sum of log-probabilities is divided by (GNMT: Wu et al. 2016, equation 14)."""
        if self.length == "none":
            return 1.0
        if self.length in ("average", "power"):
            return float(length) ** (1.0 if self.length == "average" else self.alpha)
        return float(((5 + length) / 6) ** self.alpha)


@dataclass
class Hypothesis:
    """One finished sentence; the end is the last of its tokens."""

    tokens: list[int]
    log_probabilities: list[float]  # the model's own, token by token
    score: float
    attention: Tensor | None = None  # (tokens, source), each row sums to 1
    met: bool = True  # every required word is there
    cut: bool = False  # the limit ended it, where the model would have gone on


def beam_search(
    scorer: Scorer,
    memory: Any,
    sentences: int,
    begin: int,
    end: int | Sequence[int],
    settings: Search | None = None,
    demands: Demands | None = None,
    *,
    attention: bool = False,
) -> list[list[Hypothesis]]:
    """For each sentence its best hypotheses, best first; `attention`: with what each token looked at, if it does.

    `end`: the token that ends a sentence, or several; the first is the one that a limit writes.
    """
    ends = (end,) if isinstance(end, int) else tuple(end)
    batch = BeamBatch(scorer, sentences, begin, ends, settings or Search(), demands or Demands(), attention)
    return batch.run(memory)


@dataclass
class Live:
    """The rows that are still being written, those of a sentence together."""

    state: Any
    tokens: Tensor  # (rows, written)
    logs: Tensor  # (rows, written), the model's own log-probabilities
    sums: Tensor  # (rows,), what the search has added up
    owners: list[int]  # the sentence of each row
    duties: list[Duty]  # the words that each row still owes
    seen: Tensor | None = None  # (rows, written, source)

    def select(self, rows: list[int]) -> Live:
        index = torch.tensor(rows, dtype=torch.long, device=self.tokens.device)
        return Live(
            self.state.select(index),
            self.tokens[index],
            self.logs[index],
            self.sums[index],
            [self.owners[row] for row in rows],
            [self.duties[row] for row in rows],
            None if self.seen is None else self.seen[index],
        )

    def write(self, tokens: Tensor, logs: Tensor, sums: Tensor) -> None:
        """One more token for each row."""
        self.tokens = torch.cat((self.tokens, tokens[:, None]), 1)
        self.logs = torch.cat((self.logs, logs[:, None]), 1)
        self.sums = sums
        if any(not duty.done for duty in self.duties):
            self.duties = [duty.after(token) for duty, token in zip(self.duties, tokens.tolist(), strict=True)]


class BeamBatch:
    """One batch of sentences on its way."""

    def __init__(
        self,
        scorer: Scorer,
        sentences: int,
        begin: int,
        ends: tuple[int, ...],
        settings: Search,
        demands: Demands,
        attention: bool,
    ) -> None:
        self.scorer, self.begin, self.ends, self.settings = scorer, begin, ends, settings
        self.counts_read, self.closing = demands.counts_read, demands.closing
        self.sentences, self.required = sentences, demands.required or [()] * sentences
        self.check(demands)
        self.limits = [self.limit(n, demands) for n in range(sentences)]
        self.rules = rules(settings, demands, self.limits, ends)
        self.shapes = shapes(settings)
        self.attention = attention
        self.looks = (attention or settings.coverage > 0) and bool(scorer.alignments)
        self.generators = [torch.Generator().manual_seed(settings.seed * 1_000_003 + n) for n in range(sentences)]
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    def check(self, demands: Demands) -> None:
        """Refuse what this search can't keep to."""
        settings = self.settings
        if any(self.required) and settings.groups > 1:
            raise SpecError(
                f"groups: required words need the whole beam, and it is divided into {settings.groups}", "groups=1"
            )
        if any(self.required) and settings.sample:
            raise SpecError("sample: what is drawn at random can't be made to have required words", "sample=false")
        if settings.coverage and not self.scorer.alignments:
            raise SpecError(
                f"coverage: {settings.coverage}, and this model doesn't look at the words of its source", "coverage=0"
            )

    def limit(self, sentence: int, demands: Demands) -> int:
        """How many tokens a sentence may have; never fewer than the settings and its prefix make it have."""
        own = None if demands.most is None else demands.most[sentence]
        most = min((most for most in (self.settings.maximum, own) if most is not None), default=MOST)
        return max(most, self.settings.minimum or 0, len(demands.prefixes[sentence]) if demands.prefixes else 0)

    @torch.no_grad()
    def run(self, memory: Any) -> list[list[Hypothesis]]:
        live = self.first(memory)
        while live.owners:
            live = self.advance(live)
        ranked = [sorted(found, key=lambda item: (item.met, item.score), reverse=True) for found in self.finished]
        answer = [found[: self.settings.best] for found in ranked]
        if not self.attention:
            for hypothesis in (item for found in answer for item in found):
                hypothesis.attention = None
        return answer

    def first(self, memory: Any) -> Live:
        """One row for each sentence, or for each sample of it; a beam is spread out by the first step."""
        fan = self.settings.beam if self.settings.sample else 1
        owners = [sentence for sentence in range(self.sentences) for _ in range(fan)]
        state = self.scorer.start(len(owners), memory)
        nothing = torch.zeros(len(owners), 0, device=self.scorer.device)
        duties = [Duty.of(self.required[owner]) for owner in owners]
        return Live(state, nothing.long(), nothing, nothing.sum(1), owners, duties)

    def advance(self, live: Live) -> Live:
        """Score the next token of every row, choose, and let finished sentences go."""
        record = Record(*self.scorer.alignments) if self.looks else None
        begin = live.tokens.new_full((len(live.owners),), self.begin)
        last = live.tokens[:, -1] if live.tokens.shape[1] else begin
        logits = self.scorer.step(last, live.state, probe=record).float()  # (rows, vocabulary)
        own = logits.log_softmax(-1)
        if record is not None:
            live.seen = join_attention(live.seen, record)
        owing_rows = [row for row, duty in enumerate(live.duties) if not duty.done]
        context = Context(live.tokens, live.owners, owing_rows)
        if self.counts_read:
            context.read = begin[:, None]
            context.logits = logits if self.settings.sample or self.settings.beam == 1 else None
        scores = own
        for rule in self.rules:
            scores = rule(scores, context)
        return (self.draw if self.settings.sample else self.widen)(live, own, scores, context)

    def draw(self, live: Live, own: Tensor, scores: Tensor, context: Context) -> Live:
        """One token for each row at random; a sentence's luck doesn't depend on its neighbours."""
        for shape in self.shapes:
            scores = shape(scores, context)
        noise = torch.empty(scores.shape)
        for row, owner in enumerate(live.owners):
            noise[row].exponential_(generator=self.generators[owner])
        tokens = (scores - noise.log().to(scores)).argmax(-1)  # Gumbel's way to draw from a softmax
        allowed = scores.gather(1, tokens[:, None])[:, 0] > -math.inf
        if not bool(allowed.all()):
            row = int(allowed.int().argmin())
            raise explain(own[row : row + 1], self.rules, context.at(row))
        logs = own.gather(1, tokens[:, None])[:, 0]
        live.write(tokens, logs, live.sums + logs)
        ended = torch.isin(tokens, tokens.new_tensor(self.ends))
        for row in ended.nonzero()[:, 0].tolist():
            self.keep(live, own, row, live.tokens[row].tolist(), live.logs[row].tolist(), float(live.sums[row]))
        return live.select((~ended).nonzero()[:, 0].tolist()) if bool(ended.any()) else live

    def widen(self, live: Live, own: Tensor, scores: Tensor, context: Context) -> Live:
        """Set aside the continuations that end, and go on with the best of the others."""
        chosen: list[Candidate] = []
        options = self.options(live, live.sums[:, None] + scores)
        opens = [self.set_aside(live, own, found) for found in options]
        sums = live.sums.view(len(options), -1)
        for number, found in enumerate(opens):
            row = number * sums.shape[1] + int(sums[number].argmax())
            if not found and not self.finished[live.owners[row]]:
                raise explain(own[row : row + 1], self.rules, context.at(row))
        fan = max((len(found) for found in opens), default=0)
        for found in opens:
            if found:
                # a batch is a rectangle: a sentence with fewer rows repeats one, without hope
                chosen += found + [found[-1]._replace(total=-math.inf)] * (fan - len(found))
        rows, tokens = [item.row for item in chosen], live.tokens.new_tensor([item.token for item in chosen])
        logs = own[rows, tokens] if rows else own[:0, 0]
        live = live.select(rows)
        live.write(tokens, logs, live.sums.new_tensor([item.total for item in chosen]))
        return live

    def options(self, live: Live, totals: Tensor) -> list[list[Candidate]]:
        """Each sentence's continuations that are worth a look."""
        settings = self.settings
        sentences = len(set(live.owners))
        fan = len(live.owners) // sentences
        firsts = range(0, len(live.owners), fan)
        if settings.groups > 1:
            sizes = (settings.beam, settings.groups, settings.diversity, self.ends)
            return [in_groups(totals[at : at + fan], at, *sizes) for at in firsts]
        found = best(totals, sentences, settings.beam, len(self.ends))
        for sentence, at in enumerate(firsts):
            duties = live.duties[at : at + fan]
            if any(not duty.done for duty in duties):
                found[sentence] = owing(totals[at : at + fan], at, found[sentence], duties, settings.beam, self.ends)
        return found

    def set_aside(self, live: Live, own: Tensor, found: list[Candidate]) -> list[Candidate]:
        """Finish what ends within the beam; what goes on, or nothing when it can't become better any more."""
        for rank, item in enumerate(found):
            if item.token in self.ends and (rank < self.settings.beam or self.settings.groups > 1):
                tokens = [*live.tokens[item.row].tolist(), item.token]
                logs = [*live.logs[item.row].tolist(), float(own[item.row, item.token])]
                self.keep(live, own, item.row, tokens, logs, item.total)
        going = [item for item in found if item.token not in self.ends][: self.settings.beam]
        if all(item.total == -math.inf for item in going):
            return []
        if self.is_settled(live.owners[going[0].row], max(item.total for item in going), live.tokens.shape[1] + 1):
            return []
        return going

    def keep(self, live: Live, own: Tensor, row: int, tokens: list[int], logs: list[float], total: float) -> None:
        """A finished hypothesis, with its score."""
        owner = live.owners[row]
        # at the limit nothing but the end is left: it is a cut unless the model wanted to end there too
        cut = len(tokens) > self.limits[owner] and int(own[row].argmax()) not in self.ends
        seen = None if live.seen is None else live.seen[row]
        open_end = (
            self.counts_read and not self.closing and len(tokens) > self.limits[owner]
        )  # it has no end of its own
        score = total / self.settings.norm(max(1, len(tokens) - open_end))
        if self.settings.coverage and seen is not None:
            looked = seen.sum(0)
            score += self.settings.coverage * float(looked[looked > 0].clamp(max=1.0).log().sum())
        self.finished[owner].append(Hypothesis(tokens, logs, score, seen, live.duties[row].done, cut))

    def is_settled(self, sentence: int, total: float, length: int) -> bool:
        """Whether no live hypothesis can enter the best: a sum only falls, and the norm is largest at full length."""
        settings = self.settings
        scores = sorted((item.score for item in self.finished[sentence] if item.met), reverse=True)
        wanted = settings.best if settings.until == "sure" else settings.beam
        if len(scores) < wanted or settings.until == "full":
            return len(scores) >= wanted
        norm = settings.norm(self.limits[sentence] + 1 if settings.until == "sure" else length)
        return total / norm <= scores[wanted - 1]


def join_attention(seen: Tensor | None, record: Record) -> Tensor | None:
    """The mean of all heads and layers at this step, after those of the steps before: (rows, written, source)."""
    maps = [record[name].mean(1) for name in record.values]  # (rows, 1, source)
    if not maps:
        return seen
    now = torch.stack(maps).mean(0)
    return now if seen is None else torch.cat((seen, now), 1)
