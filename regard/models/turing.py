"""The Neural Turing Machine as a model of sequences (Graves et al. 2014)."""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Size
from regard.core.stack import StackSpec
from regard.mixers.turing import Turing
from regard.models import Family, Settings
from regard.parts.embedding import Tokens
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier


class NTM(Settings):
    kind: Literal["turing"] = "turing"
    width: Size = 100
    depth: Depth = 1
    slots: Size = 128
    """The memory has this many slots."""
    size: Size = 20
    """A slot holds this many numbers."""
    reads: Size = 1
    """There are this many heads that read."""
    writes: Size = 1
    """There are this many heads that write."""
    vocabulary: Size = 256


def compose(s: NTM) -> ModelSpec:
    machine = Turing(slots=s.slots, size=s.size, reads=s.reads, writes=s.writes)
    return ModelSpec(
        decoder=StackSpec(
            width=s.width,
            depth=s.depth,
            embedding=Tokens(vocabulary=s.vocabulary),
            blocks=(BlockSpec(mix=machine, residual=False),),
        ),
        head=Vocabulary(tied=False, bias=True, size=s.vocabulary),
        init=Xavier(),
    )


family = Family(NTM, compose, {"ntm": {}})
