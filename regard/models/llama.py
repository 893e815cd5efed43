"""Llama: RMSNorm, rotary positions, gated feed-forwards, grouped heads, no biases (Touvron et al. 2023)."""

from __future__ import annotations

from typing import ClassVar, Literal

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, FeedSpec, Positive, Rate, Size, Spec
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.parts.embedding import Tokens
from regard.parts.feedforward import Activation, FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import RMSNorm
from regard.parts.position import Rotary, ScalingSpec


class Decoder(Settings):
    """What Llama and its relatives let one choose."""

    kinds: ClassVar[dict[str, type[Spec]]] = Settings.kinds
    width: Size = 4096
    depth: Depth = 32
    heads: Size | None = None  # one for each 128 channels, unless given
    kv_heads: Size | None = None  # as many as heads, unless given
    size: Size | None = None  # of a head: width / heads, unless given
    hidden: Size = 11008
    activation: Activation = "silu"
    bias: bool = False  # of attention's four projections
    vocabulary: Size = 32000
    window: Size | None = None
    base: Positive = 10000.0
    scaling: ScalingSpec | None = None
    eps: Positive = 1e-5
    tied: bool = False
    dropout: Rate = 0.0


class Llama(Decoder):
    kind: Literal["llama"] = "llama"


def attention(s: Decoder) -> Attention:
    return Attention(
        heads=head_count(s.width, s.heads, 128),
        kv_heads=s.kv_heads,
        size=s.size,
        causal=True,
        window=s.window,
        position=Rotary(base=s.base, scaling=s.scaling),
        bias=s.bias,
    )


def stacked(s: Decoder, ffn: FeedSpec) -> ModelSpec:
    """The decoder that all relatives share, around a feed-forward of their own."""
    norm = RMSNorm(eps=s.eps)
    block = BlockSpec(mix=attention(s), ffn=ffn, norm=norm, dropout=s.dropout)
    embedding = Tokens(vocabulary=s.vocabulary, dropout=s.dropout)
    return ModelSpec(
        decoder=StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=(block,), norm=norm),
        head=Vocabulary(tied=s.tied, size=s.vocabulary),
        init=Normal(residual=True),
    )


def compose(s: Decoder) -> ModelSpec:
    return stacked(s, FeedForward(hidden=s.hidden, activation=s.activation, gated=True, bias=False))


family = Family(
    Llama,
    compose,
    {
        "llama-tiny": {"width": 128, "depth": 4, "heads": 4, "kv_heads": 2, "hidden": 344, "vocabulary": 8000},
        "llama2-7b": {},
        "llama3-8b": {"kv_heads": 8, "hidden": 14336, "vocabulary": 128256, "base": 500000.0},
    },
    hf=("llama",),
)
