"""Policy optimisation where all that can be said is written down: what it should reach, and every gradient, exactly."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from regard.core.model import Model
from regard.data.sample import Sample
from regard.decode.pipeline import Pipeline
from regard.tasks.feedback.advantage import compare_in_groups, estimate_divergence
from regard.tasks.feedback.likelihood import find_logs
from regard.tasks.feedback.rollout import rest
from regard.tasks.policy import PolicyTask
from regard.tasks.rewards.reward import Prompt, RewardSpec
from regard.train.trainer import Trainer
from tests.tasks.enumerable import find_divergence, lay_out, list_sequences, score_sequences, tilt
from tests.tasks.prompting import begin

MODELS: dict[str, dict[str, Any]] = {
    "attention": {"kind": "gpt2", "width": 16, "depth": 1, "heads": 2, "context": 24, "dropout": 0.1},
    "lstm": {"kind": "lstm", "width": 16, "depth": 1, "dropout": 0.1},
    "mamba": {"kind": "mamba-130m", "width": 16, "depth": 1},
}
MOST = 3  # tokens of an answer that is enumerated


class LetterReward(RewardSpec):
    """Letters by their place: enough to tell most answers apart."""

    kind: Literal["letters"] = "letters"
    factor: float = 1.0

    def score(
        self, prompts: Sequence[Prompt], answers: Sequence[str], samples: Sequence[Sample], judge: Pipeline | None
    ) -> list[float]:
        return [self.factor * count_letters(answer) for answer in answers]


def count_letters(text: str) -> float:
    return sum({"a": 1.0, "b": 0.5, "c": -0.5}.get(letter, 0.0) / place for place, letter in enumerate(text, 1))


class World:
    """A trainer on one prompt, and all answers to it that there are."""

    def __init__(self, out: Path, **changes: Any) -> None:
        settings = {"reward": "letters", "most": MOST, **changes.pop("task", {})}
        self.run = begin(out, task=settings, **changes)
        self.trainer: Trainer = self.run.trainer()
        self.task: PolicyTask = self.trainer.task  # type: ignore[assignment]
        self.tokenizer = self.task.tokenizer
        self.end = self.tokenizer.end
        assert len(self.tokenizer) <= 8
        self.prompt = self.task.columns["prompt"][0]
        self.sequences = list_sequences(len(self.tokenizer), MOST, self.end)
        texts = self.tokenizer.decode(self.sequences)
        self.rewards = torch.tensor([count_letters(text) for text in texts], dtype=torch.float64)

    def score(self, model: Model) -> Tensor:
        """The log-probability of every answer."""
        with rest(model):
            return score_sequences(model, self.sequences, self.prompt).double()


def same_prompt(task: PolicyTask) -> None:
    """One prompt for all: what is enumerated are the answers to it."""
    first, sample = task.columns["prompt"][0], task.columns["sample"].read(0)

    class Same:
        def __getitem__(self, _: int) -> list[int]:
            return first

        def read(self, _: int) -> Any:
            return sample

    task.columns = {"prompt": Same(), "sample": Same()}  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("ppo", {"beta": 0.15, "value_weight": 0.5, "value_clip": None}),
        ("grpo", {"beta": 0.15}),
    ],
)
def test_it_comes_to_the_exact_frontier(tmp_path: Path, method: str, settings: dict[str, Any]) -> None:
    """At least 95 % of the most that can be gained at the divergence that it came to."""
    world = World(
        tmp_path / "run",
        task={"method": {"kind": method, **settings}, "samples": 8, "epochs": 2, "minibatches": 1},
        batches={"rows": 8},
        model={**MODELS["attention"], "dropout": 0.0},
        train={"steps": 160, "optimizer": {"kind": "adamw", "rate": 0.01}, "schedule": {"kind": "linear", "warmup": 0}},
    )
    same_prompt(world.task)
    with world.trainer.use_start() as start:
        before = world.score(start)
    assert float(before.exp().sum()) == pytest.approx(1.0, abs=1e-5)
    world.trainer.run()
    after = world.score(world.trainer.model)
    divergence = float(find_divergence(after, before))
    gained, first = float(after.exp() @ world.rewards), float(before.exp() @ world.rewards)
    low, high = 1e-3, 1e3  # the weight at which the optimum has this divergence lies between
    for _ in range(60):
        middle = (low * high) ** 0.5
        near = float(find_divergence(tilt(before, world.rewards, middle), before)) > divergence
        low, high = (middle, high) if near else (low, middle)
    best = float(tilt(before, world.rewards, low).exp() @ world.rewards)
    assert divergence > 0.5
    assert gained - first >= 0.95 * (best - first), (gained, first, best, divergence)


def flatten(gradients: Sequence[Tensor | None], model: Model) -> Tensor:
    parts = zip(gradients, model.parameters(), strict=True)
    return torch.cat([(torch.zeros_like(weight) if part is None else part).flatten() for part, weight in parts])


def find_gradient(value: Tensor, model: Model) -> Tensor:
    return flatten(torch.autograd.grad(value, list(model.parameters()), allow_unused=True), model)


def expect_ppo(world: World, model: Model, start: Model, beta: float) -> Tensor:
    """∇ of -(E[reward] - β KL), a token counting 1 / most."""
    logs = score_sequences(model, world.sequences, world.prompt)
    with torch.no_grad():
        before = score_sequences(start, world.sequences, world.prompt)
    aim = (logs.exp() * (world.rewards - beta * (logs - before))).sum()
    return find_gradient(-aim / MOST, model)


def expect_grpo(world: World, model: Model, start: Model, beta: float) -> Tensor:
    """The mean over all pairs of answers of what two of them cost, each of their tokens counting 1 / its length."""
    batch = lay_out(world.sequences, world.prompt)
    logs = find_logs(model, batch)
    with torch.no_grad():
        before = find_logs(start, batch)
    odds = logs.detach().sum(1).exp()
    first, second = torch.meshgrid(world.rewards, world.rewards, indexing="ij")
    worth = compare_in_groups(torch.stack((first, second), -1).flatten(), 2, True).view(*first.shape, 2)[..., 0]
    share = batch.learned.double() / batch.learned.sum(1, keepdim=True)
    ratio = (logs - logs.detach()).exp()
    cost = -(worth @ odds)[:, None] * ratio + beta * estimate_divergence(logs, before, "k3")
    return find_gradient((odds[:, None] * share * cost).sum(), model)


def expect_k2(world: World, model: Model, start: Model, beta: float) -> Tensor:
    """∇ of the sum of each token's KL(π ‖ start), over the prefixes that the policy comes to."""
    found = torch.zeros((), dtype=torch.float64)
    prefixes = {sequence[:size] for sequence in world.sequences for size in range(len(sequence))}
    for prefix in prefixes:
        rows = torch.tensor([[*world.prompt, *prefix]])
        logs = model(rows)[0].log_softmax(-1)
        with torch.no_grad():
            before = start(rows)[0, -1].log_softmax(-1)
        places = range(len(world.prompt) - 1, len(world.prompt) + len(prefix) - 1)
        reached = sum(
            (logs[place, token].detach() for place, token in zip(places, prefix, strict=True)), torch.tensor(0.0)
        )
        found = found + reached.exp() * (logs[-1].exp() * (logs[-1] - before)).sum()
    return find_gradient(beta * found / MOST, model)


CASES: dict[str, tuple[dict[str, Any], Callable[..., Tensor]]] = {
    "ppo": (
        {"kind": "ppo", "beta": 0.3, "average": "most", "whiten": False, "decay": 1.0, "value_weight": 0.0},
        expect_ppo,
    ),
    "grpo": ({"kind": "grpo", "beta": 0.3}, expect_grpo),
    "k2": ({"kind": "grpo", "beta": 0.3, "average": "most", "estimator": "k2"}, expect_k2),
}


@pytest.mark.parametrize("name", CASES)
def test_the_mean_gradient_is_the_enumerated_one(tmp_path: Path, name: str) -> None:
    settings, expect = CASES[name]
    reward = {"kind": "letters", "factor": 0.0 if name == "k2" else 1.0}  # without rewards the divergence is left
    world = World(
        tmp_path / "run",
        task={"method": settings, "samples": 2, "epochs": 1, "minibatches": 1, "reward": reward},
        batches={"rows": 32},
        corpus={"kind": "firsts", "train": 32, "validation": 1},
    )
    same_prompt(world.task)
    torch.manual_seed(5)
    model = world.trainer.model.double().eval()
    start = copy.deepcopy(model)
    with torch.no_grad():
        for weight in model.parameters():  # away from the start, and with values that mean nothing
            weight.add_(0.3 * torch.randn_like(weight))
    world.task.begin(model, lambda: rest(start), lambda: None)
    wanted = expect(world, model, start, settings["beta"])
    found = list[Tensor]()
    for place in islice(world.task.batches(0, 0), 120):
        world.task.prepare(model, place.batch)
        found.append(find_gradient(world.task.loss(model, place.batch) / world.task.size(place.batch), model))
    drawn = torch.stack(found)  # (rounds, weights)
    directions = torch.cat((wanted[None] / wanted.norm(), torch.randn(7, len(wanted), dtype=torch.float64)))
    along = drawn @ directions.mT
    error = along.std(0) / len(drawn) ** 0.5
    scores = (along.mean(0) - directions @ wanted) / error
    assert scores.abs().max() < 3, scores
    assert float(wanted.norm()) > 4 * float(error[0])  # there is something to find
