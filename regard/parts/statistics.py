"""Batch normalisation over the real nodes of a batch (Ioffe & Szegedy 2015): what message passing is trained with.

While training, each channel is centred and scaled by what all real positions of the batch have there, and a running
mean of these is kept; in use the running ones count, so that an answer doesn't depend on who else is asked.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.core.mixer import Part

MOMENTUM = 0.1  # how much a batch moves the running statistics
EPS = 1e-5


class BatchNorm(Part):
    """(positions, width) to the same; a pad is computed too, and counts for nothing."""

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

    def forward(self, x: Tensor, valid: Tensor | None) -> Tensor:
        """`valid`: (positions,), True where a position is real; None: everywhere."""
        mean, variance = self.measure(x, valid) if self.training else (self.mean, self.variance)
        return (x - mean) * (self.gain * (variance + EPS).rsqrt()) + self.bias

    def measure(self, x: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor]:
        """The batch's own statistics, which move the running ones."""
        real = x if valid is None else x * valid[:, None]
        count = len(x) if valid is None else valid.sum().clamp(min=1)
        mean = real.sum(0) / count
        away = x - mean if valid is None else (x - mean) * valid[:, None]
        variance = away.square().sum(0) / count
        with torch.no_grad():
            self.mean.lerp_(mean.detach().to(self.mean.dtype), MOMENTUM)
            self.variance.lerp_(variance.detach().to(self.variance.dtype), MOMENTUM)
        return mean, variance
