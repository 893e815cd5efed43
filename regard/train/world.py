"""The world: the processes that train one model together, and which of them this one is.

The trainer asks it for everything that depends on there being others: what they have, added up; what they must decide
alike; who writes. Here is a world of one process. A world of several overrides `sum`, `agree` and `barrier`, and the
trainer calls them in the same order everywhere, so that nobody waits for what never comes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class World:
    """One process, alone."""

    rank: int = 0
    size: int = 1

    @property
    def is_writer(self) -> bool:
        """Whether this process writes files and tells listeners: one does, for all."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """What all processes have of a tensor, added up."""
        return tensor

    def agree(self, value: float) -> float:
        """The largest value that any process names: a flag that one has raised, the clock that is ahead."""
        return value

    def barrier(self) -> None:
        """Wait until every process has come here."""

    def total(self, value: float) -> float:
        """A number of this process and those of the others, added up."""
        return float(self.sum(torch.tensor(value, dtype=torch.float64)))

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Everybody's tensor, by rank; all are of one shape."""
        if self.size == 1:
            return [tensor]
        table = torch.zeros(self.size, *tensor.shape, dtype=tensor.dtype, device=tensor.device)
        table[self.rank] = tensor
        return list(self.sum(table))

    def sum_gradients(self, weights: Sequence[Tensor]) -> None:
        """Give every weight the gradient of all processes' batches together."""
        for weight in weights if self.size > 1 else ():
            if weight.requires_grad:
                # what no batch here made use of has no gradient here, and may have one elsewhere
                weight.grad = self.sum(torch.zeros_like(weight) if weight.grad is None else weight.grad)


ALONE = World()
