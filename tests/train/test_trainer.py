"""The trainer: it can be stopped anywhere and goes on to the bit, and it stops by itself when something is wrong."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path
from shlex import quote
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor

from regard.core.model import Model
from regard.errors import Busy, CheckpointError, Divergence, InputError, RegardError, RegardWarning, SpecError, Stopped
from regard.lens.screen import Replay, Screen, fit_number
from regard.runs.average import average
from regard.runs.folder import Run
from regard.runs.load import load_model
from regard.runs.resolve import resolve
from regard.tasks.translation import TranslationTask
from regard.train.checkpoint import Store
from regard.train.listener import Journal, Listener, Step, history
from regard.train.moment import Moment
from regard.train.spec import TrainSpec
from regard.train.trainer import Trainer
from tests.train.small import begun, document, trainer

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    """Tiny models gain nothing from threads, and tests beside these lose."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def program(*words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.train.resuming", *words], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("model", ["gru", "attentive", "transformer"])
def test_a_killed_run_goes_on_as_if_nothing_had_happened(model: str, tmp_path: Path) -> None:
    told = program(str(tmp_path), model)
    assert told["killed"]
    assert told["half"]["step"] == 100
    assert told["half"]["moment"]["position"] > 0  # in the middle of an epoch
    assert len(told["half"]["losses"]) > 130  # what came after the checkpoint was written down, and must be forgotten
    assert told["resumed"]["step"] == 200
    assert told["resumed"] == told["straight"]
    assert {"model.safetensors", "optimizer.safetensors", "generators.safetensors"} <= set(told["straight"]["files"])
    assert len(told["straight"]["losses"]) == 200 + 3


class Tripwire(Listener):
    """Sends a signal to this process at some event."""

    def __init__(self, event: str, at: int, number: int) -> None:
        self.event, self.at, self.number = event, at, number

    def heard(self, event: str, step: int) -> None:
        if event == self.event and step >= self.at:
            self.event = ""
            os.kill(os.getpid(), self.number)

    def on_step(self, step: Step, moment: Moment) -> None:
        self.heard("step", step.step)

    def on_evaluation_start(self, moment: Moment) -> None:
        self.heard("evaluation", moment.step)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("event", ["step", "evaluation"])
def test_a_signal_saves_and_has_a_status_of_its_own(number: int, event: str, tmp_path: Path) -> None:
    straight = begun(tmp_path / "straight")
    trainer(straight).run()
    run = begun(tmp_path / "run")
    before = time.process_time()
    with pytest.raises(Stopped, match="saved") as stopped:
        trainer(run, Tripwire(event, 5, number)).run()
    assert time.process_time() - before < 30
    assert stopped.value.status == 128 + number
    assert "regard resume" in stopped.value.hint
    newest = run.store.latest()
    assert newest is not None and newest.step == 5
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # others' handlers are back
    trainer(run).run()
    same(straight, run)  # an evaluation that was cut short is made up for


def same(one: Run, other: Run) -> None:
    """The same weights and the same history."""
    left, right = one.store.latest(), other.store.latest()
    assert left is not None and right is not None and left.step == right.step
    for name, tensor in left.tensors("model").items():
        assert torch.equal(tensor, right.tensors("model")[name]), name
    histories = [history(run.folder / "metrics.jsonl") for run in (one, other)]
    losses = [[(line["event"], line["step"], line["loss"]) for line in lines] for lines in histories]
    assert losses[0] == losses[1]


def test_a_signal_in_a_save_lets_it_finish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, sync = begun(tmp_path / "run"), os.fsync
    sent: list[int] = []

    def signalled(number: int) -> None:
        if not sent:
            sent.append(1)
            os.kill(os.getpid(), signal.SIGTERM)
        sync(number)

    ready = trainer(run)
    monkeypatch.setattr(os, "fsync", signalled)
    with pytest.raises(Stopped):
        ready.run()
    newest = run.store.latest()
    assert newest is not None and newest.step == 4
    assert not list(run.store.folder.glob("*.tmp-*"))


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    assert program(str(tmp_path), "twice")["status"] == 143
    run = Run.open(tmp_path / "twice")
    newest = run.store.latest()
    assert newest is not None and newest.step == 5  # what was saved before the evaluation is whole
    trainer(run).run()


def test_the_command_stops_on_a_signal_and_resumes(tmp_path: Path) -> None:
    file, out = tmp_path / "run.yaml", tmp_path / "run"
    begun_here = begun(tmp_path / "other", "train.steps=100000", "train.evaluate=0", "train.save=20")
    file.write_text(begun_here.dump())
    words = [sys.executable, "-m", "regard"]
    training = subprocess.Popen([*words, "train", str(file), f"out={out}"], stderr=subprocess.PIPE, text=True)
    wait((out / "checkpoints" / "latest").exists, 600)
    busy = subprocess.run([*words, "resume", str(out)], capture_output=True, text=True, check=False)
    assert busy.returncode == Busy.status
    assert f"process {training.pid}" in busy.stderr
    training.send_signal(signal.SIGTERM)
    _, errors = training.communicate(timeout=600)
    assert training.returncode == 143
    assert "Traceback" not in errors
    assert f"regard resume {quote(str(out))}" in errors
    newest = Store(out / "checkpoints").latest()
    assert newest is not None
    more = newest.step + 3
    done = subprocess.run(
        [*words, "resume", str(out), f"train.steps={more}", "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["steps"] == more


def wait(ready: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.05)


class Poison(torch.autograd.Function):
    """Passes a value on and spoils its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * math.inf


@pytest.mark.parametrize("fault", ["loss nan", "loss inf", "gradient"])
def test_what_is_not_finite_stops_in_that_step(fault: str, tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.evaluate=0", "train.save=2")
    ready = trainer(run)

    class Spoiled(TranslationTask):
        def loss(self, model: Model, batch: Any) -> Tensor:
            value = super().loss(model, batch)
            if ready.moment.step < 5:
                return value
            return Poison.apply(value) if fault == "gradient" else value * float(fault.removeprefix("loss "))

    task = ready.task
    assert isinstance(task, TranslationTask)
    ready.task = Spoiled(task.spec, task.prepared, task.plan, task.seed)
    with pytest.raises(Divergence) as stopped:
        ready.run()
    assert stopped.value.status == 5
    for piece in ("step 6", "loss", "gradient norm", "learning rate", "epoch 0 batch 5", "step-4"):
        assert piece in str(stopped.value)
    assert ready.moment.step == 5
    assert all(weight.isfinite().all() for weight in ready.model.state_dict().values())
    newest = run.store.latest()
    assert newest is not None and newest.step == 4


def test_two_trainers_do_not_share_a_folder(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    with run.lock():
        with pytest.raises(Busy, match=f"process {os.getpid()}") as busy, Run.open(run.folder).lock():
            pass
        assert busy.value.status == 7
    with run.lock():
        pass


def test_a_folder_that_was_moved_resumes(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.steps=8")
    with pytest.raises(Stopped):
        trainer(run, Tripwire("step", 3, signal.SIGTERM)).run()
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    report = trainer(Run.open(tmp_path / "elsewhere")).run()
    assert report.moment.step == 8


def test_a_clock_that_jumps_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    straight, run = begun(tmp_path / "straight"), begun(tmp_path / "run")
    trainer(straight).run()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 10**6 * (threading.get_ident() % 7))
    trainer(run).run()
    same(straight, run)


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (["train.steps=3"], 3),
        (["train.steps=null", "train.epochs=0.5"], None),
        (["train.steps=null", "train.tokens=500"], None),
        (["train.steps=null", "train.minutes=0.02"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_first_budget_that_is_used_up_ends_the_run(words: list[str], steps: int | None, tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.evaluate=0", "train.save=1000", *words)
    report = trainer(run).run()
    moment, spec = report.moment, run.spec.train
    assert report.reason == "budget"
    assert moment.progress(spec) >= 1
    if steps:
        assert moment.step == steps
    if spec.epochs:
        assert moment.epoch + moment.share == pytest.approx(0.5, abs=0.2)
    if spec.tokens:
        assert 500 <= moment.tokens < 500 + 200
    if spec.minutes:
        assert 0.9 * 1.2 <= moment.seconds < 10  # the last evaluation's time is kept free
        rates = [line["rate"] for line in history(run.folder / "metrics.jsonl") if line["event"] == "step"]
        assert rates[-1] < 0.2 * max(rates)  # the schedule came to its end


class Fixed(TranslationTask):
    """A task whose evaluations are known beforehand."""

    values: list[float]

    def evaluate(self, model: Model, pulse: Any) -> Mapping[str, Any]:
        return {"bleu": self.values.pop(0), "loss": 1.0}


def judged(run: Run, values: list[float]) -> Any:
    ready = trainer(run)
    task = ready.task
    assert isinstance(task, TranslationTask)
    fixed = Fixed(task.spec, task.prepared, task.plan, task.seed)
    fixed.values = values
    ready.task = fixed
    return ready


def test_the_last_evaluation_counts_for_the_best_though_its_step_is_saved_anyway(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.steps=4", "train.evaluate=3", "train.save=2", "train.best=5")
    trainer(run).run()
    moment = resolve(f"{tmp_path / 'run'}@latest").json("state")["moment"]
    assert moment["evaluated"] == 4
    assert {step for _, step in moment["ranking"]} == {3, 4}


class Timed(TranslationTask):
    """A task that moves a clock: by a tenth of a second a step, and by what an evaluation takes."""

    now = 100.0
    takes: float

    def loss(self, model: Model, batch: Any) -> Tensor:
        self.now += 0.1
        return super().loss(model, batch)

    def evaluate(self, model: Model, pulse: Any) -> Mapping[str, Any]:
        self.now += self.takes
        return {"bleu": 1.0, "loss": 1.0}


@pytest.mark.parametrize(("every", "takes"), [(0, 0.2), (0, 0.59), (20, 0.2), (20, 1.2), (10, 2.0)])
def test_the_minutes_include_the_last_evaluation_and_no_evaluation_moves_the_rate(
    every: int, takes: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["train.steps=null", "train.minutes=0.1", "train.schedule={kind: linear, warmup: 0}"]
    run = begun(tmp_path / "run", *words, f"train.evaluate={every}")
    ready = trainer(run)
    assert isinstance(ready.task, TranslationTask)
    task = Timed(ready.task.spec, ready.task.prepared, ready.task.plan, ready.task.seed)
    task.takes = takes
    ready.task = task
    monkeypatch.setattr(time, "monotonic", lambda: task.now)
    report = ready.run()
    assert task.now - 100 <= 6 + 0.1 + 1e-6  # by a step at most
    assert task.now - 100 >= (6 if every else 5.4)  # before an evaluation has shown what it takes, a tenth is kept free
    lines = history(run.folder / "metrics.jsonl")
    evaluations = [line["step"] for line in lines if line["event"] == "evaluation"]
    assert evaluations[-1] == report.moment.step
    assert bool(every) == (len(evaluations) > 1)
    rates = [line["rate"] / 1e-3 for line in lines if line["event"] == "step"]
    falls = [one - other for one, other in itertools.pairwise(rates)]
    assert rates[0] == 1 and rates[-1] < 0.1
    assert max(falls) < 2 / len(rates)  # an evaluation makes the rest steeper, and is no step of its own
    assert trainer(run).run().moment.step == report.moment.step  # what came to its end doesn't go on


@pytest.mark.parametrize("worst", [math.nan, math.inf, -math.inf])
def test_a_measure_that_is_not_finite_is_never_the_best(worst: float, tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.steps=8", "train.evaluate=2", "train.best=2")
    report = judged(run, [worst, 3, worst, 2]).run()
    assert report.moment.ranking == [(3, 4), (2, 8)]
    assert resolve(f"{run.folder}@best").step == 4
    assert average(run.folder, best=2)[1] == [4, 8]


def test_nothing_is_best_where_no_measure_is_finite(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.steps=4", "train.evaluate=2")
    report = judged(run, [math.nan, math.nan]).run()
    assert report.moment.ranking == [] and report.moment.stale == 2
    assert resolve(f"{run.folder}@best").step == 4


def test_all_that_is_ranked_is_saved(tmp_path: Path) -> None:
    words = ["train.steps=14", "train.evaluate=2", "train.save=1000", "train.best=3"]
    run = begun(tmp_path / "run", *words)
    report = judged(run, [9, 1, 7, 8, 2, 3, 4]).run()
    assert report.moment.ranking == [(9, 2), (8, 8), (7, 6)]
    assert {2, 6, 8} <= {item.step for item in run.store.list_steps()}
    assert resolve(f"{run.folder}@best").step == 2
    assert average(run.folder, best=3)[1] == [2, 6, 8]


def test_a_ranking_from_before_that_names_what_is_not_there_is_mended(
    tmp_path: Path,
) -> None:
    run = begun(tmp_path / "run", "train.steps=8", "train.evaluate=4", "train.best=3")
    ready = judged(run, [2, 1])
    ready.run()
    ready.moment.ranking, ready.saved = [(math.nan, 4), (5.0, 6), (2.0, 4), (1.0, 8)], -1
    ready.save()
    with pytest.warns(RegardWarning, match="step-6 validated best and isn't there; step-4 is used"):
        assert resolve(f"{run.folder}@best").step == 4
    assert average(run.folder, best=2)[1] == [4, 8]
    again = trainer(run)
    assert again.moment.ranking == [(2.0, 4), (1.0, 8)]


class Failing(TranslationTask):
    """A task whose evaluation doesn't come to its end."""

    def evaluate(self, model: Model, pulse: Any) -> Mapping[str, Any]:
        raise InputError("a text of 900 tokens, and there are 512 positions", "shorten it")


def failing(run: Run) -> Trainer:
    ready = trainer(run)
    task = ready.task
    assert isinstance(task, TranslationTask)
    ready.task = Failing(task.spec, task.prepared, task.plan, task.seed)
    return ready


def test_an_evaluation_that_fails_loses_no_training_and_there_is_a_way_out(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.steps=7", "train.evaluate=3", "train.save=1000")
    for _ in range(2):  # going on comes to the same place
        with pytest.raises(InputError, match="step 3 is saved, and its evaluation failed: a text of 900") as failed:
            failing(run).run()
        assert failed.value.hint == f"shorten it or regard resume {quote(str(run.folder))} train.evaluate=0"
        assert [item.step for item in run.store.list_steps()] == [3]
    out = Run(run.folder, run.spec.replace(train=run.spec.train.replace(evaluate=0)))
    with pytest.raises(InputError, match="step 7 is saved, and its evaluation failed") as failed:
        failing(out).run()
    assert failed.value.hint == "shorten it"
    report = trainer(out).run()
    assert (report.moment.step, report.moment.evaluated) == (7, 7)
    straight = begun(tmp_path / "straight", "train.steps=7", "train.evaluate=0", "train.save=1000")
    trainer(straight).run()
    same(straight, run)


def test_an_evaluation_that_was_killed_before_it_was_saved_stands_in_the_journal_once(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.steps=6", "train.evaluate=3", "train.save=1000")

    class Killed(Listener):
        def on_evaluation(self, moment: Moment, measures: Mapping[str, Any], best: bool) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer(run, Killed()).run()
    trainer(run).run()
    lines = history(run.folder / "metrics.jsonl")
    assert [line["step"] for line in lines if line["event"] == "evaluation"] == [3, 6]


def test_a_checkpoint_from_before_this_goes_on_with_its_schedule(tmp_path: Path) -> None:
    """What it didn't keep follows from what it did: the end of its warm-up, and one clock for all."""
    straight, run = begun(tmp_path / "straight"), begun(tmp_path / "run")
    trainer(straight).run()
    with pytest.raises(Stopped):
        trainer(run, Tripwire("step", 7, signal.SIGTERM)).run()
    newest = run.store.latest()
    assert newest is not None
    state = newest.json("state")
    for name in ("clock", "warm", "assessment"):
        del state["moment"][name]
    groups = {path.stem: newest.tensors(path.stem) for path in newest.path.glob("*.safetensors")}
    files = {path.name: newest.read(path.name) for path in newest.path.glob("tokenizer*.json")}
    run.store.save(newest.step, groups, {"state": state, "spec": newest.json("spec")}, files)
    going = trainer(run)
    assert going.moment.clock == going.moment.seconds > 0
    going.run()
    same(straight, run)


def test_patience_ends_a_run_that_gets_no_better_and_the_best_stays(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.steps=50", "train.evaluate=2", "train.patience=3", "train.save=2")
    report = judged(run, [1, 5, 4, 3, 5, 9, 9]).run()
    assert report.reason == "patience"
    assert report.moment.step == 10
    assert report.moment.ranking == [(5, 4)]
    assert [item.step for item in run.store.list_steps()] == [4, 8, 10]
    assert resolve(str(run.folder)).step == 4
    assert resolve(f"{run.folder}@latest").step == 10
    assert resolve(f"{run.folder}@step-8").step == 8
    with pytest.raises(CheckpointError, match="step-6"):
        resolve(f"{run.folder}@step-6")


def test_a_plateau_shrinks_the_rate(tmp_path: Path) -> None:
    schedule = "train.schedule={kind: plateau, patience: 2, shrink: 0.5}"
    run = begun(tmp_path / "run", "train.steps=13", "train.evaluate=2", schedule)
    judged(run, [1, 5, 4, 3, 4, 4, 4]).run()
    lines = history(run.folder / "metrics.jsonl")
    rates = [line["rate"] / 1e-3 for line in lines if line["event"] == "step"]
    assert rates == pytest.approx([1.0] * 8 + [0.5] * 4 + [0.25])


def test_the_running_average_is_what_is_evaluated_and_used(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.ema=0.5", "train.evaluate=0")
    means: list[Tensor] = []
    weight: list[Tensor] = []

    class Watch(Listener):
        def on_step(self, step: Step, moment: Moment) -> None:
            now = next(ready.model.parameters()).detach().clone()
            decay = min(0.5, moment.step / (moment.step + 9))
            before = means[-1] if means else first
            means.append(decay * before + (1 - decay) * now)
            weight.append(now)

    ready = trainer(run, Watch())
    first = next(ready.model.parameters()).detach().clone()
    ready.run()
    name = next(iter(ready.averaged))
    torch.testing.assert_close(load_model(resolve(str(run.folder))).state_dict()[name], means[-1])
    assert torch.equal(ready.model.state_dict()[name], weight[-1])


@pytest.mark.parametrize("model", ["gru", "transformer"])
def test_accumulated_batches_are_one_large_batch(model: str, tmp_path: Path) -> None:
    words = ["train.steps=1", "train.clip=null", "model.dropout=0.0", "train.evaluate=0", "train.schedule.warmup=0"]
    run = begun(tmp_path / "run", *words, "train.accumulate=3", "train.optimizer={kind: sgd, rate: 1.0}", model=model)
    ready = trainer(run)
    before = {name: weight.clone() for name, weight in ready.model.state_dict().items()}
    task = ready.task
    places = task.batches(0, 0)
    batches = [next(places).batch for _ in range(3)]
    places.close()
    losses = torch.stack([task.loss(ready.model, batch) for batch in batches])
    (losses.sum() / sum(task.size(batch) for batch in batches)).backward()
    expected = {name: before[name] - weight.grad for name, weight in ready.model.named_parameters()}
    ready.optimizer.zero_grad()
    ready.run()
    for name, weight in ready.model.named_parameters():
        torch.testing.assert_close(weight.detach(), expected[name])


@pytest.mark.parametrize("model", ["transformer", "gru"])
def test_recomputing_changes_no_gradient(model: str, tmp_path: Path) -> None:
    losses = []
    for recompute in ("true", "false"):
        run = begun(tmp_path / recompute, f"train.recompute={recompute}", "model.depth=2", model=model)
        trainer(run).run()
        losses.append([line["loss"] for line in history(run.folder / "metrics.jsonl")])
    assert losses[0] == losses[1]


def test_half_precision_trains(tmp_path: Path) -> None:
    run = begun(tmp_path / "run", "train.precision=bf16", "train.steps=3", "train.evaluate=0")
    trainer(run).run()
    losses = [line["loss"] for line in history(run.folder / "metrics.jsonl") if line["event"] == "step"]
    plain = begun(tmp_path / "plain", "train.steps=3", "train.evaluate=0")
    trainer(plain).run()
    others = [line["loss"] for line in history(plain.folder / "metrics.jsonl") if line["event"] == "step"]
    assert losses != others
    assert losses == pytest.approx(others, rel=0.02)


def test_a_run_without_a_budget_is_refused() -> None:
    with pytest.raises(SpecError, match="how long"):
        TrainSpec()


def test_a_checkpoint_of_another_model_is_told_name_by_name(tmp_path: Path) -> None:
    small = begun(tmp_path / "small", "train.steps=1", "train.evaluate=0")
    trainer(small).run()
    large = Run.begin(document(tmp_path / "large", "model.width=32"))
    newest = small.store.latest()
    assert newest is not None
    with pytest.raises(CheckpointError, match=r"encoder.*: shape \(16, 16\), and the model's is \(32, 32\)") as error:
        large.trainer().restore(newest)
    assert error.value.status == 4


@pytest.mark.parametrize("damage", [b"{\n", b"\xff\n", b"[]\n", b'{"step": "x"}\n', b"\0" * 50 + b"\n"])
def test_a_damaged_line_of_the_journal_stops_nothing(damage: bytes, tmp_path: Path) -> None:
    straight, run = begun(tmp_path / "straight"), begun(tmp_path / "run")
    trainer(straight).run()
    with pytest.raises(Stopped):
        trainer(run, Tripwire("step", 6, signal.SIGTERM)).run()
    journal = run.folder / "metrics.jsonl"
    first, *rest = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(first + damage + b"".join(rest) + b'{"event": "st')  # and a last line that was cut short
    trainer(run).run()
    same(straight, run)
    assert damage in journal.read_bytes()  # nothing but what comes again is dropped


def test_an_error_at_the_start_leaves_no_display_on(tmp_path: Path) -> None:
    """Whoever heard that training begins hears that it has ended; whoever didn't, doesn't."""
    run, told = begun(tmp_path / "run"), list[str]()

    class Told(Listener):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_start(self, moment: Moment, spec: TrainSpec) -> None:
            if self.name == "broken":
                raise OSError("no")
            told.append(f"{self.name} began")

        def on_end(self, moment: Moment) -> None:
            told.append(f"{self.name} ended")

    with pytest.raises(OSError, match="no"):
        trainer(run, Told("one"), Told("broken"), Told("other")).run()
    assert told == ["one began", "one ended"]
    ready = trainer(run, Told("one"))

    def broken(epoch: int, position: int, rank: int = 0, ranks: int = 1) -> Any:
        raise RegardError("no batch")
        yield

    ready.task.batches = broken  # type: ignore[method-assign]
    with pytest.raises(RegardError, match="no batch"):
        ready.run()
    assert told[2:] == ["one began", "one ended"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_the_live_line_says_when_the_machine_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 80 columns, where the rest is cut off."""
    screen = Screen()
    screen.on_start(Moment(), TrainSpec(steps=10))
    screen.loss = 2.5
    step, moment = Step(5, 2.5, 1e-3, 0.5, 5000, 10.0, 500.0), Moment(step=5, tokens=5000, seconds=10.0)
    for cores, told in ((0.1, False), (1.25, True)):
        monkeypatch.setattr(screen.load, "look", lambda cores=cores: cores)
        assert ("busy: others use 1.2 cores" in screen.line(step, moment)[:80]) == told


def test_the_line_says_when_steps_wait_for_batches() -> None:
    screen, moment = Screen(), Moment(step=5, tokens=5000, seconds=10.0)
    screen.on_start(Moment(), TrainSpec(steps=10))
    screen.loss = 2.5
    step = Step(5, 2.5, 1e-3, 0.5, 5000, 10.0, 500.0)
    assert "waiting" not in screen.line(replace(step, waiting=0.029), moment)
    assert "3% waiting for batches" in screen.line(replace(step, waiting=0.03), moment)


def test_the_line_counts_what_a_task_predicts(tmp_path: Path) -> None:
    step, moment = (
        Step(5, 2.5, 1e-3, 0.5, 5000, 10.0, 500.0, counted="pictures"),
        Moment(step=5, tokens=5000, seconds=10.0),
    )
    screen, journal = Screen(), Journal(tmp_path / "metrics.jsonl")
    for listener in (screen, journal):
        listener.on_start(Moment(), TrainSpec(steps=10))
    screen.loss = 2.5
    assert "500 pictures/s" in screen.line(step, moment)
    journal.on_step(step, moment)
    journal.on_step(replace(step, step=6, counted="tokens"), moment)
    journal.on_end(moment)
    pictures, tokens = history(tmp_path / "metrics.jsonl")
    assert pictures["counted"] == "pictures" and "counted" not in tokens
    output = StringIO()
    replay = Replay(Console(file=output, width=200))
    replay.hear(pictures)
    replay.show_step()
    assert "500 pictures/s" in output.getvalue()


@pytest.mark.parametrize("value", [8.396e-11, -8.396e-11, -1.23456e-101, 123456.0, 0.13091, -1.5, float("nan")])
def test_a_cell_of_the_screen_leaves_a_space_before_it(value: float) -> None:
    text = fit_number(value, 8)
    assert len(text) <= 8 and (float(text) == pytest.approx(value, rel=0.2) or math.isnan(value))
