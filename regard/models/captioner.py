"""Captions by a Transformer: places of a picture through an encoder, and a decoder whose words look at them."""

from __future__ import annotations

from typing import Literal

from regard.core.activation import Activation
from regard.core.block import BlockSpec, Place
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.role import EmbeddingSpec
from regard.core.spec import Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, head_count
from regard.models.map import MapSettings
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier
from regard.parts.norm import LayerNorm
from regard.parts.position import Sinusoidal


class PictureTransformer(MapSettings):
    kind: Literal["captioner"] = "captioner"
    width: Size = 128
    depth: Depth = 3
    """The encoder has this many blocks, and so has the decoder unless it is given."""
    decoder_depth: Depth | None = None
    heads: Size | None = None
    """There are this many heads; unless given, one for each 32 channels."""
    hidden: Size | None = None
    """The feed-forward has this many hidden units; unless given, four times the width."""
    vocabulary: Size = 1000
    activation: Activation = "gelu"
    place: Place = "pre"
    """The norm stands before a sublayer (pre), after its residual sum (post), or before and behind it (sandwich)."""
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.0
    tied: bool = True


def compose(s: PictureTransformer) -> ModelSpec:
    attention = Attention(heads=head_count(s.width, s.heads, 32), dropout=s.attention_dropout)
    ffn = FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation)
    norm = LayerNorm()

    def stack(embedding: EmbeddingSpec, depth: int, mixer: MixerSpec, over: MixerSpec | None = None) -> StackSpec:
        block = BlockSpec(mix=mixer, cross=over, ffn=ffn, norm=norm, place=s.place, dropout=s.dropout)
        closing = None if s.place == "post" else norm
        return StackSpec(width=s.width, depth=depth, embedding=embedding, blocks=(block,), norm=closing)

    words = Tokens(vocabulary=s.vocabulary, scale=True, position=Sinusoidal(), dropout=s.dropout)
    return ModelSpec(
        encoder=stack(s.make_map(s.width), s.depth, attention),
        decoder=stack(
            words, s.decoder_depth or s.depth, attention.replace(causal=True), attention.replace(over="memory")
        ),
        head=Vocabulary(tied=s.tied, size=s.vocabulary),
        init=Xavier(),
    )


family = Family(
    PictureTransformer,
    compose,
    {
        "captioner": {},
        "captioner-patches": {"map": "patches"},
        "captioner-features": {"map": "features", "image": 7, "channels": 1280},
    },
)
