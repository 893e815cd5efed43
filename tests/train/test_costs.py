"""What parts of a model report as costs and loads is collected, weighed and applied, whatever is learned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import Tensor

from regard.config import Document
from regard.core.mixer import Part
from regard.core.model import Model
from regard.core.probe import Edit, Record
from regard.core.view import View
from regard.errors import InputError, SpecError
from regard.lens.screen import Screen
from regard.models import preset
from regard.parts.experts import BALANCE
from regard.runs.folder import Run
from regard.tasks.language import LanguageBatch, LanguageTask, LanguageTaskSpec
from regard.tasks.task import Task, TaskSpec
from regard.train.costs import Costs
from regard.train.listener import Journal, Listener, Step, history
from regard.train.moment import Moment
from regard.train.spec import TrainSpec
from regard.train.trainer import Trainer
from tests.runs.test_tasks import PICTURED
from tests.runs.test_tasks import RUNS as TEXTUAL

RUNS = TEXTUAL | PICTURED
RUNS["reckoning"] = RUNS["reckoning"] | {"model": {"kind": "gru", "width": 16, "depth": 1}}  # pondering costs, too

MIXTRAL = {"kind": "mixtral-8x7b", "width": 16, "depth": 2, "heads": 2, "kv_heads": 1, "hidden": 8}
DEEPSEEK = {"kind": "deepseek-tiny", "depth": 2}


def learned(name: str, folder: Path, balance: str) -> tuple[Model, Task[Any]]:
    """A task, and a model that can learn it, with experts in the place of its feed-forwards."""
    usual = {"tokenizer": {"vocabulary": 200}, "batches": {"tokens": 128}, "train": {"steps": 1}, "device": "cpu"}
    words = ["model.dropout=0.0", *(["task.dropout=0.0"] if name in ("classification", "tagging") else [])]
    task = {"task": {"kind": name, **(found if isinstance(found := RUNS[name]["task"], dict) else {})}}
    run = Run.begin(Document({**usual, **RUNS[name], **task, "out": str(folder / "run")}).change(words))
    spec = run.assembly().model
    experts = {"kind": "experts", "hidden": 8, "experts": 4, "top": 1, "balance": balance}
    stacks = {
        side: stack.replace(blocks=tuple(block.replace(ffn=experts) for block in stack.blocks))
        for side, stack in (("encoder", spec.encoder), ("decoder", spec.decoder))
        if stack is not None
    }
    torch.manual_seed(0)
    return spec.replace(**stacks).build().train(), run.trainer().task


def batch_of(task: Task[Any]) -> Any:
    places = task.batches(0, 0)
    try:
        return next(places).batch
    finally:
        places.close()


def get_ready(task: Task[Any], model: Model, batch: Any) -> None:
    """What whoever trains does before a loss: some tasks let the model draw answers."""
    task.begin(model, lambda: nullcontext(model), lambda: None)
    task.prepare(model, batch)


@pytest.mark.parametrize("name", sorted(TaskSpec.kinds))
def test_every_task_pays_for_an_uneven_use_of_experts(name: str, tmp_path: Path) -> None:
    model, task = learned(name, tmp_path, "loss")
    batch, costs = batch_of(task), Costs(model, task.costs)
    get_ready(task, model, batch)
    torch.manual_seed(1)
    with costs.watch():
        free = task.loss(model, batch)
    paid = costs.charge(free, task.size(batch))
    values = [torch.stack(found).mean() for key, found in costs.heard.items() if key.endswith(".balance")]
    assert len(values) == len(costs.parts) > 0
    cost = BALANCE * task.size(batch) * float(torch.stack(values).sum().detach())
    assert cost >= BALANCE * task.size(batch) * 0.99  # 1 for each layer when it is even
    assert float((paid - free).detach()) == pytest.approx(cost, rel=0.01)
    torch.manual_seed(1)  # the same drops out
    assert torch.equal(task.loss(model, batch), free)  # so being watched changes nothing


@pytest.mark.parametrize("name", sorted(TaskSpec.kinds))
@pytest.mark.parametrize("recompute", [False, True])
def test_every_task_steers_experts_that_have_no_loss_after_the_gradient(
    name: str, recompute: bool, tmp_path: Path
) -> None:
    model, task = learned(name, tmp_path, "bias")
    for stack in (model.encoder, model.decoder):
        if stack is not None:
            stack.recompute = recompute
    batch, costs = batch_of(task), Costs(model, task.costs)
    get_ready(task, model, batch)
    with costs.watch():
        loss = task.loss(model, batch)
    loss = costs.charge(loss, task.size(batch))
    biases = [buffer for key, buffer in model.named_buffers() if key.endswith("ffn.inner.bias")]
    assert biases and not any(bias.any() for bias in biases)
    calls = {name: len(values) for name, values in costs.heard.items()}
    loss.backward()
    assert {name: len(values) for name, values in costs.heard.items()} == calls  # what ran again counts once
    assert not any(bias.any() for bias in biases)
    costs.settle()
    assert all(bias.any() for bias in biases)


def document(folder: Path, model: Mapping[str, Any], *words: str, task: str = "language") -> Document:
    tree = {
        **RUNS[task],
        "model": dict(model),
        "tokenizer": {"vocabulary": 200},
        "batches": {"tokens": 128},
        "train": {"steps": 4, "evaluate": 0, "save": 100},
        "device": "cpu",
        "out": str(folder),
    }
    return Document(tree).change(words)


def trained(folder: Path, model: Mapping[str, Any], *words: str, task: str = "language") -> tuple[Trainer, list[Any]]:
    """A trainer that came to its end, and its steps in the journal."""
    run = Run.begin(document(folder, model, *words, task=task))
    trainer = run.trainer([Journal(folder / "metrics.jsonl")])
    trainer.run()
    return trainer, [line for line in history(folder / "metrics.jsonl") if line["event"] == "step"]


def biases(model: Model) -> list[Tensor]:
    return [buffer for key, buffer in model.named_buffers() if key.endswith("ffn.inner.bias")]


def test_experts_are_steered_once_a_step_by_the_loads_of_all_its_batches(tmp_path: Path) -> None:
    run = Run.begin(document(tmp_path / "run", DEEPSEEK, "train.steps=1", "train.accumulate=3"))
    trainer = run.trainer()
    model, task = trainer.model, trainer.task
    places = task.batches(0, 0)
    batches = [next(places).batch for _ in range(3)]
    places.close()
    (part,) = [module for module in model.modules() if isinstance(module, Part) and module.loads]
    loads = []
    for batch in batches:
        probe = Record(f"{part.path}.load")
        with torch.no_grad(), model.watch(probe):
            task.loss(model.train(), batch)
        loads.append(task.size(batch) * probe[f"{part.path}.load"])
    load = torch.stack(loads).sum(0) / sum(task.size(batch) for batch in batches)
    trainer.run()
    (bias,) = biases(model)
    torch.testing.assert_close(bias, 0.001 * (load.mean() - load).sign())


@pytest.mark.parametrize("model", [MIXTRAL, DEEPSEEK], ids=["balance", "load"])
def test_recomputing_changes_no_cost(model: Mapping[str, Any], tmp_path: Path) -> None:
    told = []
    for recompute in ("true", "false"):
        trainer, steps = trained(tmp_path / recompute, model, f"train.recompute={recompute}", "train.accumulate=2")
        told.append([(line["loss"], line["gradient"], line["costs"]) for line in steps])
        told[-1].append([bias.tolist() for bias in biases(trainer.model)])  # type: ignore[arg-type]
    assert told[0] == told[1]


def slope(weight: Tensor) -> Tensor:
    assert weight.grad is not None
    return weight.grad


def test_accumulated_batches_pay_as_much_as_each_alone(tmp_path: Path) -> None:
    words = ["train.steps=1", "train.optimizer={kind: sgd, rate: 1.0}", "train.clip=null", "task.balance=0.5"]
    run = Run.begin(document(tmp_path / "run", MIXTRAL, *words, "train.schedule.warmup=0", "train.accumulate=3"))
    trainer = run.trainer()
    before = {name: weight.detach().clone() for name, weight in trainer.model.named_parameters()}
    task, costs = trainer.task, Costs(trainer.model.train(), {"balance": 0.5})
    places = task.batches(0, 0)
    batches = [next(places).batch for _ in range(3)]
    places.close()
    total = torch.zeros(())
    for batch in batches:
        with costs.watch():
            loss = task.loss(trainer.model, batch)
        total = total + costs.charge(loss, task.size(batch))
    (total / sum(task.size(batch) for batch in batches)).backward()
    expected = {name: before[name] - slope(weight) for name, weight in trainer.model.named_parameters()}
    trainer.optimizer.zero_grad()
    trainer.run()
    for name, weight in trainer.model.named_parameters():
        torch.testing.assert_close(weight.detach(), expected[name], rtol=1e-4, atol=1e-6)


def test_costs_are_told_by_their_names(tmp_path: Path) -> None:
    _, balanced = trained(tmp_path / "balanced", MIXTRAL)
    assert all(0.99 <= line["costs"]["balance"] < 8 and set(line["costs"]) == {"balance"} for line in balanced)
    _, steered = trained(tmp_path / "steered", DEEPSEEK)
    assert all(line["costs"]["load"] >= 1 and set(line["costs"]) == {"load"} for line in steered)
    _, plain = trained(tmp_path / "plain", RUNS["language"]["model"])
    assert not any("costs" in line for line in plain)
    screen = Screen(Console(quiet=True))
    screen.on_start(Moment(), TrainSpec(steps=10))
    screen.loss = 2.5
    step = Step(5, 2.5, 1e-3, 0.5, 5000, 10.0, 500.0, {"balance": 1.25})
    assert "balance 1.25" in screen.line(step, Moment(step=5, tokens=5000, seconds=10.0))


def losses(steps: list[Any]) -> list[float]:
    return [line["loss"] for line in steps]


def test_a_run_file_weighs_costs_for_every_task(tmp_path: Path) -> None:
    words = ["train.steps=1"]
    for task in ("language", "translation"):
        found = {
            weight: trained(tmp_path / f"{task}-{weight}", MIXTRAL, *words, f"train.costs.balance={weight}", task=task)[
                1
            ]
            for weight in (0.0, 0.01, 0.5)
        }
        usual = trained(tmp_path / task, MIXTRAL, *words, task=task)[1]
        assert losses(usual) == losses(found[0.01])
        for weight in (0.01, 0.5):
            paid = losses(found[weight])[0] - losses(found[0.0])[0]
            assert paid == pytest.approx(weight * 2 * usual[0]["costs"]["balance"], rel=1e-3)  # two layers of them


def test_the_balance_of_a_language_task_keeps_its_meaning(tmp_path: Path) -> None:
    older = trained(tmp_path / "older", MIXTRAL, "task.balance=0.5")[1]
    newer = trained(tmp_path / "newer", MIXTRAL, "train.costs={balance: 0.5}")[1]
    assert losses(older) == losses(newer)
    both = trained(tmp_path / "both", MIXTRAL, "task.balance=0.2", "train.costs={balance: 0.5}")[1]
    assert losses(both) == losses(newer)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("train.costs={balence: 0.1}", "train.costs.balence: no part of this model has such a cost; known: balance"),
        ("train.costs={balance: -1}", "train.costs.balance"),
        ("train.costs={balance: .inf}", "train.costs.balance"),
    ],
)
def test_weights_of_what_nothing_costs_are_refused_before_anything_is_written(
    words: str, told: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError) as error:
        Run.begin(document(tmp_path / "run", MIXTRAL, words))
    assert told in str(error.value)
    assert not (tmp_path / "run").exists()


class Careless(LanguageTask):
    """A task of one's own that knows nothing of probes and experts."""

    def loss(self, model: Model, batch: LanguageBatch) -> Tensor:
        tokens, real = batch.inputs.tokens, batch.inputs.real
        logits = model(tokens, valid=real)[real]
        return torch.nn.functional.cross_entropy(logits, batch.targets[real], reduction="sum")


class Evasive(LanguageTask):
    """A task that goes past the model to its parts."""

    def loss(self, model: Model, batch: LanguageBatch) -> Tensor:
        assert model.decoder is not None and model.head is not None
        tokens, real = batch.inputs.tokens, batch.inputs.real
        view = View.of(tokens, real)
        logits = model.head(model.decoder(tokens, view), view)[real]
        return torch.nn.functional.cross_entropy(logits, batch.targets[real], reduction="sum")


@pytest.mark.parametrize("model", [MIXTRAL, DEEPSEEK], ids=["balance", "load"])
def test_no_task_can_forget_what_parts_cost(model: Mapping[str, Any], tmp_path: Path) -> None:
    run = Run.begin(document(tmp_path / "run", model, "train.steps=1"))
    heard: list[Mapping[str, float]] = []

    class Told(Listener):
        def on_step(self, step: Step, moment: Moment) -> None:
            heard.append(step.costs)

    for kind in (Careless, Evasive):
        trainer = run.trainer([Told()])
        trainer.archive.store = None
        task = trainer.task
        trainer.task = kind(task.spec, task.prepared, task.plan, task.seed)
        if kind is Evasive:
            with pytest.raises(InputError, match=r"never heard of decoder\.blocks\.\d\.ffn\.(balance|load)"):
                trainer.run()
        else:
            trainer.run()
            assert heard and all(heard[0].values())
            assert all(bias.any() for bias in biases(trainer.model))
    assert len(heard) == 1


def test_a_model_that_costs_nothing_is_not_watched(tmp_path: Path) -> None:
    model = preset("gpt2", vocabulary=20, width=8, depth=1, heads=2, context=8).build()
    costs = Costs(model)
    with costs.watch():
        assert model.watcher is None
    loss = torch.ones(())
    assert costs.charge(loss, 3) is loss and costs.settle() == {}


def test_a_call_may_have_a_probe_of_its_own_beside_the_watcher() -> None:
    torch.manual_seed(0)
    model = preset("gpt2", vocabulary=20, width=8, depth=1, heads=2, context=8).build().eval()
    tokens, name = torch.arange(6)[None], "decoder.blocks.0.mix.output"
    own, watcher = Record("*.weights"), Record(name)
    plain = model(tokens)
    with model.watch(watcher):
        torch.testing.assert_close(model(tokens, probe=own), plain)
        ablated = model(tokens, probe=Edit({name: torch.zeros_like}))
        state = model.start(1)
        model.step(tokens[:, :1], state)
    assert list(own) == ["decoder.blocks.0.mix.weights"]
    assert [bool(value.any()) for value in watcher.pieces[name]] == [True, False, True]
    assert not torch.equal(ablated, plain)
    assert model.watcher is None
    model(tokens)
    assert len(watcher.pieces[name]) == 3


def test_the_spec_of_a_run_from_before_says_no_more_than_it_did() -> None:
    """Old run files have no costs and no goal: what is meant is what was."""
    spec = TrainSpec(steps=1)
    assert spec.costs == {} and spec.goal is None
    assert json.loads(spec.model_dump_json())["costs"] == {}
    assert LanguageTaskSpec().balance == BALANCE
