"""Multi-head latent attention: keys and values are rebuilt from one small vector a token (DeepSeek-V2, 2024).

Queries may be low-rank too. Content and position are scored apart: the rotary key is one small vector that all heads
share. A whole sequence rebuilds keys and values; a step folds the rebuilding into the query and attends to the
latents themselves. The two agree.

Cost: time O(n²); state O(n · (rank + rotary size)), whatever the number of heads.
"""

from __future__ import annotations

from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.dense import Dense
from regard.core.mixer import Mixer, MixerSpec
from regard.core.role import RelativeSpec
from regard.core.slots import Slots
from regard.core.spec import Positive, Rate, Size
from regard.core.state import State
from regard.core.view import View
from regard.errors import SpecError
from regard.mixers.attention import openly
from regard.parts.norm import RMSNorm
from regard.parts.position import Rotary

Parts = tuple[Tensor, Tensor]  # content and position


class Latent(MixerSpec):
    """Ranks and sizes as DeepSeek names them: q_lora, kv_lora, nope, rope and v."""

    kind: Literal["latent"] = "latent"
    heads: Size = 8
    """There are this many heads."""
    rank: Size = 512
    """Keys and values are rebuilt from a latent vector of this size."""
    query_rank: Size | None = None
    """Queries are rebuilt from a latent vector of this size; unless given, they come straight from the input."""
    size: Size = 128
    """The content part of a head has this many channels."""
    rotary: Size = 64
    """The position part of a head has this many channels."""
    value: Size = 128
    """A head's value has this many channels."""
    position: Rotary = Rotary()
    """The rotation of the position part."""
    scale: Positive | None = None
    """Scores are multiplied by this; unless given, by 1/√(size + rotary)."""
    eps: Positive = 1e-6
    """The norms of the latents add this to the variance."""
    dropout: Rate = 0.0
    """This share of the attention weights is dropped while training."""

    @property
    def relative(self) -> RelativeSpec | None:
        return self.position

    def locate(self, position: RelativeSpec | None) -> Self:
        if not isinstance(position, Rotary):
            raise SpecError(
                "position: latent attention scores positions by rotations of channels that are kept for them; it can't "
                "do without, and takes no others",
                "position=rotary, or mix=attention",
            )
        return self.replace(position=position)

    def build(self, width: int) -> Mixer:
        return LatentAttention(self, width)


class LatentAttention(Mixer):
    names = ("query", "latent", "weights", "context")  # keys and values are rebuilt from the latent
    packs = True
    grows = True

    def __init__(self, spec: Latent, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.scale = spec.scale or (spec.size + spec.rotary) ** -0.5
        queries = spec.heads * (spec.size + spec.rotary)
        norm = RMSNorm(eps=spec.eps)
        self.query_latent = Dense(width, spec.query_rank, bias=False) if spec.query_rank else None
        self.query_norm = norm.build(spec.query_rank) if spec.query_rank else None
        self.query = Dense(spec.query_rank or width, queries, bias=False)
        self.latent = Dense(width, spec.rank, bias=False)
        self.latent_norm = norm.build(spec.rank)
        self.turn = Dense(width, spec.rotary, bias=False)
        self.expand = Dense(spec.rank, spec.heads * (spec.size + spec.value), bias=False)
        self.output = Dense(spec.heads * spec.value, width, bias=False)
        self.position = spec.position.build(spec.heads, spec.rotary)

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        mask = view.mask
        turn = self.position.rotate(self.turn(x)[:, None], view)[:, 0]
        latent = view.see(self.path, "latent", self.latent_norm(self.latent(x)))
        held = (latent, turn)  # (batch, time, rank) and (batch, time, rotary)
        whole = state is None or (state.length == 0 and mask.valid is None)
        seen = state.extend(held, mask) if isinstance(state, Slots) else None
        if whole or seen is None:
            allowed, causal = mask.table(True, None, explicit=view.watcher(self.path, "weights") is not None), True
        else:
            (latent, turn), allowed, causal = seen.tensors, seen.allowed, False
            held = (latent, turn)
        few = state is not None and mask.time == 1
        attend = self.attend_latents if few else self.attend_rebuilt
        y = attend(self.queries(x, view), held, allowed, causal and allowed is None, view)
        return self.output(view.see(self.path, "context", y).transpose(1, 2).flatten(2))

    def queries(self, x: Tensor, view: View) -> Parts:
        """Content and rotary parts: (batch, heads, time, size) and (batch, heads, time, rotary)."""
        if self.query_latent is not None and self.query_norm is not None:
            x = self.query_norm(self.query_latent(x))
        query = self.query(x).unflatten(-1, (self.spec.heads, -1)).transpose(1, 2)
        content, turned = query.split((self.spec.size, self.spec.rotary), -1)
        turned = self.position.rotate(turned, view)
        see = view.watcher(self.path, "query")
        if see is not None:
            query = see("query", torch.cat((content, turned), -1))
            content, turned = query.split((self.spec.size, self.spec.rotary), -1)
        return content, turned

    def attend_rebuilt(self, query: Parts, held: Parts, allowed: Tensor | None, causal: bool, view: View) -> Tensor:
        """Rebuild every head's keys and values, then attend as usual."""
        spec, (latent, turn) = self.spec, held
        rebuilt = self.expand(latent).unflatten(-1, (spec.heads, -1)).transpose(1, 2)
        key, value = rebuilt.split((spec.size, spec.value), -1)
        key = torch.cat((key, turn[:, None].expand(-1, spec.heads, -1, -1)), -1)
        return self.attend(torch.cat(query, -1), key, value, allowed, causal, view)

    def attend_latents(self, query: Parts, held: Parts, allowed: Tensor | None, causal: bool, view: View) -> Tensor:
        """q · (W c) = (Wᵀ q) · c: move the query into the latent space, where all heads share one key."""
        spec, (content, turned), (latent, _) = self.spec, query, held
        weight = self.expand.matrix().view(spec.heads, spec.size + spec.value, spec.rank)
        to_key, to_value = weight.split((spec.size, spec.value), 1)
        asked = torch.cat((content @ to_key, turned), -1)  # (batch, heads, queries, rank + rotary)
        key = torch.cat(held, -1)[:, None]
        return self.attend(asked, key, latent[:, None], allowed, causal, view) @ to_value.mT

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None, causal: bool, view: View
    ) -> Tensor:
        """(batch, heads, queries, the value's size)"""
        dropout = self.spec.dropout if self.training else 0.0
        see = view.watcher(self.path, "weights")
        if see is not None:
            return openly(query, key, value, allowed, None, self.scale, dropout, see)
        shared = key.shape[1] == 1 and query.shape[1] > 1
        size = value.shape[-1]
        value = F.pad(value, (0, key.shape[-1] - size))  # the fused kernel wants one size for all
        y = F.scaled_dot_product_attention(
            query, key, value, allowed, dropout, is_causal=causal, scale=self.scale, enable_gqa=shared
        )
        return y[..., :size]

    def start(self, rows: int, view: View) -> State:
        room, sizes = max(view.room, 1), (self.spec.rank, self.spec.rotary)
        return Slots(tensors=tuple(view.zeros(rows, room, size) for size in sizes))
