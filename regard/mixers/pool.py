"""Mean pooling: attention with all weights equal, over the whole sequence, over what came before, or over a memory.

The baseline that shows what choosing where to look is worth; with a causal mean it is the average attention network
(Zhang et al. 2018).

Cost: time O(n); state O(1), a sum and a count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import torch
from torch import Tensor, nn

from regard.core.dense import Dense
from regard.core.mask import Mask
from regard.core.mixer import Mixer, MixerSpec
from regard.core.spec import Size
from regard.core.state import Memory, Shared, State
from regard.core.view import View
from regard.errors import SpecError


class Pool(MixerSpec):
    """What is averaged, and whether it is projected before and after, as attention's values are."""

    kind: Literal["pool"] = "pool"
    causal: bool = False
    over: Literal["self", "memory"] = "self"
    memory: Size | None = None
    project: bool = True
    """Vectors are projected before and after the mean, as attention's values are."""
    bias: bool = True
    """These projections have a bias."""

    def memory_width(self, width: int) -> int | None:
        return (self.memory or width) if self.over == "memory" else None

    @property
    def ignores_input(self) -> bool:
        return self.over_memory

    def read_memory(self) -> Self:
        return self.replace(over="memory", causal=False)

    def forward_only(self) -> Self:
        return self if self.over_memory else self.replace(causal=True)

    def both_ways(self) -> Self:
        return self.replace(causal=False)

    def build(self, width: int) -> Mixer:
        if not self.project and self.memory not in (None, width):
            raise SpecError(f"memory: width {width} and memory {self.memory} differ, so the mean must be projected")
        return MeanPooling(self, width)


@dataclass
class PoolState(State):
    """The sum of the values so far, and how many there were."""

    total: Tensor  # (rows, width)
    count: Tensor  # (rows, 1)


class MeanPooling(Mixer):
    names = ("weights",)
    accumulates = "a sum and a count"

    def __init__(self, spec: Pool, width: int) -> None:
        super().__init__()
        self.spec, self.width = spec, width
        self.causal = spec.causal or spec.over_memory
        self.recalls = spec.over_memory
        self.ordered = spec.causal
        source = spec.memory or width
        self.value = Dense(source, width, bias=spec.bias) if spec.project else nn.Identity()
        self.output = Dense(width, width, bias=spec.bias) if spec.project else nn.Identity()

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        if self.spec.over_memory:
            return self.output(self.over(view.recall(self.path), x, view, state))
        mask, value = view.mask, self.value(x)
        see = view.watcher(self.path, *self.names)
        if see is not None and state is None:
            weights = see("weights", equal(mask, self.spec.causal)).to(value.dtype)
            return self.output((weights @ value[:, None])[:, 0])
        precise = torch.promote_types(value.dtype, torch.float32)  # a count in half precision stops at 256
        real = value.to(precise) if mask.valid is None else value.to(precise) * mask.valid[..., None]
        ones = real.new_ones(x.shape[:2]) if mask.valid is None else mask.valid.to(precise)
        if not self.spec.causal:
            mean = real.sum(1, keepdim=True) / ones.sum(1).clamp(min=1)[:, None, None]
            return self.output(mean.to(value.dtype)).expand_as(x)
        total, count = real.cumsum(1), ones.cumsum(1)[..., None]
        if isinstance(state, PoolState):
            before = state.total / state.count.clamp(min=1)
            seen = see("weights", weigh_history(state.count, ones, mask)) if see else None
            total, count = total + state.total[:, None], count + state.count[:, None]
            state.total, state.count = total[:, -1], count[:, -1]
            state.advance(mask)
            if seen is not None:
                y = (seen @ torch.cat((before[:, None], real), 1)[:, None])[:, 0]
                return self.output(y.to(value.dtype))
        return self.output((total / count.clamp(min=1)).to(value.dtype))

    def over(self, memory: Memory, x: Tensor, view: View, state: State | None) -> Tensor:
        """The same mean of the memory for every position: (rows, time, width)."""
        values = state.tensors[0] if isinstance(state, Shared) else self.value(memory.states)
        if state is not None:
            state.advance(view.mask)
        states, keys = memory.states.shape[:2]
        real = values.new_ones(states, keys) if memory.valid is None else memory.valid.to(values.dtype)
        weights = real / real.sum(1, keepdim=True).clamp(min=1)  # (sentences, keys)
        see = view.watcher(self.path, *self.names)
        if see is None:
            rows = (weights[:, None] @ values).repeat_interleave(memory.fan, 0)
            return rows.expand(-1, x.shape[1], -1)
        spread = weights.repeat_interleave(memory.fan, 0)[:, None, None].expand(-1, 1, x.shape[1], -1)
        return (see("weights", spread) @ values.repeat_interleave(memory.fan, 0)[:, None])[:, 0]

    def start(self, rows: int, view: View) -> State | None:
        if self.spec.over_memory:
            memory = view.recall(self.path)
            return Shared(tensors=(self.value(memory.states),), fan=memory.fan)
        if not self.spec.causal:
            return None
        total, count = (view.zeros(rows, size, dtype=view.precise) for size in (self.width, 1))
        return PoolState(total, count)


def equal(mask: Mask, causal: bool) -> Tensor:
    """The weights that mean pooling stands for: (1 or rows, 1, queries, keys)."""
    allowed = torch.ones(1, 1, mask.time, mask.time, device=mask.device)
    allowed = allowed.tril() if causal else allowed
    if mask.valid is not None:
        allowed = allowed * mask.valid[:, None, None, :]
    return allowed / allowed.sum(-1, keepdim=True).clamp(min=1)


def weigh_history(before: Tensor, real: Tensor, mask: Mask) -> Tensor:
    """The weights of a chunk's queries over all that came before, which stands first as one key, and the chunk."""
    chunk = real[:, None] * real.new_ones(mask.time, mask.time).tril()  # (rows, queries, keys)
    counts = torch.cat((before[:, None].expand(-1, mask.time, 1), chunk), -1)
    return (counts / counts.sum(-1, keepdim=True).clamp(min=1))[:, None]
