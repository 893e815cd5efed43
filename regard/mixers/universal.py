"""Blocks that run over and over with the same weights, each position as often as it needs (Dehghani et al. 2019).

The Universal Transformer is a recurrence in depth: a round takes all positions through the blocks once, and tells them
which round it is. A position that has halted keeps its vector, which the others still look at; what comes out is the
mean of its vectors after each round, by the weights of `halt`.

Cost: that of the blocks, times the rounds until every position has halted, or all rounds that there may be where it
steps: a later position may look at any round of an earlier one; state of the blocks times these rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.core.block import Block, BlockSpec
from regard.core.grid import Grid
from regard.core.mixer import Mixer, MixerSpec, Part
from regard.core.probe import Probe
from regard.core.role import RelativeSpec
from regard.core.state import Group, State
from regard.core.view import View
from regard.errors import SpecError
from regard.mixers.attention import Attention
from regard.parts.feedforward import FeedForward
from regard.parts.halting import Adaptive, HaltSpec, report
from regard.parts.norm import LayerNorm
from regard.parts.position import frequencies

BASE = 10000.0  # of the wavelengths
TRANSFORMER = BlockSpec(mix=Attention(), ffn=FeedForward(), norm=LayerNorm())


class Universal(MixerSpec):
    """Which blocks a round goes through, and when a position has had enough rounds."""

    kind: Literal["universal"] = "universal"
    blocks: tuple[BlockSpec, ...] = Field((TRANSFORMER,), min_length=1)
    """A round goes through these blocks."""
    halt: HaltSpec = Adaptive(limit=8)
    """A position halts by adaptive computation time (adaptive), or after a fixed number of rounds (repeat)."""
    moments: bool = True
    """Each round adds a vector that tells which one it is, as positions have theirs: sines and cosines."""

    def memory_width(self, width: int) -> int | None:
        mixers = (mixer for block in self.blocks for mixer in (block.mix, block.cross) if mixer is not None)
        return next((size for mixer in mixers if (size := mixer.memory_width(width)) is not None), None)

    @property
    def needs_grid(self) -> bool:
        return any(block.mix is not None and block.mix.needs_grid for block in self.blocks)

    @property
    def relative(self) -> RelativeSpec | None:
        return next((block.mix.relative for block in self.blocks if block.mix and block.mix.relative), None)

    @property
    def biased_heads(self) -> int | None:
        return next((block.mix.biased_heads for block in self.blocks if block.mix and block.mix.biased_heads), None)

    def lie_on(self, grid: Grid | None) -> Self:
        return self.model_copy(update={"blocks": tuple(block.lie_on(grid) for block in self.blocks)})

    def forward_only(self) -> Self:
        return self._change(lambda mixer: mixer.forward_only())

    def both_ways(self) -> Self:
        return self._change(lambda mixer: mixer.both_ways())

    def locate(self, position: RelativeSpec | None) -> Self:
        return self._change(lambda mixer: mixer.locate(position))

    def _change(self, change: Callable[[MixerSpec], MixerSpec]) -> Self:
        """The same with another mixer in each block."""
        return self.replace(
            blocks=tuple(block if block.mix is None else block.replace(mix=change(block.mix)) for block in self.blocks)
        )

    def build(self, width: int) -> Mixer:
        halting = self.halt.build(width)
        if halting.tries:
            raise SpecError(
                f"halt: {self.halt.kind} tries further rounds at a position that has halted, and others look at it",
                "halt=adaptive, halt=repeat, or mix=ponder",
            )
        return UniversalRounds(self, width)


@dataclass
class UniversalState(Group):
    """What the blocks remember, round by round."""


class RoundProbe(Probe):
    """A probe that sees what the blocks compute in one round, each value under the round's own name.

    What the blocks' parts cost keeps its name: whoever trains takes the mean over the rounds.
    """

    def __init__(self, probe: Probe, path: str, number: int, charged: frozenset[str]) -> None:
        self.probe, self.inside, self.charged = probe, f"{path}.inner.", charged
        self.prefix = f"{path}.rounds.{number}."

    def wants(self, name: str) -> bool:
        return self.probe.wants(self.rename(name))

    def __call__(self, name: str, value: Tensor) -> Tensor:
        return self.probe(self.rename(name), value)

    def rename(self, name: str) -> str:
        return name if name in self.charged else f"{self.prefix}{name.removeprefix(self.inside)}"


class UniversalRounds(Mixer):
    encloses = True

    def __init__(self, spec: Universal, width: int) -> None:
        super().__init__()
        self.width, self.moments = width, spec.moments
        self.blocks = nn.ModuleList(block.build(width) for block in spec.blocks)
        self.halting = spec.halt.build(width)
        mixers = [mixer for block in self.layers() for mixer in (block.mixer, block.crosser) if mixer is not None]
        self.causal = all(mixer.causal for mixer in mixers)
        self.grows = any(mixer.grows for mixer in mixers)
        self.estimates = any(mixer.estimates for mixer in mixers)
        self.parts: list[Part] = []  # those inside
        for place, part in self.blocks.named_modules(prefix="blocks"):
            if isinstance(part, Part):
                part.path = place.removesuffix(".inner")  # until a model says where all of it stands
                self.parts.append(part)
        seen = dict.fromkeys(f"{part.path}.{name}" for part in self.parts for name in part.names)
        self.rounds = tuple(f"rounds.{number}.{name}" for number in range(self.halting.limit) for name in seen)
        self.names = (*self.halting.sights, *self.rounds)

    @property
    def costs(self) -> Mapping[str, float]:
        return self.halting.charges

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        mask, limit = view.mask, self.halting.limit
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask.valid is None else mask.valid
        visit = self.halting.begin(real)
        # what is remembered, and what is seen, is of all rounds: those that follow may look at any of them
        whole = state is not None or view.watcher(self.path, *self.rounds) is not None
        states = state.parts if isinstance(state, UniversalState) else (None,) * limit
        views = [self.look(view, number) for number in range(limit)]
        total = torch.zeros_like(x)
        for number in range(limit):
            if not whole and not visit.goes_on:
                break
            y = self.run(x, views[number], number, states[number])
            x = torch.where(visit.running[..., None], y, x)
            total = total + visit.weigh(x)[..., None].to(x.dtype) * x
        if state is not None:
            state.advance(mask)
        report(view, self.path, self.halting, [visit])
        return total

    def run(self, x: Tensor, view: View, number: int, state: State | None) -> Tensor:
        """All positions through the blocks once."""
        if self.moments:
            x = x + describe_round(number, self.width).to(x)
        parts = state.parts if isinstance(state, Group) else (None,) * len(self.blocks)
        for block, part in zip(self.blocks, parts, strict=True):
            x = block(x, view, part)
        return x

    def look(self, view: View, number: int) -> View:
        """The same call as a round's blocks see it."""
        if view.probe is None:
            return view
        charged = frozenset(f"{part.path}.{name}" for part in self.parts for name in (*part.costs, *part.loads))
        return replace(view, probe=RoundProbe(view.probe, self.path, number, charged))

    def start(self, rows: int, view: View) -> State | None:
        if not self.causal:
            return None
        rounds = [self.look(view, number) for number in range(self.halting.limit)]
        return UniversalState(
            parts=tuple(Group(parts=tuple(block.start(rows, each) for block in self.layers())) for each in rounds)
        )

    def layers(self) -> list[Block]:
        """The blocks, as blocks."""
        return list(self.blocks)  # type: ignore[arg-type]


def describe_round(number: int, width: int) -> Tensor:
    """The vector that tells a round: sines, then cosines, as positions have them."""
    angles = number * frequencies(width, BASE)
    return torch.cat((angles.sin(), angles.cos()))[:width]
