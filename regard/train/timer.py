"""The timer of a run: how long it has taken, and what a budget of minutes leaves to train for."""

from __future__ import annotations

import math
import time

from regard.train.moment import Moment
from regard.train.spec import TrainSpec
from regard.train.world import World

UNKNOWN = 0.1  # of the minutes, kept free for the last evaluation while none has shown what it takes


class Timer:
    """Seconds since a run began, breaks left out; the same for all processes where a budget depends on it."""

    def __init__(self, spec: TrainSpec, world: World, evaluated: bool) -> None:
        """`evaluated`: whether there is something to evaluate on."""
        self.world, self.limited = world, spec.minutes is not None
        self.budget = math.inf if spec.minutes is None else 60 * spec.minutes
        self.unknown = UNKNOWN * self.budget if self.limited and evaluated else 0.0
        self.began = 0.0

    def start(self, seconds: float) -> None:
        """Go on from what was taken before."""
        self.began = time.monotonic() - seconds

    def read(self) -> float:
        """Seconds so far."""
        seconds = time.monotonic() - self.began
        return self.world.agree(seconds) if self.limited else seconds

    def reserve(self, moment: Moment) -> float:
        """Seconds that an evaluation takes, as far as that is known."""
        return moment.assessment or self.unknown

    def left(self, moment: Moment) -> float:
        """Seconds to train for, the last evaluation's taken off."""
        return self.budget - self.read() - self.reserve(moment) if self.limited else math.inf

    def affords(self, moment: Moment) -> bool:
        """Whether there is time for an evaluation, some training, and the last evaluation."""
        return self.left(moment) > self.reserve(moment)

    def advance(self, moment: Moment, lap: float) -> float:
        """The schedule's clock when a step that began at `lap` ends now.

        It goes on by what a step takes of the time that is left. So it stands still in evaluations, is faster after
        them, and says that the time is up when it is: no rate jumps, and each comes to its end.
        """
        now = self.read()
        if not self.limited:
            return now
        took, left = now - lap, self.budget - now - self.reserve(moment)
        return moment.clock + (self.budget - moment.clock) * took / (took + left) if left > 0 else self.budget

    def expire(self, moment: Moment) -> None:
        """Time that is up stays so, even if the last evaluation takes less than was kept free for it."""
        if self.left(moment) <= 0:
            moment.clock = max(moment.clock, self.budget)
