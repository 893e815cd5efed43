"""Writing on: a prompt is read once, then each token is drawn, told and read in turn.

Text comes as soon as it is sure: never half a character, and nothing that may yet turn out to be the beginning of a
stop string. Where the context is full, writing ends; or the model forgets the first half and goes on, if it is told to
slide. A model that learned conversations reads a prompt as what a user says, in the format that it learned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal, overload

import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.data.dialogue import ASSISTANT, USER, ChatFormat, Message, encode_prompt, find_end, list_controls, say
from regard.data.given import check_text, check_texts, list_texts
from regard.data.spelling import spell_tokens
from regard.data.tokenizer import Tokenizer
from regard.decode.engine import Beginning, Choice, Engine, Request, Scorer, Turn
from regard.decode.filters import Context, Demands, rules, shapes, special_tokens
from regard.decode.generation import Generation
from regard.decode.pipeline import Pipeline, refuse_target
from regard.decode.reading import Reading, Strip
from regard.decode.search import MOST, Search
from regard.decode.trail import Trail
from regard.errors import InputError

Reason = Literal["end", "stop", "maximum", "context"]
USUAL = Search(sample=True, temperature=0.8)
BACK = 8  # tokens before the new ones that decide how those are written


@dataclass
class Piece:
    """One token, and the text that has become sure with it."""

    text: str
    token: str
    log_probability: float  # the model's own
    reason: Reason | None = None  # why it is the last one, if it is

    @property
    def probability(self) -> float:
        return float(torch.tensor(self.log_probability).exp())


@dataclass
class Continuation:
    """A whole continuation."""

    text: str
    tokens: list[str]
    log_probabilities: list[float]
    reason: Reason


@dataclass
class Strand:
    """What one row has written, as text: how much of it is sure."""

    tokenizer: Tokenizer
    tokens: list[int]  # the prompt's, then its own
    stops: Sequence[str]
    lead: str = ""  # what stands before an answer's first word and is no part of it
    told: int = 0  # tokens whose text is out
    held: str = ""  # text that may be the beginning of a stop string
    stopped: bool = False

    def __post_init__(self) -> None:
        self.told = len(self.tokens)

    def add(self, token: int, last: bool) -> str:
        """The text that has become sure with one more token; with the last one, all that is left."""
        self.tokens.append(token)
        return self.sure(last)

    def sure(self, last: bool) -> str:
        back = max(0, self.told - BACK)
        before, now = self.tokenizer.decode([self.tokens[back : self.told], self.tokens[back:]])
        new = now[len(before) :]
        if new and (last or not now.endswith("\ufffd")):  # half a character so far
            self.told = len(self.tokens)
            self.held += new.removeprefix(self.lead)
            self.lead = ""
        for stop in self.stops:
            at = self.held.find(stop)
            if at >= 0:
                self.held, self.stopped = self.held[:at], True
        open_end = 0 if last or self.stopped else max((overlap(self.held, stop) for stop in self.stops), default=0)
        out, self.held = self.held[: len(self.held) - open_end], self.held[len(self.held) - open_end :]
        return out


def overlap(text: str, stop: str) -> int:
    """How many letters at the end of a text are the beginning of a stop string."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:size])), 0)


class Stream(Request):
    """One prompt and its continuations on their way, row by row."""

    def __init__(
        self, writer: Writer, prompt: list[int], settings: Search, stops: Sequence[str], samples: int, slide: bool
    ) -> None:
        self.writer, self.slide, self.prompt, self.ends = writer, slide, prompt, writer.ends
        told = writer.generation
        least, most = told.minimum(len(self.prompt)), told.most(len(self.prompt))
        most = max(MOST, least) if most is None else most
        given = {"min_tokens": settings.min_tokens, "max_tokens": settings.max_tokens}
        usual = settings.replace(min_tokens=min(least, most), max_tokens=most)  # as transformers: the most counts
        settings = usual.heed({name: value for name, value in given.items() if value is not None})
        assert settings.max_tokens is not None
        self.settings, self.maximum = settings, settings.max_tokens
        never = told.never if writer.foreign else writer.list_never()
        filters = [chosen.build(writer.tokenizer) for chosen in settings.filters]
        demands = Demands(never=never, banned=told.banned, not_first=told.not_first, filters=filters)
        limits = [self.maximum + 1] * samples
        super().__init__(range(samples), rules(settings, demands, limits, self.ends))
        self.shapes = shapes(settings)
        seeds = [settings.seed * 1_000_003 + row for row in range(samples)]
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds] if settings.sample else None
        lead = "" if writer.format is None else writer.format.frame(ASSISTANT).lead
        self.strands = [Strand(writer.tokenizer, list(self.prompt), stops, lead) for _ in range(samples)]
        self.pieces: dict[int, Piece] = {}  # what the last step wrote, by the row's number
        self.engine = Engine(writer.model)

    @property
    def state_bytes(self) -> int:
        """What the model remembers now, in bytes."""
        return self.engine.state_bytes

    def __iter__(self) -> Iterator[dict[int, Piece]]:
        """The next piece of every row that is still being written, by the row's number."""
        self.engine.admit(self)
        while self.engine.busy:
            self.engine.step()
            if self.error is not None:
                raise self.error
            yield self.pieces

    def start(self, scorer: Scorer, written: Tensor) -> Beginning:
        """The prompt, read once for all continuations; where the context is full, the last half of all anew."""
        network, context = self.writer.model, self.writer.context
        prompt = torch.tensor([self.prompt], device=network.device)
        if not written.shape[1]:
            return Beginning(network.start(1, room=self.writer.room(len(self.prompt), self.maximum)), prompt)
        assert context is not None
        whole = torch.cat((prompt.expand(len(written), -1), written), 1)
        return Beginning(network.start(len(written), room=context), whole[:, -max(1, context // 2) :])

    def make_context(self, trail: Trail, owners: list[int], logits: Tensor) -> Context:
        if not self.writer.foreign:
            return Context(trail, owners)
        # penalties count the prompt, as in transformers
        read = torch.tensor([self.prompt], device=trail.device).expand(len(owners), -1)
        return Context(trail, owners, read=read, logits=logits)

    def choose(self, turn: Turn) -> Choice:
        """A token for each row; a row whose text is at its end goes."""
        rows, context = turn.context.owners, self.writer.context
        choice = turn.draw(self.shapes, None if self.generators is None else [self.generators[row] for row in rows])
        written = turn.written + 1
        self.pieces = {
            row: self._told(row, token, log, written)
            for row, token, log in zip(rows, choice.tokens, choice.logs or (), strict=True)
        }
        going = choice.pick([at for at, row in enumerate(rows) if self.pieces[row].reason is None])
        going.afresh = context is not None and turn.held >= context
        return going

    def _told(self, row: int, token: int, log: float, written: int) -> Piece:
        strand, context = self.strands[row], self.writer.context
        name = self.writer.tokenizer.pieces([token])[0]
        if token in self.ends:
            return Piece(strand.sure(last=True), name, log, "end")
        full = context is not None and not self.slide and len(self.prompt) + written > context
        most = written >= self.maximum
        text = strand.add(token, last=most or full)
        reason: Reason | None = "stop" if strand.stopped else "maximum" if most else "context" if full else None
        return Piece(text, name, log, reason)


@dataclass(repr=False)
class Writer(Pipeline):
    """A language model and its tokenizer.

    >>> import regard
    >>> writer = regard.load("runs/text", kind=regard.Writer)
    >>> text = "".join(piece.text for piece in writer.stream("the cat", max_tokens=5, seed=1))
    >>> text == writer.write("the cat", max_tokens=5, seed=1)[0].text
    True
    """

    usage: ClassVar[str] = 'generate {} "…"'
    verbs: ClassVar[tuple[str, ...]] = ("write", "stream")
    model: Model
    tokenizer: Tokenizer
    context: int | None = None  # tokens that it can look back on; None: no limit
    foreign: bool = False  # the tokenizer itself says how a text begins
    search: Search = field(default_factory=lambda: USUAL)  # the settings unless others are given
    generation: Generation = field(default_factory=Generation)  # what came with a model from elsewhere
    format: ChatFormat | None = None  # in which it learned conversations; a prompt is then what a user says

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        return self.tokenizer, self.tokenizer

    @property
    def ends(self) -> tuple[int, ...]:
        """All tokens that end what it writes."""
        own = () if self.format is None else (find_end(self.format, self.tokenizer),)
        return tuple(dict.fromkeys((*own, *self.tokenizer.ends)))

    def list_never(self) -> list[int]:
        """Tokens that it never writes: those that no text has, and the controls of its format."""
        controls = set[int]() if self.format is None else list_controls(self.format, self.tokenizer)
        return sorted({*special_tokens(self.tokenizer), *controls} - {*self.ends})

    def stream(
        self, prompt: str = "", *, stop: Sequence[str] = (), slide: bool = False, **settings: Any
    ) -> Iterator[Piece]:
        """A continuation, piece by piece: `for piece in stream("Once upon a time", top_p=0.9): print(piece.text)`."""
        for pieces in self.begin(prompt, self.search.replace(**settings), stop, 1, slide):
            yield pieces[0]

    @overload
    def write(
        self, prompt: str = "", *, samples: int = 1, stop: Sequence[str] = (), slide: bool = False, **settings: Any
    ) -> list[Continuation]: ...

    @overload
    def write(
        self, prompt: Sequence[str], *, samples: int = 1, stop: Sequence[str] = (), slide: bool = False, **settings: Any
    ) -> list[list[Continuation]]: ...

    def write(
        self,
        prompt: str | Sequence[str] = "",
        *,
        samples: int = 1,
        stop: Sequence[str] = (),
        slide: bool = False,
        **settings: Any,
    ) -> list[Continuation] | list[list[Continuation]]:
        """Several continuations of one prompt, whole; of a list of prompts, those of each."""
        if not isinstance(prompt, str):
            return [
                self.write(each, samples=samples, stop=stop, slide=slide, **settings) for each in list_texts(prompt)
            ]
        stream = self.begin(prompt, self.search.replace(**settings), stop, samples, slide)
        found: list[list[Piece]] = [[] for _ in range(samples)]
        for pieces in stream:
            for row, piece in pieces.items():
                found[row].append(piece)
        return [join_pieces(pieces) for pieces in found]

    def reply(self, messages: Sequence[Message], *, stop: Sequence[str] = (), **settings: Any) -> Continuation:
        """The answer to a conversation, whole."""
        if self.format is None:
            raise InputError(
                "the model learned running text, and no conversations", "write(prompt) goes on from a text"
            )
        prompt = self.fit(encode_prompt(messages, self.format, self.tokenizer))
        stream = Stream(self, prompt, self.search.replace(**settings), [text for text in stop if text], 1, slide=False)
        return join_pieces([pieces[0] for pieces in stream])

    def begin(self, prompt: str, settings: Search, stop: Sequence[str], samples: int, slide: bool) -> Stream:
        """A stream over so many continuations."""
        if settings.beam > 1:
            raise InputError(f"beam {settings.beam}: text is written token by token, greedily or by chance", "beam=1")
        check_texts(stop, 'stop=["\\n\\n"]')
        return Stream(self, self.read(prompt, slide), settings, [text for text in stop if text], samples, slide)

    def read(self, prompt: str, slide: bool = False) -> list[int]:
        """The prompt's tokens; one that is too long is an error, unless it may be cut."""
        return self.fit(self.encode(prompt), slide)

    def fit(self, tokens: list[int], slide: bool = False) -> list[int]:
        """A prompt that is no longer than the context; otherwise its end, if it may be cut."""
        if self.context is not None and len(tokens) > self.context:
            if not slide:
                raise InputError(
                    f"the prompt has {len(tokens)} tokens, and the model can look back on {self.context}",
                    "a shorter prompt, or --slide to read only its end and to forget as it goes",
                )
            tokens = tokens[-self.context :]
        return tokens

    def encode(self, prompt: str) -> list[int]:
        """The prompt's tokens, however many they are."""
        check_text(prompt, "one prompt at a time")
        if self.foreign and prompt:
            # a prompt for a model from elsewhere may be in its chat format, whose turns are special tokens
            return self.tokenizer.obey(prompt, self.tokenizer.controls, framed=True)
        if self.format is not None and prompt:
            return encode_prompt([say(USER, prompt)], self.format, self.tokenizer)
        return [self.tokenizer.begin, *self.tokenizer.encode([prompt])[0]]

    def lay_out(self, text: str, target: str | None = None) -> Reading:
        """A text, each position of which predicts the next token; the last one predicts what nobody wrote yet."""
        refuse_target(self, target)
        tokens = self.read(text)
        if len(tokens) < 2 and not text:
            raise InputError("there is nothing to look at: the text is empty", "a text with words")
        targets: dict[int, int | None] = dict(enumerate(tokens[1:]))
        return Reading(
            Inputs.pad([tokens], self.tokenizer.pad),
            Strip.of(self.tokenizer, tokens),
            targets=targets | {len(tokens) - 1: None},
            spell=partial(spell_tokens, self.tokenizer),
            text=text,
        )

    def room(self, prompt: int, maximum: int) -> int:
        """Positions to allocate ahead."""
        return min(prompt + maximum, self.context or prompt + maximum)


def join_pieces(pieces: Sequence[Piece]) -> Continuation:
    """Pieces as one text."""
    reason = pieces[-1].reason
    assert reason is not None
    return Continuation(
        "".join(piece.text for piece in pieces),
        [piece.token for piece in pieces],
        [piece.log_probability for piece in pieces],
        reason,
    )
