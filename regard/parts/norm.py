"""Norms: layer normalisation (Ba et al. 2016) and its root-mean-square form (Zhang & Sennrich 2019)."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.role import NormSpec
from regard.core.spec import Positive
from regard.core.tape import Tape


class LayerNorm(NormSpec):
    """Centre and scale each vector, then a learned gain and, unless told otherwise, a bias."""

    kind: Literal["layernorm"] = "layernorm"
    eps: Positive = 1e-5
    """This is added to the variance, so that nothing is divided by 0."""
    bias: bool = True
    """There is a learned bias beside the gain."""

    def build(self, width: int) -> nn.Module:
        return nn.LayerNorm(width, self.eps, bias=self.bias)


class RMSNorm(NormSpec):
    """Divide each vector by its root mean square, then a learned gain."""

    kind: Literal["rmsnorm"] = "rmsnorm"
    eps: Positive = 1e-6
    """This is added to the mean square, so that nothing is divided by 0."""

    def build(self, width: int) -> nn.Module:
        return RMSNormLayer(width, self.eps)


class RMSNormLayer(nn.RMSNorm):
    """torch's, for mixed precision too: its fused kernel wants the gain in the input's type."""

    def forward(self, x: Tensor) -> Tensor:
        assert self.weight is not None
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)

    def write(self, tape: Tape, x: int) -> int:
        return tape.divide_by_root(self.weight, self.eps, x)
