"""ViT: pictures as sequences of patches (Dosovitskiy et al. 2021); DeiT, which had a teacher (Touvron et al. 2021)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from torch import Tensor

from regard.core.activation import Activation
from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.role import HeadSpec
from regard.core.spec import Depth, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.models.layout import Change, Config, Head, Key, Layout, Match, Tree, activation, describe_labels, labels
from regard.parts.feedforward import FeedForward
from regard.parts.head import Classes, Distilled
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
    image: Size | tuple[Size, Size] = 224
    """A picture is a square with sides of this many pixels, or has this height and width."""
    patch: Size = 16
    """A patch is a square with sides of this many pixels."""
    stride: Size | None = None
    """The next patch begins this many pixels further; unless given, a patch's side. Below it, patches overlap."""
    shifted: bool = False
    """A patch is read together with what stands half a patch away in the four diagonal directions (SPT)."""
    taught: bool = False
    """A second token learns from a teacher, and the answer is the mean of both (DeiT)."""
    channels: Size = 3
    """A pixel has this many channels."""
    classes: Size = 1000
    """There are this many classes."""
    activation: Activation = "gelu"
    eps: Positive = 1e-12
    dropout: Rate = 0.0
    attention_dropout: Rate = 0.0
    stochastic_depth: Rate = 0.0
    """A row goes without a sublayer of the last block this often while training; of earlier ones, less often."""
    head: HeadSpec | None = None
    """The model ends in this head; unless given, in the classes."""


def compose(s: ViT) -> ModelSpec:
    norm = LayerNorm(eps=s.eps)
    block = BlockSpec(
        mix=Attention(heads=head_count(s.width, s.heads, 64), dropout=s.attention_dropout),
        ffn=FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation),
        norm=norm,
        dropout=s.dropout,
    )
    embedding = Patches(
        image=s.image,
        patch=s.patch,
        stride=s.stride,
        shifted=s.shifted,
        channels=s.channels,
        taught=s.taught,
        dropout=s.dropout,
    )
    stack = StackSpec(
        width=s.width,
        depth=s.depth,
        embedding=embedding,
        blocks=(block,),
        norm=norm,
        stochastic_depth=s.stochastic_depth,
    )
    usual = Distilled(classes=s.classes) if s.taught else Classes(classes=s.classes)
    return ModelSpec(encoder=stack, head=s.head or usual, init=Normal(truncated=True))


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


def plain_classes(config: Config) -> HeadSpec:
    """DeiT's head that asks the class token alone."""
    return Classes(classes=labels(config))


KEYS = {
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
    "attention_dropout": Key("attention_probs_dropout_prob", 0.0),
}
layout = Layout(
    ROWS,
    KEYS,
    {"ViTForImageClassification": Head({}, "classifier -> head.classes")},
    spare="vit.pooler.dense -> nothing",
    prefix="vit.",
    fixed={"qkv_bias": True},
    read=read,
    write=write,
    changes={"patches": Change(squares, kernels)},
)
taught = Layout(
    ROWS.replace("vit.", "deit.") + "deit.embeddings.distillation_token -> encoder.embedding.second\n",
    KEYS,
    {
        "DeiTForImageClassificationWithTeacher": Head(
            {"taught": True},
            "cls_classifier -> head.classes\ndistillation_classifier -> head.taught",
        ),
        "DeiTForImageClassification": Head({"taught": True, "head": plain_classes}, "classifier -> head.classes"),
    },
    spare="deit.pooler.dense -> nothing",
    prefix="deit.",
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
        "deit-b16": {"taught": True},
    },
    {"vit": layout, "deit": taught},
)
