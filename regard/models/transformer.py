"""The Transformer of 2017 (Vaswani et al.), and the same with another mixer in its blocks.

`transformer-tiny` puts its norms first; base and big are the paper's: post-norm, sinusoids, one table for both
vocabularies and the softmax. The paper gives them 65M and 213M parameters; with a vocabulary of 37,000 and every bias
its formula makes 63,082,496 and 214,245,376, which is what these have. `mean-pool` is the same again with every weight
of its attention equal.
"""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec, Place, Slot
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.spec import AbsoluteSpec, Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.mixers.pool import Pool
from regard.models import Family, Settings, head_count
from regard.parts.embedding import Tokens
from regard.parts.feedforward import Activation, FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier
from regard.parts.norm import LayerNorm
from regard.parts.position import Sinusoidal


class Transformer(Settings):
    kind: Literal["transformer"] = "transformer"
    width: Size = 512
    depth: Depth = 6  # of the encoder, and of the decoder unless given
    decoder_depth: Depth | None = None
    heads: Size | None = None  # one for each 64 channels, unless given
    hidden: Size | None = None  # four times the width, unless given
    vocabulary: Size = 37000
    source_vocabulary: Size | None = None  # where the source has one of its own
    activation: Activation = "relu"
    place: Place = "post"
    bare: tuple[Slot, ...] = ()  # sublayers without a norm
    position: AbsoluteSpec | None = Sinusoidal()
    mix: MixerSpec | None = None  # attention, unless given
    cross: MixerSpec | None = None  # attention over the memory, unless given
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.0
    share: bool = True
    tied: bool = True


def compose(s: Transformer) -> ModelSpec:
    attention = Attention(heads=head_count(s.width, s.heads, 64), dropout=s.attention_dropout)
    mix = s.mix or attention
    cross = s.cross or attention.replace(over="memory")
    ffn = FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation)
    norm = LayerNorm()

    def stack(mixer: MixerSpec, over: MixerSpec | None) -> StackSpec:
        words = s.vocabulary if over else s.source_vocabulary or s.vocabulary
        embedding = Tokens(vocabulary=words, scale=True, position=s.position, dropout=s.dropout)
        block = BlockSpec(mix=mixer, cross=over, ffn=ffn, norm=norm, place=s.place, dropout=s.dropout, bare=s.bare)
        closing = None if s.place == "post" else norm
        depth = s.depth if over is None else s.decoder_depth or s.depth
        return StackSpec(width=s.width, depth=depth, embedding=embedding, blocks=(block,), norm=closing)

    return ModelSpec(
        encoder=stack(mix.both_ways(), None),
        decoder=stack(mix.forward_only(), cross),
        head=Vocabulary(tied=s.tied, size=s.vocabulary),
        share=s.share and s.source_vocabulary is None,
        init=Xavier(),
    )


TINY = {"width": 128, "depth": 4, "heads": 4, "hidden": 256, "vocabulary": 8000, "place": "pre"}

family = Family(
    Transformer,
    compose,
    {
        "transformer-tiny": TINY,
        "transformer-base": {},
        "transformer-big": {"width": 1024, "dropout": 0.3},
        # the mean of a memory doesn't depend on who asks, so a norm before it would have nothing to do
        "mean-pool": {**TINY, "mix": Pool(), "cross": Pool(over="memory"), "bare": ("cross",)},
    },
)
