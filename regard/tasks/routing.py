"""What training owes to experts: a loss that keeps them evenly used, and the steering of those that have none."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.core.mixer import Part
from regard.core.model import Model
from regard.core.probe import Record

BALANCE = 0.01  # the weight of the balance in the loss (Fedus et al. 2022)


class Routing:
    """Watches the experts of a model through one batch; a model without experts isn't watched."""

    def __init__(self, model: Model, weight: float = BALANCE) -> None:
        self.weight = weight
        self.parts = {part.path: part for part in model.modules() if isinstance(part, Part) and "balance" in part.names}
        self.probe = Record("*.balance", "*.load") if self.parts and model.training else None

    def cost(self, predictions: int) -> Tensor | float:
        """What an uneven use adds to a loss that is a sum over so many predictions."""
        if self.probe is None:
            return 0.0
        costs = [self._mean(path, "balance") for path, part in self.parts.items() if not part.steered]
        return self.weight * predictions * torch.stack(costs).sum() if costs else 0.0

    @torch.no_grad()
    def steer(self) -> None:
        """Steer the experts that have no loss; after the gradient, for which a block may have to choose once more."""
        if self.probe is not None:
            for path, part in self.parts.items():
                if part.steered:
                    part.steer(self._mean(path, "load"))

    def _mean(self, path: str, name: str) -> Tensor:
        """What was reported of a part, over all calls of a batch."""
        assert self.probe is not None
        return torch.stack(self.probe.values[f"{path}.{name}"]).mean(0)
