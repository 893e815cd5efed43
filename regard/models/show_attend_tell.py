"""Show, Attend and Tell: captions by a recurrent network that looks at a place of the picture for every word (Xu et al.
2015).

The encoder is a map, one vector a place; the decoder is an LSTM that starts from the map's mean, attends before its
cell, gates what it saw, and writes through a deep output. Soft: all places count, and the doubly stochastic term asks
that each is looked at. Hard: one place is drawn for each word, and learned by REINFORCE.
"""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Rate, Size, Weight
from regard.core.stack import StackSpec
from regard.mixers.attentive import Attentive, Hard, Readout
from regard.models import Family
from regard.models.map import MapSettings
from regard.parts.cell import Kind
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier
from regard.parts.score import Additive, ScoreSpec


class ShowAttendTell(MapSettings):
    kind: Literal["show-attend-tell"] = "show-attend-tell"
    width: Size = 256
    depth: Depth = 1
    """There are this many recurrent layers."""
    cell: Kind = "lstm"
    vocabulary: Size = 1000
    score: ScoreSpec = Additive()
    """The score compares the state with each place."""
    hard: Hard = False
    """It looks at all places, at the likeliest (true), or draws one for each word (sampled)."""
    gate: bool = True
    """What was seen is scaled by a number between 0 and 1 that the state decides."""
    doubly: Weight = 1.0
    """The weight of the doubly stochastic term beside a caption's log-likelihood; 0: there is none."""
    readout: Readout = "deep"
    """The output layer is a tanh, a maxout of two, or the paper's deep output."""
    dropout: Rate = 0.2
    tied: bool = False


def compose(s: ShowAttendTell) -> ModelSpec:
    attentive = Attentive(
        cell=s.cell,
        layers=s.depth,
        score=s.score,
        hard=s.hard,
        gate=s.gate,
        doubly=s.doubly,
        readout=s.readout,
        start="mean",
        dropout=s.dropout,
    )
    # a map has no blocks; a stack must say which it would have
    nothing = BlockSpec(ffn=FeedForward(hidden=s.width))
    reader = StackSpec(width=s.width, depth=0, embedding=s.make_map(s.width), blocks=(nothing,))
    writer = StackSpec(
        width=s.width,
        depth=1,
        embedding=Tokens(vocabulary=s.vocabulary, dropout=s.dropout),
        blocks=(BlockSpec(mix=attentive, residual=False, dropout=s.dropout),),
    )
    return ModelSpec(
        encoder=reader,
        decoder=writer,
        head=Vocabulary(tied=s.tied, bias=True, size=s.vocabulary),
        init=Xavier(),
    )


family = Family(
    ShowAttendTell,
    compose,
    {
        "show-attend-tell": {},
        "show-attend-tell-hard": {"hard": "sampled"},
        "show-attend-tell-features": {"map": "features", "image": 7, "channels": 1280},
    },
)
