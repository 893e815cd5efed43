"""T5: an encoder–decoder whose only positions are a bias that each stack's layers share (Raffel et al. 2020)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from regard.core.activation import Activation
from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.errors import CheckpointError
from regard.mixers.attention import Attention
from regard.models import Family, Settings
from regard.models.layout import ACTIVATIONS, Config, Head, Key, Layout, Tree
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import RMSNorm
from regard.parts.position import Bucketed


class T5(Settings):
    kind: Literal["t5"] = "t5"
    width: Size = 512
    depth: Depth = 6
    decoder_depth: Depth | None = None
    heads: Size = 8
    size: Size = 64
    """A head has this many channels."""
    hidden: Size = 2048
    vocabulary: Size = 32128
    buckets: Size = 32
    """Distances are divided into this many buckets, each with a bias of its own."""
    farthest: Size = 128
    """Distances from here on share the last bucket."""
    activation: Activation = "relu"
    gated: bool = False
    """The feed-forward has a gate, as in T5 1.1."""
    tied: bool = True
    scaled: bool | None = None
    """Vectors are divided by √width before the words; unless given, where the words are tied."""
    eps: Positive = 1e-6
    dropout: Rate = 0.1


def compose(s: T5) -> ModelSpec:
    norm = RMSNorm(eps=s.eps)
    itself = Attention(heads=s.heads, size=s.size, bias=False, scale=1.0)  # the paper folds the scale into the weights
    ffn = FeedForward(hidden=s.hidden, activation=s.activation, gated=s.gated, bias=False, dropout=s.dropout)
    embedding = Tokens(vocabulary=s.vocabulary, dropout=s.dropout)

    def stack(mix: Attention, cross: Attention | None) -> StackSpec:
        return StackSpec(
            width=s.width,
            depth=s.depth if cross is None else s.decoder_depth or s.depth,
            embedding=embedding,
            blocks=(BlockSpec(mix=mix, cross=cross, ffn=ffn, norm=norm, dropout=s.dropout),),
            norm=norm,
            bias=Bucketed(buckets=s.buckets, farthest=s.farthest, both=cross is None, heads=s.heads),
        )

    return ModelSpec(
        encoder=stack(itself, None),
        decoder=stack(itself.replace(causal=True), itself.replace(over="memory")),
        head=Vocabulary(tied=s.tied, size=s.vocabulary, scale=s.tied if s.scaled is None else s.scaled),
        share=True,
        init=Normal(),
    )


def rows(stack: str, sublayers: dict[str, str]) -> str:
    """The rows of one stack: their sublayers are numbered, ours have names."""
    lines = [
        f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias -> {stack}.bias.table",
        f"{stack}.final_layer_norm -> {stack}.norm",
        f"{stack}.embed_tokens -> nothing",
    ]
    for place, (ours, theirs) in enumerate(sublayers.items()):
        there, here = f"{stack}.block.{{i}}.layer.{place}", f"{stack}.blocks.{{i}}.{ours}"
        lines.append(f"{there}.layer_norm -> {here}.norm")
        parts = {"wo": "down"} if ours == "ffn" else ATTENTION
        lines += [f"{there}.{theirs}.{name} -> {here}.inner.{part}" for name, part in parts.items()]
    return "\n".join(lines) + "\n"


ATTENTION = {"q": "query", "k": "key", "v": "value", "o": "output"}
ENCODER = {"mix": "SelfAttention", "ffn": "DenseReluDense"}
DECODER = {"mix": "SelfAttention", "cross": "EncDecAttention", "ffn": "DenseReluDense"}


def feeds(s: T5) -> str:
    """A gate stands beside the inner layer, which is called wi_1 then."""
    parts = {"wi_0": "gate", "wi_1": "up"} if s.gated else {"wi": "up"}
    places = (("encoder", 1), ("decoder", 2))
    return "\n".join(
        f"{stack}.block.{{i}}.layer.{place}.DenseReluDense.{theirs} -> {stack}.blocks.{{i}}.ffn.inner.{ours}"
        for stack, place in places
        for theirs, ours in parts.items()
    )


def read(config: Config, names: Collection[str]) -> Tree:
    """Which feed-forward, and whether the head has words of its own: only the file tells that for sure."""
    told = str(config.get("feed_forward_proj", "relu"))
    gated, _, kind = told.rpartition("-")
    if gated not in ("", "gated") or kind not in ACTIVATIONS:
        raise CheckpointError(f"config.json: feed_forward_proj {told!r} isn't known here")
    tied = bool(config.get("tie_word_embeddings", True))
    return {
        "gated": bool(gated),
        "activation": "gelu-tanh" if told == "gated-gelu" else ACTIVATIONS[kind],
        "tied": "lm_head.weight" not in names if names else tied,
        "scaled": bool(config.get("scale_decoder_outputs", tied)),
    }


def write(s: T5) -> Tree:
    known = {name: kind for kind, name in ACTIVATIONS.items() if kind in ("relu", "gelu", "silu", "tanh", "gelu_new")}
    kind = known[s.activation]
    if s.gated:
        kind = "gated-gelu" if s.activation == "gelu-tanh" else f"gated-{kind}"
    return {
        "feed_forward_proj": kind,
        "tie_word_embeddings": s.tied,
        "scale_decoder_outputs": s.tied if s.scaled is None else s.scaled,
        "num_decoder_layers": s.decoder_depth or s.depth,
        "is_encoder_decoder": True,
        "decoder_start_token_id": 0,
    }


# the first files have this beside the rest; nobody reads it
STRAY = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias -> nothing\n"
layout = Layout(
    "shared -> decoder.embedding.tokens\n" + STRAY + rows("encoder", ENCODER) + rows("decoder", DECODER),
    {
        "width": Key("d_model"),
        "depth": Key("num_layers"),
        "decoder_depth": Key("num_decoder_layers", None),
        "heads": Key("num_heads"),
        "size": Key("d_kv"),
        "hidden": Key("d_ff"),
        "vocabulary": Key("vocab_size"),
        "buckets": Key("relative_attention_num_buckets", 32),
        "farthest": Key("relative_attention_max_distance", 128),
        "eps": Key("layer_norm_epsilon", 1e-6),
        "dropout": Key("dropout_rate", 0.1),
    },
    {"T5ForConditionalGeneration": Head()},
    spare="lm_head -> head.words",
    copies={f"{stack}.embed_tokens.weight": "shared.weight" for stack in ("encoder", "decoder")},
    read=read,
    write=write,
    more=feeds,
)
family = Family(T5, compose, {"t5-small": {}}, {"t5": layout})
