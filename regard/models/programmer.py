"""The Neural Programmer: a recurrent network reads a question, and a head writes a program for a table and runs it
(Neelakantan et al. 2015).

Theirs is a plain RNN whose last state stands for the question: `neural-programmer-2015`. `neural-programmer` is a GRU,
and the mean of its states: a word at the beginning of a question counts as soon as one at its end, and so programs are
found sooner.
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
from regard.parts.head import Pool
from regard.parts.initial import Xavier
from regard.parts.program import Program


class NeuralProgrammer(Settings):
    kind: Literal["programmer"] = "programmer"
    cell: Kind = "gru"
    width: Size = 64
    depth: Depth = 1
    vocabulary: Size = 256
    steps: Size = 4
    """A program calls this many operations, one after the other."""
    pool: Pool = "mean"
    """The question's vector is that of its first or last token, the mean of all, or a learned mean (sequence)."""
    dropout: Rate = 0.0


def compose(s: NeuralProgrammer) -> ModelSpec:
    reader = BlockSpec(mix=Recurrent(cell=s.cell), residual=False, dropout=s.dropout)
    embedding = Tokens(vocabulary=s.vocabulary, dropout=s.dropout)
    return ModelSpec(
        encoder=StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=(reader,)),
        head=Program(steps=s.steps, pool=s.pool),
        init=Xavier(),
    )


family = Family(
    NeuralProgrammer,
    compose,
    {"neural-programmer": {}, "neural-programmer-2015": {"cell": "rnn", "width": 256, "pool": "last"}},
)
