"""GPT-2: norms first, one more at the end, residual outputs scaled by 1/√N (Radford et al. 2019).

GPT-3 (Brown et al. 2020) is the same, with dense and locally banded attention in turn. Its paper doesn't give the
band's width; 256 is what GPT-Neo chose.
"""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.parts.embedding import Tokens
from regard.parts.feedforward import Activation, FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import LayerNorm
from regard.parts.position import Learned


class GPT2(Settings):
    kind: Literal["gpt2"] = "gpt2"
    width: Size = 768
    depth: Depth = 12
    heads: Size | None = None  # one for each 64 channels, unless given
    hidden: Size | None = None  # four times the width, unless given
    vocabulary: Size = 50257
    context: Size = 1024
    band: Size | None = None  # every second layer sees only so many tokens
    activation: Activation = "gelu-tanh"
    eps: Positive = 1e-5
    tied: bool = True
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.0


def compose(s: GPT2) -> ModelSpec:
    dense = Attention(heads=head_count(s.width, s.heads, 64), causal=True, dropout=s.attention_dropout)
    mixers = (dense,) if s.band is None else (dense, dense.replace(window=s.band))
    ffn = FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation)
    norm = LayerNorm(eps=s.eps)
    embedding = Tokens(vocabulary=s.vocabulary, position=Learned(context=s.context), dropout=s.dropout)
    return ModelSpec(
        decoder=StackSpec(
            width=s.width,
            depth=s.depth,
            embedding=embedding,
            blocks=tuple(BlockSpec(mix=mix, ffn=ffn, norm=norm, dropout=s.dropout) for mix in mixers),
            norm=norm,
        ),
        head=Vocabulary(tied=s.tied, size=s.vocabulary),
        init=Normal(residual=True),
    )


family = Family(
    GPT2,
    compose,
    {
        "gpt2": {},
        "gpt2-medium": {"width": 1024, "depth": 24},
        "gpt2-large": {"width": 1280, "depth": 36},
        "gpt2-xl": {"width": 1600, "depth": 48},
        "gpt3-small": {"context": 2048, "band": 256},
    },
    hf=("gpt2",),
)
