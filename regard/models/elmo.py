"""ELMo: a forward and a backward language model that share words and never meet (Peters et al. 2018).

The channels' first half runs forward and predicts the next word, the second half backward and predicts the one before;
the layers' streams are the features. The paper reads words by their characters and projects inside the LSTM; this one
reads a vocabulary and doesn't.
"""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.recurrent import Recurrent
from regard.models import Family, Settings
from regard.parts.embedding import Tokens
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier


class Elmo(Settings):
    kind: Literal["elmo"] = "elmo"
    width: Size = 1024
    """Every position is a vector of this many numbers, half of them for each direction."""
    depth: Depth = 2
    vocabulary: Size = 10000
    dropout: Rate = 0.1


def compose(s: Elmo) -> ModelSpec:
    block = BlockSpec(mix=Recurrent(direction="apart"), dropout=s.dropout)
    embedding = Tokens(vocabulary=s.vocabulary, copies=2, dropout=s.dropout)
    return ModelSpec(
        encoder=StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=(block,)),
        head=Vocabulary(directions=2, bias=True),
        init=Xavier(),
    )


family = Family(Elmo, compose, {"elmo": {}})
