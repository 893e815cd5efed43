"""Convolution: every position sees a few neighbours, each at a fixed distance and with weights of its own.

The baseline without recurrence beside attention: gated linear units (Dauphin et al. 2017) in a translator (Gehring et
al. 2017), and neighbours that lie further apart from block to block, so that a few blocks see far (ByteNet,
Kalchbrenner et al. 2016; Bai et al. 2018). Causal, it sees those before; else as many on both sides.

Cost: time O(n · kernel), all positions at once; state O(kernel · dilation).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.mask import Mask
from regard.core.mixer import Mixer, MixerSpec
from regard.core.spec import Size
from regard.core.state import State
from regard.core.view import View
from regard.errors import SpecError

FARTHEST = 2**20  # positions that a kernel may span


class Convolution(MixerSpec):
    """How many neighbours, how far apart, on which side, and what becomes of their sum."""

    kind: Literal["convolution"] = "convolution"
    kernel: Size = 3
    """A position sees this many, itself among them."""
    dilation: Size = 1
    """The distance between two neighbours."""
    gated: bool = True
    """Half of the channels open or close the other half; without, what is negative is dropped."""
    causal: bool = False
    bias: bool = True
    """The convolution has a bias."""

    def forward_only(self) -> Self:
        return self.replace(causal=True)

    def both_ways(self) -> Self:
        return self.replace(causal=False)

    def build(self, width: int) -> Mixer:
        if self.kernel == 1:
            raise SpecError("kernel: 1 sees no neighbour, so it would mix nothing", "kernel=3, or mix=none")
        if (self.kernel - 1) * self.dilation > FARTHEST:
            raise SpecError(
                f"dilation: {self.kernel} neighbours {self.dilation} apart span more than {FARTHEST:,} positions",
                f"dilation={max(1, FARTHEST // self.kernel)}",
            )
        return GatedConvolution(self, width)


@dataclass
class ConvolutionState(State):
    """The last inputs, which the next chunk's first positions still see."""

    tail: Tensor  # (rows, (kernel - 1) * dilation, width)


class GatedConvolution(Mixer):
    """y_t = (A x + a)_t · σ(B x + b)_t, A and B sums over neighbours; ungated: relu((A x + a)_t)."""

    names = ("hidden",)  # the sums, before the gate

    def __init__(self, spec: Convolution, width: int) -> None:
        super().__init__()
        self.spec, self.width = spec, width
        self.causal = spec.causal
        self.reach = (spec.kernel - 1) * spec.dilation
        channels = 2 * width if spec.gated else width
        self.convolution = nn.Conv1d(width, channels, spec.kernel, dilation=spec.dilation, bias=spec.bias)
        self.reset()

    def reset(self) -> None:
        """Such that the sums keep their size through a gate, which halves its input, or through a relu."""
        gain = 4.0 if self.spec.gated else 2.0
        nn.init.normal_(self.convolution.weight, std=(gain / (self.spec.kernel * self.width)) ** 0.5)
        if self.convolution.bias is not None:
            nn.init.zeros_(self.convolution.bias)

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        mask = view.mask
        now = state if isinstance(state, ConvolutionState) else self.start(mask.rows, view)
        x = mask.align(x)
        if now is None:
            before = self.reach - self.reach // 2  # an even kernel has its odd neighbour before
            inputs = F.pad(self.blank(x, mask), (0, 0, before, self.reach // 2))
        else:
            inputs = torch.cat((now.tail.to(x.dtype), x), 1)  # (rows, reach + time, width)
        y = self.convolution(inputs.mT).mT
        see = view.watcher(self.path, *self.names)
        if see:
            y = mask.align(see("hidden", mask.restore(y)))
        if now is not None:
            now.tail = mask.take_last(inputs, self.reach)
            now.advance(mask)
        return mask.restore(F.glu(y, -1) if self.spec.gated else F.relu(y))

    @staticmethod
    def blank(x: Tensor, mask: Mask) -> Tensor:
        """Aligned inputs with zeros for pads: who looks ahead would see them."""
        real = mask.aligned
        return x if real is None else x * real[..., None]

    def start(self, rows: int, view: View) -> ConvolutionState | None:
        return ConvolutionState(tail=view.zeros(rows, self.reach, self.width)) if self.causal else None
