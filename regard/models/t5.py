"""T5: an encoder–decoder whose only positions are a bias that each stack's layers share (Raffel et al. 2020)."""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings
from regard.parts.embedding import Tokens
from regard.parts.feedforward import Activation, FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import RMSNorm
from regard.parts.position import Bucketed


class T5(Settings):
    kind: Literal["t5"] = "t5"
    width: Size = 512
    depth: Depth = 6
    decoder_depth: Depth | None = None  # as the encoder, unless given
    heads: Size = 8
    size: Size = 64
    hidden: Size = 2048
    vocabulary: Size = 32128
    buckets: Size = 32
    farthest: Size = 128
    activation: Activation = "relu"
    gated: bool = False
    tied: bool = True
    scaled: bool | None = None  # divide by √width before the words: where they are tied, unless given
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


family = Family(T5, compose, {"t5-small": {}}, hf=("t5",))
