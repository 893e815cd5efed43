"""Recurrent language models: RNN, LSTM and GRU (Mikolov et al. 2010; Zaremba et al. 2014)."""

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
    dropout: Rate = 0.2


def compose(s: RNN) -> ModelSpec:
    block = BlockSpec(mix=Recurrent(cell=s.cell), residual=False, dropout=s.dropout)
    embedding = Tokens(vocabulary=s.vocabulary, dropout=s.dropout)
    return ModelSpec(
        decoder=StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=(block,)),
        head=Vocabulary(tied=s.tied, bias=True, size=s.vocabulary),
        init=Xavier(),
    )


family = Family(RNN, compose, {"rnn": {"cell": "rnn"}, "lstm": {"cell": "lstm"}, "gru": {"cell": "gru"}})
