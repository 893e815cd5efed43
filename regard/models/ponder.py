"""Recurrent models that decide how long they think at each position: adaptive computation time (Graves 2016), PonderNet
(Banino et al. 2021), and a fixed number of steps beside them (Fojo et al. 2018).
"""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.ponder import Ponder
from regard.models import Family, Settings
from regard.parts.cell import Kind
from regard.parts.embedding import Tokens
from regard.parts.halting import Adaptive, HaltSpec
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier


class Thinker(Settings):
    kind: Literal["ponder"] = "ponder"
    cell: Kind = "rnn"
    width: Size = 128
    depth: Depth = 1
    halt: HaltSpec = Adaptive()
    """A position halts by adaptive computation time (adaptive), as in PonderNet (geometric), or after a fixed number of
    steps (repeat)."""
    vocabulary: Size = 256
    dropout: Rate = 0.0


def compose(s: Thinker) -> ModelSpec:
    return ModelSpec(
        decoder=StackSpec(
            width=s.width,
            depth=s.depth,
            embedding=Tokens(vocabulary=s.vocabulary),
            blocks=(BlockSpec(mix=Ponder(cell=s.cell, halt=s.halt), residual=False, dropout=s.dropout),),
        ),
        head=Vocabulary(tied=False, bias=True, size=s.vocabulary),
        init=Xavier(),
    )


family = Family(
    Thinker,
    compose,
    {
        "act-rnn": {},
        "act-lstm": {"cell": "lstm", "width": 512},
        "repeat-rnn": {"halt": "repeat"},
        "pondernet": {"cell": "gru", "halt": "geometric"},
    },
)
