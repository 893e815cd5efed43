"""GPT-Neo: GPT-2 whose layers see everything or 256 tokens, in turn, by unscaled scores (Black et al. 2021)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from regard.core.activation import Activation
from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.errors import CheckpointError
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.models.layout import Config, Head, Key, Layout, Tree, activation
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import LayerNorm
from regard.parts.position import Learned

Reach = Literal["global", "local"]


class GPTNeo(Settings):
    kind: Literal["gptneo"] = "gptneo"
    width: Size = 768
    depth: Depth = 12
    heads: Size | None = None
    """There are this many heads; unless given, one for each 64 channels."""
    hidden: Size | None = None
    """The feed-forward has this many hidden units; unless given, four times the width."""
    vocabulary: Size = 50257
    context: Size = 2048
    cycle: tuple[Reach, ...] = ("global", "local")
    """Layers see everything (global) or a window (local), in this order over and over."""
    window: Size = 256
    """A local layer sees this many tokens."""
    activation: Activation = "gelu-tanh"
    eps: Positive = 1e-5
    tied: bool = True
    dropout: Rate = 0.0
    attention_dropout: Rate = 0.0


def compose(s: GPTNeo) -> ModelSpec:
    everywhere = Attention(
        heads=head_count(s.width, s.heads, 64),
        causal=True,
        bias=False,
        output_bias=True,
        scale=1.0,
        dropout=s.attention_dropout,
    )
    reaches = {"global": everywhere, "local": everywhere.replace(window=s.window)}
    ffn = FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation)
    norm = LayerNorm(eps=s.eps)
    embedding = Tokens(vocabulary=s.vocabulary, position=Learned(context=s.context), dropout=s.dropout)
    return ModelSpec(
        decoder=StackSpec(
            width=s.width,
            depth=s.depth,
            embedding=embedding,
            blocks=tuple(BlockSpec(mix=reaches[reach], ffn=ffn, norm=norm, dropout=s.dropout) for reach in s.cycle),
            norm=norm,
        ),
        head=Vocabulary(tied=s.tied, size=s.vocabulary),
        init=Normal(residual=True),
    )


ROWS = """
transformer.wte                                -> decoder.embedding.tokens
transformer.wpe                                -> decoder.embedding.position.table
transformer.h.{i}.ln_1                         -> decoder.blocks.{i}.mix.norm
transformer.h.{i}.attn.attention.q_proj        -> decoder.blocks.{i}.mix.inner.query
transformer.h.{i}.attn.attention.k_proj        -> decoder.blocks.{i}.mix.inner.key
transformer.h.{i}.attn.attention.v_proj        -> decoder.blocks.{i}.mix.inner.value
transformer.h.{i}.attn.attention.out_proj      -> decoder.blocks.{i}.mix.inner.output
transformer.h.{i}.attn.attention.bias          -> nothing
transformer.h.{i}.attn.attention.masked_bias   -> nothing
transformer.h.{i}.ln_2                         -> decoder.blocks.{i}.ffn.norm
transformer.h.{i}.mlp.c_fc                     -> decoder.blocks.{i}.ffn.inner.up
transformer.h.{i}.mlp.c_proj                   -> decoder.blocks.{i}.ffn.inner.down
transformer.ln_f                               -> decoder.norm
"""


def read(config: Config, names: Collection[str]) -> Tree:
    """The cycle of layers, from a list such as [[["global", "local"], 6]]."""
    told: Any = config.get("attention_types") or [[["global", "local"], 12]]
    try:
        layers = [reach for reaches, times in told for _ in range(times) for reach in reaches]
    except (TypeError, ValueError):
        raise CheckpointError(
            f"config.json: attention_types {told!r} isn't a list of layers and their number"
        ) from None
    lengths = (n for n in range(1, len(layers) + 1) if (layers[:n] * len(layers))[: len(layers)] == layers)
    return {"cycle": tuple(layers[: next(lengths, 1)])}


def write(s: GPTNeo) -> Tree:
    layers = [[list((s.cycle * s.depth)[: s.depth]), 1]]
    return {"num_heads": head_count(s.width, s.heads, 64), "attention_types": layers, "embed_dropout": s.dropout}


layout = Layout(
    ROWS,
    {
        "width": Key("hidden_size"),
        "depth": Key("num_layers"),
        "heads": Key("num_heads"),
        "hidden": Key("intermediate_size", None),
        "vocabulary": Key("vocab_size"),
        "context": Key("max_position_embeddings"),
        "window": Key("window_size", 256),
        "activation": activation("activation_function", "gelu_new"),
        "eps": Key("layer_norm_epsilon", 1e-5),
        "tied": Key("tie_word_embeddings", True),
        "dropout": Key("resid_dropout", 0.0),
        "attention_dropout": Key("attention_dropout", 0.0),
    },
    {"GPTNeoForCausalLM": Head()},
    spare="lm_head -> head.words",
    copies={"lm_head.weight": "transformer.wte.weight"},
    prefix="transformer.",
    read=read,
    write=write,
)
family = Family(GPTNeo, compose, {"gpt-neo-125m": {}}, {"gpt_neo": layout})
