"""Activations between two layers: torch's, or the same by our own kernel, which knows their slopes too."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.library import Library, load_unfollowed

Activation = Literal["relu", "gelu", "gelu-tanh", "silu", "tanh"]
NUMBERS = {"relu": 0, "gelu": 1, "gelu-tanh": 2, "silu": 3, "tanh": 4}  # as the kernels count them
SMALL = 2**12  # numbers below which asking costs more than computing


class Bend(torch.autograd.Function):
    """f(x), and on the way back slope · f'(x)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, name: str, library: Library) -> Tensor:
        ctx.save_for_backward(x)
        ctx.name, ctx.library = name, library
        return bend(library, name, x, None)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants gradients of these gradients, and they are torch's
            (found,) = torch.autograd.grad(PLAIN[ctx.name](x), x, slope, create_graph=True)
            return found, None, None
        return bend(ctx.library, ctx.name, x, slope), None, None


def bend(library: Library, name: str, x: Tensor, slope: Tensor | None) -> Tensor:
    """f(x), or slope · f'(x): the same shape as x."""
    x, slope = x.contiguous(), None if slope is None else slope.contiguous()
    found = torch.empty_like(x)
    library.functions.regard_bend(
        *(x.data_ptr(), None if slope is None else slope.data_ptr(), x.numel(), NUMBERS[name]),
        *(found.data_ptr(), library.level),
    )
    return found


def replace(library: Library, name: str, x: Tensor) -> tuple[Tensor, Tensor]:
    """f(x), and f'(x) in the place of x, for who needs x no more; not for ReLU, whose values tell its slopes."""
    found = torch.empty_like(x)
    library.functions.regard_replace(x.data_ptr(), x.numel(), NUMBERS[name], found.data_ptr(), library.level)
    return found, x


def activate(name: str, x: Tensor) -> Tensor:
    """An activation by the quicker way that there is."""
    if torch.compiler.is_compiling() or x.dtype != torch.float32 or x.device.type != "cpu" or x.numel() < SMALL:
        return PLAIN[name](x)
    library = load_unfollowed()
    if library is None:
        return PLAIN[name](x)
    if not (torch.is_grad_enabled() and x.requires_grad):
        return bend(library, name, x, None)
    found: Tensor = Bend.apply(x, name, library)
    return found


PLAIN: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
    "tanh": F.tanh,
}
gelu, gelu_tanh, silu = (partial(activate, name) for name in ("gelu", "gelu-tanh", "silu"))
# what torch does in one pass is left to it
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {**PLAIN, "gelu": gelu, "gelu-tanh": gelu_tanh, "silu": silu}
