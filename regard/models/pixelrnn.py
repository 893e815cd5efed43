"""PixelCNN and PixelRNN: pictures as planes, each pixel predicted from those around it (van den Oord et al. 2016).

A convolution that sees 7×7 places, with mask A; then residual layers: masked convolutions (`pixelcnn`), LSTMs that go
down row by row (`pixelrnn-row`), or two that cross the picture from its upper corners (`pixelrnn-diagonal`). As in the
paper's models of handwritten digits, there are 7 layers of 16 hidden channels within a stream of twice as many. The
paper's two layers before the answer are one here, the head's.
"""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.diagonal import DiagonalLSTM
from regard.mixers.masked import Masked, count_inputs
from regard.mixers.row import RowLSTM
from regard.models import Family, Settings
from regard.models.pixel import Image, embed
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier

Layer = Literal["masked", "row", "diagonal"]


class PixelRNN(Settings):
    kind: Literal["pixelrnn"] = "pixelrnn"
    layer: Layer = "diagonal"
    """The layers after the first are masked convolutions, Row LSTMs, or Diagonal BiLSTMs."""
    image: Image = 28
    """A picture is a square with sides of this many pixels, or has this height and width."""
    channels: Size = 1
    """A pixel has this many channels, which follow each other."""
    levels: Size = 2
    """A channel has this many values; 2: black and white."""
    width: Size = 32
    depth: Depth = 7
    """There are this many layers after the first."""
    hidden: Size | None = None
    """A layer has this many hidden channels; unless given, half as many as the width."""
    first: Size = 7
    """The first convolution sees a square with sides of this many places."""
    kernel: Size = 3
    """A convolution between states, or of masked layers, sees this many places across."""
    dropout: Rate = 0.0


def compose(s: PixelRNN) -> ModelSpec:
    hidden = s.hidden or max(1, s.width // 2)
    layers: dict[Layer, MixerSpec] = {
        "masked": Masked(kernel=s.kernel, hidden=hidden),
        "row": RowLSTM(kernel=s.kernel, hidden=hidden),
        "diagonal": DiagonalLSTM(hidden=hidden),
    }
    first = Masked(kernel=s.first, mask="A", inputs=count_inputs(s.levels, s.width))
    embedding = embed(s.image, s.channels, s.levels, s.dropout)
    return ModelSpec(
        decoder=StackSpec(
            width=s.width,
            depth=s.depth + 1,
            # a plane knows its borders, so the paper's models have no positions
            embedding=embedding.replace(position="none"),
            # what slot t holds is the value before its place, so it must not stay in the stream of that place
            first=(BlockSpec(mix=first, residual=False),),
            blocks=(BlockSpec(mix=layers[s.layer], dropout=s.dropout),),
        ),
        head=Vocabulary(tied=False, size=s.levels, bias=True, transform="relu"),
        init=Xavier(),
    )


family = Family(
    PixelRNN,
    compose,
    {
        "pixelrnn-diagonal": {},
        "pixelrnn-row": {"layer": "row"},
        "pixelcnn": {"layer": "masked"},
    },
)
