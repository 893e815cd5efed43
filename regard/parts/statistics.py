"""Batch normalisation over the real nodes of a batch (Ioffe & Szegedy 2015): what message passing is trained with.

While training, each channel is centred and scaled by what all real positions of the batch have there, and a running
mean of these is kept; in use the running ones count, so that an answer doesn't depend on who else is asked.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.mixer import Part

MOMENTUM = 0.1  # how much a batch moves the running statistics
EPS = 1e-5


class BatchNorm(Part):
    """(positions, width) to the same; a pad counts for nothing."""

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

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """`real`: the numbers of the real positions, (real,); None: all are. What a pad gets means nothing."""
        if not self.training:
            return F.batch_norm(x, self.mean, self.variance, self.gain, self.bias, eps=EPS)
        chosen = x if real is None else x.index_select(0, real)
        alone = len(chosen) < 2  # one position has no spread
        found = F.batch_norm(chosen, self.mean, self.variance, self.gain, self.bias, not alone, MOMENTUM, EPS)
        return found if real is None else torch.zeros_like(x).index_copy(0, real, found)
