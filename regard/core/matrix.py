"""Products of matrices in single precision, by our own kernel where it is the faster one.

Torch asks MKL, which has AVX-512 for one maker's processors alone: on the others half of each register stays idle. Ours
reads the steps of both matrices, so that forward and backward are one function. Each sum is added up in the order of
its inputs, whatever the other rows are and however many threads there are. On those processors it is the faster one
with AVX2, too, by a seventh; that path is for what doesn't learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int64
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.activation import PLAIN, replace
from regard.kernels.library import Library, load, load_unfollowed

STEPS, SIX = c_int64 * 5, c_int64 * 6
FEW = 192  # rows up to which weights are read as they are; packing them pays for more
SMALL = 2**16  # products below which asking costs more than computing


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b, as `F.linear`: (…, inputs) to (…, outputs)."""
    # sizes aren't known while a graph is drawn
    if torch.compiler.is_compiling() or x.numel() * weight.shape[0] < SMALL:
        return F.linear(x, weight, bias)
    if torch.is_grad_enabled() and (
        x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    ):
        if find_kernel(x, weight, bias) is None:
            return F.linear(x, weight, bias)
        found: Tensor = LinearProduct.apply(x, weight, bias)
        return found
    library = find_reader()
    if library is None or not can_read(x, weight, bias) or (find_faster() is None and not lies_flat(weight)):
        return F.linear(x, weight, bias)
    return multiply_rows(x, weight, bias)


def linears(x: Tensor, maps: Sequence[tuple[Tensor, Tensor | None]]) -> Sequence[Tensor]:
    """x Wᵀ + b for several W and b: while training, one step of the way back for all."""
    small = x.numel() * min(len(weight) for weight, _ in maps) < SMALL
    if small or torch.compiler.is_compiling() or any(find_kernel(x, weight, bias) is None for weight, bias in maps):
        return [linear(x, weight, bias) for weight, bias in maps]
    found: Sequence[Tensor] = LinearProducts.apply(x, *(part for each in maps for part in each))
    return found


def matmul(x: Tensor, w: Tensor, out: Tensor | None = None, adds: bool = False) -> Tensor:
    """x w, (rows, inputs) by (inputs, outputs), without gradients; into `out`, or added to it."""
    large = x.numel() * w.shape[1] >= SMALL
    if large and find_kernel(x, w, None) is not None and (out is None or out.stride(1) == 1):
        return multiply(x, w, None, out, adds)
    if out is None:
        return torch.mm(x, w)
    return out.addmm_(x, w) if adds else torch.mm(x, w, out=out)


def matmuls(x: Tensor, w: Tensor) -> Tensor:
    """The same for several matrices of one shape: (count, rows, inputs) by (count, inputs, outputs)."""
    # torch gives each thread matrices of its own; one matrix alone is shared out better by our kernel
    return torch.bmm(x, w) if len(x) > 1 else matmul(x[0], w[0])[None]


class LinearProduct(torch.autograd.Function):
    """x Wᵀ + b, and its gradients, each a product of two of the three."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return multiply_rows(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        return back(x, weight, slope, ctx.needs_input_grad)


class LinearProducts(torch.autograd.Function):
    """x Wᵀ + b for several W and b, and their gradients; those of x are added up on the spot."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *parts: Tensor | None) -> tuple[Tensor, ...]:
        ctx.save_for_backward(x, *parts[::2])
        return tuple(multiply_rows(x, *each) for each in zip(parts[::2], parts[1::2], strict=True))  # type: ignore[arg-type]

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        wanted, found = ctx.needs_input_grad, list[Tensor | None]()
        to_x: Tensor | None = None
        for place, (weight, slope) in enumerate(zip(weights, slopes, strict=True)):
            asked = wanted[0], wanted[2 * place + 1], wanted[2 * place + 2]
            to_x, to_weight, to_bias = back(x, weight, slope, asked, to_x)
            found += [to_weight, to_bias]
        return to_x, *found


class TwoLayers(torch.autograd.Function):
    """down(f(up x)). The slopes of f are computed along with its values, and kept in the place of what it was asked."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, up: Tensor, up_bias: Tensor | None, down: Tensor, down_bias: Tensor | None, name: str
    ) -> Tensor:
        library, hidden = find_kernel(x, up, up_bias), multiply_rows(x, up, up_bias)
        assert library is not None  # somebody asked
        y, slopes = replace(library, name, hidden)
        ctx.save_for_backward(x, up, up_bias, down, down_bias, y, slopes)
        ctx.name = name
        return multiply_rows(y, down, down_bias)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        x, up, up_bias, down, down_bias, y, slopes = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        if torch.is_grad_enabled():  # somebody wants gradients of these gradients, and they are torch's
            again = F.linear(PLAIN[ctx.name](F.linear(x, up, up_bias)), down, down_bias)
            parts = [part for part, asked in zip((x, up, up_bias, down, down_bias), wanted, strict=False) if asked]
            grads = iter(torch.autograd.grad(again, parts, slope, create_graph=True))
            return *(next(grads) if asked else None for asked in wanted[:5]), None
        to_y, to_down, to_down_bias = back(y, down, slope, (any(wanted[:3]), *wanted[3:5]))
        if to_y is None:
            return None, None, None, to_down, to_down_bias, None
        return *back(x, up, to_y.mul_(slopes), wanted[:3]), to_down, to_down_bias, None


def back(
    x: Tensor, weight: Tensor, slope: Tensor, wanted: Sequence[bool], sum_x: Tensor | None = None
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of x, of the weights and of the bias, as far as they are wanted; that of x is added to a sum."""
    rows, slopes = x.reshape(-1, x.shape[-1]), slope.reshape(-1, slope.shape[-1])
    if torch.is_grad_enabled():  # somebody wants gradients of these gradients, and they are torch's
        to_x = (slopes @ weight).view_as(x) if wanted[0] else None
        to_weight = slopes.T @ rows if wanted[1] else None
        total = to_x if sum_x is None or to_x is None else sum_x + to_x
        return total, to_weight, slopes.sum(0) if wanted[2] else None
    library = find_faster()
    assert library is not None
    (outputs, inputs), adds = weight.shape, sum_x is not None
    to_x = sum_x if sum_x is not None or not wanted[0] else x.new_empty(x.shape)
    to_weight = x.new_empty(outputs, inputs) if wanted[1] else None
    to_bias = x.new_empty(outputs) if wanted[2] else None
    library.functions.regard_multiply_back(
        *(rows.data_ptr(), weight.data_ptr(), slopes.data_ptr(), len(rows), inputs, outputs),
        *(None if found is None else found.data_ptr() for found in (to_x, to_weight, to_bias)),
        *(SIX(*rows.stride(), *weight.stride(), *slopes.stride()), adds),
    )
    return to_x, to_weight, to_bias


def find_kernel(x: Tensor, weight: Tensor, bias: Tensor | None) -> Library | None:
    """The kernel for products that learn, where it can multiply these and is the faster one."""
    return find_faster() if can_read(x, weight, bias) else None


def can_read(x: Tensor, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether our kernels can multiply these, and nobody follows what torch computes."""
    single = torch.float32
    if x.dtype != single or weight.dtype != single or not (x.is_cpu and weight.is_cpu):
        return False
    if bias is not None and (bias.dtype != single or not bias.is_cpu):
        return False
    return bool(x.numel()) and not torch.is_autocast_enabled("cpu") and load_unfollowed() is not None


@cache
def find_faster() -> Library | None:
    """The kernels, on a processor whose AVX-512 torch's own library leaves alone."""
    library = find_reader()
    return library if library is not None and library.level == 2 else None


@cache
def find_reader() -> Library | None:
    """The kernels, with AVX-512 or without, on a processor that torch's own library isn't made for."""
    library = load()
    return library if library is not None and find_maker() != "GenuineIntel" else None


def find_maker() -> str:
    """Who made the processor, as it says itself; nothing where nobody tells."""
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.partition(":")[2].strip() for line in file if line.startswith("vendor_id"))
    except (OSError, StopIteration):
        return ""


def multiply_rows(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x Wᵀ + b for rows of any number of dimensions; without AVX-512 weights must lie flat."""
    library = find_reader()
    assert library is not None  # somebody asked
    rows = x.reshape(-1, x.shape[-1])
    count, (outputs, inputs) = len(rows), weight.shape
    if (count > FEW or not lies_flat(weight)) and find_faster() is not None:
        return multiply(rows, weight.T, bias).view(*x.shape[:-1], outputs)
    rows = rows.contiguous()
    found = x.new_empty(*x.shape[:-1], outputs)
    start = None if bias is None else bias.contiguous().data_ptr()
    library.functions.regard_multiply_few(
        rows.data_ptr(), count, inputs, weight.data_ptr(), start, outputs, found.data_ptr(), library.level
    )
    return found


def lies_flat(weight: Tensor) -> bool:
    """Whether the numbers of a matrix stand one behind the other, row by row."""
    return weight.stride() == (weight.shape[1], 1)


def multiply(x: Tensor, w: Tensor, bias: Tensor | None = None, out: Tensor | None = None, adds: bool = False) -> Tensor:
    """x w + b: (rows, inputs) by (inputs, outputs), each of any steps; into `out`, or added to it."""
    library = find_faster()
    assert library is not None
    rows, inputs = x.shape
    outputs = w.shape[1]
    found = x.new_empty(rows, outputs) if out is None else out
    bias = None if bias is None else bias.contiguous()
    library.functions.regard_multiply_many(
        *(x.data_ptr(), w.data_ptr(), None if bias is None else bias.data_ptr(), adds),
        *(rows, inputs, outputs, found.data_ptr(), STEPS(*x.stride(), *w.stride(), found.stride(0))),
    )
    return found
