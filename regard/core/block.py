"""A block: up to three residual sublayers, `mix` (positions), `cross` (positions with a memory), `ffn` (channels).

The residual and the norm are written here once, for every mixer and every feed-forward.
"""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator
from torch import Tensor, nn

from regard.core.dropout import dropout, skip_rows
from regard.core.grid import Grid
from regard.core.mixer import Mixer, MixerSpec, Part
from regard.core.registry import Kinds
from regard.core.role import FeedSpec, NormSpec
from regard.core.spec import Rate, Spec, build_optional
from regard.core.state import Group, State
from regard.core.tape import Tape
from regard.core.view import View
from regard.errors import InputError, SpecError

Place = Literal["pre", "post", "sandwich", "around"]
Slot = Literal["mix", "cross", "ffn"]


class Sublayer(Part):
    """What a block does once: a mixer or feed-forward, its norms, dropout, and the residual around it.

    pre: x + f(norm(x)); post: norm(x + f(x)); sandwich: x + after(f(norm(x))); around: after(x + f(norm(x))).
    """

    names = ("output",)  # what is added to the residual stream

    def __init__(
        self, inner: Part, norm: nn.Module | None, after: nn.Module | None, residual: bool, dropout: float
    ) -> None:
        super().__init__()
        self.inner, self.norm, self.after = inner, norm, after
        self.residual, self.dropout = residual, dropout
        self.skip = 0.0  # how often a row goes without it while training; the stack says so

    def forward(self, x: Tensor, view: View, *state: State | None) -> Tensor:
        y = self.run(x if self.norm is None else self.norm(x), view, *state)
        if self.after is not None:
            y = self.after(y)
        return self.join(x, y, view)

    def write(self, tape: Tape, x: int) -> int:
        y = tape.write(self.inner, x if self.norm is None else tape.norm(self.norm, x))
        if self.after is not None:
            y = tape.norm(self.after, y)
        return tape.add(x, y) if self.residual else y

    def run(self, x: Tensor, view: View, *state: State | None) -> Tensor:
        """What is inside; packed documents get rows of their own where a mixer would mix them."""
        mask, inner = view.mask, self.inner
        if mask.documents is None or not isinstance(inner, Mixer):
            return inner(x, view, *state)
        if any(part is not None for part in state):
            raise InputError(f"{self.path} has a state, and these rows pack documents", "one document a row")
        return inner(x, view) if inner.packs else mask.pack(inner(mask.unpack(x), view.apart))

    def join(self, x: Tensor, y: Tensor, view: View) -> Tensor:
        """Add what was computed to the stream."""
        if self.dropout and self.training:
            y = dropout(y, self.dropout)
        if self.skip and self.training:
            y = skip_rows(y, self.skip)
        see = view.watcher(self.path, *Sublayer.names)
        if see:
            y = see("output", y)
        return x + y if self.residual else y


class PostSublayer(Sublayer):
    """The 2017 order: the norm comes after the sum."""

    def forward(self, x: Tensor, view: View, *state: State | None) -> Tensor:
        x = self.join(x, self.run(x, view, *state), view)
        return x if self.norm is None else self.norm(x)

    def write(self, tape: Tape, x: int) -> int:
        y = tape.write(self.inner, x)
        x = tape.add(x, y) if self.residual else y
        return x if self.norm is None else tape.norm(self.norm, x)


class AroundSublayer(Sublayer):
    """A norm before, and another after the sum, which the stream goes on with (Hassani et al. 2021)."""

    def forward(self, x: Tensor, view: View, *state: State | None) -> Tensor:
        x = self.join(x, self.run(x if self.norm is None else self.norm(x), view, *state), view)
        return x if self.after is None else self.after(x)

    def write(self, tape: Tape, x: int) -> int:
        y = tape.write(self.inner, x if self.norm is None else tape.norm(self.norm, x))
        x = tape.add(x, y) if self.residual else y
        return x if self.after is None else tape.norm(self.after, x)


KINDS: dict[Place, type[Sublayer]] = {
    "pre": Sublayer,
    "post": PostSublayer,
    "sandwich": Sublayer,
    "around": AroundSublayer,
}


class Block(Part):
    """Sublayers in order: mix, cross, ffn."""

    names = ("stream",)  # the residual stream after the block

    def __init__(self, mix: Sublayer | None, cross: Sublayer | None, ffn: Sublayer | None) -> None:
        super().__init__()
        self.mix, self.cross, self.ffn = mix, cross, ffn

    def forward(self, x: Tensor, view: View, state: Group | None = None) -> Tensor:
        mixed, crossed = (None, None) if state is None else state.parts
        if self.mix is not None:
            x = self.mix(x, view, mixed)
        if self.cross is not None:
            x = self.cross(x, view, crossed)
        if self.ffn is not None:
            x = self.ffn(x, view)
        see = view.watcher(self.path, *self.names)
        return see("stream", x) if see else x

    def write(self, tape: Tape, x: int) -> int:
        for sublayer in self.sublayers:
            x = tape.write(sublayer, x)
        return x

    def start(self, rows: int, view: View) -> Group:
        mixers = (self.mixer, self.crosser)
        mixed, crossed = (None if mixer is None else mixer.start(rows, view) for mixer in mixers)
        if mixed is None and self.mixer is not None and not self.mixer.alone:
            raise forgetful(self.mixer)
        return Group(parts=(mixed, crossed))

    @property
    def sublayers(self) -> list[Sublayer]:
        return [sublayer for sublayer in (self.mix, self.cross, self.ffn) if sublayer is not None]

    @property
    def mixer(self) -> Mixer | None:
        return self.mix and self.mix.inner  # type: ignore[return-value]

    @property
    def crosser(self) -> Mixer | None:
        return self.cross and self.cross.inner  # type: ignore[return-value]


def forgetful(mixer: Mixer) -> SpecError:
    """What there is to say of a mixer that would step as if nothing had come before."""
    return SpecError(
        f"{mixer.path}: {type(mixer).__name__} starts without a state, so a step would forget all that came before it",
        "a `start` that returns a State, which `forward` reads and moves on; or `alone = True` if it never mixes",
    )


class BlockSpec(Spec):
    """Which sublayers a block has, where their norms stand, and whether the input is added back."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = ".block"
    kind: Literal["block"] = "block"
    mix: MixerSpec | None = None
    """The sublayer that mixes positions among themselves."""
    cross: MixerSpec | None = None
    """The sublayer in which positions look at the memory that an encoder left."""
    ffn: FeedSpec | None = None
    """The sublayer that mixes the channels of each position."""
    norm: NormSpec | None = None
    """The norm of every sublayer that isn't bare."""
    place: Place = "pre"
    """The norm stands before a sublayer (pre), after its residual sum (post), before and behind it (sandwich), or
    before it and after its residual sum (around)."""
    residual: bool = True
    """Each sublayer's input is added to its output."""
    dropout: Rate = 0.0
    """This share of every sublayer's output is dropped while training."""
    bare: tuple[Slot, ...] = ()
    """These sublayers have no norm of their own."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if not (self.mix or self.cross or self.ffn):
            raise ValueError("a block needs at least one of mix, cross, ffn")
        if self.cross and not self.cross.over_memory:
            raise ValueError(f"cross must read the memory, and {self.cross.kind!r} reads itself; set over='memory'")
        return self

    def lie_on(self, grid: Grid | None) -> Self:
        """The same block for positions that are places of a picture."""
        return self if self.mix is None else self.model_copy(update={"mix": self.mix.lie_on(grid)})

    def build(self, width: int) -> Block:
        return Block(*(self._sublayer(slot, width) for slot in ("mix", "cross", "ffn")))

    def _sublayer(self, slot: Slot, width: int) -> Sublayer | None:
        spec: MixerSpec | FeedSpec | None = {"mix": self.mix, "cross": self.cross, "ffn": self.ffn}[slot]
        if spec is None:
            return None
        norm = None if slot in self.bare else self.norm
        return KINDS[self.place](
            spec.build(width),  # type: ignore[arg-type]
            build_optional(norm, width),
            build_optional(norm, width) if self.place in ("sandwich", "around") else None,
            self.residual,
            self.dropout,
        )
