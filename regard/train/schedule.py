"""Learning-rate schedules: a factor for the peak rate at each step, as the papers give them.

The rate grows in a straight line while it warms up, and what follows has the shape that a schedule is named for. That
shape is counted from the end of the warm-up, in shares of the budget, so that steps, epochs, tokens and minutes all end
where the schedule says, and nothing jumps where the two parts meet.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from regard.core.registry import Kinds
from regard.core.spec import Rate, Size, Spec

LONGEST = 0.5  # the share of the budget that a warm-up in steps takes at most, so that no run ends at its highest rate
MOST = 2**24  # steps


def _steps_or_share(value: Any) -> Any:
    """A whole number is steps, and a broken one below 1 a share."""
    if type(value) is int and 0 <= value <= MOST:
        return value
    if type(value) is float and 0 <= value < 1:
        return value
    raise ValueError("steps, such as 500, or a share of the budget below 1, such as 0.05")


Warmup = Annotated[int | float, BeforeValidator(_steps_or_share)]


class ScheduleSpec(Spec):
    """The rate's shape.

    The warm-up is a twentieth of the budget unless given: enough for Adam's second moments to settle (β₂ = 0.98 forgets
    in 50 steps), and long gone when a short run ends.
    """

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = "train.schedule"
    usual: ClassVar[str | None] = "linear"
    warmup: Warmup = 0.05
    """The rate grows from 0 over this share of the budget, or this many whole steps (at most half of the budget)."""

    @property
    def waits(self) -> int:
        """After how many evaluations without a better one the rate falls; 0: it doesn't look at them."""
        return 0

    def warmth(self, step: int, progress: float) -> float:
        """How far the warm-up is at the end of a step, `progress` of the budget being used by then; 1: it is over."""
        if not self.warmup:
            return math.inf
        if isinstance(self.warmup, float):
            return progress / self.warmup
        return max(step / self.warmup, progress / LONGEST)

    def after(self, progress: float, laps: float) -> float:
        """The shape once warm: at a share of what follows the warm-up, or after so many times its steps."""
        raise NotImplementedError

    def fallen(self, falls: int) -> float:
        """What is left of the rate when it waited in vain so often."""
        return 1.0


class Constant(ScheduleSpec):
    """Warm up, then stay."""

    kind: Literal["constant"] = "constant"

    def after(self, progress: float, laps: float) -> float:
        return 1.0


class InverseRoot(ScheduleSpec):
    """1/√step after the warm-up (Vaswani et al. 2017).

    The paper's to the letter with a warm-up of 4000 steps and a peak of (width · warmup)^-½.
    """

    kind: Literal["inverse-root"] = "inverse-root"

    def after(self, progress: float, laps: float) -> float:
        return 1 / math.sqrt(max(laps, 1.0))


class Cosine(ScheduleSpec):
    """Half a cosine down to a floor (Loshchilov & Hutter 2017)."""

    kind: Literal["cosine"] = "cosine"
    floor: Rate = 0.0
    """The rate ends at this share of its peak."""

    def after(self, progress: float, laps: float) -> float:
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))


class Linear(ScheduleSpec):
    """A straight line down to a floor."""

    kind: Literal["linear"] = "linear"
    floor: Rate = 0.0
    """The rate ends at this share of its peak."""

    def after(self, progress: float, laps: float) -> float:
        return self.floor + (1 - self.floor) * (1 - progress)


class StableDecay(ScheduleSpec):
    """Warm up, stay, and fall in a straight line at the end (Hu et al. 2024)."""

    kind: Literal["stable-decay"] = "stable-decay"
    decay: Rate = 0.2
    """The fall takes this share of what follows the warm-up; at 0 the rate doesn't fall."""
    floor: Rate = 0.0
    """The rate ends at this share of its peak."""

    def after(self, progress: float, laps: float) -> float:
        left = 1.0 if self.decay == 0 else min(1.0, (1 - progress) / self.decay)
        return self.floor + (1 - self.floor) * left


class Plateau(ScheduleSpec):
    """Warm up, stay, and shrink whenever so many evaluations brought nothing better."""

    kind: Literal["plateau"] = "plateau"
    patience: Size = 3
    """The rate shrinks after this many evaluations that brought nothing better."""
    shrink: Rate = 0.5
    """The rate is multiplied by this each time."""

    @property
    def waits(self) -> int:
        return self.patience

    def after(self, progress: float, laps: float) -> float:
        return 1.0

    def fallen(self, falls: int) -> float:
        return float(self.shrink**falls)
