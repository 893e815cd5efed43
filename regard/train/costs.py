"""Costs: what the parts of a model report beside their answers, and what training does with it.

A part declares which of its names are costs, to be added to the loss, and which are loads, to be told again once a
step (`Part.costs`, `Part.loads`). The trainer collects them whatever the task is: it watches the model while the task
computes its loss, so a task needn't know of them and can't forget them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor

from regard.core.hint import nearest
from regard.core.mixer import Part
from regard.core.model import Model
from regard.core.probe import Probe
from regard.errors import InputError, SpecError
from regard.train.world import ALONE, World


class Costs(Probe):
    """The costs and loads of one step, over all of its batches; a model that declares none isn't watched."""

    def __init__(self, model: Model, weights: Mapping[str, float] | None = None, world: World = ALONE) -> None:
        """`weights`: of costs by their names, where they aren't the usual ones."""
        self.model, self.weights, self.world = model, dict(weights or {}), world
        self.parts = [part for part in model.modules() if isinstance(part, Part) and (part.costs or part.loads)]
        self.wanted = {f"{part.path}.{name}" for part in self.parts for name in (*part.costs, *part.loads)}
        self.declared = list(dict.fromkeys(pair for part in self.parts for pair in part.costs.items()))
        self.listening = False
        self.heard: dict[str, list[Tensor]] = {}  # in this batch, a value for each call
        self.kept: dict[str, list[tuple[int, Tensor]]] = {}  # in this step: each batch's predictions, and its mean

    def wants(self, name: str) -> bool:
        return name in self.wanted

    def __call__(self, name: str, value: Tensor) -> Tensor:
        # a block that is run again for the gradient reports again, and must compute the same; it counts once
        if self.listening and name in self.wanted:
            self.heard.setdefault(name, []).append(value)
        return value

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Hear what the model's parts report within: around a task's loss."""
        if not self.parts:
            yield
            return
        self.heard, self.listening = {}, True
        try:
            with self.model.watch(self):
                yield
        finally:
            self.listening = False

    def charge(self, loss: Tensor, predictions: int) -> Tensor:
        """A loss that is a sum over so many predictions, with what the parts cost for each of them."""
        silent = sorted(self.wanted - self.heard.keys())
        if silent:
            raise InputError(
                f"the task's loss never heard of {silent[0]}: what it costs would be left out",
                "call the model itself in loss (model(…), model.features(…)) and not its parts",
            )
        found = {name: torch.stack(values).mean(0) for name, values in self.heard.items()}
        for name, value in found.items():
            self.kept.setdefault(name, []).append((predictions, value.detach()))
        for name, usual in self.declared:
            values = [found[f"{part.path}.{name}"] for part in self.parts if part.costs.get(name) == usual]
            loss = loss + self.weights.get(name, usual) * predictions * torch.stack(values).sum()
        return loss

    @torch.no_grad()
    def settle(self) -> dict[str, float]:
        """End a step, once its gradient is there: steer by the loads of all its batches; what there is to tell.

        A cost is told as the mean over the parts that have it, unweighted; a load as the largest share over the mean
        one, which is 1 where the use is even.
        """
        told: dict[str, list[float]] = {}
        for part in self.parts:
            for name in part.costs:
                told.setdefault(name, []).append(float(self._mean(f"{part.path}.{name}")))
            loads = {name: self._mean(f"{part.path}.{name}") for name in part.loads}
            for name, load in loads.items():
                told.setdefault(name, []).append(float(load.max() / load.mean().clamp(min=1e-20)))
            if loads:
                part.steer(loads)
        self.heard, self.kept = {}, {}
        return {name: sum(values) / len(values) for name, values in told.items()}

    def _mean(self, name: str) -> Tensor:
        """What was reported in this step: the mean over all processes' batches, by their predictions."""
        kept = self.kept[name]
        if len(kept) == 1 and self.world.size == 1:
            return kept[0][1]  # to the bit
        total = torch.stack([size * value for size, value in kept]).sum(0)
        return self.world.sum(total) / self.world.total(sum(size for size, _ in kept))


def insist_on_costs(model: Model, names: Iterable[str]) -> None:
    """Refuse weights for costs that no part of a model has."""
    known = sorted({name for part in model.modules() if isinstance(part, Part) for name in part.costs})
    for name in names:
        if name not in known:
            near = nearest(name, known)
            listed = ", ".join(known) or "none"
            raise SpecError(
                f"train.costs.{name}: no part of this model has such a cost; known: {listed}",
                f"train.costs.{near}" if near else "",
            )
