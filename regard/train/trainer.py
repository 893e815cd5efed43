"""The trainer: one loop for every model and every task, which can be stopped anywhere and goes on as if it never was.

What a step does follows from the checkpoint alone: weights, optimizer, generators, and a place in the order of batches.
Measures go to listeners; nothing here prints. What depends on there being other processes is asked of the world.
"""

from __future__ import annotations

import itertools
import math
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from pydantic import TypeAdapter
from torch import Tensor

from regard.core.mixer import Part
from regard.core.model import Model
from regard.core.stack import Stack
from regard.core.weights import fill
from regard.errors import CheckpointError, Divergence, RegardError, Stopped
from regard.tasks.expectation import insist_on_expectation
from regard.tasks.reinforce import insist_on_rewards
from regard.tasks.task import Place, Task
from regard.train.adam import clip
from regard.train.adapt import NOTHING, Fresh, adapters, freeze, restore
from regard.train.checkpoint import Checkpoint, Files, Store
from regard.train.costs import Costs, insist_on_costs
from regard.train.generators import generators, restore_generators
from regard.train.goal import Goal
from regard.train.listener import Listener, Step
from regard.train.moment import Moment, Spent
from regard.train.optimizer import pack, set_rate, unpack
from regard.train.signals import Interrupted, Signals
from regard.train.spec import TrainSpec
from regard.train.timer import Timer
from regard.train.world import ALONE, World


@dataclass
class Archive:
    """Where a run's checkpoints go, and what goes into each beside what was learned."""

    store: Store | None = None  # None: nothing is kept
    files: Files = field(default_factory=dict)
    identity: Mapping[str, Any] = field(default_factory=dict)  # what says of which run a checkpoint is
    resume: str = ""  # what to type to go on after a stop


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
        archive: Archive | None = None,
        fresh: Fresh = NOTHING,
        world: World = ALONE,
    ) -> None:
        """`fresh`: what fine-tuning added to the model."""
        self.model, self.task, self.spec, self.listeners = model, task, spec, listeners
        self.archive, self.world = archive or Archive(), world
        self.moment = Moment()
        usual = Goal(task.goal, task.rising)
        self.goal = usual if spec.goal is None else Goal.choose(spec.goal, task.spec.known_measures())
        insist_on_costs(model, spec.costs)
        insist_on_rewards(model, task)
        insist_on_expectation(model, task)
        self.costs = Costs(model, {**task.costs, **spec.costs}, world)
        if spec.freeze:
            freeze(model, spec.freeze)
        if spec.adapt is not None:
            spec.adapt.attach(model, fresh)
        self.optimizer = spec.optimizer.build(model)
        self.weights: list[Tensor] = [weight for _, weight in model.named_parameters()]
        self.averaged = {**dict(model.named_parameters()), **find_running(model)}
        self.mean = [weight.detach().clone() for weight in self.averaged.values()] if spec.ema else []
        # a checkpoint comes later, so these are the weights that the run begins with; adapters do nothing yet
        self.first = [weight.detach().clone() for weight in self._learning] if task.compares else []
        self.signals, self.timer = Signals(world), Timer(spec, world, bool(task.validation))
        self.saved = -1  # the last step that was
        self.measures: Mapping[str, Any] | None = None
        for module in model.modules():
            if isinstance(module, Stack):
                module.recompute = spec.recompute

    def run(self) -> Report:
        """Train until a budget is used up or patience ends; a signal ends it too, after a save."""
        self.timer.start(self.moment.seconds)
        batches = self.task.batches(self.moment.epoch, self.moment.position, self.world.rank, self.world.size)
        with closing(batches) as places, self.signals.listen(), self._heard():
            self._begin()
            self._settle()  # an evaluation that a signal cut short is made up for
            while (reason := self._ended()) is None:
                self._step(places)
                self._settle()
                self._heed()
            self._settle()  # where time ran out since the last one
            self.save()
            self._tell(lambda listener: listener.on_finish(self.moment, reason))
        return Report(reason, self.moment, self.measures)

    def _begin(self) -> None:
        """Let the task get ready, which may take a while; a signal ends that too."""
        done = itertools.count(1)

        def pulse() -> None:
            self.signals.pulse()
            number = next(done)
            self._tell(lambda listener: listener.on_preparation(number))

        try:
            self.task.begin(self.model, self.use_start, pulse)
        except Interrupted:
            self._heed()
            raise

    @contextmanager
    def _heard(self) -> Iterator[None]:
        """Tell every listener that it begins, and each that heard so that it has ended, whatever happened."""
        with ExitStack() as stack:
            for listener in self._audience:
                listener.on_start(self.moment, self.spec)
                stack.callback(listener.on_end, self.moment)
            yield

    def _tell(self, event: Callable[[Listener], None]) -> None:
        for listener in self._audience:
            event(listener)

    @property
    def _audience(self) -> Sequence[Listener]:
        """Who hears of the run: they write and show, so one process tells them for all."""
        return self.listeners if self.world.is_writer else ()

    def _ended(self) -> Literal["budget", "patience"] | None:
        if self.spec.patience and self.moment.stale >= self.spec.patience:
            return "patience"
        return "budget" if self.moment.progress(self.spec) >= 1 else None

    def _step(self, batches: Iterator[Place[Any]]) -> None:
        lap, asked = self.timer.read(), time.monotonic()
        places = list(itertools.islice(batches, self.spec.accumulate))
        moment, last, started = self.moment, places[-1], time.monotonic()
        if not self.model.training:  # an evaluation came between
            self.model.train()
        # of all processes together, so that their gradients add up to that of one large batch
        tokens = int(self.world.total(sum(self.task.size(place.batch) for place in places)))
        loss = self.world.total(sum(self._backward(place, tokens) for place in places))
        self.world.sum_gradients(self.weights)
        now = Spent(moment.step + 1, last.epoch + last.share, moment.tokens + tokens, self.timer.advance(moment, lap))
        rate = self.spec.optimizer.rate * moment.factor(self.spec, now)
        set_rate(self.optimizer, rate)
        gradient = clip(self.weights, self.spec.clip)
        if not math.isfinite(loss) or not math.isfinite(gradient):
            raise self._divergence(loss, gradient, rate, places)
        self.optimizer.step()
        for weight in self.weights:
            weight.grad = None
        costs = {**self.costs.settle(), **self.task.report()}
        self._average()
        moment.step += 1
        moment.tokens += tokens
        moment.epoch, moment.position, moment.share = last.epoch, last.position + 1, last.share
        moment.seconds, moment.clock = self.timer.read(), self.timer.advance(moment, lap)
        ended = time.monotonic()
        moment.waited, moment.worked = moment.waited + started - asked, moment.worked + ended - asked
        speed = tokens / max(ended - started, 1e-9)
        spent = moment.tokens, moment.seconds, speed
        step = Step(moment.step, loss, rate, gradient, *spent, costs, moment.waiting, self.task.counts)
        self._tell(lambda listener: listener.on_step(step, moment))

    def _backward(self, place: Place[Any], tokens: int) -> float:
        """Add a batch's gradient; its part of the loss."""
        with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self.spec.precision == "bf16"):
            self.task.prepare(self.model, place.batch)
            with self.costs.watch():
                loss = self.task.loss(self.model, place.batch)
            loss = self.costs.charge(loss, self.task.size(place.batch)) / tokens
        loss.backward()
        self.task.settle()
        return float(loss.detach())

    def _divergence(self, loss: float, gradient: float, rate: float, places: Sequence[Place[Any]]) -> Divergence:
        """What there is to say when something isn't finite; the weights haven't been touched."""
        batch = ", ".join(f"epoch {place.epoch} batch {place.position}" for place in places)
        last = self.archive.store.latest() if self.archive.store is not None else None
        good = "there is no checkpoint yet" if last is None else f"the last good checkpoint is {last.path}"
        where = f"step {self.moment.step + 1}: loss {loss}, gradient norm {gradient}, learning rate {rate:.3g}"
        way_out = "a lower train.optimizer.rate, a longer train.schedule.warmup or a smaller train.clip"
        return Divergence(f"{where}, {batch}; {good}", way_out)

    def _average(self) -> None:
        """Move the running average; early on it forgets faster, so that it isn't stuck at the start."""
        if self.mean:
            decay = min(self.spec.ema, (1 + self.moment.step) / (10 + self.moment.step))
            with torch.no_grad():
                torch._foreach_lerp_(self.mean, list(self.averaged.values()), 1 - decay)

    def _settle(self) -> None:
        """Evaluate and save where it is time to."""
        moment, timer = self.moment, self.timer
        timer.expire(moment)
        due = bool(self.spec.evaluate) and moment.step % self.spec.evaluate == 0 and timer.affords(moment)
        if (due or self._ended() is not None) and moment.evaluated < moment.step:
            self.save()  # first, so that an evaluation that fails loses nothing
            if self._evaluate():
                self.save()  # again, so that what is ranked is there and says so
        elif moment.step and moment.step % self.spec.save == 0:
            self.save()
        timer.expire(moment)  # an evaluation may have taken what was left

    def _evaluate(self) -> bool:
        """Measure the model as it will be used; whether it is among the best."""
        moment, started = self.moment, self.timer.read()
        self._tell(lambda listener: listener.on_evaluation_start(moment))
        self.model.eval()
        try:
            # every process measures the same: a model that is spread over them answers only through all
            with self.use_average():
                measures = self.task.evaluate(self.model, self.signals.pulse)
            value = math.nan if measures is None else self.goal.read(measures)
        except Interrupted:
            self._heed()
            raise
        except RegardError as error:
            raise self._unmeasured(error) from None
        moment.evaluated = moment.step
        self.saved = -1  # what was saved of this step doesn't know how good it is
        moment.seconds = self.timer.read()
        moment.assessment = moment.seconds - started
        if measures is None:
            return False
        self.measures = measures
        # machines of different makes may differ in the last digit, and must not differ in what is best
        finite = not self.world.agree(not math.isfinite(value))
        better = self.goal.rank(moment, self.world.agree(value) if finite else math.nan, self.spec)
        self._tell(lambda listener: listener.on_evaluation(moment, measures, better))
        return any(step == moment.step for _, step in moment.ranking)

    def _unmeasured(self, error: RegardError) -> RegardError:
        """An evaluation's own error, with what is saved and how to train on without evaluations."""
        if self.archive.store is not None:
            error.message = f"step {self.moment.step} is saved, and its evaluation failed: {error.message}"
            if self._ended() is None and self.spec.evaluate:
                error.hint = " or ".join(filter(None, (error.hint, f"{self.archive.resume} train.evaluate=0")))
        return error

    @contextmanager
    def use_average(self) -> Iterator[None]:
        """The running average in the weights' place, for as long as it takes."""
        weights = list(self.averaged.values())
        with exchange(weights, self.mean or [weight.data for weight in weights]):
            yield

    @contextmanager
    def use_start(self) -> Iterator[Model]:
        """The weights that the run began with in their place, for as long as it takes; dropout is off within."""
        training = self.model.training
        self.model.eval()
        try:
            with exchange(self._learning, self.first), torch.no_grad():
                yield self.model
        finally:
            self.model.train(training)

    @property
    def _learning(self) -> list[Tensor]:
        """The weights that training changes."""
        return [weight for weight in self.weights if weight.requires_grad]

    def save(self) -> None:
        """Write all that the next step follows from."""
        if self.archive.store is None or self.saved == self.moment.step:
            return
        # every process takes part, since what is spread over them is there only when all give theirs; one writes
        tensors: dict[str, Mapping[str, Tensor]] = {
            "optimizer": pack(self.optimizer, self.model),
            "generators": generators(self.model.device, self.world),
        }
        state = {**self.archive.identity, "moment": asdict(self.moment)}
        if self.spec.adapt is None:
            tensors["model"] = self.model.state_dict()
        else:
            tensors["adapter"] = adapters(self.model)
            state["adapt"] = self.spec.adapt.model_dump(mode="json")
        if self.mean:
            tensors["average"] = dict(zip(self.averaged, self.mean, strict=True))
        if memory := self.task.memory():
            tensors["memory"] = memory
        data = {"state": state, "spec": self.model.spec.model_dump()}
        entry = self.moment.step, tensors, data, self.archive.files, [step for _, step in self.moment.ranking]
        written = self.archive.store.save(*entry) if self.world.is_writer else None
        self.saved = self.moment.step
        self.world.barrier()  # nobody goes on with what isn't safe yet
        if written is not None:
            self._tell(lambda listener: listener.on_save(written.path))

    def restore(self, checkpoint: Checkpoint) -> None:
        """Be again where a checkpoint was saved."""
        if self.spec.adapt is None:
            fill(self.model, checkpoint.tensors("model"), f"{checkpoint.path}/model.safetensors")
        else:
            restore(self.model, checkpoint.tensors("adapter"))
        unpack(self.optimizer, self.model, checkpoint.tensors("optimizer"))
        self.mean = [weight.detach().clone() for weight in self.averaged.values()] if self.spec.ema else []
        if self.mean and (checkpoint.path / "average.safetensors").exists():  # or it begins here, with these weights
            found = checkpoint.tensors("average")
            # runs from before averaged parameters alone
            self.mean = [
                found.get(name, now).to(self.model.device) for name, now in zip(self.averaged, self.mean, strict=True)
            ]
        restore_generators(checkpoint.tensors("generators"), self.model.device, self.world)
        if (checkpoint.path / "memory.safetensors").exists():
            self.task.recall(self.model, checkpoint.tensors("memory"))
        try:
            told = checkpoint.json("state")["moment"]
            # runs from before had one clock, and ranked steps that weren't saved or had no finite measure
            self.moment = TypeAdapter(Moment).validate_python({"clock": told.get("seconds", 0.0)} | told)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{checkpoint.path}/state.json: {error}") from None
        self.goal.resume(self.moment, self.task.goal)
        there = {found.step for found in Store(checkpoint.path.parent).list_steps()}
        ranking = self.moment.ranking
        self.moment.ranking = [pair for pair in ranking if math.isfinite(pair[0]) and pair[1] in there]
        self.saved = self.moment.step

    def _heed(self) -> None:
        """Where a signal came to any process, save and say so."""
        number = self.signals.agree()
        if not number:
            return
        self.save()
        store, name = self.archive.store, signal.Signals(number).name
        kept = "nothing is kept" if store is None else f"saved in {store.folder}"
        raise Stopped(f"{name} at step {self.moment.step}: {kept}", self.archive.resume, number)


def find_running(model: Model) -> dict[str, Tensor]:
    """The statistics that follow the weights, by their names: an average of weights needs one of these."""
    parts = [(path, part) for path, part in model.named_modules() if isinstance(part, Part)]
    return {f"{path}.{name}": part.get_buffer(name) for path, part in parts for name in part.running}


@contextmanager
def exchange(weights: Sequence[Tensor], others: Sequence[Tensor]) -> Iterator[None]:
    """Other numbers in the weights' place, for as long as it takes."""
    own = [weight.data for weight in weights]
    for weight, other in zip(weights, others, strict=True):
        weight.data = other
    try:
        yield
    finally:
        for weight, data in zip(weights, own, strict=True):
            weight.data = data
