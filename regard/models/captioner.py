"""Captions by a Transformer: patches of a picture through an encoder, and a decoder whose words look at them."""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec, Place
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, EmbeddingSpec, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.models.show_attend_tell import Map, make_map
from regard.parts.embedding import Tokens
from regard.parts.feedforward import Activation, FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier
from regard.parts.norm import LayerNorm
from regard.parts.position import Sinusoidal


class CaptionTransformer(Settings):
    kind: Literal["captioner"] = "captioner"
    map: Map = "patches"
    """The places are patches of a picture, or those of a map that another network made of it (features)."""
    image: Size = 64
    """A picture, or a map of features, is a square with sides of this many pixels or places."""
    patch: Size = 8
    """A patch is a square with sides of this many pixels; of features, a patch is one place."""
    channels: Size = 3
    """A pixel, or a place of a map of features, has this many channels."""
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


def compose(s: CaptionTransformer) -> ModelSpec:
    attention = Attention(heads=head_count(s.width, s.heads, 32), dropout=s.attention_dropout)
    ffn = FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation)
    norm = LayerNorm()

    def stack(embedding: EmbeddingSpec, depth: int, mixer: MixerSpec, over: MixerSpec | None = None) -> StackSpec:
        block = BlockSpec(mix=mixer, cross=over, ffn=ffn, norm=norm, place=s.place, dropout=s.dropout)
        closing = None if s.place == "post" else norm
        return StackSpec(width=s.width, depth=depth, embedding=embedding, blocks=(block,), norm=closing)

    places = make_map(s.map, s.image, s.patch, s.channels, "own")
    words = Tokens(vocabulary=s.vocabulary, scale=True, position=Sinusoidal(), dropout=s.dropout)
    return ModelSpec(
        encoder=stack(places, s.depth, attention),
        decoder=stack(
            words, s.decoder_depth or s.depth, attention.replace(causal=True), attention.replace(over="memory")
        ),
        head=Vocabulary(tied=s.tied, size=s.vocabulary),
        init=Xavier(),
    )


family = Family(
    CaptionTransformer,
    compose,
    {
        "captioner": {},
        "captioner-features": {"map": "features", "image": 7, "channels": 1280},
    },
)
