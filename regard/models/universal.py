"""Universal Transformers: an encoder and a decoder whose blocks run over and over with the same weights, each position
as often as it needs (Dehghani et al. 2019).

As in the paper norms stand after the sum, and a round is told by sines and cosines. Positions are added once, with the
words; the paper adds them in every round.
"""

from __future__ import annotations

from typing import Literal

from regard.core.activation import Activation
from regard.core.block import BlockSpec, Place
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.mixers.universal import Universal
from regard.models import Family, Settings, head_count
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.halting import Adaptive, HaltSpec
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier
from regard.parts.norm import LayerNorm
from regard.parts.position import Sinusoidal


class UniversalTransformer(Settings):
    kind: Literal["universal"] = "universal"
    width: Size = 512
    depth: Depth = 1
    """A round goes through this many blocks."""
    halt: HaltSpec = Adaptive(limit=8)
    """A position halts by adaptive computation time (adaptive), or after a fixed number of rounds (repeat)."""
    heads: Size | None = None
    """There are this many heads; unless given, one for each 64 channels."""
    hidden: Size | None = None
    """The feed-forward has this many hidden units; unless given, four times the width."""
    vocabulary: Size = 37000
    encoder: bool = True
    """The model has an encoder; otherwise it is a decoder alone, which reads a problem and goes on with the answer."""
    activation: Activation = "relu"
    place: Place = "post"
    """The norm stands before a sublayer (pre), after its residual sum (post), or before and behind it (sandwich)."""
    dropout: Rate = 0.1


def compose(s: UniversalTransformer) -> ModelSpec:
    attention = Attention(heads=head_count(s.width, s.heads, 64))
    ffn = FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation)

    def stack(mixer: MixerSpec, over: MixerSpec | None) -> StackSpec:
        inside = BlockSpec(mix=mixer, cross=over, ffn=ffn, norm=LayerNorm(), place=s.place, dropout=s.dropout)
        rounds = Universal(blocks=(inside,) * s.depth, halt=s.halt)
        return StackSpec(
            width=s.width,
            depth=1,
            embedding=Tokens(vocabulary=s.vocabulary, scale=True, position=Sinusoidal(), dropout=s.dropout),
            blocks=(BlockSpec(mix=rounds, residual=False),),
            norm=None if s.place == "post" else LayerNorm(),
        )

    memory = attention.replace(over="memory") if s.encoder else None
    return ModelSpec(
        encoder=stack(attention, None) if s.encoder else None,
        decoder=stack(attention.replace(causal=True), memory),
        head=Vocabulary(tied=True, size=s.vocabulary),
        share=s.encoder,
        init=Xavier(),
    )


TINY = {"width": 128, "heads": 4, "hidden": 512, "vocabulary": 8000, "place": "pre"}

family = Family(
    UniversalTransformer,
    compose,
    {
        "universal-transformer": {},
        "universal-tiny": TINY,
        "universal-decoder": {**TINY, "encoder": False},
    },
)
