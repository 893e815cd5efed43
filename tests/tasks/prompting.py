"""A corpus of prompts for tests, as a user's own file would define it, and runs on it that take a second."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from regard.config import Document
from regard.core.model import Model
from regard.data.corpus import Generated, Split
from regard.data.sample import Form, Sample
from regard.runs.folder import Run
from regard.tasks.policy import PolicyTask
from regard.train.listener import Listener, Step
from regard.train.moment import Moment

LETTERS = "abcd"


class Firsts(Generated):
    """Words of a few letters; the right answer is the first of them."""

    gives: ClassVar[tuple[Form, ...]] = ("prompts",)
    kind: Literal["firsts"] = "firsts"
    train: int = 24
    validation: int = 6
    test: int = 0

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        chance = Random(f"{split}/{self.seed}")
        while True:
            word = "".join(chance.choices(LETTERS, k=chance.randint(1, 4)))
            yield {"prompt": [{"role": "user", "content": word}], "answer": word[0]}


TREE: dict[str, Any] = {
    "task": {"kind": "policy", "reward": "right", "samples": 3, "most": 4, "format": "plain"},
    "corpus": "firsts",
    "tokenizer": {"pieces": "character"},
    "batches": {"rows": 4},
    "model": {"kind": "gpt2", "width": 16, "depth": 1, "heads": 2, "context": 24, "dropout": 0.1},
    "train": {
        "steps": 12,
        "optimizer": {"kind": "adamw", "rate": 0.01},
        "schedule": {"kind": "constant", "warmup": 0},
        "evaluate": 0,
        "save": 100,
    },
}


def begin(out: Path, **changes: Any) -> Run:
    """A run on the corpus; `task` and `train` change the usual ones."""
    tree = {
        **TREE,
        "out": str(out),
        **{name: value for name, value in changes.items() if name not in ("task", "train")},
    }
    for name in ("task", "train"):
        tree[name] = {**TREE[name], **changes.get(name, {})}
    if "start" in changes:
        del tree["model"]
    return Run.begin(Document(tree))


class Steps(Listener):
    """What the journal was told of each step."""

    def __init__(self) -> None:
        self.found: list[Step] = []

    def on_step(self, step: Step, moment: Moment) -> None:
        self.found.append(step)


def start_task(run: Run, double: bool = False) -> tuple[PolicyTask, Model]:
    trainer = run.trainer()
    if double:
        trainer.model.double()
        trainer.first = [weight.double() for weight in trainer.first]
    task: PolicyTask = trainer.task  # type: ignore[assignment]
    task.begin(trainer.model, trainer.use_start, lambda: None)
    return task, trainer.model


def find_step(run: Run, parts: int) -> tuple[Tensor, float]:
    """The gradient of the first pass over a round as one step, and its loss."""
    task, model = start_task(run, double=True)
    places = list(islice(task.batches(0, 0), parts))
    total, lost = sum(task.size(place.batch) for place in places), 0.0
    for place in places:
        task.prepare(model, place.batch)
        loss = task.loss(model, place.batch) / total
        loss.backward()
        lost += float(loss.detach())
        task.settle()
    found = [
        torch.zeros(weight.numel()) if weight.grad is None else weight.grad.flatten() for weight in model.parameters()
    ]
    return torch.cat(found), lost
