"""Two recurrent networks, without attention (Sutskever et al. 2014) and with it (Bahdanau 2015; Luong 2015).

`seq2seq` squeezes the source through one vector. Two are given all of its states, by rules that aren't learned:
`seq2seq-mean` their mean, `seq2seq-skip` at step t the source's state t, a fixed skip connection past the bottleneck.
`tutorial` looks by location alone, as a well-known 2017 tutorial does; `bahdanau` before the cell, `luong` after it,
`luong-feed` with the last attention fed back. `pointer-generator` also copies (See et al. 2017: 256 units; theirs has
word vectors of 128 and a vocabulary of 50,000).
"""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.role import HeadSpec
from regard.core.spec import Depth, Rate, Size, Weight
from regard.core.stack import StackSpec
from regard.mixers.attentive import Attentive
from regard.mixers.recurrent import Recurrent, Start
from regard.models import Family, Settings
from regard.parts.cell import Kind
from regard.parts.copying import Copying
from regard.parts.embedding import Tokens
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier
from regard.parts.score import Multiplicative, ScoreSpec


class Seq2Seq(Settings):
    kind: Literal["seq2seq"] = "seq2seq"
    cell: Kind = "lstm"
    width: Size = 512
    depth: Depth = 1
    vocabulary: Size = 8000
    source_vocabulary: Size | None = None
    direction: Literal["forward", "both"] = "both"
    """The encoder reads forward, or both ways."""
    attention: Literal["none", "before", "after"] = "none"
    """The decoder has none, or attends before its cell (Bahdanau et al. 2015) or after it (Luong et al. 2015)."""
    score: ScoreSpec = Multiplicative()
    """The score compares a query with each key of the memory."""
    feed: bool = False
    """The last output is part of the next input (input feeding)."""
    query: Literal["state", "both"] = "state"
    """The query is the state, or both the state and the input (attention before the cell only)."""
    readout: Literal["tanh", "maxout"] = "tanh"
    """The output layer of attention is a tanh, or a maxout of two."""
    start: Start = "final"
    """The first state is zeros, the encoder's final state, a projection of it (bridge), or of the memory's mean."""
    dropout: Rate = 0.2
    share: bool = True
    tied: bool = True
    copies: bool = False
    """Words of the source can be copied, among them those that the vocabulary lacks (See et al. 2017)."""
    coverage: Weight = 0.0
    """Where words are copied, the weight of looking again at what was looked at; 0: nobody keeps count."""


def compose(s: Seq2Seq) -> ModelSpec:
    mix: MixerSpec
    if s.attention == "none":
        mix = Recurrent(cell=s.cell, layers=s.depth, start=s.start, dropout=s.dropout)
    else:
        mix = Attentive(
            cell=s.cell,
            layers=s.depth,
            score=s.score,
            when=s.attention,
            feed=s.feed,
            query=s.query,
            readout=s.readout,
            start=s.start,
            dropout=s.dropout,
        )
    reader = Recurrent(cell=s.cell, layers=s.depth, direction=s.direction, dropout=s.dropout)

    def stack(mixer: MixerSpec, words: int) -> StackSpec:
        embedding = Tokens(vocabulary=words, dropout=s.dropout)
        block = BlockSpec(mix=mixer, residual=False, dropout=s.dropout)
        return StackSpec(width=s.width, depth=1, embedding=embedding, blocks=(block,))

    head: HeadSpec = Vocabulary(tied=s.tied, bias=True, size=s.vocabulary)
    return ModelSpec(
        encoder=stack(reader, s.source_vocabulary or s.vocabulary),
        decoder=stack(mix, s.vocabulary),
        head=Copying(words=head, coverage=s.coverage) if s.copies else head,
        share=s.share and s.source_vocabulary is None,
        init=Xavier(),
    )


family = Family(
    Seq2Seq,
    compose,
    {
        "seq2seq": {},
        "seq2seq-mean": {"attention": "after", "score": "mean"},
        "seq2seq-skip": {"attention": "after", "score": "diagonal"},
        "tutorial": {
            "cell": "gru",
            "direction": "forward",
            "attention": "before",
            "score": "location",
            "query": "both",
        },
        "bahdanau": {
            "cell": "gru",
            "attention": "before",
            "score": "additive",
            "readout": "maxout",
            "start": "bridge",
        },
        "luong": {"attention": "after"},
        "luong-feed": {"attention": "after", "feed": True},
        "pointer-generator": {
            "width": 256,
            "attention": "before",
            "score": "additive",
            "start": "bridge",
            "copies": True,
        },
    },
)
