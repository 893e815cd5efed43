"""Recurrent models: RNN, LSTM and GRU that predict the next word (Mikolov et al. 2010; Zaremba et al. 2014), and one
that reads both ways, to label words (Graves & Schmidhuber 2005).

`rnn-skip` is the plain one whose steps see the output of eight steps ago too (Lin et al. 1996; Zhang et al. 2016).
"""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.recurrent import Recurrent
from regard.models import Family, Settings
from regard.parts.cell import Kind
from regard.parts.embedding import Tokens
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier


class RNN(Settings):
    kind: Literal["rnn"] = "rnn"
    cell: Kind = "lstm"
    width: Size = 512
    depth: Depth = 2
    vocabulary: Size = 10000
    tied: bool = True
    both: bool = False
    """The model is an encoder that reads both ways, without a head until a task gives it one."""
    dropout: Rate = 0.2


def compose(s: RNN) -> ModelSpec:
    mixer = Recurrent(cell=s.cell, direction="both" if s.both else "forward")
    block = BlockSpec(mix=mixer, residual=False, dropout=s.dropout)
    embedding = Tokens(vocabulary=s.vocabulary, dropout=s.dropout)
    stack = StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=(block,))
    if s.both:
        return ModelSpec(encoder=stack, init=Xavier())
    return ModelSpec(
        decoder=stack,
        head=Vocabulary(tied=s.tied, bias=True, size=s.vocabulary),
        init=Xavier(),
    )


family = Family(
    RNN,
    compose,
    {
        "rnn": {"cell": "rnn"},
        "rnn-skip": {"cell": "rnn", "mix": {"skip": 8}},
        "lstm": {"cell": "lstm"},
        "gru": {"cell": "gru"},
        "bilstm": {"cell": "lstm", "both": True},
    },
)
