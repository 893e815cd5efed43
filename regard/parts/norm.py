"""Norms: layer normalisation (Ba et al. 2016) and its root-mean-square form (Zhang & Sennrich 2019)."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.role import NormSpec
from regard.core.spec import Positive
from regard.core.tape import Tape
from regard.kernels.library import demand, load_unfollowed

SMALL = 2**12  # numbers below which asking costs more than computing


class LayerNorm(NormSpec):
    """Centre and scale each vector, then a learned gain and, unless told otherwise, a bias."""

    kind: Literal["layernorm"] = "layernorm"
    eps: Positive = 1e-5
    """This is added to the variance, so that nothing is divided by 0."""
    bias: bool = True
    """There is a learned bias beside the gain."""

    def build(self, width: int) -> nn.Module:
        return LayerNormLayer(width, self.eps, bias=self.bias)


class RMSNorm(NormSpec):
    """Divide each vector by its root mean square, then a learned gain."""

    kind: Literal["rmsnorm"] = "rmsnorm"
    eps: Positive = 1e-6
    """This is added to the mean square, so that nothing is divided by 0."""

    def build(self, width: int) -> nn.Module:
        return RMSNormLayer(width, self.eps)


class LayerNormLayer(nn.LayerNorm):
    """torch's, and by our own kernel while it learns."""

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() and serves(x, self.weight, self.bias):
            found: Tensor = CompiledNorm.apply(x, self.weight, self.bias, self.eps, True)
            return found
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def write(self, tape: Tape, x: int) -> int:
        return tape.centre(self.weight, self.bias, self.eps, x)


class RMSNormLayer(nn.RMSNorm):
    """torch's, for mixed precision too: its own wants the gain in the input's type; ours while it learns."""

    def forward(self, x: Tensor) -> Tensor:
        assert self.weight is not None
        if torch.is_grad_enabled() and self.eps is not None and serves(x, self.weight, None):
            found: Tensor = CompiledNorm.apply(x, self.weight, None, self.eps, False)
            return found
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)

    def write(self, tape: Tape, x: int) -> int:
        return tape.divide_by_root(self.weight, self.eps, x)


def serves(x: Tensor, gain: Tensor | None, bias: Tensor | None) -> bool:
    """Whether a norm that learns has our kernel, which reads what it is given."""
    # sizes aren't known while a graph is drawn
    if torch.compiler.is_compiling() or x.numel() < SMALL or gain is None or gain.shape != x.shape[-1:]:
        return False
    if not (x.requires_grad or gain.requires_grad):
        return False
    for tensor in (x, gain, gain if bias is None else bias):
        if tensor.dtype != torch.float32 or tensor.device.type != "cpu":
            return False
    return load_unfollowed() is not None


class CompiledNorm(torch.autograd.Function):
    """(x - mean) / deviation · gain + bias by our own kernel, or the same without the mean."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, bias: Tensor | None, eps: float, centres: bool) -> Tensor:
        library, x = demand(), x.contiguous()
        found, (*rows, width) = torch.empty_like(x), x.shape
        kept = x.new_empty(math.prod(rows), 2)
        library.functions.regard_norm(
            *(x.data_ptr(), gain.data_ptr(), None if bias is None else bias.data_ptr(), len(kept), width),
            *(eps, centres, found.data_ptr(), kept.data_ptr(), library.level),
        )
        ctx.save_for_backward(x, gain, bias, kept)
        ctx.eps, ctx.centres = eps, centres
        return found

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, bias, kept = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants gradients of these gradients, and they are torch's
            wanted = [part for part in (x, gain, bias) if part is not None and part.requires_grad]
            centred = F.layer_norm(x, gain.shape, gain, bias, ctx.eps)
            again = centred if ctx.centres else F.rms_norm(x, gain.shape, gain, ctx.eps)
            grads = iter(torch.autograd.grad(again, wanted, slope, create_graph=True))
            parts = (x, gain, bias)
            return *(next(grads) if part is not None and part.requires_grad else None for part in parts), None, None
        library, slope = demand(), slope.contiguous()
        to_x, both = torch.empty_like(x), x.new_empty(2, len(gain))
        library.functions.regard_norm_back(
            *(x.data_ptr(), gain.data_ptr(), slope.data_ptr(), kept.data_ptr(), len(kept), len(gain)),
            *(ctx.centres, to_x.data_ptr(), both.data_ptr(), library.level),
        )
        return to_x, both[0], None if bias is None else both[1], None, None
