"""ViT: an image as a sequence of patches (Dosovitskiy et al. 2021)."""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, HeadSpec, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.parts.embedding import Patches
from regard.parts.feedforward import Activation, FeedForward
from regard.parts.head import Classes
from regard.parts.initial import Normal
from regard.parts.norm import LayerNorm


class ViT(Settings):
    kind: Literal["vit"] = "vit"
    width: Size = 768
    depth: Depth = 12
    heads: Size | None = None  # one for each 64 channels, unless given
    hidden: Size | None = None  # four times the width, unless given
    image: Size = 224
    patch: Size = 16
    channels: Size = 3
    classes: Size = 1000
    activation: Activation = "gelu"
    eps: Positive = 1e-12
    dropout: Rate = 0.0
    head: HeadSpec | None = None  # the classes, unless given


def compose(s: ViT) -> ModelSpec:
    norm = LayerNorm(eps=s.eps)
    block = BlockSpec(
        mix=Attention(heads=head_count(s.width, s.heads, 64)),
        ffn=FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation),
        norm=norm,
        dropout=s.dropout,
    )
    embedding = Patches(image=s.image, patch=s.patch, channels=s.channels, dropout=s.dropout)
    return ModelSpec(
        encoder=StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=(block,), norm=norm),
        head=s.head or Classes(classes=s.classes),
        init=Normal(truncated=True),
    )


family = Family(
    ViT,
    compose,
    {
        "vit-tiny": {"width": 64, "depth": 4, "heads": 4, "image": 8, "patch": 2, "channels": 1, "classes": 10},
        "vit-b16": {},
        "vit-l16": {"width": 1024, "depth": 24},
    },
    hf=("vit",),
)
