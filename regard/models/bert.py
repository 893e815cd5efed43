"""BERT: an encoder that reads both ways at once (Devlin et al. 2019), and MiniLM, which was distilled from it."""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Count, Depth, HeadSpec, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.parts.embedding import Tokens
from regard.parts.feedforward import Activation, FeedForward
from regard.parts.head import Pooler, Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import LayerNorm
from regard.parts.position import Learned


class Bert(Settings):
    kind: Literal["bert"] = "bert"
    width: Size = 768
    depth: Depth = 12
    heads: Size | None = None  # one for each 64 channels, unless given
    hidden: Size | None = None  # four times the width, unless given
    vocabulary: Size = 30522
    context: Size = 512
    segments: Count = 2
    activation: Activation = "gelu"
    eps: Positive = 1e-12
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.1
    head: Literal["pooler", "masking"] | HeadSpec | None = "pooler"


def compose(s: Bert) -> ModelSpec:
    norm = LayerNorm(eps=s.eps)
    block = BlockSpec(
        mix=Attention(heads=head_count(s.width, s.heads, 64), dropout=s.attention_dropout),
        ffn=FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation),
        norm=norm,
        place="post",
        dropout=s.dropout,
    )
    embedding = Tokens(
        vocabulary=s.vocabulary,
        position=Learned(context=s.context),
        segments=s.segments,
        norm=norm,
        dropout=s.dropout,
    )
    head = s.head
    if head == "pooler":
        head = Pooler()
    elif head == "masking":
        head = Vocabulary(bias=True, transform=s.activation, norm=norm)
    return ModelSpec(
        encoder=StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=(block,)),
        head=head,
        init=Normal(),
    )


family = Family(
    Bert,
    compose,
    {
        "bert-tiny": {"width": 128, "depth": 2},
        "bert-base": {},
        "bert-large": {"width": 1024, "depth": 24},
        "minilm-l6": {"width": 384, "depth": 6, "heads": 12},
    },
    hf=("bert",),
)
