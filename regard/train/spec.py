"""What a run file says of training: how long, how fast, and what is kept."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from regard.core.spec import Count, Positive, Rate, Size, Spec, show_value
from regard.train.adapt import AdaptSpec
from regard.train.optimizer import AdamW, OptimizerSpec
from regard.train.schedule import Linear, ScheduleSpec

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TrainSpec(Spec):
    """How long, how fast, and what is kept. The first budget that is used up ends the run."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}
    kind: Literal["train"] = "train"
    steps: Size | None = None
    epochs: Positive | None = None
    tokens: Annotated[int, Field(strict=True, ge=1)] | None = None  # predicted ones
    minutes: Positive | None = None  # by the clock, with all evaluations; the last one has its time kept free
    optimizer: OptimizerSpec = AdamW()
    schedule: ScheduleSpec = Linear()
    # weights of what parts of the model cost beside the task's loss, where not the usual: {balance: 0.01}
    costs: dict[str, Weight] = Field(default_factory=dict)
    clip: Positive | None = 1.0  # the largest norm of a gradient
    accumulate: Size = 1  # batches that make one step
    ema: Rate = 0.0  # decay of a running average of the weights; 0: none
    evaluate: Count = 1000  # steps between evaluations; 0: only at the end
    goal: str | None = None  # the measure by which checkpoints are ranked: chrf, or -NAME of a task of one's own
    patience: Count = 0  # evaluations without a better one before it stops; 0: never
    save: Size = 1000  # steps between checkpoints
    keep: Size = 2  # checkpoints, beside the best
    best: Size = 1  # checkpoints that validated best and are kept beside those
    precision: Literal["fp32", "bf16"] = "fp32"
    recompute: bool = False  # keep only each block's input, and run it again for the gradient
    freeze: tuple[str, ...] = ()  # weights that stay as they are, by name: encoder.blocks.[0-3].*
    adapt: AdaptSpec | None = None  # train adapters beside frozen matrices, and what is new in the model

    @model_validator(mode="after")
    def check(self) -> Self:
        if not any((self.steps, self.epochs, self.tokens, self.minutes)):
            raise ValueError("how long? set one of steps, epochs, tokens, minutes")
        if self.adapt is not None and self.ema:
            raise ValueError("ema: there is no running average of adapters; try ema=0")
        if self.goal is not None and re.fullmatch(r"[+-]?\w[\w.-]*", self.goal) is None:
            raise ValueError(f"goal: {show_value(self.goal)} names no measure; try goal=loss")
        return self
