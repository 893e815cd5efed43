"""What a run file says of training: how long, how fast, and what is kept."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from regard.core.registry import Kinds
from regard.core.spec import Count, Positive, Rate, Size, Spec, show_value
from regard.train.adapt import AdaptSpec
from regard.train.optimizer import AdamW, OptimizerSpec
from regard.train.schedule import Linear, ScheduleSpec

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class TrainSpec(Spec):
    """How long, how fast, and what is kept. The first budget that is used up ends the run."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = "train"
    kind: Literal["train"] = "train"
    steps: Size | None = None
    """Training ends after this many steps."""
    epochs: Positive | None = None
    """Training ends after the data was seen this many times."""
    tokens: Annotated[int, Field(strict=True, ge=1)] | None = None
    """Training ends after this many predicted tokens."""
    minutes: Positive | None = None
    """Training ends after this many minutes by the clock, all evaluations included."""
    optimizer: OptimizerSpec = AdamW()
    """How weights are moved."""
    schedule: ScheduleSpec = Linear()
    """The shape of the learning rate over the run."""
    costs: dict[str, Weight] = Field(default_factory=dict)
    """What parts of the model cost beside the task's loss is weighed so, such as {balance: 0.01}; else as usual."""
    clip: Positive | None = 1.0
    """A gradient whose norm is larger than this is scaled down to it; none: no gradient is."""
    accumulate: Size = 1
    """This many batches make one step."""
    ema: Rate = 0.0
    """The decay of a running average of the weights; 0: there is none."""
    evaluate: Count = 1000
    """There are this many steps between evaluations; 0: only the end is evaluated."""
    goal: str | None = None
    """Checkpoints are ranked by this measure: chrf, or -NAME for one of your own that should fall."""
    patience: Count = 0
    """Training stops after this many evaluations without a better one; 0: never."""
    save: Size = 1000
    """There are this many steps between checkpoints."""
    keep: Size = 2
    """This many of the last checkpoints are kept, beside the best."""
    best: Size = 1
    """This many of the checkpoints that validated best are kept."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Numbers are computed in single precision (fp32) or in half of it (bf16)."""
    recompute: bool = False
    """Only each block's input is kept, and the block is run again for the gradient: less memory, more time."""
    freeze: tuple[str, ...] = ()
    """Weights whose names match stay as they are, such as `encoder.blocks.[0-3].*`."""
    adapt: AdaptSpec | None = None
    """Adapters are trained beside frozen matrices, and what is new in the model."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if not any((self.steps, self.epochs, self.tokens, self.minutes)):
            raise ValueError("how long? set one of steps, epochs, tokens, minutes")
        if self.adapt is not None and self.ema:
            raise ValueError("ema: there is no running average of adapters; try ema=0")
        if self.goal is not None and re.fullmatch(r"[+-]?\w[\w.-]*", self.goal) is None:
            raise ValueError(f"goal: {show_value(self.goal)} names no measure; try goal=loss")
        return self
