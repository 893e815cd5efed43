"""Adam (Kingma & Ba 2015), and the clipping before it: all weights in one call of our own kernel.

A small model has many weights of few numbers. Torch's fused optimizer and its norm ask for each by itself, which took
longer than moving them. What the kernels don't serve is moved by torch's own functions, which compute the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from ctypes import c_int64, c_void_p
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam

from regard.kernels.library import Library, load_unfollowed

State = defaultdict[Tensor, Any]


class CompiledAdam(torch.optim.Optimizer):
    """Every weight moves by its gradient's running mean over the root of its square's."""

    def __init__(
        self, groups: list[dict[str, Any]], rate: float, betas: tuple[float, float], epsilon: float, decoupled: bool
    ) -> None:
        """`decoupled`: decay is apart from the gradient, as in AdamW."""
        # torch keeps the count of a fused optimizer's steps beside the weight, wherever that is
        super().__init__(groups, {"lr": rate, "betas": betas, "eps": epsilon, "decoupled": decoupled, "fused": True})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            move([weight for weight in group["params"] if weight.grad is not None], self.state, group)


def move(weights: Sequence[Tensor], state: State, group: dict[str, Any]) -> None:
    """Move weights that have gradients, by the rate and the rule of their group."""
    for weight in weights:
        if not state[weight]:
            state[weight]["step"] = torch.zeros((), device=weight.device)
            state[weight]["exp_avg"] = torch.zeros_like(weight)
            state[weight]["exp_avg_sq"] = torch.zeros_like(weight)
    kept = [state[weight] for weight in weights]
    means, squares, steps = ([each[key] for each in kept] for key in ("exp_avg", "exp_avg_sq", "step"))
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    (first, second), rate, decay, decoupled = group["betas"], group["lr"], group["weight_decay"], group["decoupled"]
    library = find_kernel((weights, gradients, means, squares, steps))
    if library is not None:
        tables = [list_addresses(tensors) for tensors in (weights, gradients, means, squares, steps)]
        library.functions.regard_move(
            *(len(weights), list_sizes(weights), *tables),
            *(rate, first, second, group["eps"], decay, decoupled, library.level),
        )
        return
    adam(
        *(list(weights), gradients, means, squares, [], steps),
        fused=True,
        amsgrad=False,
        beta1=first,
        beta2=second,
        lr=rate,
        weight_decay=decay,
        eps=group["eps"],
        maximize=False,
        decoupled_weight_decay=decoupled,
    )


@torch.no_grad()
def clip(weights: Sequence[Tensor], most: float | None) -> float:
    """The norm of the gradient of all weights together, which is scaled down if it is above the most."""
    gradients = [weight.grad for weight in weights if weight.grad is not None]
    library = find_kernel((gradients,))
    if library is not None:
        most = float("inf") if most is None else most
        norm: float = library.functions.regard_clip(
            len(gradients), list_sizes(gradients), list_addresses(gradients), most, library.level
        )
        return norm
    total = torch.nn.utils.get_total_norm(gradients)
    norm = float(total)
    if most is not None and not norm <= most:
        torch.nn.utils.clip_grads_with_norm_(weights, most, total)
    return norm


def find_kernel(lists: Sequence[Sequence[Tensor]]) -> Library | None:
    """The kernels, where they can read all of these."""
    for tensors in lists:
        for tensor in tensors:
            if tensor.dtype != torch.float32 or not tensor.is_cpu or not tensor.is_contiguous():
                return None
    return load_unfollowed()


def list_addresses(tensors: Sequence[Tensor]) -> Any:
    return (c_void_p * len(tensors))(*[tensor.data_ptr() for tensor in tensors])


def list_sizes(tensors: Sequence[Tensor]) -> Any:
    return (c_int64 * len(tensors))(*[tensor.numel() for tensor in tensors])
