"""ModernBERT: rotary positions, gates, and attention that is local in two layers of three (Warner et al. 2024)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from regard.core.activation import Activation
from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.role import HeadSpec
from regard.core.spec import Depth, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.errors import CheckpointError
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.models.layout import Config, Head, Key, Layout, Tree, activation, describe_labels, labels
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Classes, Tags, Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import LayerNorm
from regard.parts.position import Rotary


class ModernBert(Settings):
    kind: Literal["modernbert"] = "modernbert"
    width: Size = 768
    depth: Depth = 22
    heads: Size | None = None
    """There are this many heads; unless given, one for each 64 channels."""
    hidden: Size = 1152
    vocabulary: Size = 50368
    activation: Activation = "gelu"
    eps: Positive = 1e-5
    local: Size = 128
    """A local layer sees this many tokens, half on each side."""
    every: Size = 3
    """One layer in this many sees everything."""
    base: Positive = 160000.0
    local_base: Positive = 10000.0
    """The base of a local layer's rotations."""
    dropout: Rate = 0.0
    head: Literal["masking"] | HeadSpec | None = None
    """The model ends in a head that guesses words (masking), or in any head; none: in vectors."""
    head_activation: Activation | None = None
    """The activation of the head that guesses words; unless given, that of the blocks."""


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
    return ModelSpec(
        encoder=StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=cycle, first=first, norm=norm),
        head=words(s) if s.head == "masking" else s.head,
        init=Normal(residual=True, truncated=True),
    )


def words(s: ModernBert) -> HeadSpec:
    """The scores of hidden words."""
    norm = LayerNorm(eps=s.eps, bias=False)
    return Vocabulary(bias=True, transform=s.head_activation or s.activation, transform_bias=False, norm=norm)


def layer(activation: str, eps: float) -> Tree:
    """What stands before classes and tags, as before the words."""
    norm = {"kind": "layernorm", "eps": eps, "bias": False}
    return {"dense": True, "activation": activation, "dense_bias": False, "norm": norm}


ROWS = """
model.embeddings.tok_embeddings      -> encoder.embedding.tokens
model.embeddings.norm                -> encoder.embedding.norm
model.layers.{i}.attn_norm           -> encoder.blocks.{i}.mix.norm
model.layers.{i}.attn.Wqkv           -> encoder.blocks.{i}.mix.inner.query | key | value
model.layers.{i}.attn.Wo             -> encoder.blocks.{i}.mix.inner.output
model.layers.{i}.mlp_norm            -> encoder.blocks.{i}.ffn.norm
model.layers.{i}.mlp.Wi              -> encoder.blocks.{i}.ffn.inner.gate | up
model.layers.{i}.mlp.Wo              -> encoder.blocks.{i}.ffn.inner.down
model.final_norm                     -> encoder.norm
"""
MASKING = """
head.dense                           -> head.dense
head.norm                            -> head.norm
decoder.bias                         -> head.bias
"""
CLASSES = """
head.dense                           -> head.pooler.dense
head.norm                            -> head.pooler.norm
classifier                           -> head.classes
"""
TAGS = """
head.dense                           -> head.dense
head.norm                            -> head.norm
classifier                           -> head.tags
"""
POOLS = {"cls": "first", "mean": "mean"}
HEAD_ACTIVATION = activation("classifier_activation", "gelu")
POOL = Key("classifier_pooling", "cls", POOLS)


def classes(config: Config) -> Tree:
    return {"kind": "classes", "classes": labels(config), "pool": POOL.read(config), **before(config)}


def tags(config: Config) -> Tree:
    return {"kind": "tags", "tags": labels(config), **before(config)}


def before(config: Config) -> Tree:
    dropout = float(config.get("classifier_dropout", 0.0))
    return {"dropout": dropout, **layer(HEAD_ACTIVATION.read(config), config.get("norm_eps", 1e-5))}


def read(config: Config, names: Collection[str]) -> Tree:
    """How often a layer sees everything, and the bases of both kinds of layers."""
    told = config.get("rope_parameters") or {}
    kinds = {"base": ("full_attention", "global_rope_theta", 160000.0)}
    kinds["local_base"] = ("sliding_attention", "local_rope_theta", 10000.0)
    found: Tree = {}
    for ours, (kind, before, usual) in kinds.items():
        rotary = told.get(kind) or {}
        if rotary.get("rope_type", "default") != "default":
            raise CheckpointError(f"config.json: rope_parameters.{kind}: {rotary['rope_type']!r} isn't known here")
        found[ours] = rotary.get("rope_theta", config.get(before) or usual)
    layers, every = config.get("layer_types"), config.get("global_attn_every_n_layers", 3)
    if layers:
        everywhere = [n for n, kind in enumerate(layers) if kind == "full_attention"]
        every = everywhere[1] if len(everywhere) > 1 else max(len(layers), 1)
        if everywhere != list(range(0, len(layers), every)):
            raise CheckpointError("config.json: layer_types: full attention must come in every n-th layer")
    return found | {"every": every, "head_activation": HEAD_ACTIVATION.read(config)}


def write(s: ModernBert) -> Tree:
    answer: Tree = {}
    if isinstance(s.head, Classes | Tags):
        answer = describe_labels(s.head.classes if isinstance(s.head, Classes) else s.head.tags)
        answer["classifier_activation"] = HEAD_ACTIVATION.write(s.head.activation)
        answer["classifier_dropout"] = s.head.dropout
    if isinstance(s.head, Classes):
        answer["classifier_pooling"] = POOL.write(s.head.pool)
    kinds = ["sliding_attention" if n % s.every else "full_attention" for n in range(s.depth)]
    bases = {"full_attention": s.base, "sliding_attention": s.local_base}
    return {
        "num_attention_heads": head_count(s.width, s.heads, 64),
        "layer_types": kinds,
        "global_attn_every_n_layers": s.every,
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()},
        "global_rope_theta": s.base,
        "local_rope_theta": s.local_base,
        "embedding_dropout": s.dropout,
        "classifier_activation": HEAD_ACTIVATION.write(s.head_activation or s.activation),
        "pad_token_id": 0,
        **answer,
    }


layout = Layout(
    ROWS,
    {
        "width": Key("hidden_size"),
        "depth": Key("num_hidden_layers"),
        "heads": Key("num_attention_heads"),
        "hidden": Key("intermediate_size"),
        "vocabulary": Key("vocab_size"),
        "activation": activation("hidden_activation", "gelu"),
        "eps": Key("norm_eps", 1e-5),
        "local": Key("local_attention", 128),
        "dropout": Key("mlp_dropout", 0.0),
    },
    {
        "ModernBertForMaskedLM": Head({"head": "masking"}, MASKING),
        "ModernBertModel": Head({"head": None}, bare=True),
        "ModernBertForSequenceClassification": Head({"head": classes}, CLASSES),
        "ModernBertForTokenClassification": Head({"head": tags}, TAGS),
    },
    spare="decoder.weight -> nothing",
    copies={"decoder.weight": "model.embeddings.tok_embeddings.weight"},
    prefix="model.",
    fixed={
        "norm_bias": False,
        "attention_bias": False,
        "mlp_bias": False,
        "decoder_bias": True,
        "classifier_bias": False,
        "tie_word_embeddings": True,
    },
    read=read,
    write=write,
)
family = Family(
    ModernBert,
    compose,
    {"modernbert-base": {}, "modernbert-large": {"width": 1024, "depth": 28, "hidden": 2624}},
    {"modernbert": layout},
    {
        "words": words,
        "classes": lambda s: Classes(classes=1, pool="mean", **layer(s.head_activation or s.activation, s.eps)),
        "tags": lambda s: Tags(tags=1, **layer(s.head_activation or s.activation, s.eps)),
    },
)
