"""A diagonal linear state-space layer, the same at every position: S4D (Gu et al. 2022).

Each channel is a small linear system, x' = A x + B u, y = C x + D u, sampled with a learned step. Because nothing
depends on the input, a whole sequence is one long convolution; a step is the recurrence itself.

Cost: time O(n log n); state O(1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.dense import Dense
from regard.core.mask import Mask
from regard.core.mixer import Mixer, MixerSpec
from regard.core.probe import See
from regard.core.spec import Positive, Size, divides
from regard.core.state import State
from regard.core.view import View
from regard.errors import SpecError


class SSM(MixerSpec):
    """How many numbers each channel's system holds, and the range of steps that it starts with."""

    kind: Literal["ssm"] = "ssm"
    states: Size = 64
    """Each channel's system holds this many numbers."""
    shortest: Positive = 0.001
    """Steps start at least this long."""
    longest: Positive = 0.1
    """Steps start at most this long."""

    def build(self, width: int) -> Mixer:
        divides(2, self.states, "pairs", "states", fixed=True)
        if self.shortest > self.longest:
            raise SpecError(f"shortest: the shortest step {self.shortest} is above the longest {self.longest}")
        return DiagonalStateSpace(self, width)


@dataclass
class SSMState(State):
    """Each channel's system: (rows, width, states / 2), complex."""

    x: Tensor


class DiagonalStateSpace(Mixer):
    """A, B, C, D: the paper's letters; A is kept in the left half-plane, B is 1. States come in conjugate pairs."""

    names = ("kernel",)
    accumulates = "each channel's system"
    undecayed = ("step", "decay", "frequency")  # the step and A, as in the authors' code; C decays there

    def __init__(self, spec: SSM, width: int) -> None:
        super().__init__()
        self.spec = spec
        pairs = spec.states // 2
        self.step = nn.Parameter(torch.empty(width))  # log of the step
        self.decay = nn.Parameter(torch.empty(width, pairs))  # log of -Re A
        self.frequency = nn.Parameter(torch.empty(width, pairs))  # Im A
        self.readout = nn.Parameter(torch.empty(width, pairs, 2))  # C
        self.skip = nn.Parameter(torch.empty(width))  # D
        self.output = Dense(width, 2 * width)
        self.reset()

    def reset(self) -> None:
        """S4D-Lin: A_n = -1/2 + iπn, steps spread evenly in the logarithm."""
        spread = torch.rand_like(self.step)
        low, high = math.log(self.spec.shortest), math.log(self.spec.longest)
        pairs = torch.arange(self.frequency.shape[1], device=self.step.device, dtype=self.step.dtype)
        with torch.no_grad():
            self.step.copy_(low + spread * (high - low))
            self.decay.fill_(math.log(0.5))
            self.frequency.copy_((math.pi * pairs).expand_as(self.frequency))
            self.readout.normal_(std=math.sqrt(0.5))
            self.skip.normal_()

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        past = state if isinstance(state, SSMState) else None
        see = view.watcher(self.path, *self.names)
        if past is not None and view.mask.time == 1 and see is None:
            y = self.recur(x, past, view.mask)
        else:
            y = self.convolve(x, past, view.mask, see)
        if past is not None:
            past.advance(view.mask)
        return F.glu(self.output(F.gelu(y.to(x.dtype) + self.skip * x)), -1)

    def discretise(self) -> tuple[Tensor, Tensor, Tensor]:
        """log Ā, B̄, C for the learned step: each (width, pairs)."""
        A = torch.complex(-self.decay.to(self.precise).exp(), self.frequency.to(self.precise))
        exponent = A * self.step.to(self.precise).exp()[:, None]
        return exponent, torch.expm1(exponent) / A, torch.view_as_complex(self.readout.to(self.precise))

    @property
    def precise(self) -> torch.dtype:
        """What the system is computed in: a long product of rounded numbers drifts."""
        return torch.promote_types(self.decay.dtype, torch.float32)

    def recur(self, x: Tensor, state: SSMState, mask: Mask) -> Tensor:
        """x_t = Ā x_{t-1} + B̄ u_t, y_t = 2 Re(C x_t)."""
        exponent, B, C = self.discretise()
        moved = exponent.exp() * state.x + B * x[:, 0, :, None]
        if mask.valid is not None:
            moved = torch.where(mask.valid[:, :, None], moved, state.x)
        state.x = moved
        return 2 * (C * moved).sum(-1).real[:, None]

    def convolve(self, x: Tensor, state: SSMState | None, mask: Mask, see: See | None) -> Tensor:
        """y = K * u with K_l = 2 Re(C Ā^l B̄), by the fast Fourier transform, and what the past adds."""
        u = mask.align(x if mask.valid is None else x * mask.valid[..., None]).mT.to(
            self.precise
        )  # (rows, width, time)
        exponent, B, C = self.discretise()
        time = torch.arange(mask.time, device=x.device)
        powers = (exponent[..., None] * time).exp()  # Ā^l: (width, pairs, time)
        kernel = 2 * torch.einsum("wp,wpt->wt", C * B, powers).real
        if see:
            kernel = see("kernel", kernel)
        # in double precision: the transform mixes all positions, and its rounding would carry the future into the past
        signal, response = torch.fft.rfft(u.double(), 2 * mask.time), torch.fft.rfft(kernel.double(), 2 * mask.time)
        y = torch.fft.irfft(signal * response, 2 * mask.time)[..., : mask.time].to(self.precise)
        if state is not None:
            before = state.x * exponent.exp()  # (rows, width, pairs)
            y = y + 2 * torch.einsum("rwp,wpt->rwt", before * C, powers).real
            state.x = self.settle(u, state.x, exponent, B, powers, mask)
        return mask.restore(y.mT)

    def start(self, rows: int, view: View) -> State:
        return SSMState(x=view.zeros(rows, *self.frequency.shape, dtype=view.precise.to_complex()))

    @staticmethod
    def settle(u: Tensor, before: Tensor, exponent: Tensor, B: Tensor, powers: Tensor, mask: Mask) -> Tensor:
        """The system after the chunk: Ā^n x + Σ Ā^(n-1-l) B̄ u_l, n being each row's own number of real tokens."""
        if mask.valid is None:
            decay = (exponent * mask.time).exp()
        else:
            decay = (exponent * mask.counts[:, None, None]).exp()
            # real tokens last and zeros before them, so that one sum serves all rows
            index = torch.arange(mask.time, device=u.device) - (mask.time - mask.counts)[:, None]
            shifted = u.gather(2, index.clamp(min=0)[:, None].expand_as(u))
            u = shifted * (index >= 0)[:, None]
        return before * decay + B * torch.einsum("rwt,wpt->rwp", u.to(powers.dtype), powers.flip(-1))
