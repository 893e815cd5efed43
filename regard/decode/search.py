"""One search for every model: greedy, beam, diverse beam, sampling.

It is a request to the engine, which steps whatever can be asked for scores: a model, an ensemble. A sentence leaves the
batch as soon as no hypothesis of it can become better than the finished ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from regard.core.probe import insist
from regard.core.registry import Kinds
from regard.core.spec import Count, Positive, Rate, Size, Spec
from regard.decode.beam import Candidate, in_groups, join_options, owing
from regard.decode.best import Options
from regard.decode.constraints import Duty
from regard.decode.engine import Beginning, Choice, Engine, Request, Scorer, Turn
from regard.decode.filters import Context, Demands, rules, shapes
from regard.decode.filters.filter import FilterSpec
from regard.decode.trail import Trail
from regard.errors import InputError, SpecError

MOST = 200  # tokens of a text that nothing else limits
ROOM = 32  # positions to allocate ahead, where a text may become as long; many end before their limit


class Search(Spec):
    """How to look for the best sentence, or for a random one.

    >>> import regard
    >>> regard.Search(beam=5, best=2).replace(max_tokens=40).max_tokens
    40
    >>> regard.Search(beam=2, best=3)
    Traceback (most recent call last):
        ...
    regard.errors.SpecError: Search: best: 3 hypotheses from a beam of 2; try beam=3
    """

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = "task.search"
    renamed: ClassVar[Mapping[str, str]] = {"minimum": "min_tokens", "maximum": "max_tokens"}
    kind: Literal["search"] = "search"
    beam: Size = 1
    """The search keeps this many hypotheses; with sampling, it draws this many samples."""
    best: Size = 1
    """The search returns this many hypotheses."""
    groups: Size = 1
    """The beam is divided into this many groups, each kept from what the others write."""
    diversity: Rate = 0.5
    """A token that an earlier group has just written costs this much."""
    length: Literal["gnmt", "average", "power", "none"] = "gnmt"
    """A sum of log-probabilities is divided by GNMT's norm (gnmt), the length (average), its power, or nothing."""
    alpha: Annotated[float, Field(gt=0, le=10)] = 0.6
    """The strength of GNMT's length norm, or the power of the length."""
    until: Literal["sure", "likely", "full"] = "sure"
    """A sentence is done when nothing better can come (sure), when nothing is better at this length (likely), or when
    as many are finished as the beam is wide (full)."""
    coverage: Rate = 0.0
    """The strength of GNMT's penalty for source words that nobody looked at (its beta)."""
    sample: bool = False
    """Tokens are drawn at random instead of searched for."""
    seed: Count = 0
    """The same seed draws the same samples."""
    temperature: Positive = 1.0
    """Logits are divided by this before a token is drawn: below 1 is safer, above 1 is wilder."""
    top_k: Count = 0
    """Tokens are drawn from this many of the likeliest; 0 means all."""
    top_p: Positive = 1.0
    """Tokens are drawn from the likeliest ones that together reach this probability."""
    min_p: Rate = 0.0
    """Tokens are drawn from those with at least this share of the likeliest one's probability."""
    typical: Positive = 1.0
    """Tokens are drawn from those of typical surprise that together reach this probability (Meister et al. 2023)."""
    repetition: Positive = 1.0
    """The score of a token that was written already is weakened by this factor; 1 changes nothing."""
    no_repeat: Count = 0
    """No run of this many tokens is written twice; 0 allows all."""
    filters: tuple[FilterSpec, ...] = ()
    """Further filters change the scores, in this order."""
    min_tokens: Count | None = None
    """A text has at least this many tokens before its end; unless given, what the model's own files say, or 0."""
    max_tokens: Size | None = None
    """A text has at most this many tokens before its end; unless given, what the source suggests, or 200."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.beam % self.groups:
            raise ValueError(f"groups: beam {self.beam} is not divisible by groups {self.groups}")
        if self.best > self.beam:
            raise ValueError(f"best: {self.best} hypotheses from a beam of {self.beam}; try beam={self.best}")
        if self.max_tokens is not None and (self.min_tokens or 0) > self.max_tokens:
            raise ValueError(f"min_tokens: at least {self.min_tokens} tokens and at most {self.max_tokens}")
        return self

    def heed(self, given: Mapping[str, Any]) -> Self:
        """With what a user says; where only one limit is said, the other makes way for it."""
        given = self.rename(given)
        chosen = self.replace(min_tokens=None, max_tokens=None).replace(**given)
        least = chosen.min_tokens if "min_tokens" in given else self.min_tokens
        most = chosen.max_tokens if "max_tokens" in given else self.max_tokens
        if least is not None and most is not None and least > most:
            least, most = (least, least) if "min_tokens" in given else (most, most)
        return chosen.replace(min_tokens=least, max_tokens=most)

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
    attention: Tensor | None = None  # (tokens, source), the mean of all heads over the source; each row sums to 1
    weights: dict[str, Tensor] = field(default_factory=dict)  # by name (heads, tokens, keys), along its own ancestry
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
    attention: bool | str | Sequence[str] = False,
) -> list[list[Hypothesis]]:
    """For each sentence its best hypotheses, best first.

    `attention`: with what each token looked at in the source, if it does; or patterns of other weights to keep.

    `end`: the token that ends a sentence, or several; the first is the one that a limit writes.

    >>> import regard, torch
    >>> model = regard.preset("transformer-tiny", width=32, depth=1, heads=2, vocabulary=100).build().eval()
    >>> memory = model.encode(torch.tensor([[5, 6, 7], [8, 9, 10]]))
    >>> found = regard.beam_search(model, memory, 2, begin=2, end=3, settings=regard.Search(beam=4, max_tokens=9))
    >>> len(found), len(found[0][0].tokens) <= 10  # the end counts too
    (2, True)
    """
    ends = (end,) if isinstance(end, int) else tuple(end)
    batch = BeamBatch(scorer, memory, sentences, begin, ends, settings or Search(), demands or Demands(), attention)
    Engine(scorer).run(batch)
    return batch.rank()


class BeamBatch(Request):
    """One batch of sentences on its way, the rows of a sentence together."""

    def __init__(
        self,
        scorer: Scorer,
        memory: Any,
        sentences: int,
        begin: int,
        ends: tuple[int, ...],
        settings: Search,
        demands: Demands,
        attention: bool | str | Sequence[str],
    ) -> None:
        self.scorer, self.memory, self.begin, self.ends, self.settings = scorer, memory, begin, ends, settings
        self.alignments = scorer.alignments  # a model looks for them
        self.ending = frozenset(ends)
        self.counts_read, self.closing = demands.counts_read, demands.closing
        required = demands.required or [()] * sentences
        self.check(required)
        self.limits = [self.limit(n, demands) for n in range(sentences)]
        # one row for each sentence, or for each sample of it; a beam is spread out by the first step
        fan = settings.beam if settings.sample else 1
        owners = [sentence for sentence in range(sentences) for _ in range(fan)]
        super().__init__(owners, rules(settings, demands, self.limits, ends))
        self.shapes = shapes(settings)
        self.attention = attention
        self.kept = choose_weights(scorer, attention)
        self.watched = tuple(dict.fromkeys([*self.kept, *(self.alignments if settings.coverage > 0 else ())]))
        self.generators = [torch.Generator().manual_seed(settings.seed * 1_000_003 + n) for n in range(sentences)]
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self.sums = torch.zeros(len(owners), device=scorer.device)  # what the search has added up
        duties = [Duty.of(required[owner]) for owner in owners]
        self.duties = [] if all(duty.done for duty in duties) else duties  # what each row still owes; none: nobody does
        self.seen: dict[str, Tensor] = {}  # what the rows looked at so far: (rows, heads, written, keys)

    def check(self, required: Sequence[Sequence[Sequence[int]]]) -> None:
        """Refuse what this search can't keep to."""
        settings = self.settings
        if any(required) and settings.groups > 1:
            raise SpecError(
                f"groups: required words need the whole beam, and it is divided into {settings.groups}", "groups=1"
            )
        if any(required) and settings.sample:
            raise SpecError("sample: what is drawn at random can't be made to have required words", "sample=false")
        if settings.coverage and not self.alignments:
            raise SpecError(
                f"coverage: {settings.coverage}, and this model doesn't look at the words of its source", "coverage=0"
            )

    def limit(self, sentence: int, demands: Demands) -> int:
        """How many tokens a sentence may have; never fewer than the settings and its prefix make it have."""
        own = None if demands.most is None else demands.most[sentence]
        most = min((most for most in (self.settings.max_tokens, own) if most is not None), default=MOST)
        return max(most, self.settings.min_tokens or 0, len(demands.prefixes[sentence]) if demands.prefixes else 0)

    def rank(self) -> list[list[Hypothesis]]:
        """For each sentence its best hypotheses, best first."""
        ranked = [sorted(found, key=lambda item: (item.met, item.score), reverse=True) for found in self.finished]
        answer = [found[: self.settings.best] for found in ranked]
        for hypothesis in (item for found in answer for item in found):
            hypothesis.attention = hypothesis.attention if self.attention is True else None
            hypothesis.weights = {name: hypothesis.weights[name] for name in self.kept}
        return answer

    def start(self, scorer: Scorer, written: Tensor) -> Beginning:
        rows = len(self.owners)
        room = min(ROOM, max(self.limits, default=0) + 1)
        return Beginning(scorer.start(rows, self.memory, room=room), written.new_full((rows, 1), self.begin))

    def make_context(self, trail: Trail, owners: list[int], logits: Tensor) -> Context:
        context = Context(trail, owners, [row for row, duty in enumerate(self.duties) if not duty.done])
        if self.counts_read:
            context.read = torch.full((len(owners), 1), self.begin, device=trail.device)
            context.logits = logits if self.settings.sample or self.settings.beam == 1 else None
        return context

    def choose(self, turn: Turn) -> Choice:
        """Score what ends, let finished sentences go, and go on with the others."""
        for name, weights in turn.seen.items():
            self.seen[name] = join_weights(self.seen.get(name), weights, name in self.alignments)
        choice = (self.draw if self.settings.sample else self.widen)(turn)
        if self.duties:
            pairs = zip(choice.rows, choice.tokens, strict=True)
            self.duties = [self.duties[row].after(token) for row, token in pairs]
        self.seen = {name: weights[choice.rows] for name, weights in self.seen.items()}
        return choice

    def draw(self, turn: Turn) -> Choice:
        """One token for each row at random; a sentence's luck doesn't depend on its neighbours."""
        drawn = turn.draw(self.shapes, [self.generators[owner] for owner in turn.context.owners])
        self.sums = self.sums + self.sums.new_tensor(drawn.logs)
        options = Options(self.sums.tolist(), drawn.rows, drawn.tokens, drawn.logs)
        going = list[int]()
        for row, token in enumerate(drawn.tokens):
            if token in self.ending:
                self.keep(turn, options, row)
            else:
                going.append(row)
        left = options.pick(going)
        self.sums = self.sums[going]
        return Choice(left.rows, left.tokens, left.logs)

    def widen(self, turn: Turn) -> Choice:
        """Set aside the continuations that end, and go on with the best of the others."""
        owners = turn.context.owners
        options, sentences = self.options(turn)
        ends = not self.ending.isdisjoint(options.tokens)  # asked once for all sentences: mostly nobody ends
        opens = [self.set_aside(turn, options, places, ends) for places in sentences]
        size = len(owners) // len(opens)
        for first, going in zip(range(0, len(owners), size), opens, strict=True):
            if not going and not self.finished[owners[first]]:
                raise turn.explain(first + int(self.sums[first : first + size].argmax()))
        fan = max(len(going) for going in opens)
        places, hopeless = list[int](), list[int]()
        for going in opens:
            places += going
            # a batch is a rectangle: a sentence with fewer rows repeats one, without hope
            for _ in range(fan - len(going) if going else 0):
                hopeless.append(len(places))
                places.append(going[-1])
        chosen = options.pick(places)
        for at in hopeless:
            chosen.totals[at] = -math.inf
        self.sums = self.sums.new_tensor(chosen.totals)
        return Choice(chosen.rows, chosen.tokens, chosen.logs)

    def options(self, turn: Turn) -> tuple[Options, list[Sequence[int]]]:
        """The continuations that are worth a look, and the places of each sentence's, best first."""
        settings, rows = self.settings, len(turn.context.owners)
        sentences = len(set(turn.context.owners))
        fan = rows // sentences
        firsts = range(0, rows, fan)
        if settings.groups > 1:
            totals = self.sums[:, None] + turn.scores
            sizes = (settings.beam, settings.groups, settings.diversity, self.ends)
            return join_options([in_groups(totals[at : at + fan], at, *sizes) for at in firsts])
        # as many for each end as for the beam, so that ends don't crowd out those who go on
        options = turn.list_best(self.sums, sentences, (1 + len(self.ends)) * settings.beam)
        places = options.split(sentences)
        if all(duty.done for duty in self.duties):
            return options, places
        found = []
        for at, mine in zip(firsts, places, strict=True):
            held = [Candidate(options.totals[n], options.rows[n], options.tokens[n]) for n in mine]
            duties = self.duties[at : at + fan]
            if any(not duty.done for duty in duties):
                totals = self.sums[at : at + fan, None] + turn.scores[at : at + fan]
                held = owing(totals, at, held, duties, settings.beam, self.ends)
            found.append(held)
        return join_options(found)

    def set_aside(self, turn: Turn, options: Options, places: Sequence[int], ends: bool) -> Sequence[int]:
        """Finish what ends within the beam, if any does; what goes on, or nothing when it can't become better."""
        beam, tokens, totals = self.settings.beam, options.tokens, options.totals
        going = places[:beam]
        if ends:
            for rank, at in enumerate(places):
                if tokens[at] in self.ending and (rank < beam or self.settings.groups > 1):
                    self.keep(turn, options, at)
            going = [at for at in places if tokens[at] not in self.ending][:beam]
        most = max([totals[at] for at in going], default=-math.inf)
        if most == -math.inf:
            return ()
        owner = turn.context.owners[options.rows[going[0]]]
        return () if self.finished[owner] and self.is_settled(owner, most, turn.written + 1) else going

    def keep(self, turn: Turn, options: Options, at: int) -> None:
        """A finished hypothesis, with its score: one of the options."""
        row, token, total = options.rows[at], options.tokens[at], options.totals[at]
        owner = turn.context.owners[row]
        [log] = turn.weigh([row], [token]) if options.logs is None else [options.logs[at]]
        tokens, logs = turn.trail.trace(row)
        tokens.append(token)
        logs.append(log)
        # at the limit nothing but the end is left: it is a cut unless the model wanted to end there too
        cut = len(tokens) > self.limits[owner] and turn.likeliest[row] not in self.ending
        fixed = self.alignments  # a source's keys stay, whoever looked at them
        weights = {name: seen[row] if name in fixed else trim_keys(seen[row]) for name, seen in self.seen.items()}
        over = [weights[name].mean(0) for name in fixed if name in weights]
        seen = torch.stack(over).mean(0) if over else None
        open_end = (
            self.counts_read and not self.closing and len(tokens) > self.limits[owner]
        )  # it has no end of its own
        score = total / self.settings.norm(max(1, len(tokens) - open_end))
        if self.settings.coverage and seen is not None:
            looked = seen.sum(0)
            score += self.settings.coverage * float(looked[looked > 0].clamp(max=1.0).log().sum())
        met = not self.duties or self.duties[row].done
        self.finished[owner].append(Hypothesis(tokens, logs, score, seen, weights, met, cut))

    def is_settled(self, sentence: int, total: float, length: int) -> bool:
        """Whether no live hypothesis can enter the best: a sum only falls, and the norm is largest at full length."""
        settings = self.settings
        wanted = settings.best if settings.until == "sure" else settings.beam
        if len(self.finished[sentence]) < wanted:
            return False
        scores = sorted((item.score for item in self.finished[sentence] if item.met), reverse=True)
        if len(scores) < wanted or settings.until == "full":
            return len(scores) >= wanted
        norm = settings.norm(self.limits[sentence] + 1 if settings.until == "sure" else length)
        return total / norm <= scores[wanted - 1]


def choose_weights(scorer: Scorer, attention: bool | str | Sequence[str]) -> tuple[str, ...]:
    """The names of the weights that hypotheses are to carry."""
    if isinstance(attention, bool):
        return scorer.alignments if attention else ()
    patterns = [attention] if isinstance(attention, str) else attention
    names = [name for name in scorer.names() if name.startswith(("decoder.", "head.")) and name.endswith("weights")]
    if not names:
        raise InputError("nothing in this decoder attends, so there are no weights to keep", "attention=False")
    insist(patterns, names)
    return tuple(name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns))


def join_weights(before: Tensor | None, now: Tensor, fixed: bool) -> Tensor:
    """What a step looked at, after the steps before: (rows, heads, written, keys).

    `fixed`: the keys are a source's. The first step is read alone, so it knows how many there are; neighbours with
    longer sources may come later. Else they grow, and neighbours with longer texts may come and go.
    """
    if before is None:
        return now
    if fixed:
        return torch.cat((before, now[..., : before.shape[-1]]), 2)
    keys = max(before.shape[-1], now.shape[-1])
    return torch.cat([F.pad(part, (0, keys - part.shape[-1])) for part in (before, now)], 2)


def trim_keys(weights: Tensor) -> Tensor:
    """Without the keys at the end that no token of the row had: (heads, written, keys)."""
    used = weights.amax((0, 1)).nonzero()
    return weights[..., : int(used.max()) + 1 if len(used) else 0]
