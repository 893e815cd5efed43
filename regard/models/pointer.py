"""Pointer networks (Vinyals et al. 2015): a recurrence reads, another chooses among what was read.

The decoder has no attention but the one that is its answer, and reads what it has chosen. The paper's have one layer of
256 to 512 units. The task `pointing` gives this head to any other model with an encoder and a decoder.
"""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.role import EmbeddingSpec
from regard.core.spec import Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.recurrent import Recurrent
from regard.models import Family, Settings
from regard.parts.cell import Kind
from regard.parts.embedding import Tokens
from regard.parts.initial import Xavier
from regard.parts.pointer import Pointed, Pointer
from regard.parts.score import Additive, ScoreSpec


class PointerNetwork(Settings):
    kind: Literal["pointer"] = "pointer"
    cell: Kind = "lstm"
    width: Size = 256
    depth: Depth = 1
    vocabulary: Size = 8000
    direction: Literal["forward", "both"] = "forward"
    """The encoder reads forward, or both ways."""
    score: ScoreSpec = Additive()
    """The score compares a state of the decoder with each position of the source."""
    dropout: Rate = 0.0


def compose(s: PointerNetwork) -> ModelSpec:
    words = Tokens(vocabulary=s.vocabulary, dropout=s.dropout)

    def stack(mixer: MixerSpec, embedding: EmbeddingSpec) -> StackSpec:
        block = BlockSpec(mix=mixer, residual=False, dropout=s.dropout)
        return StackSpec(width=s.width, depth=1, embedding=embedding, blocks=(block,))

    reader = Recurrent(cell=s.cell, layers=s.depth, direction=s.direction, dropout=s.dropout)
    chooser = Recurrent(cell=s.cell, layers=s.depth, start="final", dropout=s.dropout)
    return ModelSpec(
        encoder=stack(reader, words),
        decoder=stack(chooser, Pointed(of=words)),
        head=Pointer(score=s.score),
        share=True,
        init=Xavier(),
    )


family = Family(PointerNetwork, compose, {"pointer-network": {}})
