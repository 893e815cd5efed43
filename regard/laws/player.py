"""A player does what a script says: whatever that is, each row must be as if it had read its own tokens at once.

A history is a script that chance writes while it is played.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from regard.core.mixer import Mixer
from regard.core.probe import Probe
from regard.core.state import Memory, State
from regard.errors import NotRewindable
from regard.laws.case import KEYS, Case, count, list_words
from regard.laws.law import USUAL, Breach, Close, agree, describe_error, insist, insist_finite
from regard.laws.script import Event, Join, Read, Rewind, Script, Select, Stretch
from regard.laws.subject import Subject, begin, follow, whole


@dataclass
class Lane:
    """What one row has read and given back so far, and whose memory it looks at."""

    owner: int
    length: int = 0
    read: list[Tensor] = field(default_factory=list)  # (positions, width)
    given: list[Tensor] = field(default_factory=list)

    def add(self, read: Tensor, given: Tensor) -> None:
        """What it reads now, and what comes of it."""
        self.read.append(read)
        self.given.append(given)
        self.length += read.shape[0]

    def move(self, owners: int = 0) -> Lane:
        """One of its own, after so many others' memories."""
        return Lane(self.owner + owners, self.length, list(self.read), list(self.given))

    def cut(self, length: int) -> Lane:
        """The first positions alone."""
        if length >= self.length:
            return self
        return Lane(self.owner, length, [torch.cat(self.read)[:length]], [torch.cat(self.given)[:length]])


class Player:
    """Does what a script says, and compares every row with a whole run over that row's own tokens."""

    def __init__(
        self,
        subject: Subject,
        script: Script,
        close: Close = USUAL,
        probe: Probe | None = None,
        mixer: Mixer | None = None,
        strict: bool = False,
    ) -> None:
        """`strict`: rows that are dropped or rewound are compared too, and each with a run of its own."""
        self.subject, self.close, self.probe, self.strict = subject, close, probe, strict
        self.dtype = getattr(torch, script.dtype)
        self.mixer = mixer or (subject.make() if self.dtype == torch.float32 else subject.make().to(self.dtype))
        self.noise = torch.Generator().manual_seed(script.seed)
        self.script = replace(script, events=())  # what was really done is added to it
        self.source = self.sentences = self.make_source()
        x = torch.zeros(script.rows, 1, subject.width, dtype=self.dtype)
        self.state: State | None = begin(self.mixer, x, self.source, script.room)
        insist(
            self.state is not None or self.mixer.alone,
            "it is causal and starts without a state, so a step would forget all that came before it: "
            "`start` returns a State that `forward` reads and moves on, or `alone = True`, or `causal = False`",
        )
        self.lanes = [Lane(row) for row in range(script.rows)]
        self.gone: list[tuple[int, Lane]] = []  # rows that were dropped or rewound
        self.pieces: list[Tensor] = []  # all that was read, for gradients
        self.pairs: list[tuple[Tensor, Tensor]] = []  # what was given back, and what a whole run gives

    def make_source(self) -> Memory | None:
        script = self.script
        source = self.subject.remember(script.rows, script.keys, seed=script.seed + 1)
        if source is None:
            return None
        source = source.map(lambda tensor: tensor.to(self.dtype))
        if script.ends:
            ends = [min(end, script.keys) for end in (*script.ends, *[script.keys] * script.rows)][: script.rows]
            source.valid = torch.arange(script.keys)[None] < torch.tensor(ends)[:, None]
        return source

    def run(self, events: tuple[Event, ...]) -> Player:
        """All of a script, and the comparison at its end."""
        with self.tell_script():
            for event in events:
                self.play(event)
        return self.end()

    def end(self) -> Player:
        """Compare all rows."""
        with self.tell_script():
            self.settle()
        return self

    @contextmanager
    def tell_script(self) -> Iterator[None]:
        """Let whatever breaks the law know what was done until then."""
        try:
            yield
        except Breach as breach:
            breach.case = breach.case or self.script  # what is joined in may have failed by itself
            raise
        except Exception as error:
            raise Breach(describe_error(error), kind=type(error).__name__, case=self.script) from error

    def play(self, event: Event) -> None:
        if isinstance(event, Read):
            self.read(event)
        elif isinstance(event, Select):
            self.select(event)
        elif isinstance(event, Rewind):
            self.rewind(event)
        else:
            self.join([Player.of(self, script) for script in event.others])
        self.count()

    def count(self) -> None:
        """Insist that the state counts the real tokens of every row, since positions follow from that."""
        state, lengths = self.state, [lane.length for lane in self.lanes]
        if state is None:
            return
        told = [state.length] * len(lengths) if state.lengths is None else state.lengths.tolist()
        if told != lengths or state.length < max(lengths):  # it is more where the longest row was dropped
            raise Breach(
                f"the state counts {list_words(told)} where rows have read {list_words(lengths)}: "
                "`forward` calls state.advance(view.mask) once",
                kind="words",
            )
        insist(state.rows in (None, len(lengths)), f"there are {len(lengths)} rows, and the state holds {state.rows}")

    @classmethod
    def of(cls, player: Player, script: Script) -> Player:
        """Another state of the same mixer, as far as its script goes."""
        script = replace(script, dtype=player.script.dtype)
        other = cls(player.subject, script, player.close, mixer=player.mixer, strict=player.strict)
        with other.tell_script():
            for event in script.events:
                other.play(event)
        return other  # its rows are compared after they were joined

    def note(self, event: Event) -> None:
        self.script = replace(self.script, events=(*self.script.events, event))

    def read(self, event: Read) -> None:
        rows, time = len(self.lanes), event.time
        if not time:
            return
        x = torch.randn(rows, time, self.subject.width, generator=self.noise).to(self.dtype)
        x.requires_grad_(torch.is_grad_enabled())
        stretches = [self.fit(event.stretches, row, time) for row in range(rows)] if event.stretches else []
        valid = torch.zeros(rows, time, dtype=torch.bool) if stretches else None
        for row, part in enumerate(stretches):
            assert valid is not None
            valid[row, part.before : part.before + part.real] = True
        self.note(Read(time, tuple(stretches)))
        y = follow(self.mixer, x, self.state, self.source, valid, self.probe)
        insist(y.shape == x.shape, f"a chunk of the shape {tuple(x.shape)} gives {tuple(y.shape)}")
        insist_finite(y, "a step's output")
        for row, lane in enumerate(self.lanes):
            real = slice(None) if valid is None else valid[row]
            lane.add(x[row, real], y[row, real])
        self.pieces.append(x)

    @staticmethod
    def fit(stretches: tuple[Stretch, ...], row: int, time: int) -> Stretch:
        """What a row has real, cut to what there is room for."""
        part = stretches[row] if row < len(stretches) else Stretch(0, time)
        before = min(part.before, time)
        return Stretch(before, min(part.real, time - before))

    def select(self, event: Select) -> None:
        rows = [row for row in event.rows if row < len(self.lanes)]
        if not rows:
            return
        self.note(Select(tuple(rows)))
        self.gone += [(row, lane) for row, lane in enumerate(self.lanes) if row not in rows]
        index = torch.tensor(rows)
        self.state = None if self.state is None else self.state.select(index)
        self.source = None if self.source is None else self.source.select(index)
        self.lanes = [self.lanes[row].move() for row in rows]

    def rewind(self, event: Rewind) -> None:
        if self.state is None:
            return
        before = self.state.length
        length = min(event.length, before)
        self.note(Rewind(length))
        try:
            self.state.rewind(length)
        except NotRewindable:
            insist(self.state.length == before, f"it won't rewind to {length}, and yet forgets {before} positions")
            return
        self.gone += [(row, lane) for row, lane in enumerate(self.lanes) if lane.length > length]
        self.lanes = [lane.cut(length) for lane in self.lanes]

    def join(self, others: list[Player]) -> None:
        if not others:
            return
        self.note(Join(tuple(other.script for other in others)))
        players = [self, *others]
        states = [player.state for player in players if player.state is not None]
        longest = max((state.length for state in states), default=0)
        level = len({state.length for state in states}) == 1 and all(state.lengths is None for state in states)
        lanes, gone, owned = list[Lane](), list[tuple[int, Lane]](), 0
        for player in players:
            gone += [(row, lane.move(owned)) for row, lane in player.gone]
            lanes += [lane.move(owned) for lane in player.lanes]
            owned += player.script.rows if player.sentences is None else player.sentences.rows
        sources = [player.source for player in players if player.source is not None]
        sentences = [player.sentences for player in players if player.sentences is not None]
        if sources:
            self.source, self.sentences = Memory.join(sources), Memory.join(sentences)
        self.lanes, self.gone = lanes, gone
        if states:
            self.state = State.join(states)
            insist(not level or self.state.lengths is None, "rows at one position are counted one by one once joined")
            insist(
                self.state.length == longest, f"the longest row is at {longest}, and the state at {self.state.length}"
            )
        self.pieces += [piece for other in others for piece in other.pieces]

    def settle(self) -> None:
        """Compare rows with whole runs of their own; unless it is strict, those of one length run side by side."""
        groups: dict[tuple[int, int], list[tuple[int, Lane]]] = {}
        for number, (row, lane) in enumerate([*enumerate(self.lanes), *(self.gone if self.strict else [])]):
            if lane.length:
                groups.setdefault((lane.length, number if self.strict else 0), []).append((row, lane))
        for same in groups.values():
            lanes = [lane for _, lane in same]
            owners = torch.tensor([lane.owner for lane in lanes])
            memory = None if self.sentences is None else self.sentences.select(owners)
            expected = whole(self.mixer, torch.stack([torch.cat(lane.read) for lane in lanes]), memory)
            given = torch.stack([torch.cat(lane.given) for lane in lanes])
            self.pairs.append((given, expected))
            agree(given, expected, ("step by step", "whole"), self.close, rows=[row for row, _ in same])


@dataclass(frozen=True)
class Chance(Case):
    """Scripts that are drawn as they are played: `events` things in each, and joins among them if wanted."""

    seeds: tuple[int, ...]
    joins: bool = False
    events: int = 7

    @property
    def size(self) -> tuple[int, ...]:
        return (len(self.seeds),)

    @property
    def possible(self) -> bool:
        return True

    def smaller(self) -> Iterator[Self]:
        return iter(())  # a script takes its place as soon as something fails

    def tell(self) -> str:
        return f"{count(len(self.seeds), 'script')} drawn by chance"


class History:
    """A script that chance writes while it is played."""

    def __init__(self, subject: Subject, seed: int, close: Close, varied: bool, mixer: Mixer) -> None:
        self.chance = chance = random.Random(seed)
        rows = chance.choice([1, 2, 3])
        keys = chance.randint(1, KEYS) if varied else KEYS
        ends = tuple(chance.randint(1, keys) for _ in range(rows)) if subject.over_memory else ()
        room = chance.choice([0, 3, 20])
        self.player = Player(subject, Script((), rows, room, keys, ends, seed=seed), close, mixer=mixer, strict=True)

    def run(self, events: int, joins: bool = False) -> Player:
        """Let so many things happen."""
        draws = [self.draw_read, self.draw_read, self.draw_read, self.draw_select, self.draw_rewind]
        with self.player.tell_script():
            for _ in range(events):
                self.chance.choice([*draws, self.join, self.join] if joins else draws)()
                self.player.count()
        return self.player

    def draw_read(self) -> None:
        chance, rows = self.chance, len(self.player.lanes)
        time = chance.choice([1, 1, 2, 5, 7])
        stretches = []
        if chance.random() < 0.5:
            for _ in range(rows):
                real = chance.choice([0, chance.randint(0, time), time])
                stretches.append(Stretch(chance.randint(0, time - real), real))
        self.player.read(Read(time, tuple(stretches)))

    def draw_select(self) -> None:
        chance, rows = self.chance, len(self.player.lanes)
        twice = [row for row in range(rows) for _ in range(2)]
        some = [chance.randrange(rows) for _ in range(chance.choice([1, rows, rows + 1]))]
        self.player.select(Select(tuple(chance.choice([twice[:8], some]))))

    def draw_rewind(self) -> None:
        state = self.player.state
        longest = max(lane.length for lane in self.player.lanes) if state is None else state.length
        self.player.rewind(Rewind(self.chance.randint(0, longest)))

    def join(self) -> None:
        """Take in the rows of another history; its source may be longer or shorter."""
        player = self.player
        other = History(player.subject, self.chance.randrange(1 << 30), player.close, True, player.mixer)
        player.join([other.run(self.chance.randint(0, 3))])
