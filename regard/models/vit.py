"""ViT: an image as a sequence of patches (Dosovitskiy et al. 2021)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from torch import Tensor

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, HeadSpec, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.models.layout import Change, Config, Head, Key, Layout, Match, Tree, activation, describe_labels, labels
from regard.parts.feedforward import Activation, FeedForward
from regard.parts.head import Classes
from regard.parts.initial import Normal
from regard.parts.norm import LayerNorm
from regard.parts.picture import Patches


class ViT(Settings):
    kind: Literal["vit"] = "vit"
    width: Size = 768
    depth: Depth = 12
    heads: Size | None = None
    """There are this many heads; unless given, one for each 64 channels."""
    hidden: Size | None = None
    """The feed-forward has this many hidden units; unless given, four times the width."""
    image: Size = 224
    """An image is a square with sides of this many pixels."""
    patch: Size = 16
    """A patch is a square with sides of this many pixels."""
    channels: Size = 3
    """A pixel has this many channels."""
    classes: Size = 1000
    """There are this many classes."""
    activation: Activation = "gelu"
    eps: Positive = 1e-12
    dropout: Rate = 0.0
    head: HeadSpec | None = None
    """The model ends in this head; unless given, in the classes."""


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


ROWS = """
vit.embeddings.cls_token                            -> encoder.embedding.first
vit.embeddings.position_embeddings                  -> encoder.embedding.position
vit.embeddings.patch_embeddings.projection    -patches-> encoder.embedding.project
vit.encoder.layer.{i}.layernorm_before              -> encoder.blocks.{i}.mix.norm
vit.encoder.layer.{i}.attention.attention.query     -> encoder.blocks.{i}.mix.inner.query
vit.encoder.layer.{i}.attention.attention.key       -> encoder.blocks.{i}.mix.inner.key
vit.encoder.layer.{i}.attention.attention.value     -> encoder.blocks.{i}.mix.inner.value
vit.encoder.layer.{i}.attention.output.dense        -> encoder.blocks.{i}.mix.inner.output
vit.encoder.layer.{i}.layernorm_after               -> encoder.blocks.{i}.ffn.norm
vit.encoder.layer.{i}.intermediate.dense            -> encoder.blocks.{i}.ffn.inner.up
vit.encoder.layer.{i}.output.dense                  -> encoder.blocks.{i}.ffn.inner.down
vit.layernorm                                       -> encoder.norm
"""


def squares(x: Tensor, plan: Match) -> Tensor:
    """A row of a matrix for each of their (channels, patch, patch) kernels."""
    return x.flatten(1) if x.dim() > 1 else x


def kernels(x: Tensor, plan: Match) -> Tensor:
    s = plan.settings
    return x.unflatten(1, (s.channels, s.patch, s.patch)) if x.dim() > 1 else x


def read(config: Config, names: Collection[str]) -> Tree:
    return {"classes": labels(config)}


def write(s: ViT) -> Tree:
    sizes = {"num_attention_heads": head_count(s.width, s.heads, 64), "intermediate_size": s.hidden or 4 * s.width}
    return sizes | describe_labels(s.classes)


layout = Layout(
    ROWS,
    {
        "width": Key("hidden_size"),
        "depth": Key("num_hidden_layers"),
        "heads": Key("num_attention_heads"),
        "hidden": Key("intermediate_size"),
        "image": Key("image_size", 224),
        "patch": Key("patch_size", 16),
        "channels": Key("num_channels", 3),
        "activation": activation("hidden_act", "gelu"),
        "eps": Key("layer_norm_eps", 1e-12),
        "dropout": Key("hidden_dropout_prob", 0.0),
    },
    {"ViTForImageClassification": Head({}, "classifier -> head.classes")},
    spare="vit.pooler.dense -> nothing",
    prefix="vit.",
    fixed={"qkv_bias": True},
    read=read,
    write=write,
    changes={"patches": Change(squares, kernels)},
)
family = Family(
    ViT,
    compose,
    {
        "vit-tiny": {"width": 64, "depth": 4, "heads": 4, "image": 8, "patch": 2, "channels": 1, "classes": 10},
        "vit-b16": {},
        "vit-l16": {"width": 1024, "depth": 24},
    },
    {"vit": layout},
)
