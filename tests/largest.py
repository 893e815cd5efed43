"""How much room a computation takes at once, counted and not measured: numbers of the largest tensor that it makes."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Largest(TorchDispatchMode):
    """`with Largest() as largest: …`, and then `largest.numbers`, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        tensors = [one for one in tree_leaves(made) if isinstance(one, Tensor)]
        # by its storage: what is only expanded takes no room
        self.numbers = max([self.numbers, *(one.untyped_storage().nbytes() // one.itemsize for one in tensors)])
        return made
