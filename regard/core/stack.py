"""A stack: embedding, then blocks, then a norm."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from regard.core.block import Block, BlockSpec
from regard.core.mixer import Part
from regard.core.spec import Depth, EmbeddingSpec, NormSpec, RelativeSpec, Size, Spec, built
from regard.core.state import Group, State
from regard.core.view import View


class Stack(Part):
    """Inputs to hidden vectors: (batch, time, width)."""

    def __init__(
        self, embedding: nn.Module, blocks: list[Block], norm: nn.Module | None, bias: nn.Module | None
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.bias = bias
        self.recompute = False  # whoever trains may trade time for memory

    def forward(self, inputs: Tensor, view: View, state: Group | None = None) -> Tensor:
        view.bias = self.bias
        x = self.embedding(inputs, view)
        states = state.parts if state is not None else (None,) * len(self.blocks)
        for block, part in zip(self.blocks, states, strict=True):
            x = (
                self._thrifty(block, x, view)
                if self.recompute and self.training and idle(part)
                else block(x, view, part)
            )
        return x if self.norm is None else self.norm(x)

    @staticmethod
    def _thrifty(block: nn.Module, x: Tensor, view: View) -> Tensor:
        """A block that keeps only its input for the backward pass, and runs again then (Chen et al. 2016)."""
        found: Tensor = checkpoint(block, x, view, use_reentrant=False)
        return found

    def start(self, rows: int, view: View) -> Group:
        return Group(parts=tuple(block.start(rows, view) for block in self.layers()))

    def layers(self) -> list[Block]:
        """The blocks, as blocks."""
        return list(self.blocks)  # type: ignore[arg-type]


def idle(state: State | None) -> bool:
    """Whether nothing is remembered, so that running twice does no harm."""
    return state is None or (isinstance(state, Group) and all(part is None for part in state.parts))


class StackSpec(Spec):
    """`first` blocks as given, then `blocks` over and over until there are `depth`."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}
    kind: Literal["stack"] = "stack"
    width: Size
    depth: Depth
    embedding: EmbeddingSpec
    blocks: tuple[BlockSpec, ...] = Field(min_length=1, max_length=1024)
    first: tuple[BlockSpec, ...] = Field((), max_length=1024)
    norm: NormSpec | None = None
    bias: RelativeSpec | None = None  # relative positions shared by all blocks

    def layout(self) -> list[BlockSpec]:
        """Every block's spec, in order."""
        cycle = [self.blocks[i % len(self.blocks)] for i in range(max(0, self.depth - len(self.first)))]
        return [*self.first[: self.depth], *cycle]

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.bias is not None and self.bias.shared_heads is None:
            raise ValueError("bias: positions shared by a whole stack must say how many heads they serve")
        for block in self.layout() if self.bias is not None else ():
            heads = block.mix.biased_heads if block.mix else None
            if heads is not None and self.bias is not None and heads != self.bias.shared_heads:
                raise ValueError(f"bias: it serves {self.bias.shared_heads} heads, and a block's mix has heads {heads}")
        return self

    def build(self, table: nn.Embedding | None = None) -> Stack:
        """`table`: token vectors lent by another stack."""
        return Stack(
            self.embedding.build(self.width, table),
            [spec.build(self.width) for spec in self.layout()],
            built(self.norm, self.width),
            built(self.bias, self.bias and self.bias.shared_heads, self.width),
        )
