"""Batch normalisation over the real nodes of a batch (Ioffe & Szegedy 2015): what message passing is trained with.

While training, each channel is centred and scaled by what all real positions of the batch have there, and a running
mean of these is kept; in use the running ones count, so that an answer doesn't depend on who else is asked.

Where all nodes are alike, a channel has no spread, and dividing by it would turn the lag of a running mean into huge
numbers, more so with every norm above. So a channel is scaled by v / (v + δ) besides, while training and in use: with
a variance v that is more than rounding that is 1, and a channel that says nothing gives its bias.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.mixer import Part

MOMENTUM = 0.1  # how much a batch moves the running statistics
EPS = 1e-5
ROUNDING = 1e-8  # δ, a variance that says nothing; a larger one would take away what tells nearly equal graphs apart
FALL = 100.0  # the running variance is at most so many times a batch's: it begins at 1, which may be far too much


class BatchNorm(Part):
    """(positions, width) to the same; a pad counts for nothing."""

    running = ("mean", "variance")
    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def reset(self) -> None:
        nn.init.ones_(self.gain)
        nn.init.zeros_(self.bias)
        self.mean.zero_()
        self.variance.fill_(1.0)

    def forward(self, x: Tensor, real: Tensor | None, moves: bool = True) -> Tensor:
        """`real`: the numbers of the real positions, (real,); None: all are. What a pad gets means nothing.

        `moves`: whether the running statistics take note of this batch; not of one that is computed again.
        """
        if not self.training:
            return F.batch_norm(x, self.mean, self.variance, self._damp(self.variance), self.bias, eps=EPS)
        chosen = x if real is None else x.index_select(0, real)
        if len(chosen) < 2:  # one position has no spread
            found = F.batch_norm(chosen, self.mean, self.variance, self._damp(self.variance), self.bias, eps=EPS)
        else:
            # what the spread damps has no slope that would mean something
            still = chosen.detach().to(torch.promote_types(chosen.dtype, torch.float32))
            mean = still.mean(0)
            spread = (still - mean).square_().mean(0)  # five times as fast as torch's own, which goes down columns
            found = F.batch_norm(chosen, None, None, self._damp(spread), self.bias, True, eps=EPS)
            if moves:
                self._remember(mean, spread, len(chosen))
        return found if real is None else torch.zeros_like(x).index_copy(0, real, found)

    def _damp(self, variance: Tensor) -> Tensor:
        """The gain, and nothing of it where a channel has no spread: (width,)."""
        return self.gain * (variance / (variance + ROUNDING)).to(self.gain.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, spread: Tensor, count: int) -> None:
        unbiased = spread * (count / (count - 1))
        self.mean.lerp_(mean.to(self.mean.dtype), MOMENTUM)
        self.variance.lerp_(unbiased.to(self.variance.dtype), MOMENTUM)
        torch.minimum(self.variance, FALL * unbiased.to(self.variance.dtype), out=self.variance)
