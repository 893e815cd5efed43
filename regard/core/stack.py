"""A stack: embedding, then blocks, then a norm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.core.block import Block, BlockSpec
from regard.core.dense import Lookup
from regard.core.inputs import Inputs
from regard.core.mixer import Part, list_modules
from regard.core.padding import check_valid
from regard.core.registry import Kinds
from regard.core.role import EmbeddingSpec, NormSpec, RelativeSpec
from regard.core.spec import Count, Layers, Rate, Size, Spec, build_optional
from regard.core.state import Group, State
from regard.core.tape import Recording, Tape, record, sign
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.kernels.library import ready

MOST = 1024  # blocks that a spec may list
SPACING = 4  # of scattered positions, when a model is used


class Stack(Part):
    """Inputs to hidden vectors: (batch, time, width)."""

    names = ("embedded", "features")  # what enters the first block, and what leaves the last norm

    def __init__(
        self,
        embedding: nn.Module,
        blocks: list[Block],
        norm: nn.Module | None,
        bias: nn.Module | None,
        blend: Blend | None = None,
        scatter: int = 0,
        width: int = 0,
    ) -> None:
        super().__init__()
        self.embedding, self.width = embedding, width
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.bias = bias
        self.blend = blend
        self.scatter = scatter
        self.recompute = False  # whoever trains may trade time for memory
        self.recording: Recording | None = None  # of a step; made anew for every state where something has changed

    def measure(self, inputs: Inputs) -> tuple[int, int]:
        """Rows and positions of a call, once it is sure that they fit together."""
        rows, time = self.embedding.measure(inputs.tokens)  # type: ignore[operator]
        if not rows or not time:
            raise InputError(f"there is nothing to read: {rows} rows of {time} positions")
        check_valid(inputs.valid, rows, time)
        if inputs.edges is not None:
            if not self.connected:
                raise InputError("no part of this model reads edges", "leave them out")
            inputs.edges.insist(rows, time, inputs.real if inputs.valid is not None else None)
        return rows, time

    @property
    def connected(self) -> bool:
        """Whether positions are mixed along the edges of a graph."""
        return any(block.mixer is not None and block.mixer.connects for block in self.layers())

    @property
    def reaches(self) -> bool:
        """Whether positions hear of others than those that edges lead to."""
        return any(block.mixer is not None and block.mixer.reaches for block in self.layers())

    @property
    def ordered(self) -> bool:
        """Whether an answer depends on the order in which positions stand, as far as its parts say."""
        return self.bias is not None or any(block.mixer is not None and block.mixer.ordered for block in self.layers())

    def forward(self, inputs: Tensor, view: View, state: Group | None = None) -> Tensor:
        self._share_positions(view)
        if state is not None and (recording := self._find_recording(inputs, view)) is not None:
            held = [part for group in state.parts if isinstance(group, Group) for part in group.parts if part]
            if recording.whole or len(held) == recording.looks:
                x = inputs if recording.fetches else self.embedding(inputs, view)
                return recording.run(x, view) if recording.whole else recording.step(x, held, view)
        x = view.see(self.path, "embedded", self.embedding(inputs, view))
        states = state.parts if state is not None else (None,) * len(self.blocks)
        layers = [x]
        for block, part in zip(self.blocks, states, strict=True):
            x = (
                self._thrifty(block, x, view)
                if self.recompute and self.training and idle(part)
                else block(x, view, part)
            )
            if self.blend is not None:
                layers.append(x)
        if self.blend is not None:
            x = self.blend(layers)
        return view.see(self.path, "features", x if self.norm is None else self.norm(x))

    def _find_recording(self, inputs: Tensor, view: View) -> Recording | None:
        """The recording, where it can be played: a step, or whole sequences, and nobody looks into it."""
        mask = view.mask
        if self.training or view.probe is not None or view.edges is not None or mask.documents is not None:
            return None
        if view.dtype != torch.float32 or not inputs.is_cpu or torch.is_autocast_enabled("cpu") or ready() is None:
            return None
        if isinstance(mask.past, int) and mask.past == 0:
            self._record()
        recording = self.recording
        if recording is None or recording.hooked:
            return None
        return recording if recording.whole or (mask.time == 1 and mask.uniform) else None

    def _record(self) -> None:
        """Write down what the blocks do, unless it is written as they stand; each first call of a sequence asks."""
        table: Lookup | None = self.embedding.table  # type: ignore[assignment]  # it may be lent by another stack
        inner = [self.embedding, *self.blocks, *(part for part in (self.norm, table) if part is not None)]
        parts = list_modules(*inner)
        if self.recording is None or self.recording.key != sign(parts):
            self.recording = None if self.bias or self.blend else record(parts, self._write)

    def _write(self, tape: Tape) -> tuple[int, int]:
        first = x = tape.begin(self.embedding, self.width)
        for block in self.blocks:
            x = tape.write(block, x)
        return first, x if self.norm is None else tape.norm(self.norm, x)

    def rerun(self, number: int, x: Tensor, view: View) -> Tensor:
        """One block alone, from what entered it."""
        self._share_positions(view)
        found: Tensor = self.blocks[number](x, view)
        return found

    def _share_positions(self, view: View) -> None:
        """Let all blocks see the positions that belong to the stack."""
        view.bias, view.grid = self.bias, self.embedding.grid  # type: ignore[assignment]
        if view.edges is not None and view.edges.table is None:
            view.edges = self.embedding.describe_edges(view.edges)  # type: ignore[operator]
        if self.scatter:
            view.scattered = scatter_positions(view, self.scatter, self.training)

    @staticmethod
    def _thrifty(block: nn.Module, x: Tensor, view: View) -> Tensor:
        """A block that keeps only its input for the backward pass, and runs again then (Chen et al. 2016).

        It must find again what it found the first time: what other blocks had shared by then, and nothing of its own.
        """
        first, before = [view], view.copy()

        def run(x: Tensor) -> Tensor:
            found: Tensor = block(x, first.pop() if first else replace(before.copy(), again=True))
            return found

        found: Tensor = checkpoint(run, x, use_reentrant=False)
        return found

    def start(self, rows: int, view: View) -> Group:
        view.grid = self.embedding.grid  # type: ignore[assignment]
        return Group(parts=tuple(block.start(rows, view) for block in self.layers()))

    def layers(self) -> list[Block]:
        """The blocks, as blocks."""
        return list(self.blocks)  # type: ignore[arg-type]


def scatter_positions(view: View, places: int, training: bool) -> Tensor:
    """Positions among many more places, in their order (Ruoss et al. 2023): (1 or rows, time).

    In training they are drawn anew for each row, so that short rows teach the places that long ones will need. When the
    model is used, every token has a place of its own that later ones don't change: each fourth, if there are enough.
    """
    positions = view.positions
    if not training:
        return positions * SPACING
    most = int(positions.max()) + 1
    if most > places:
        raise InputError(f"{most} positions can't be scattered over {places} places", f"scatter={SPACING * most}")
    drawn = torch.rand(positions.shape[0], places, device=positions.device).argsort(1)[:, :most].sort(1).values
    return drawn.gather(1, positions)


class Blend(Part):
    """A learned mix of what all layers say, the embedding among them: γ Σ softmax(s)ₖ hₖ (Peters et al. 2018)."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.shares = nn.Parameter(torch.zeros(layers))
        self.gain = nn.Parameter(torch.ones(1))

    def reset(self) -> None:
        nn.init.zeros_(self.shares)
        nn.init.ones_(self.gain)

    def forward(self, layers: list[Tensor]) -> Tensor:
        """The layers of (batch, time, width) as one."""
        shares = self.gain * self.shares.softmax(0)
        mixed = layers[0] * shares[0]
        for layer, share in zip(layers[1:], shares[1:], strict=True):
            mixed = mixed + share * layer
        return mixed


def idle(state: State | None) -> bool:
    """Whether nothing is remembered, so that running twice does no harm."""
    return state is None or (isinstance(state, Group) and all(part is None for part in state.parts))


class StackSpec(Spec):
    """`first` blocks as given, then `blocks` over and over until there are `depth`."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = ".stack"
    kind: Literal["stack"] = "stack"
    width: Size
    """Every position is a vector of this many numbers."""
    depth: Layers
    """The stack has this many blocks; at 0 it is its embedding alone, such as a convolutional map."""
    embedding: EmbeddingSpec
    """The embedding turns inputs into vectors."""
    blocks: tuple[BlockSpec, ...] = Field(min_length=1)
    """These blocks follow each other over and over until the depth is reached."""
    first: tuple[BlockSpec, ...] = ()
    """These blocks come first, once."""
    norm: NormSpec | None = None
    """The norm after the last block."""
    bias: RelativeSpec | None = None
    """All blocks share these relative positions."""
    blend: bool = False
    """A learned mix of all layers comes out, instead of the last layer."""
    stochastic_depth: Rate = 0.0
    """A row goes without a sublayer of the last block this often while training, without one of the first never, and in
    between it rises with the depth."""
    scatter: Count = 0
    """Positions are scattered over this many places while training; at 0 they are counted."""

    @field_validator("blocks", "first", mode="before")
    @classmethod
    def countable(cls, value: Any) -> Any:
        """Refuse too many blocks before each of them is looked at."""
        if isinstance(value, list | tuple) and len(value) > MOST:
            raise ValueError(f"{len(value)} blocks are listed, and {MOST} are the most; depth repeats them")
        return value

    def layout(self) -> list[BlockSpec]:
        """Every block's spec, in order."""
        cycle = [self.blocks[i % len(self.blocks)] for i in range(max(0, self.depth - len(self.first)))]
        return [*self.first[: self.depth], *cycle]

    def limit(self, training: bool = False) -> int | None:
        """Positions that it can tell apart; None: no end. Scattered ones are as many as there are places to draw."""
        table = self.embedding.limit
        if not self.scatter:
            return table
        used = None if table is None else -(-table // SPACING)
        return min(self.scatter, used or self.scatter) if training else used

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.bias is not None and self.bias.shared_heads is None:
            raise ValueError("bias: positions shared by a whole stack must say how many heads they serve")
        for block in self.layout() if self.bias is not None else ():
            heads = block.mix.biased_heads if block.mix else None
            if heads is not None and self.bias is not None and heads != self.bias.shared_heads:
                raise ValueError(f"bias: it serves {self.bias.shared_heads} heads, and a block's mix has heads {heads}")
        if self.stochastic_depth and not all(block.residual for block in self.layout()):
            raise ValueError("stochastic_depth: a block without residual has nothing left where a sublayer is skipped")
        return self

    def _insist_on_a_picture(self) -> None:
        """Refuse positions by row and column where there are none."""
        inside = [block.mix.relative for block in self.layout() if block.mix is not None]
        planar = [part.kind for part in (self.embedding.absolute, *inside) if part is not None and part.planar]
        if planar and self.embedding.grid is None:
            raise SpecError(
                f"position: {planar[0]} asks for rows and columns, and what {self.embedding.kind} reads has none",
                f"position={planar[0].removesuffix('-2d')}, or a model that reads pictures",
            )
        if planar and self.scatter:
            raise SpecError(f"scatter: {planar[0]} asks for rows and columns, which can't be scattered", "scatter=0")

    def build(self, table: Lookup | None = None) -> Stack:
        """`table`: token vectors lent by another stack."""
        self._insist_on_a_picture()
        blocks = [spec.lie_on(self.embedding.grid).build(self.width) for spec in self.layout()]
        if self.embedding.graph is None and any(block.mixer is not None and block.mixer.connects for block in blocks):
            raise SpecError(
                f"mix: messages are passed along edges, and what {self.embedding.kind} reads has none",
                "a model that reads graphs, such as gin; or mix=attention",
            )
        for number, block in enumerate(blocks):
            for sublayer in block.sublayers:
                sublayer.skip = self.stochastic_depth * number / max(1, self.depth - 1)
        return Stack(
            self.embedding.build(self.width, table),
            blocks,
            build_optional(self.norm, self.width),
            build_optional(self.bias, self.bias and self.bias.shared_heads, self.width),
            Blend(self.depth + 1) if self.blend else None,
            self.scatter,
            self.width,
        )
