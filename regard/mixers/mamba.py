"""Mamba: a state-space layer whose step, input and readout depend on the token (Gu & Dao 2023).

Two paths from the input: one through a short convolution and the selective scan, one a gate. A pad has step 0, so the
scan passes over it exactly.

Cost: time O(n); state O(1), a convolution's tail and the scan's state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.dense import Dense, halve
from regard.core.mixer import Mixer, MixerSpec
from regard.core.spec import Positive, Size
from regard.core.state import State
from regard.core.view import View
from regard.parts.scan import selective_scan
from regard.parts.selective import convolve, pass_gate


class Mamba(MixerSpec):
    """Sizes as the paper names them: E = expand, N = states, and the rank of Δ."""

    kind: Literal["mamba"] = "mamba"
    expand: Size = 2
    """The inner width is this many times the width (the paper's E)."""
    states: Size = 16
    """Each channel's system holds this many numbers (the paper's N)."""
    convolution: Size = 4
    """The convolution before the scan sees this many positions."""
    rank: Size | None = None
    """The projection to the step Δ has this rank; unless given, width / 16, rounded up."""
    bias: bool = False
    """The projections have a bias."""
    shortest: Positive = 0.001
    """Steps start at least this long."""
    longest: Positive = 0.1
    """Steps start at most this long."""

    def build(self, width: int) -> Mixer:
        return SelectiveStateSpace(self, width)


@dataclass
class MambaState(State):
    """The last inputs of the convolution, and the scan's state."""

    tail: Tensor  # (rows, convolution - 1, inner)
    scan: Tensor  # (rows, states, inner)


class SelectiveStateSpace(Mixer):
    """A, B, C, D, Δ: the paper's letters."""

    names = ("delta",)  # the step: how much each position is let in, (batch, time, inner)
    accumulates = "the scan's state"
    undecayed = ("decay", "skip")  # A and D, as in the authors' code

    def __init__(self, spec: Mamba, width: int) -> None:
        super().__init__()
        self.spec = spec
        self.inner = spec.expand * width
        self.rank = spec.rank or math.ceil(width / 16)
        self.input = Dense(width, 2 * self.inner, bias=spec.bias)
        self.convolution = nn.Conv1d(self.inner, self.inner, spec.convolution, groups=self.inner)
        self.select = Dense(self.inner, self.rank + 2 * spec.states, bias=False)  # Δ, B, C
        self.delta = Dense(self.rank, self.inner)
        self.decay = nn.Parameter(torch.empty(self.inner, spec.states))  # log of -A
        self.skip = nn.Parameter(torch.empty(self.inner))  # D
        self.output = Dense(self.inner, width, bias=spec.bias)
        self.reset()

    def reset(self) -> None:
        """A_n = -n; the bias of Δ such that steps start log-uniform between the shortest and the longest."""
        low, high = math.log(self.spec.shortest), math.log(self.spec.longest)
        with torch.no_grad():
            counts = torch.arange(1, self.spec.states + 1, device=self.decay.device, dtype=self.decay.dtype)
            self.decay.copy_(counts.log().expand_as(self.decay))
            self.skip.fill_(1.0)
            bound = self.rank**-0.5
            self.delta.weight.uniform_(-bound, bound)
            step = torch.exp(low + torch.rand_like(self.delta.bias) * (high - low)).clamp(min=1e-4)
            self.delta.bias.copy_(step + torch.log(-torch.expm1(-step)))  # softplus, inverted
            reach = self.spec.convolution**-0.5
            self.convolution.weight.uniform_(-reach, reach)

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        mask = view.mask
        now = state if isinstance(state, MambaState) else self.start(mask.rows, view)
        driven, gate = halve(mask.align(x), self.input)
        u = convolve(driven, now.tail, self.convolution.weight[:, 0], self.convolution.bias)  # type: ignore[arg-type]
        delta, B, C = self.select(u).split((self.rank, self.spec.states, self.spec.states), -1)
        delta = F.softplus(self.delta(delta))
        see = view.watcher(self.path, *self.names)
        if see:
            delta = mask.align(see("delta", mask.restore(delta)))
        if mask.valid is not None:
            delta = delta * (torch.arange(mask.time, device=x.device) < mask.counts[:, None])[..., None]
        A = -self.decay.exp()
        scan = step if mask.time == 1 else selective_scan
        y, now.scan = scan(u, delta, A, B, C, now.scan)
        y = self.output(pass_gate(y, u, self.skip, gate))
        if state is not None:  # what the next convolution begins with
            now.tail = mask.take_last(torch.cat((now.tail, driven), 1), self.spec.convolution - 1)
            now.advance(mask)
        return mask.restore(y)

    def start(self, rows: int, view: View) -> MambaState:
        tail = view.zeros(rows, self.spec.convolution - 1, self.inner)
        return MambaState(tail=tail, scan=view.zeros(rows, self.spec.states, self.inner, dtype=view.precise))


def step(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The scan for one position, by its definition."""
    u, delta, B, C = u[:, 0], delta[:, 0], B[:, 0], C[:, 0]
    state = torch.exp(delta[:, None] * A.mT) * state + (delta * u)[:, None] * B[..., None]
    return (C[..., None] * state).sum(1, keepdim=True).to(u.dtype), state
