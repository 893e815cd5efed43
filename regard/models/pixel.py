"""Pictures as sequences of pixels, one after the other, read by what reads words.

`pixel-gpt` is a small image GPT (Chen et al. 2020): each position sees all before it. `pixel-lstm` and `pixel-mamba`
have a recurrence along the rows instead, for which the pixel above lies a whole row back. What mixes a picture as a
plane is in `pixelrnn.py`.
"""

from __future__ import annotations

from typing import Literal

from regard.core.activation import Activation
from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import LayerNorm
from regard.parts.pixel import Pixels

Image = Size | tuple[Size, Size]


class Pixelwise(Settings):
    kind: Literal["pixel"] = "pixel"
    image: Image = 28
    """A picture is a square with sides of this many pixels, or has this height and width."""
    channels: Size = 1
    """A pixel has this many channels, which follow each other."""
    levels: Size = 2
    """A channel has this many values; 2: black and white."""
    width: Size = 64
    depth: Depth = 8
    heads: Size | None = None
    """There are this many heads; unless given, one for each 32 channels."""
    hidden: Size | None = None
    """The feed-forward has this many hidden units; unless given, four times the width."""
    activation: Activation = "gelu"
    dropout: Rate = 0.0


def embed(image: Image, channels: int, levels: int, dropout: float) -> Pixels:
    """The embedding of pictures of a size, whose positions are rows and columns."""
    height, width = (image, image) if isinstance(image, int) else image
    return Pixels(height=height, width=width, channels=channels, levels=levels, dropout=dropout)


def compose(s: Pixelwise) -> ModelSpec:
    norm = LayerNorm()
    block = BlockSpec(
        mix=Attention(heads=head_count(s.width, s.heads, 32), causal=True),
        ffn=FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation),
        norm=norm,
        dropout=s.dropout,
    )
    embedding = embed(s.image, s.channels, s.levels, s.dropout)
    return ModelSpec(
        decoder=StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=(block,), norm=norm),
        # the token that begins a picture is never predicted, so its vector can't be among the scores
        head=Vocabulary(tied=False, size=s.levels, bias=True),
        init=Normal(residual=True),
    )


family = Family(
    Pixelwise,
    compose,
    {
        "pixel-gpt": {},
        "pixel-lstm": {"width": 128, "depth": 3, "mix": "recurrent", "ffn": "none"},
        "pixel-mamba": {"depth": 6, "mix": "mamba", "ffn": "none"},
    },
)
