"""The trainer: one loop for every model and every task, which can be stopped anywhere and goes on as if it never was.

What a step does follows from the checkpoint alone: weights, optimizer, generators, and a place in the order of batches.
Measures go to listeners; nothing here prints.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal, Self

import torch
from pydantic import Field, TypeAdapter, model_validator
from torch import Tensor

from regard.core.model import Model
from regard.core.spec import Count, Positive, Rate, Size, Spec
from regard.core.stack import Stack
from regard.core.weights import fill
from regard.errors import CheckpointError, Divergence, RegardError, Stopped
from regard.tasks.task import Place, Task
from regard.train.adapt import NOTHING, AdaptSpec, Fresh, adapters, freeze, restore
from regard.train.checkpoint import Checkpoint, Files, Store
from regard.train.listener import Listener, Step
from regard.train.optimizer import AdamW, OptimizerSpec, pack, set_rate, unpack
from regard.train.schedule import Linear, ScheduleSpec


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
    clip: Positive | None = 1.0  # the largest norm of a gradient
    accumulate: Size = 1  # batches that make one step
    ema: Rate = 0.0  # decay of a running average of the weights; 0: none
    evaluate: Count = 1000  # steps between evaluations; 0: only at the end
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
        return self


UNKNOWN = 0.1  # of the minutes, kept free for the last evaluation while none has shown what it takes


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
    evaluated: int = 0  # the last step that was
    stale: int = 0  # evaluations since the best one
    falls: int = 0  # of the rate, on a plateau
    ranking: list[tuple[float, int]] = field(default_factory=list)  # the best measures and their steps

    @property
    def spent(self) -> Spent:
        return Spent(self.step, self.epoch + self.share, self.tokens, self.clock)

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


@dataclass
class Report:
    """How a run ended."""

    reason: Literal["budget", "patience"]
    moment: Moment
    measures: Mapping[str, Any] | None  # the last evaluation's


class Trainer:
    """A model, a task, and a budget."""

    def __init__(
        self,
        model: Model,
        task: Task[Any],
        spec: TrainSpec,
        listeners: Sequence[Listener] = (),
        store: Store | None = None,
        files: Files | None = None,
        identity: Mapping[str, Any] | None = None,
        resume: str = "",
        fresh: Fresh = NOTHING,
    ) -> None:
        """`files` and `identity` go into every checkpoint; `resume` is what to type after a stop.

        `fresh`: what fine-tuning added to the model.
        """
        self.model, self.task, self.spec, self.listeners = model, task, spec, listeners
        self.store, self.files, self.identity, self.resume = store, files or {}, identity or {}, resume
        self.moment = Moment()
        if spec.freeze:
            freeze(model, spec.freeze)
        if spec.adapt is not None:
            spec.adapt.attach(model, fresh)
        self.optimizer = spec.optimizer.build(model)
        self.names = [name for name, _ in model.named_parameters()]
        self.weights: list[Tensor] = [weight for _, weight in model.named_parameters()]
        self.mean = [weight.detach().clone() for weight in self.weights] if spec.ema else []
        self.signal = 0  # the one that came
        self.saved = -1  # the last step that was
        self.began = 0.0
        self.measures: Mapping[str, Any] | None = None
        for module in model.modules():
            if isinstance(module, Stack):
                module.recompute = spec.recompute

    def run(self) -> Report:
        """Train until a budget is used up or patience ends; a signal ends it too, after a save."""
        self.began = time.monotonic() - self.moment.seconds
        batches = self.task.batches(self.moment.epoch, self.moment.position)
        with closing(batches) as places, self._signals(), self._heard():
            self._settle()  # an evaluation that a signal cut short is made up for
            while (reason := self._ended()) is None:
                self._step(places)
                self._settle()
                self._heed()
            self._settle()  # where time ran out since the last one
            self.save()
        return Report(reason, self.moment, self.measures)

    @contextmanager
    def _heard(self) -> Iterator[None]:
        """Tell every listener that it begins, and each that heard so that it has ended, whatever happened."""
        with ExitStack() as stack:
            for listener in self.listeners:
                listener.on_start(self.moment, self.spec)
                stack.callback(listener.on_end, self.moment)
            yield

    def _ended(self) -> Literal["budget", "patience"] | None:
        if self.spec.patience and self.moment.stale >= self.spec.patience:
            return "patience"
        return "budget" if self.moment.progress(self.spec) >= 1 else None

    def _left(self) -> float:
        """Seconds to train for, the last evaluation's taken off."""
        if self.spec.minutes is None:
            return math.inf
        return 60 * self.spec.minutes - (time.monotonic() - self.began) - self._reserve(60 * self.spec.minutes)

    def _reserve(self, budget: float) -> float:
        """Seconds that an evaluation takes, as far as that is known."""
        unknown = UNKNOWN * budget if self.task.validation else 0.0
        return self.moment.assessment or unknown

    def _clock(self, lap: float) -> float:
        """The schedule's clock when a step that began at `lap` ends now.

        It goes on by what a step takes of the time that is left. So it stands still in evaluations, is faster after
        them, and says that the time is up when it is: no rate jumps, and each comes to its end.
        """
        moment, took, left = self.moment, time.monotonic() - lap, self._left()
        if self.spec.minutes is None:
            return time.monotonic() - self.began
        budget = 60 * self.spec.minutes
        return moment.clock + (budget - moment.clock) * took / (took + left) if left > 0 else budget

    def _step(self, batches: Iterator[Place[Any]]) -> None:
        lap = time.monotonic()
        places = list(islice(batches, self.spec.accumulate))
        moment, started = self.moment, time.monotonic()
        self.model.train()
        tokens, last = sum(self.task.size(place.batch) for place in places), places[-1]
        loss = sum(self._backward(place, tokens) for place in places)
        now = Spent(moment.step + 1, last.epoch + last.share, moment.tokens + tokens, self._clock(lap))
        rate = self.spec.optimizer.rate * moment.factor(self.spec, now)
        set_rate(self.optimizer, rate)
        gradient = self._clip()
        if not math.isfinite(loss) or not math.isfinite(gradient):
            raise self._divergence(loss, gradient, rate, places)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self._average()
        moment.step += 1
        moment.tokens += tokens
        moment.epoch, moment.position, moment.share = last.epoch, last.position + 1, last.share
        ended = time.monotonic()
        moment.seconds, moment.clock = ended - self.began, self._clock(lap)
        speed = tokens / max(ended - started, 1e-9)
        self._tell("on_step", Step(moment.step, loss, rate, gradient, moment.tokens, moment.seconds, speed), moment)

    def _backward(self, place: Place[Any], tokens: int) -> float:
        """Add a batch's gradient; its part of the loss."""
        with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.spec.precision == "bf16"):
            loss = self.task.loss(self.model, place.batch) / tokens
        loss.backward()
        self.task.settle()
        return float(loss.detach())

    def _clip(self) -> float:
        """The norm of the gradient, which is scaled down if it is too large."""
        if self.spec.clip is not None:
            return float(torch.nn.utils.clip_grad_norm_(self.weights, self.spec.clip))
        return float(torch.nn.utils.get_total_norm([w.grad for w in self.weights if w.grad is not None]))

    def _divergence(self, loss: float, gradient: float, rate: float, places: Sequence[Place[Any]]) -> Divergence:
        """What there is to say when something isn't finite; the weights haven't been touched."""
        batch = ", ".join(f"epoch {place.epoch} batch {place.position}" for place in places)
        last = self.store.latest() if self.store is not None else None
        good = "there is no checkpoint yet" if last is None else f"the last good checkpoint is {last.path}"
        where = f"step {self.moment.step + 1}: loss {loss}, gradient norm {gradient}, learning rate {rate:.3g}"
        way_out = "a lower train.optimizer.rate, a longer train.schedule.warmup or a smaller train.clip"
        return Divergence(f"{where}, {batch}; {good}", way_out)

    def _average(self) -> None:
        """Move the running average; early on it forgets faster, so that it isn't stuck at the start."""
        if self.mean:
            decay = min(self.spec.ema, (1 + self.moment.step) / (10 + self.moment.step))
            with torch.no_grad():
                torch._foreach_lerp_(self.mean, self.weights, 1 - decay)

    def _settle(self) -> None:
        """Evaluate and save where it is time to."""
        moment = self.moment
        self._expire()
        due = bool(self.spec.evaluate) and moment.step % self.spec.evaluate == 0 and self._affords()
        if (due or self._ended() is not None) and moment.evaluated < moment.step:
            self.save()  # first, so that an evaluation that fails loses nothing
            if self._evaluate():
                self.save()  # again, so that what is ranked is there and says so
        elif moment.step and moment.step % self.spec.save == 0:
            self.save()
        self._expire()  # an evaluation may have taken what was left

    def _expire(self) -> None:
        """Time that is up stays so, even if the last evaluation takes less than was kept free for it."""
        if self.spec.minutes is not None and self._left() <= 0:
            self.moment.clock = max(self.moment.clock, 60 * self.spec.minutes)

    def _affords(self) -> bool:
        """Whether there is time for an evaluation, some training, and the last evaluation."""
        return self.spec.minutes is None or self._left() > self._reserve(60 * self.spec.minutes)

    def _evaluate(self) -> bool:
        """Measure the model as it will be used; whether it is among the best."""
        moment, started = self.moment, time.monotonic()
        self._tell("on_evaluation_start", moment)
        self.model.eval()
        try:
            with self.use_average():
                measures = self.task.evaluate(self.model, self._pulse)
        except Interrupted:
            self._heed()
            raise
        except RegardError as error:
            raise self._unmeasured(error) from None
        moment.evaluated = moment.step
        self.saved = -1  # what was saved of this step doesn't know how good it is
        moment.seconds = time.monotonic() - self.began
        moment.assessment = time.monotonic() - started
        if measures is None:
            return False
        self.measures = measures
        better = self._rank(float(measures[self.task.goal]))
        self._tell("on_evaluation", moment, measures, better)
        return any(step == moment.step for _, step in moment.ranking)

    def _unmeasured(self, error: RegardError) -> RegardError:
        """An evaluation's own error, with what is saved and how to train on without evaluations."""
        if self.store is not None:
            error.message = f"step {self.moment.step} is saved, and its evaluation failed: {error.message}"
            if self._ended() is None and self.spec.evaluate:
                error.hint = " or ".join(filter(None, (error.hint, f"{self.resume} train.evaluate=0")))
        return error

    def _rank(self, value: float) -> bool:
        """Put a measure in its place; whether it is the best so far. One that isn't finite says nothing good."""
        moment, sign = self.moment, -1 if self.task.rising else 1
        finite = math.isfinite(value)
        better = finite and (not moment.ranking or sign * value < sign * moment.ranking[0][0])
        moment.stale = 0 if better else moment.stale + 1
        if self.spec.schedule.waits and moment.stale and moment.stale % self.spec.schedule.waits == 0:
            moment.falls += 1
        entered = [*moment.ranking, (value, moment.step)] if finite else moment.ranking
        moment.ranking = sorted(entered, key=lambda pair: (sign * pair[0], pair[1]))[: self.spec.best]
        return better

    @contextmanager
    def use_average(self) -> Iterator[None]:
        """The running average in the weights' place, for as long as it takes."""
        own = [weight.data for weight in self.weights]
        for weight, mean in zip(self.weights, self.mean or own, strict=True):
            weight.data = mean
        try:
            yield
        finally:
            for weight, data in zip(self.weights, own, strict=True):
                weight.data = data

    def save(self) -> None:
        """Write all that the next step follows from."""
        if self.store is None or self.saved == self.moment.step:
            return
        tensors: dict[str, Mapping[str, Tensor]] = {
            "optimizer": pack(self.optimizer, self.model),
            "generators": generators(self.model.device),
        }
        state = {**self.identity, "moment": asdict(self.moment)}
        if self.spec.adapt is None:
            tensors["model"] = self.model.state_dict()
        else:
            tensors["adapter"] = adapters(self.model)
            state["adapt"] = self.spec.adapt.model_dump(mode="json")
        if self.mean:
            tensors["average"] = dict(zip(self.names, self.mean, strict=True))
        if memory := self.task.memory():
            tensors["memory"] = memory
        data = {"state": state, "spec": self.model.spec.model_dump()}
        spare = [step for _, step in self.moment.ranking]
        written = self.store.save(self.moment.step, tensors, data, self.files, spare)
        self.saved = self.moment.step
        self._tell("on_save", written.path)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Be again where a checkpoint was saved."""
        if self.spec.adapt is None:
            fill(self.model, checkpoint.tensors("model"), f"{checkpoint.path}/model.safetensors")
        else:
            restore(self.model, checkpoint.tensors("adapter"))
        unpack(self.optimizer, self.model, checkpoint.tensors("optimizer"))
        self.mean = [weight.detach().clone() for weight in self.weights] if self.spec.ema else []
        if self.mean and (checkpoint.path / "average.safetensors").exists():  # or it begins here, with these weights
            found = checkpoint.tensors("average")
            self.mean = [found[name].to(self.model.device) for name in self.names]
        restore_generators(checkpoint.tensors("generators"), self.model.device)
        if (checkpoint.path / "memory.safetensors").exists():
            self.task.recall(self.model, checkpoint.tensors("memory"))
        try:
            told = checkpoint.json("state")["moment"]
            # runs from before had one clock, and ranked steps that weren't saved or had no finite measure
            self.moment = TypeAdapter(Moment).validate_python({"clock": told.get("seconds", 0.0)} | told)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{checkpoint.path}/state.json: {error}") from None
        there = {found.step for found in Store(checkpoint.path.parent).list_steps()}
        ranking = self.moment.ranking
        self.moment.ranking = [pair for pair in ranking if math.isfinite(pair[0]) and pair[1] in there]
        self.saved = self.moment.step

    def _pulse(self) -> None:
        if self.signal:
            raise Interrupted

    def _heed(self) -> None:
        """A signal came: save, and say so."""
        if not self.signal:
            return
        self.save()
        name = signal.Signals(self.signal).name
        kept = "nothing is kept" if self.store is None else f"saved in {self.store.folder}"
        raise Stopped(f"{name} at step {self.moment.step}: {kept}", self.resume, self.signal)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Finish the step and save at the first SIGTERM or SIGINT; stop at once at the second."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def heard(number: int, _: Any) -> None:
            if self.signal:
                os._exit(128 + number)  # a save in progress is still aside, so nothing is spoiled
            self.signal = number

        before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _tell(self, what: str, *details: Any) -> None:
        for listener in self.listeners:
            getattr(listener, what)(*details)


class Interrupted(Exception):
    """A signal came in the middle of long work."""


def generators(device: torch.device) -> dict[str, Tensor]:
    """The state of every source of chance that training draws from."""
    found = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        found[device.type] = torch.get_device_module(device).get_rng_state()
    return found


def restore_generators(states: Mapping[str, Tensor], device: torch.device) -> None:
    try:
        torch.set_rng_state(states["cpu"])
        if device.type != "cpu" and device.type in states:
            torch.get_device_module(device).set_rng_state(states[device.type])
    except (KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError(f"generators.safetensors: {error}") from None
