"""A norm of maps of pictures, whose channels are normalised in groups (Wu & He 2018).

By a kernel of our own while it learns: torch's reads maps whose channels stand side by side in three passes more, and
half precision number by number.
"""

from __future__ import annotations

from ctypes import c_int64
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.kernels.library import demand, load_unfollowed

SMALL = 2**12  # numbers below which asking costs more than computing
PARTS = 16  # of the rows, whose gradients are added up part by part


class GroupNorm(nn.GroupNorm):
    """torch's, with max(0, ·) behind it if asked for; by our own kernel while it learns."""

    def forward(self, x: Tensor, bends: bool = False) -> Tensor:
        gain, bias = self.weight, self.bias
        learns = torch.is_grad_enabled() and (x.requires_grad or gain.requires_grad)
        if learns and gain.dtype == bias.dtype == torch.float32 and serves(x):
            found: Tensor = CompiledGroupNorm.apply(x, gain, bias, self.num_groups, self.eps, bends)
            return found
        y = F.group_norm(x, self.num_groups, gain, bias, self.eps)
        return F.relu(y) if bends else y


def serves(x: Tensor) -> bool:
    """Whether our kernels can be had, and read such a map: channels side by side, and not a few numbers only."""
    # sizes aren't known while a graph is drawn
    if torch.compiler.is_compiling() or x.numel() < SMALL or x.dtype not in (torch.float32, torch.bfloat16):
        return False
    lies = x.is_contiguous(memory_format=torch.channels_last)
    return lies and x.device.type == "cpu" and load_unfollowed() is not None


class CompiledGroupNorm(torch.autograd.Function):
    """A norm of groups, and what bends behind it, by our own kernel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, bias: Tensor, groups: int, eps: float, bends: bool) -> Tensor:
        library, (rows, channels, height, width) = demand(), x.shape
        found = torch.empty_like(x)
        kept = x.new_empty(rows, groups, 2, dtype=torch.float32)
        half = x.dtype == torch.bfloat16
        ctx.sizes = (c_int64 * 7)(rows, height * width, channels, groups, bends, half, PARTS)
        library.functions.regard_norm_maps(
            *(x.data_ptr(), gain.data_ptr(), bias.data_ptr(), ctx.sizes, eps),
            *(found.data_ptr(), kept.data_ptr(), library.level),
        )
        ctx.save_for_backward(x, gain, bias, kept)
        ctx.eps, ctx.bends = eps, bends
        return found

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, gain, bias, kept = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants gradients of these gradients, and they are torch's
            parts = (x, gain, bias)
            wanted = [part for part in parts if part.requires_grad]
            again = F.group_norm(x, kept.shape[1], gain, bias, ctx.eps)
            again = F.relu(again) if ctx.bends else again
            grads = iter(torch.autograd.grad(again, wanted, slope, create_graph=True))
            return *(next(grads) if part.requires_grad else None for part in parts), None, None, None
        library = demand()
        slope = slope.to(x.dtype).contiguous(memory_format=torch.channels_last)
        to_x, each = torch.empty_like(x), kept.new_zeros(PARTS, 2, len(gain))
        library.functions.regard_norm_maps_back(
            *(x.data_ptr(), gain.data_ptr(), bias.data_ptr(), slope.data_ptr(), kept.data_ptr(), ctx.sizes),
            *(to_x.data_ptr(), each.data_ptr(), library.level),
        )
        to_gain, to_bias = each.sum(0)
        return to_x, to_gain, to_bias, None, None, None
