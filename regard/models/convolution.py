"""Models without recurrence and with little or no attention: convolutions only.

`convs2s-tiny` and `convs2s` translate (Gehring et al. 2017): gated convolutions that see both sides of the source, and
causal ones in the decoder, which looks at the source in every block with one head. Norms stand before the convolutions
in place of the paper's normalised weights and its scaling by √½. `conv-lm` predicts the next word, with neighbours that
lie twice as far apart from block to block (ByteNet, Kalchbrenner et al. 2016; Dauphin et al. 2017; Bai et al. 2018).
"""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.role import AbsoluteSpec
from regard.core.spec import Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.mixers.convolution import Convolution
from regard.models import Family, Settings
from regard.parts.embedding import Tokens
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier
from regard.parts.norm import LayerNorm
from regard.parts.position import Learned


class Convolutional(Settings):
    kind: Literal["convolution"] = "convolution"
    width: Size = 512
    depth: Depth = 15
    """The decoder has this many blocks, and so has the encoder if there is one."""
    kernel: Size = 3
    """A position sees this many, itself among them."""
    dilations: tuple[Size, ...] = (1,)
    """The distances between neighbours in the blocks, over and over."""
    heads: Size = 1
    """There are this many heads that look at the source."""
    vocabulary: Size = 37000
    source_vocabulary: Size | None = None
    context: Size | None = 1024
    """There are learned positions for this many tokens; none: order is known from neighbours alone."""
    encoder: bool = True
    """There is an encoder, and the decoder translates; without, it predicts the next word."""
    dropout: Rate = 0.1
    share: bool = True
    tied: bool = True


def compose(s: Convolutional) -> ModelSpec:
    norm = LayerNorm()
    position: AbsoluteSpec | None = Learned(context=s.context) if s.context else None

    def stack(causal: bool, cross: MixerSpec | None, words: int) -> StackSpec:
        mixers = [Convolution(kernel=s.kernel, dilation=dilation, causal=causal) for dilation in s.dilations]
        blocks = tuple(BlockSpec(mix=mix, cross=cross, norm=norm, dropout=s.dropout) for mix in mixers)
        embedding = Tokens(vocabulary=words, position=position, dropout=s.dropout)
        return StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=blocks, norm=norm)

    source = s.source_vocabulary or s.vocabulary
    return ModelSpec(
        encoder=stack(False, None, source) if s.encoder else None,
        decoder=stack(True, Attention(heads=s.heads, over="memory") if s.encoder else None, s.vocabulary),
        head=Vocabulary(tied=s.tied, size=s.vocabulary, bias=True),
        share=s.encoder and s.share and s.source_vocabulary is None,
        init=Xavier(),
    )


family = Family(
    Convolutional,
    compose,
    {
        "convs2s": {},
        "convs2s-tiny": {"width": 128, "depth": 4, "vocabulary": 8000},
        "conv-lm": {
            "encoder": False,
            "width": 256,
            "depth": 8,
            "dilations": (1, 2, 4, 8),
            "context": None,
            "vocabulary": 8000,
        },
    },
)
