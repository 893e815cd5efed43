"""Compact Transformers, which learn from few pictures (Hassani et al. 2021): ViT-Lite, a small ViT; CVT, whose answer
is a learned mean of all places instead of a class token; CCT, which reads through convolutions instead of patches.
"""

from __future__ import annotations

from typing import Literal

from regard.core.activation import Activation
from regard.core.block import BlockSpec, Place
from regard.core.model import ModelSpec
from regard.core.role import EmbeddingSpec, HeadSpec
from regard.core.spec import Count, Depth, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings
from regard.parts.convolutions import Convolutions
from regard.parts.feedforward import FeedForward
from regard.parts.head import Classes, Pool
from regard.parts.initial import Normal
from regard.parts.norm import LayerNorm
from regard.parts.picture import Patches

SPREAD = 0.2  # of learned positions, ten times that of the matrices


class Compact(Settings):
    kind: Literal["compact"] = "compact"
    width: Size = 256
    depth: Depth = 7
    heads: Size = 4
    hidden: Size | None = None
    """The feed-forward has this many hidden units; unless given, twice the width."""
    image: Size | tuple[Size, Size] = 32
    """A picture is a square with sides of this many pixels, or has this height and width."""
    channels: Size = 3
    """A pixel has this many channels."""
    classes: Size = 10
    """There are this many classes."""
    convolutions: Count = 1
    """Pictures are read through this many convolutions, each with pooling; at 0, in patches."""
    kernel: Size = 3
    """A convolution sees squares with sides of this many pixels."""
    stride: Size | None = None
    """A convolution or patch begins this many pixels after the last; unless given, 1, or a patch's side."""
    patch: Size = 4
    """A patch is a square with sides of this many pixels, where there are no convolutions."""
    shifted: bool = False
    """A patch is read together with what stands half a patch away in the four diagonal directions (SPT)."""
    pool: Pool = "sequence"
    """A picture's vector is a learned mean of all places (sequence), their mean, or that of a class token (first)."""
    locality: bool = False
    """Heads learn a temperature, and no place looks at itself (LSA): attention for few pictures."""
    activation: Activation = "gelu"
    place: Place = "around"
    """Norms stand where the paper's source has them: before attention, and after its residual sum."""
    eps: Positive = 1e-5
    dropout: Rate = 0.0
    attention_dropout: Rate = 0.1
    stochastic_depth: Rate = 0.1
    """A row goes without a sublayer of the last block this often while training; of earlier ones, less often."""
    head: HeadSpec | None = None
    """The model ends in this head; unless given, in the classes."""


def compose(s: Compact) -> ModelSpec:
    norm = LayerNorm(eps=s.eps)
    block = BlockSpec(
        mix=Attention(
            heads=s.heads,
            bias=False,
            output_bias=True,
            temperature=s.locality,
            itself=not s.locality,
            dropout=s.attention_dropout,
        ),
        ffn=FeedForward(hidden=s.hidden or 2 * s.width, activation=s.activation, dropout=s.dropout),
        norm=norm,
        place=s.place,
        bare=("ffn",) if s.place == "around" else (),
        dropout=s.dropout,
    )
    stack = StackSpec(
        width=s.width,
        depth=s.depth,
        embedding=make_embedding(s),
        blocks=(block,),
        norm=norm,
        stochastic_depth=s.stochastic_depth,
    )
    return ModelSpec(encoder=stack, head=s.head or Classes(classes=s.classes, pool=s.pool), init=Normal(truncated=True))


def make_embedding(s: Compact) -> EmbeddingSpec:
    shared = {
        "image": s.image,
        "channels": s.channels,
        "first": s.pool == "first",
        "position_std": SPREAD,
        "dropout": s.dropout,
    }
    if s.convolutions:
        return Convolutions(layers=s.convolutions, kernel=s.kernel, stride=s.stride or 1, **shared)
    return Patches(patch=s.patch, stride=s.stride, shifted=s.shifted, scaled=not s.shifted, **shared)


family = Family(
    Compact,
    compose,
    {
        "cct-2-3x2": {"width": 128, "depth": 2, "heads": 2, "hidden": 128, "convolutions": 2},
        "cct-7-3x1": {},
        "cvt-7-4": {"convolutions": 0},
        "vit-lite": {"convolutions": 0, "pool": "first"},
    },
)
