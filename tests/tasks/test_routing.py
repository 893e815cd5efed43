"""Experts are kept evenly used, whatever is learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.config import Document
from regard.core.model import Model
from regard.runs.folder import Run
from regard.tasks.routing import BALANCE
from regard.tasks.task import Task, TaskSpec
from tests.test_tasks import RUNS


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


@pytest.mark.parametrize("name", sorted(TaskSpec.kinds))
def test_every_task_pays_for_an_uneven_use_of_experts(name: str, tmp_path: Path) -> None:
    model, task = learned(name, tmp_path, "loss")
    batch = batch_of(task)
    paid = task.loss(model, batch).detach()
    routing = task.routing
    assert routing is not None and routing.probe is not None
    values = [torch.stack(found).mean() for key, found in routing.probe.values.items() if key.endswith(".balance")]
    assert len(values) == len(routing.parts) > 0
    cost = BALANCE * task.size(batch) * float(torch.stack(values).sum().detach())
    assert cost >= BALANCE * task.size(batch) * 0.99  # 1 for each layer when it is even
    free = task.loss(model.eval(), batch).detach()  # nothing drops out, so the rest is the same
    assert float(paid - free) == pytest.approx(cost, rel=0.01)


@pytest.mark.parametrize("name", sorted(TaskSpec.kinds))
@pytest.mark.parametrize("recompute", [False, True])
def test_every_task_steers_experts_that_have_no_loss_after_the_gradient(
    name: str, recompute: bool, tmp_path: Path
) -> None:
    model, task = learned(name, tmp_path, "bias")
    for stack in (model.encoder, model.decoder):
        if stack is not None:
            stack.recompute = recompute
    loss = task.loss(model, batch_of(task))
    biases = [buffer for key, buffer in model.named_buffers() if key.endswith("ffn.inner.bias")]
    assert biases and not any(bias.any() for bias in biases)
    loss.backward()
    task.settle()
    assert all(bias.any() for bias in biases)
