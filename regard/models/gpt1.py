"""GPT-1: a Transformer's decoder alone, post-norm, learned positions (Radford et al. 2018)."""

from __future__ import annotations

from typing import Literal

from regard.core.activation import Activation
from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings, gpt2, head_count
from regard.models.layout import Head, Key, Layout, Tree
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import LayerNorm
from regard.parts.position import Learned


class GPT1(Settings):
    kind: Literal["gpt1"] = "gpt1"
    width: Size = 768
    depth: Depth = 12
    heads: Size | None = None
    """There are this many heads; unless given, one for each 64 channels."""
    hidden: Size | None = None
    """The feed-forward has this many hidden units; unless given, four times the width."""
    vocabulary: Size = 40478
    context: Size = 512
    activation: Activation = "gelu-tanh"
    eps: Positive = 1e-5
    dropout: Rate = 0.1


def compose(s: GPT1) -> ModelSpec:
    block = BlockSpec(
        mix=Attention(heads=head_count(s.width, s.heads, 64), causal=True, dropout=s.dropout),
        ffn=FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation),
        norm=LayerNorm(eps=s.eps),
        place="post",
        dropout=s.dropout,
    )
    embedding = Tokens(vocabulary=s.vocabulary, position=Learned(context=s.context), dropout=s.dropout)
    return ModelSpec(
        decoder=StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=(block,)),
        head=Vocabulary(),
        init=Normal(),
    )


# what they call gelu there is the approximation by tanh
ACTIVATIONS = {"gelu": "gelu-tanh", "relu": "relu", "silu": "silu", "swish": "silu"}


def write(s: GPT1) -> Tree:
    return {"n_head": head_count(s.width, s.heads, 64), "embd_pdrop": s.dropout, "attn_pdrop": s.dropout}


layout = Layout(
    gpt2.ROWS.replace("transformer.wte", "transformer.tokens_embed").replace(
        "transformer.wpe", "transformer.positions_embed"
    ),
    {**gpt2.KEYS, "activation": Key("afn", "gelu", ACTIVATIONS)},
    {"OpenAIGPTLMHeadModel": Head()},
    spare="lm_head -> nothing",
    copies={"lm_head.weight": "transformer.tokens_embed.weight"},
    prefix="transformer.",
    fixed={"tie_word_embeddings": True},
    write=write,
)
family = Family(GPT1, compose, {"gpt1": {}}, {"openai-gpt": layout})
