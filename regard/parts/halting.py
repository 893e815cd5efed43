"""Halting: after which step a position has thought enough, and what each of its steps counts for.

Three ways: a fixed number of steps, adaptive computation time (Graves 2016), and PonderNet (Banino et al. 2021). They
are the same to whoever takes the steps: a visit is asked after each of them, and gives the step's weight. The weights
of a position sum to 1, so what it hands on is a mean of its steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from regard.core.dense import Dense
from regard.core.mixer import Part
from regard.core.registry import Kinds
from regard.core.spec import Size, Spec, Weight
from regard.core.view import View
from regard.errors import InputError

Share = Annotated[float, Field(gt=0, lt=1)]
SCORES = ("step_weights", "chances")  # what has a number for each step, as attention has one for each key


class HaltSpec(Spec):
    """How it is decided that a position has thought enough."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = ".halt"
    meanings: ClassVar[Mapping[str, str]] = {
        "limit": "A position takes this many steps at the most.",
        "slack": "A position halts when less than this share of it is left to decide.",
    }

    def build(self, width: int) -> Halting:
        raise NotImplementedError


class FixedCount(HaltSpec):
    """Always as many steps: the control that shows what adapting is worth (Fojo et al. 2018)."""

    kind: Literal["repeat"] = "repeat"
    times: Size = 2
    """Every position takes this many steps."""

    def build(self, width: int) -> Halting:
        return Halting(self.times)


class Adaptive(HaltSpec):
    """Adaptive computation time: halting probabilities of the steps add up until nearly 1 is reached (Graves 2016)."""

    kind: Literal["adaptive"] = "adaptive"
    cost: Weight = 0.01
    """Each step of a position costs this much of the loss, the paper's τ; `train.costs.ponder` sets it for a run."""
    limit: Size = 20
    slack: Share = 0.01
    bias: float = 1.0
    """The bias of the halting unit starts here; at 1 most positions begin with two steps."""

    def build(self, width: int) -> Halting:
        return AdaptiveHalting(self, width)


class Geometric(HaltSpec):
    """PonderNet: each step halts with a probability of its own, and while training that is drawn (Banino et al. 2021).

    The loss is the expected one over all steps, and a cost is the divergence from a geometric distribution. In use the
    mean of all steps is handed on, so that a question has one answer.
    """

    kind: Literal["geometric"] = "geometric"
    cost: Weight = 0.01
    """The weight of the divergence, the paper's β; `train.costs.divergence` sets it for a run."""
    prior: Share = 0.2
    """A step of the distribution that halting is compared with halts with this probability, the paper's λp: the mean
    is 1 / prior steps."""
    limit: Size = 20
    slack: Share = 0.01

    def build(self, width: int) -> Halting:
        return GeometricHalting(self, width)


class Visit:
    """One visit to some positions: which of them go on, and what the steps so far count for. Here: so many steps."""

    def __init__(self, limit: int, running: Tensor) -> None:
        """`running`: the positions that are no pads, in any shape; what is told of a step has that shape."""
        self.limit, self.running = limit, running
        self.weights: list[Tensor] = []
        self.steps = running.new_zeros(running.shape, dtype=torch.float32)

    @property
    def goes_on(self) -> bool:
        """Whether somebody has another step to take."""
        return len(self.weights) < self.limit and bool(self.running.any())

    def weigh(self, hidden: Tensor) -> Tensor:
        """Count a step that led to (…, width): its weight at each position, 0 where that has halted before."""
        weight = self.decide(hidden, last=len(self.weights) + 1 == self.limit)
        self.weights.append(weight)
        return weight

    def decide(self, hidden: Tensor, last: bool) -> Tensor:
        self.steps = self.steps + self.running
        return (self.running if last else torch.zeros_like(self.running)).to(choose_precise(hidden))

    def show(self, name: str) -> Tensor:
        """What can be seen of it: (…, steps) or (…, 1)."""
        return torch.stack(self.weights, -1) if name == "step_weights" else self.steps[..., None]


class Halting(Part):
    """What decides when to halt; this one after a fixed number of steps."""

    sights: ClassVar[tuple[str, ...]] = ("step_weights", "steps")  # what its visits can show
    tries: ClassVar[bool] = False  # True: any step may be the last, so a loss is the expected one over steps

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    @property
    def charges(self) -> Mapping[str, float]:
        """Which of the sights are costs, with their usual weights; the mixer that halts reports them."""
        return {}

    def begin(self, running: Tensor) -> Visit:
        return Visit(self.limit, running)


class UnitHalting(Halting):
    """One that asks a unit of its own after each step: σ(w·s + b)."""

    def __init__(self, limit: int, slack: float, bias: float, width: int) -> None:
        super().__init__(limit)
        self.slack, self.bias = slack, bias
        self.halt = Dense(width, 1)
        self.reset()

    def reset(self) -> None:
        nn.init.constant_(self.halt.bias, self.bias)

    def score(self, hidden: Tensor) -> Tensor:
        """The probability of halting: (…, width) to (…)."""
        scores: Tensor = self.halt(hidden).squeeze(-1)
        return scores.to(choose_precise(hidden)).sigmoid()


class AdaptiveVisit(Visit):
    """p(n) is h(n) until the sum passes 1 - ε, and what is left of 1 there: the remainder R (equations 6 and 7)."""

    def __init__(self, halting: AdaptiveHalting, running: Tensor) -> None:
        super().__init__(halting.limit, running)
        self.halting = halting
        self.total: Tensor | float = 0.0

    def decide(self, hidden: Tensor, last: bool) -> Tensor:
        halt = self.halting.score(hidden)
        ends = torch.ones_like(self.running) if last else self.total + halt >= 1 - self.halting.slack
        weight = torch.where(ends, 1 - self.total, halt) * self.running
        self.steps = self.steps + self.running
        self.total = self.total + weight
        self.running = self.running & ~ends
        return weight

    def show(self, name: str) -> Tensor:
        if name != "ponder":
            return super().show(name)
        last = (self.steps[..., None] - 1).clamp(min=0).long()  # a pad takes no step, and its first weight is 0
        remainder = torch.stack(self.weights, -1).gather(-1, last)
        return self.steps[..., None] + remainder  # N + R (equation 9); only R has a slope


class AdaptiveHalting(UnitHalting):
    sights = ("step_weights", "steps", "ponder")

    def __init__(self, spec: Adaptive, width: int) -> None:
        super().__init__(spec.limit, spec.slack, spec.bias, width)
        self.cost = spec.cost

    @property
    def charges(self) -> Mapping[str, float]:
        return {"ponder": self.cost}

    def begin(self, running: Tensor) -> Visit:
        return AdaptiveVisit(self, running)


class GeometricVisit(Visit):
    """p(n) = λ(n) Π (1 - λ(j)), j < n; the step that leaves nearly nothing has the rest, so that they sum to 1."""

    def __init__(self, halting: GeometricHalting, running: Tensor) -> None:
        super().__init__(halting.limit, running)
        self.halting, self.undrawn = halting, running
        self.alive: Tensor = running.to(torch.float32)  # the probability of not having halted
        self.chances: list[Tensor] = []

    def decide(self, hidden: Tensor, last: bool) -> Tensor:
        halting, number = self.halting, len(self.chances) + 1
        halt, alive = halting.score(hidden), self.alive
        left = alive * (1 - halt)
        ends = torch.ones_like(self.running) if last else left < halting.slack
        chance = torch.where(ends, alive, alive * halt)
        self.alive, self.running = torch.where(ends, 0, left), self.running & ~ends
        self.chances.append(chance)
        if not halting.training:
            self.steps = self.steps + number * chance.detach()
            return chance
        drawn = self.undrawn & (ends | (torch.rand_like(halt) < halt))
        self.undrawn = self.undrawn & ~drawn
        self.steps = self.steps + number * drawn
        # what goes on is what was drawn, and its slope that of the mean: so later positions teach when to halt, too
        return drawn + (chance - chance.detach())

    def show(self, name: str) -> Tensor:
        if name == "chances":
            return torch.stack(self.chances, -1)
        return self.diverge()[..., None] if name == "divergence" else super().show(name)

    def diverge(self) -> Tensor:
        """KL(p ‖ g), g geometric as far as the limit, which has the rest; in nats."""
        prior, chances = self.halting.prior, torch.stack(self.chances, -1)
        number = torch.arange(chances.shape[-1], device=chances.device, dtype=chances.dtype)
        log_prior = math.log1p(-prior) * number + torch.where(number + 1 < self.limit, math.log(prior), 0.0)
        smallest = torch.finfo(chances.dtype).tiny  # 0 log 0 is 0, and so is its slope
        return (chances * (chances.clamp(min=smallest).log() - log_prior)).sum(-1)


class GeometricHalting(UnitHalting):
    sights = ("step_weights", "steps", "chances", "divergence")
    tries = True

    def __init__(self, spec: Geometric, width: int) -> None:
        # λ starts at the prior, so that the divergence starts near 0
        super().__init__(spec.limit, spec.slack, math.log(spec.prior / (1 - spec.prior)), width)
        self.cost, self.prior = spec.cost, spec.prior

    @property
    def charges(self) -> Mapping[str, float]:
        return {"divergence": self.cost}

    def begin(self, running: Tensor) -> Visit:
        return GeometricVisit(self, running)


def choose_precise(tensor: Tensor) -> torch.dtype:
    """Weights are added up to 1, so they have single precision at least."""
    return torch.promote_types(tensor.dtype, torch.float32)


def report(view: View, path: str, halting: Halting, visits: Sequence[Visit]) -> None:
    """Show what came of the positions of a call: one visit of (rows, time), or one of (rows,) for each position.

    `step_weights`, which sum to 1, and `chances`: (rows, 1, time, steps); `steps`: (rows, time, 1); a cost is its mean
    over the positions that are no pads.
    """
    for name in halting.sights:
        if view.watcher(path, name) is None:
            continue
        # where all rows have a pad there is no step to tell of
        pieces = [visit.show(name) if visit.weights else visit.steps[..., None] for visit in visits]
        longest = max(piece.shape[-1] for piece in pieces)
        pieces = [F.pad(piece, (0, longest - piece.shape[-1])) for piece in pieces]
        value = pieces[0] if pieces[0].dim() == 3 else torch.stack(pieces, 1)  # (rows, time, …)
        if name in SCORES:
            value = value[:, None]
        elif name in halting.charges:
            value = value[..., 0].mean() if view.mask.valid is None else value[..., 0][view.mask.valid].mean()
        if view.see(path, name, value) is not value:
            raise InputError(f"{path}.{name} can be seen and not changed: the steps have been taken by then")
