"""GPT-2: norms first, one more at the end, residual outputs scaled by 1/√N (Radford et al. 2019).

GPT-3 (Brown et al. 2020) is the same, with dense and locally banded attention in turn. Its paper doesn't give the
band's width; 256 is what GPT-Neo chose.
"""

from __future__ import annotations

from typing import Literal

from regard.core.activation import Activation
from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.models.layout import Head, Key, Layout, Tree, activation
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import LayerNorm
from regard.parts.position import Learned


class GPT2(Settings):
    kind: Literal["gpt2"] = "gpt2"
    width: Size = 768
    depth: Depth = 12
    heads: Size | None = None
    """There are this many heads; unless given, one for each 64 channels."""
    hidden: Size | None = None
    """The feed-forward has this many hidden units; unless given, four times the width."""
    vocabulary: Size = 50257
    context: Size = 1024
    band: Size | None = None
    """Every second layer sees only this many tokens, as in GPT-3."""
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


ROWS = """
transformer.wte                      -> decoder.embedding.tokens
transformer.wpe                      -> decoder.embedding.position.table
transformer.h.{i}.ln_1               -> decoder.blocks.{i}.mix.norm
transformer.h.{i}.attn.c_attn        => decoder.blocks.{i}.mix.inner.query | key | value
transformer.h.{i}.attn.c_proj        => decoder.blocks.{i}.mix.inner.output
transformer.h.{i}.attn.bias          -> nothing
transformer.h.{i}.attn.masked_bias   -> nothing
transformer.h.{i}.ln_2               -> decoder.blocks.{i}.ffn.norm
transformer.h.{i}.mlp.c_fc           => decoder.blocks.{i}.ffn.inner.up
transformer.h.{i}.mlp.c_proj         => decoder.blocks.{i}.ffn.inner.down
"""
KEYS = {
    "width": Key("n_embd"),
    "depth": Key("n_layer"),
    "heads": Key("n_head"),
    "vocabulary": Key("vocab_size"),
    "context": Key("n_positions"),
    "eps": Key("layer_norm_epsilon", 1e-5),
    "dropout": Key("resid_pdrop", 0.1),
}


def write(s: GPT2) -> Tree:
    heads = {"n_head": head_count(s.width, s.heads, 64), "n_inner": s.hidden or 4 * s.width}
    return heads | {"embd_pdrop": s.dropout}


layout = Layout(
    ROWS + "transformer.ln_f -> decoder.norm",
    {
        **KEYS,
        "hidden": Key("n_inner", None),
        "activation": activation("activation_function", "gelu_new"),
        "tied": Key("tie_word_embeddings", True),
        "attention_dropout": Key("attn_pdrop", 0.1),
    },
    {"GPT2LMHeadModel": Head()},
    spare="lm_head -> head.words",
    copies={"lm_head.weight": "transformer.wte.weight"},
    prefix="transformer.",
    fixed={"scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False, "add_cross_attention": False},
    write=write,
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
    {"gpt2": layout},
)
