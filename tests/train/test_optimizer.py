"""Optimizers: torch's own, with decay where it belongs, and a state that survives as named tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from regard.errors import CheckpointError
from regard.train.optimizer import OptimizerSpec, groups, packed, unpack

KINDS = ["adam", "adamw", "sgd", "adafactor"]


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 2))


def step(model: nn.Module, optimizer: torch.optim.Optimizer, seed: int) -> None:
    optimizer.zero_grad()
    model(torch.randn(5, 4, generator=torch.Generator().manual_seed(seed))).square().sum().backward()
    optimizer.step()


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_is_saved_and_put_back_goes_on_to_the_bit(kind: str) -> None:
    settings: dict[str, Any] = {"kind": kind} | ({"momentum": 0.9} if kind == "sgd" else {})
    spec = OptimizerSpec.parse(settings)
    straight = network()
    optimizer = spec.build(straight)
    for seed in range(6):
        step(straight, optimizer, seed)
    broken = network()
    optimizer = spec.build(broken)
    for seed in range(3):
        step(broken, optimizer, seed)
    state = {name: tensor.clone() for name, tensor in packed(optimizer, broken).items()}
    assert state
    again = spec.build(broken)
    unpack(again, broken, state)
    for seed in range(3, 6):
        step(broken, again, seed)
    for one, other in zip(straight.parameters(), broken.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("kind", KINDS)
def test_every_optimizer_learns(kind: str) -> None:
    model = network()
    optimizer = OptimizerSpec.parse({"kind": kind, "rate": 0.02}).build(model)
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        losses.append(float(loss.detach()))
        optimizer.step()
    assert losses[-1] < 0.5 * losses[0]


def test_matrices_decay_and_vectors_do_not() -> None:
    model = network()
    for kind in KINDS:
        optimizer = OptimizerSpec.parse({"kind": kind, "decay": 0.3}).build(model)
        decays = {id(weight): group["weight_decay"] for group in optimizer.param_groups for weight in group["params"]}
        assert all(decays[id(weight)] == (0.3 if weight.dim() > 1 else 0.0) for weight in model.parameters())
    assert sum(len(group["params"]) for group in groups(model, 0.1)) == len(list(model.parameters()))


def test_a_state_of_another_model_is_refused() -> None:
    model = network()
    optimizer = OptimizerSpec.parse("adamw").build(model)
    step(model, optimizer, 0)
    state = packed(optimizer, model)
    with pytest.raises(CheckpointError, match="no weight 'x'"):
        unpack(optimizer, model, {"x/exp_avg": torch.zeros(3)})
    with pytest.raises(CheckpointError, match=r"0.weight/exp_avg has shape \(4, 3\)"):
        unpack(optimizer, model, state | {"0.weight/exp_avg": torch.zeros(4, 3)})
