"""Learning-rate schedules: a factor for the peak rate at each step, as the papers give them.

A budget in steps makes the end known; with a budget in minutes the trainer passes progress as a share of the time, and
the same formulas end on time.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from regard.core.spec import Count, Rate, Size, Spec


class ScheduleSpec(Spec):
    """The rate's shape: `factor(step, progress)`, progress being the share of the budget that is used, 0 to 1."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}
    usual: ClassVar[str | None] = "linear"
    warmup: Count = 0  # steps of linear growth from 0

    @property
    def waits(self) -> int:
        """After how many evaluations without a better one the rate falls; 0: it doesn't look at them."""
        return 0

    def factor(self, step: int, progress: float, falls: int = 0) -> float:
        """What the peak rate is multiplied by at a step, the first being 1; `falls`: how often it waited in vain."""
        if step < self.warmup:
            return step / self.warmup
        return self.after(step, min(max(progress, 0.0), 1.0)) * self.fallen(falls)

    def fallen(self, falls: int) -> float:
        return 1.0

    def after(self, step: int, progress: float) -> float:
        """The shape once warm."""
        raise NotImplementedError


class Constant(ScheduleSpec):
    """Warm up, then stay."""

    kind: Literal["constant"] = "constant"

    def after(self, step: int, progress: float) -> float:
        return 1.0


class InverseRoot(ScheduleSpec):
    """1/√step after the warm-up (Vaswani et al. 2017); the paper's to the letter with a peak of (width · warmup)^-½."""

    kind: Literal["inverse-root"] = "inverse-root"
    warmup: Size = 4000

    def after(self, step: int, progress: float) -> float:
        return math.sqrt(self.warmup / max(step, 1))


class Cosine(ScheduleSpec):
    """Half a cosine down to a floor (Loshchilov & Hutter 2017)."""

    kind: Literal["cosine"] = "cosine"
    floor: Rate = 0.0

    def after(self, step: int, progress: float) -> float:
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))


class Linear(ScheduleSpec):
    """A straight line down to a floor."""

    kind: Literal["linear"] = "linear"
    floor: Rate = 0.0

    def after(self, step: int, progress: float) -> float:
        return self.floor + (1 - self.floor) * (1 - progress)


class StableDecay(ScheduleSpec):
    """Warm up, stay, and fall in a straight line at the end (Hu et al. 2024)."""

    kind: Literal["stable-decay"] = "stable-decay"
    decay: Rate = 0.2  # the share of the budget that the fall takes
    floor: Rate = 0.0

    def after(self, step: int, progress: float) -> float:
        left = 1.0 if self.decay == 0 else min(1.0, (1 - progress) / self.decay)
        return self.floor + (1 - self.floor) * left


class Plateau(ScheduleSpec):
    """Warm up, stay, and shrink whenever so many evaluations brought nothing better."""

    kind: Literal["plateau"] = "plateau"
    patience: Size = 3
    shrink: Rate = 0.5

    @property
    def waits(self) -> int:
        return self.patience

    def after(self, step: int, progress: float) -> float:
        return 1.0

    def fallen(self, falls: int) -> float:
        return float(self.shrink**falls)
