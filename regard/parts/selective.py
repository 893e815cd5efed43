"""What stands before and behind Mamba's scan: a short convolution with its activation, and a gate.

By torch's operations each is half a dozen passes over tensors that no cache holds; by our own kernels, where there are
any, one.
"""

from __future__ import annotations

from ctypes import c_int64
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.core.activation import silu
from regard.kernels.library import demand, serves

MOST_TAPS = 8  # of our kernel
PARTS = 16  # of the rows, whose gradients are added up part by part


def convolve(x: Tensor, tail: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """silu of each channel's last few inputs, weighted: (batch, time, inner) to the same.

    tail: (batch, taps - 1, inner), what came before; weight: (inner, taps).
    """
    if x.shape[1] == 1 or not 1 < weight.shape[1] <= MOST_TAPS or not serves(x, tail, weight, bias):
        return silu(ShortConvolution.apply(torch.cat((tail, x), 1), weight, bias))
    found: Tensor = CompiledConvolution.apply(x.contiguous(), tail.contiguous(), weight, bias)
    return found


def pass_gate(y: Tensor, u: Tensor, skip: Tensor, gate: Tensor) -> Tensor:
    """(y + skip u) silu(gate), (batch, time, inner)."""
    even = gate.stride(2) == 1 and gate.stride(0) == gate.shape[1] * gate.stride(1)
    if y.shape[1] == 1 or not even or not serves(y, u, skip, gate):
        return (y + skip * u) * silu(gate)
    found: Tensor = CompiledGate.apply(y.contiguous(), u.contiguous(), skip, gate)
    return found


class ShortConvolution(torch.autograd.Function):
    """Each channel's last few inputs, weighted: (batch, taps - 1 + time, inner) to (batch, time, inner).

    A sum of shifted products, because torch's depthwise convolution takes three times as long here.
    """

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(inputs, weight)
        time = inputs.shape[1] - weight.shape[1] + 1
        y = torch.addcmul(bias, inputs[:, :time], weight[:, 0])
        for tap in range(1, weight.shape[1]):
            y.addcmul_(inputs[:, tap : tap + time], weight[:, tap])
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        inputs, weight = ctx.saved_tensors
        time = grad.shape[1]
        grad_inputs, grad_weight = torch.zeros_like(inputs), torch.empty_like(weight)
        for tap in range(weight.shape[1]):
            grad_inputs[:, tap : tap + time].addcmul_(grad, weight[:, tap])
            grad_weight[:, tap] = (inputs[:, tap : tap + time] * grad).sum((0, 1))
        return grad_inputs, grad_weight, grad.sum((0, 1))


class CompiledConvolution(torch.autograd.Function):
    """The convolution and its activation by our own kernel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, tail: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        library, turned, bias = demand(), weight.mT.contiguous(), bias.contiguous()
        ctx.save_for_backward(x, tail, turned, bias)
        ctx.sizes = (c_int64 * 4)(*x.shape, len(turned))
        found = torch.empty_like(x)
        library.functions.regard_convolve(
            *(tensor.data_ptr() for tensor in (x, tail, turned, bias, found)), ctx.sizes, library.level
        )
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, tail, turned, bias = ctx.saved_tensors
        library, slope = demand(), slope.contiguous()
        to_x, to_tail = torch.empty_like(x), torch.empty_like(tail)
        each = x.new_empty(len(x), len(turned) + 1, x.shape[2])  # of each row, the bias's last
        asked = (x, tail, turned, bias, slope, to_x, to_tail, each)
        library.functions.regard_convolve_back(*(tensor.data_ptr() for tensor in asked), ctx.sizes, library.level)
        total = each.sum(0)
        return to_x, to_tail, total[:-1].mT, total[-1]


class CompiledGate(torch.autograd.Function):
    """The gate by our own kernel."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, u: Tensor, skip: Tensor, gate: Tensor) -> Tensor:
        library, skip = demand(), skip.contiguous()
        ctx.save_for_backward(y, u, skip, gate)
        found, inner = torch.empty_like(y), y.shape[2]
        library.functions.regard_gate(
            *(tensor.data_ptr() for tensor in (y, u, skip, gate)),
            *(gate.stride(1), y.numel() // inner, inner, found.data_ptr(), library.level),
        )
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        y, u, skip, gate = ctx.saved_tensors
        library, slope, inner = demand(), slope.contiguous(), y.shape[2]
        to_y, to_u, to_gate = (torch.empty_like(y) for _ in range(3))
        to_skip = y.new_zeros(PARTS, inner)
        library.functions.regard_gate_back(
            *(tensor.data_ptr() for tensor in (y, u, skip, gate)),
            *(gate.stride(1), slope.data_ptr(), y.numel() // inner, inner, PARTS),
            *(tensor.data_ptr() for tensor in (to_y, to_u, to_gate, to_skip)),
            library.level,
        )
        return to_y, to_u, to_skip.sum(0), to_gate
