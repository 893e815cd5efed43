"""What draws where it looks learns by rewards: the mean estimate is the exact gradient, and a run goes on the same."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.probe import Probe
from regard.errors import InputError, SpecError
from regard.models import preset
from regard.tasks.reinforce import Reinforce, Reinforcement
from tests.train.small import begun

PLACES, TIME, ROWS, TRIES = 4, 2, 300, 40
TOKENS, TARGETS = torch.tensor([[1, 3]]), torch.tensor([[3, 2]])
PICTURE = torch.randn(1, 1, 4, 4, generator=torch.Generator().manual_seed(7))


def build(expect: float = 0.0) -> Model:
    """Four places, three words; every weight large enough that it matters where one looks."""
    torch.manual_seed(1)
    sizes = {"map": "patches", "width": 4, "image": 4, "patch": 2, "channels": 1, "vocabulary": 4, "dropout": 0.0}
    model = preset("show-attend-tell-hard", **sizes, doubly=0.0, mix={"expect": expect}).build()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_()
    return model.train()


def read(model: Model, rows: int, probe: Probe | None = None) -> Tensor:
    """What each row costs, in nats."""
    memory = Inputs(PICTURE.expand(rows, -1, -1, -1))
    logits = model(Inputs(TOKENS.expand(rows, -1), memory=memory, probe=probe))
    return F.cross_entropy(logits.transpose(1, 2), TARGETS.expand(rows, -1), reduction="none").sum(1)


class Led(Probe):
    """Look where it is told, row by row, and keep how likely that was."""

    def __init__(self, paths: Tensor) -> None:
        self.paths, self.time, self.logs = paths, 0, torch.zeros(len(paths))

    def wants(self, name: str) -> bool:
        return name.endswith(".weights")

    def __call__(self, name: str, value: Tensor) -> Tensor:
        one = F.one_hot(self.paths[:, self.time], PLACES).to(value)[:, None, None]
        self.logs = self.logs + (value * one).sum((1, 2, 3)).log()
        self.time += 1
        return one


def flatten(model: Model) -> Tensor:
    found = [torch.zeros_like(w) if w.grad is None else w.grad for w in model.parameters()]
    return torch.cat([grad.flatten() for grad in found])


def enumerate_gradient(model: Model) -> Tensor:
    """The gradient of the expected loss, over every way to look."""
    paths = torch.tensor(list(itertools.product(range(PLACES), repeat=TIME)))
    led = Led(paths)
    model.zero_grad()
    nats = read(model.eval(), len(paths), led)
    (led.logs.exp() * nats).sum().backward()
    assert float(led.logs.detach().exp().sum()) == pytest.approx(1, abs=1e-5)
    model.train()
    return flatten(model)


def estimate(model: Model, settings: Reinforce) -> Tensor:
    """The mean gradient of a batch, over and over: (tries, weights)."""
    torch.manual_seed(5)
    rewards, found = settings.build(), []
    for _ in range(TRIES):
        model.zero_grad()
        with rewards.watch(model):
            nats = read(model, ROWS)
        (rewards.charge(nats.sum(), nats) / ROWS).backward()
        found.append(flatten(model))
    return torch.stack(found[1:])  # the first has no baseline yet, and so a spread of its own


def test_the_mean_of_the_estimate_is_the_exact_gradient() -> None:
    model = build()
    exact = enumerate_gradient(model)
    ways = torch.cat((exact[None], torch.randn(4, len(exact), generator=torch.Generator().manual_seed(6))))

    def errors(settings: Reinforce) -> Tensor:
        """How many standard errors the estimate is off, along the gradient itself and along random ways."""
        along = estimate(model, settings) @ ways.T
        return (along.mean(0) - ways @ exact).abs() / (along.std(0) / len(along) ** 0.5)

    assert errors(Reinforce(reward=1.0, entropy=0.0)).max() < 3
    assert errors(Reinforce(reward=0.0, entropy=0.0)).max() > 3  # without rewards it would be another gradient


def test_rows_that_expect_learn_as_soft_attention_does() -> None:
    model, rewards = build(expect=0.999999), Reinforce(entropy=0.0).build()
    with rewards.watch(model):
        nats = read(model, 3)
    assert torch.equal(rewards.charge(nats.sum(), nats), nats.sum())


def test_the_entropy_counts() -> None:
    model, found = build(), []
    for entropy in (0.0, 0.5):
        torch.manual_seed(2)
        rewards = Reinforce(entropy=entropy).build()
        with rewards.watch(model):
            nats = read(model, 3)
        found.append(float(rewards.charge(nats.sum(), nats).detach()))
    assert found[1] < found[0]


def test_the_baseline_is_a_moving_mean() -> None:
    model, rewards, means = build(), Reinforcement(), []
    assert rewards.expected == 0
    for _ in range(3):
        with rewards.watch(model):
            nats = read(model, 4)
        rewards.charge(nats.sum(), nats)
        means.append(float(nats.detach().mean()))
    shares = [0.1 * 0.9**2, 0.1 * 0.9, 0.1]
    expected = sum(share * mean for share, mean in zip(shares, means, strict=True)) / sum(shares)
    assert rewards.expected == pytest.approx(expected, rel=1e-6)


def test_a_run_goes_on_to_the_bit() -> None:
    def go(model: Model, rewards: Reinforcement, steps: int) -> None:
        rule = torch.optim.SGD(model.parameters(), lr=0.05)
        for _ in range(steps):
            rule.zero_grad()
            with rewards.watch(model):
                nats = read(model, 5)
            rewards.charge(nats.sum(), nats).backward()
            rule.step()

    torch.manual_seed(8)
    model, rewards = build(0.5), Reinforcement()
    go(model, rewards, 3)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    kept, chance = {name: value.clone() for name, value in rewards.memory().items()}, torch.get_rng_state()
    go(model, rewards, 3)
    other, again = build(0.5), Reinforcement()
    other.load_state_dict(weights)
    again.recall(kept)
    torch.set_rng_state(chance)
    go(other, again, 3)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(one, two)
    assert torch.equal(rewards.baseline, again.baseline)


def test_a_model_that_draws_nothing_is_charged_nothing() -> None:
    torch.manual_seed(0)
    model, rewards = (
        preset("show-attend-tell", map="patches", width=4, image=4, patch=2, channels=1, vocabulary=4).build(),
        Reinforcement(),
    )
    with rewards.watch(model):
        nats = read(model, 2)
    loss = nats.sum()
    assert rewards.charge(loss, nats) is loss


def test_who_does_not_call_the_model_is_told() -> None:
    model, rewards = build(), Reinforcement()
    with rewards.watch(model):
        pass
    with pytest.raises(InputError, match="nothing was heard"):
        rewards.charge(torch.zeros(()), torch.zeros(2))
    with rewards.watch(model):
        nats = read(model, 2)
    with pytest.raises(InputError, match="one loss a row"):
        rewards.charge(nats.sum(), nats[:1])


def test_a_task_that_rewards_nothing_refuses_what_draws(tmp_path: Path) -> None:
    words = "model.kind=bahdanau", "model.width=16", "model.mix.hard=sampled"
    with pytest.raises(SpecError, match="draws where it looks"):
        begun(tmp_path / "run", *words, model="gru")
