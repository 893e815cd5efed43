"""Where a run is: what it has used up of its budget, and what was found best on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.train.spec import TrainSpec


@dataclass
class Spent:
    """What was used up, in the units that budgets have."""

    steps: float = 0.0
    epochs: float = 0.0
    tokens: float = 0.0
    clock: float = 0.0  # seconds, as the schedule counts them

    def share(self, spec: TrainSpec) -> float:
        """The share of the budget that this is: 0 to 1, and past it by the last step."""
        pairs = (
            (self.steps, spec.steps),
            (self.epochs, spec.epochs),
            (self.tokens, spec.tokens),
            (self.clock, spec.minutes and 60 * spec.minutes),
        )
        return max(used / budget for used, budget in pairs if budget)

    def scaled(self, factor: float) -> Spent:
        return Spent(*(factor * used for used in (self.steps, self.epochs, self.tokens, self.clock)))


@dataclass
class Moment:
    """Where a run is."""

    step: int = 0
    epoch: int = 0
    position: int = 0  # of the next batch
    share: float = 0.0  # of the epoch that is done
    tokens: int = 0
    seconds: float = 0.0
    clock: float = 0.0  # the same as the schedule counts it: an evaluation doesn't move it, and the end comes no later
    warm: Spent = field(default_factory=Spent)  # what the warm-up took; nothing: it isn't over, or there was none
    assessment: float = 0.0  # seconds that the last evaluation took
    worked: float = 0.0  # seconds that all steps took, evaluations left out
    waited: float = 0.0  # those of them in which a step waited for its batches
    evaluated: int = 0  # the last step that was
    stale: int = 0  # evaluations since the best one
    falls: int = 0  # of the rate, on a plateau
    ranking: list[tuple[float, int]] = field(default_factory=list)  # the best measures and their steps
    goal: str = ""  # the measure of that ranking; nothing: none yet, or an earlier version's

    @property
    def spent(self) -> Spent:
        return Spent(self.step, self.epoch + self.share, self.tokens, self.clock)

    @property
    def waiting(self) -> float:
        """The share of the steps' time that went by waiting for batches."""
        return self.waited / self.worked if self.worked else 0.0

    def progress(self, spec: TrainSpec) -> float:
        """The share of the budget that is used: 0 to 1, and past it by the last step."""
        return self.spent.share(spec)

    def factor(self, spec: TrainSpec, now: Spent) -> float:
        """What the next step's peak rate is multiplied by; `now`: what will be spent with that step."""
        schedule = spec.schedule
        warmth = schedule.warmth(self.step + 1, now.share(spec))
        if not self.warm.steps and warmth >= 1:
            # the end of the warm-up lies within this step, or further back where a run from before didn't keep it
            self.warm = now.scaled(1 / warmth)
        elif not self.warm.steps:
            return warmth * schedule.fallen(self.falls)
        begun = min(self.warm.share(spec), 1.0)
        after = (self.progress(spec) - begun) / (1 - begun) if begun < 1 else 1.0
        shape = schedule.after(min(max(after, 0.0), 1.0), (self.step + 1) / max(self.warm.steps, 1.0))
        return shape * schedule.fallen(self.falls)
