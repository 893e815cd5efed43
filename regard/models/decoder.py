"""A plain decoder whose positions can be chosen: for comparing them, and for small models of one's own.

Norms first, attention and a feed-forward, as in GPT-2; positions are none, sinusoids, learned, rotary (Su et al. 2021),
ALiBi (Press et al. 2022) or T5's buckets, counted or scattered over more places than there are tokens (Ruoss et al.
2023).
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from regard.core.activation import Activation
from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Count, Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, PositionSlot, Settings, head_count
from regard.models.slot import Choice
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import LayerNorm
from regard.parts.position import Rotary

OWN: Choice = {"kind": "rotary"}


class Decoder(Settings):
    kind: Literal["decoder"] = "decoder"
    width: Size = 128
    depth: Depth = 2
    heads: Size | None = None
    """There are this many heads; unless given, one for each 32 channels."""
    hidden: Size | None = None
    """The feed-forward has this many hidden units; unless given, four times the width."""
    vocabulary: Size = 256
    position: PositionSlot = OWN
    """Positions are known by this; none: they aren't."""
    context: Size = 1024
    """There are learned positions for this many tokens; other schemes have no end."""
    scatter: Count = 0
    """Positions are scattered over this many places while training; at 0 they are counted."""
    scale: bool = False
    """Token vectors are multiplied by √width, so that sinusoids, which are large, don't drown them."""
    activation: Activation = "gelu"
    dropout: Rate = 0.0

    @model_validator(mode="after")
    def check(self) -> Self:
        kind = self.position if isinstance(self.position, str) else (self.position or {}).get("kind", "none")
        if self.scatter and kind not in ("sinusoidal", "learned", "rotary"):
            raise ValueError(f"scatter: {kind} positions aren't places; try position=learned")
        if self.scatter and kind == "learned" and self.scatter > self.context:
            raise ValueError(f"scatter: {self.scatter} places, and there are learned vectors for {self.context}")
        return self


def compose(s: Decoder) -> ModelSpec:
    heads = head_count(s.width, s.heads, 32)
    block = BlockSpec(
        mix=Attention(heads=heads, causal=True, position=Rotary()),
        ffn=FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation),
        norm=LayerNorm(),
        dropout=s.dropout,
    )
    embedding = Tokens(vocabulary=s.vocabulary, scale=s.scale, dropout=s.dropout)
    stack = StackSpec(
        width=s.width, depth=s.depth, embedding=embedding, blocks=(block,), norm=LayerNorm(), scatter=s.scatter
    )
    return ModelSpec(decoder=stack, head=Vocabulary(), init=Normal())


family = Family(Decoder, compose, {"decoder-tiny": {}})
