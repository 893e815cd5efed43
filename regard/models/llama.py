"""Llama: RMSNorm, rotary positions, gated feed-forwards, grouped heads, no biases (Touvron et al. 2023)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar, Literal

from regard.core.activation import Activation
from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.registry import Kinds
from regard.core.role import FeedSpec
from regard.core.spec import Depth, Positive, Rate, Size, Spec
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.models.layout import Config, Head, Key, Layout, Tree, activation, read_rotary, write_rotary
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import RMSNorm
from regard.parts.position import Rotary, ScalingSpec


class LlamaLike(Settings):
    """What Llama and its relatives let one choose."""

    kinds: ClassVar[Kinds[type[Spec]]] = Settings.kinds
    width: Size = 4096
    depth: Depth = 32
    heads: Size | None = None
    """There are this many heads; unless given, one for each 128 channels."""
    kv_heads: Size | None = None
    """There are this many heads of keys and values; unless given, as many as heads."""
    size: Size | None = None
    """A head has this many channels; unless given, width / heads."""
    hidden: Size = 11008
    activation: Activation = "silu"
    bias: bool = False
    """Attention's projections to queries, keys and values have a bias."""
    output_bias: bool | None = None
    """Attention's last projection has a bias; unless given, as the others."""
    head_norm: bool = False
    """There is a norm on each head's queries and keys."""
    vocabulary: Size = 32000
    window: Size | None = None
    """A position sees this many tokens back; none: all."""
    base: Positive = 10000.0
    scaling: ScalingSpec | None = None
    eps: Positive = 1e-5
    tied: bool = False
    dropout: Rate = 0.0


class Llama(LlamaLike):
    kind: Literal["llama"] = "llama"


def attention(s: LlamaLike) -> Attention:
    heads = head_count(s.width, s.heads, 128)
    return Attention(
        heads=heads,
        kv_heads=None if s.kv_heads == heads else s.kv_heads,
        size=None if s.size is None or s.size * heads == s.width else s.size,
        causal=True,
        window=s.window,
        position=Rotary(base=s.base, scaling=s.scaling),
        norm=RMSNorm(eps=s.eps) if s.head_norm else None,
        bias=s.bias,
        output_bias=s.output_bias,
    )


def stack_blocks(s: LlamaLike, ffn: FeedSpec) -> ModelSpec:
    """The decoder that all relatives share, around a feed-forward of their own."""
    norm = RMSNorm(eps=s.eps)
    block = BlockSpec(mix=attention(s), ffn=ffn, norm=norm, dropout=s.dropout)
    embedding = Tokens(vocabulary=s.vocabulary, dropout=s.dropout)
    return ModelSpec(
        decoder=StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=(block,), norm=norm),
        head=Vocabulary(tied=s.tied, size=s.vocabulary),
        init=Normal(residual=True),
    )


def compose(s: LlamaLike) -> ModelSpec:
    return stack_blocks(s, FeedForward(hidden=s.hidden, activation=s.activation, gated=True, bias=False))


ATTENTION = """
model.embed_tokens                             -> decoder.embedding.tokens
model.layers.{i}.input_layernorm               -> decoder.blocks.{i}.mix.norm
model.layers.{i}.self_attn.q_proj              -> decoder.blocks.{i}.mix.inner.query
model.layers.{i}.self_attn.k_proj              -> decoder.blocks.{i}.mix.inner.key
model.layers.{i}.self_attn.v_proj              -> decoder.blocks.{i}.mix.inner.value
model.layers.{i}.self_attn.o_proj              -> decoder.blocks.{i}.mix.inner.output
model.layers.{i}.self_attn.rotary_emb.inv_freq -> nothing
model.layers.{i}.post_attention_layernorm      -> decoder.blocks.{i}.ffn.norm
model.norm                                     -> decoder.norm
"""
CHANNELS = """
model.layers.{i}.mlp.gate_proj                 -> decoder.blocks.{i}.ffn.inner.gate
model.layers.{i}.mlp.up_proj                   -> decoder.blocks.{i}.ffn.inner.up
model.layers.{i}.mlp.down_proj                 -> decoder.blocks.{i}.ffn.inner.down
"""
WORDS = "lm_head -> head.words"
KEYS = {
    "width": Key("hidden_size"),
    "depth": Key("num_hidden_layers"),
    "heads": Key("num_attention_heads"),
    "kv_heads": Key("num_key_value_heads", None),
    "size": Key("head_dim", None),
    "hidden": Key("intermediate_size"),
    "activation": activation("hidden_act", "silu"),
    "vocabulary": Key("vocab_size"),
    "eps": Key("rms_norm_eps", 1e-6),
    "tied": Key("tie_word_embeddings", False),
}


def layout(
    name: str,
    rows: str,
    keys: Mapping[str, Key],
    base: float = 10000.0,
    fixed: Mapping[str, object] | None = None,
) -> Layout:
    """The layout of Llama or of a relative."""

    def read(config: Config, names: Collection[str]) -> Tree:
        return read_rotary(config, base)

    def write(s: LlamaLike) -> Tree:
        heads = head_count(s.width, s.heads, 128)
        sizes = {"num_attention_heads": heads, "num_key_value_heads": s.kv_heads or heads}
        return sizes | {"head_dim": s.size or s.width // heads} | write_rotary(s.base, s.scaling, 2048)

    return Layout(
        rows,
        keys,
        {name: Head()},
        spare=WORDS,
        copies={"lm_head.weight": "model.embed_tokens.weight"},
        prefix="model.",
        fixed=fixed or {},
        read=read,
        write=write,
    )


family = Family(
    Llama,
    compose,
    {
        "llama-tiny": {"width": 128, "depth": 4, "heads": 4, "kv_heads": 2, "hidden": 344, "vocabulary": 8000},
        "llama2-7b": {},
        "llama3-8b": {"kv_heads": 8, "hidden": 14336, "vocabulary": 128256, "base": 500000.0},
    },
    {
        "llama": layout(
            "LlamaForCausalLM",
            ATTENTION + CHANNELS,
            {**KEYS, "bias": Key("attention_bias", False)},
            fixed={"mlp_bias": False},
        )
    },
)
