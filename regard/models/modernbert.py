"""ModernBERT: rotary positions, gates, and attention that is local in two layers of three (Warner et al. 2024)."""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, HeadSpec, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.parts.embedding import Tokens
from regard.parts.feedforward import Activation, FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import LayerNorm
from regard.parts.position import Rotary


class ModernBert(Settings):
    kind: Literal["modernbert"] = "modernbert"
    width: Size = 768
    depth: Depth = 22
    heads: Size | None = None  # one for each 64 channels, unless given
    hidden: Size = 1152
    vocabulary: Size = 50368
    activation: Activation = "gelu"
    eps: Positive = 1e-5
    local: Size = 128  # tokens that a local layer sees, half on each side
    every: Size = 3  # one layer in so many sees everything
    base: Positive = 160000.0
    local_base: Positive = 10000.0
    dropout: Rate = 0.0
    head: Literal["masking"] | HeadSpec | None = None


def compose(s: ModernBert) -> ModelSpec:
    norm = LayerNorm(eps=s.eps, bias=False)
    heads = head_count(s.width, s.heads, 64)
    everywhere = Attention(heads=heads, bias=False, position=Rotary(base=s.base))
    nearby = everywhere.replace(window=s.local // 2 + 1, position=Rotary(base=s.local_base))
    ffn = FeedForward(hidden=s.hidden, activation=s.activation, gated=True, bias=False)

    def block(mix: Attention, bare: tuple[Literal["mix"], ...] = ()) -> BlockSpec:
        return BlockSpec(mix=mix, ffn=ffn, norm=norm, dropout=s.dropout, bare=bare)

    cycle = (block(everywhere), *(block(nearby) for _ in range(s.every - 1)))
    first = (block(everywhere, bare=("mix",)), *cycle[1:])  # the embedding has just been normalised
    embedding = Tokens(vocabulary=s.vocabulary, norm=norm, dropout=s.dropout)
    masking = Vocabulary(bias=True, transform=s.activation, transform_bias=False, norm=norm)
    return ModelSpec(
        encoder=StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=cycle, first=first, norm=norm),
        head=masking if s.head == "masking" else s.head,
        init=Normal(residual=True, truncated=True),
    )


family = Family(
    ModernBert,
    compose,
    {"modernbert-base": {}, "modernbert-large": {"width": 1024, "depth": 28, "hidden": 2624}},
    hf=("modernbert",),
)
