"""Adam and the clipping before it by our own kernel, against torch's in double precision."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.train import adam
from regard.train.adam import CompiledAdam, clip

SHAPES = [(), (3,), (70, 33), (300, 128), (0, 4), (1, 1)]  # one of them is more than a piece


def draw(seed: int) -> list[Tensor]:
    chance = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=chance) for shape in SHAPES]


def learn(
    weights: list[Tensor], optimizer: torch.optim.Optimizer, most: float | None, dtype: torch.dtype
) -> list[float]:
    norms = []
    for seed in range(12):
        for weight, gradient in zip(weights, draw(seed + 1), strict=True):
            weight.grad = None if seed == 3 and weight.shape == (3,) else (gradient * 2.0**seed).to(dtype)
        if dtype == torch.float32:
            norms.append(clip(weights, most))
        else:
            norms.append(float(torch.nn.utils.clip_grad_norm_(weights, math.inf if most is None else most)))
        optimizer.step()
    return norms


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("most", [None, 50.0])
def test_steps_and_norms_are_those_of_double_precision(level: int, decoupled: bool, most: float | None) -> None:
    weights = [weight.requires_grad_() for weight in draw(0)]
    exact = [weight.detach().double().requires_grad_() for weight in weights]
    group: dict[str, Any] = {"params": weights, "weight_decay": 0.1}
    theirs = torch.optim.AdamW if decoupled else torch.optim.Adam
    norms = learn(weights, CompiledAdam([group], 0.01, (0.9, 0.98), 1e-8, decoupled), most, torch.float32)
    wanted = learn(exact, theirs(exact, 0.01, (0.9, 0.98), 1e-8, 0.1), most, torch.float64)
    assert norms == pytest.approx(wanted, rel=1e-6)
    for weight, other in zip(weights, exact, strict=True):
        torch.testing.assert_close(weight.double(), other, rtol=1e-5, atol=1e-5)


def test_it_is_what_torch_does_where_there_is_no_kernel(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for missing in (False, True):
        if missing:
            monkeypatch.setattr(adam, "load_unfollowed", lambda: None)
        weights = [weight.requires_grad_() for weight in draw(0)]
        optimizer = CompiledAdam([{"params": weights, "weight_decay": 0.1}], 0.01, (0.9, 0.98), 1e-8, True)
        norms = learn(weights, optimizer, 50.0, torch.float32)
        steps = [float(optimizer.state[weight]["step"]) for weight in weights]
        found.append((norms, weights, steps))
    (norms, weights, steps), (others, same, counts) = found
    assert norms == pytest.approx(others, rel=1e-5)
    assert steps == counts == [12.0, 11.0, 12.0, 12.0, 12.0, 12.0]
    torch.testing.assert_close(weights, same, rtol=1e-5, atol=1e-6)


def test_threads_change_nothing(level: int) -> None:
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            weights = [weight.requires_grad_() for weight in draw(0)]
            optimizer = CompiledAdam([{"params": weights, "weight_decay": 0.1}], 0.01, (0.9, 0.98), 1e-8, True)
            found.append((learn(weights, optimizer, 50.0, torch.float32), weights))
    finally:
        torch.set_num_threads(before)
    for norms, weights in found[1:]:
        assert norms == found[0][0]
        assert all(torch.equal(weight, other) for weight, other in zip(weights, found[0][1], strict=True))


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_gradient_that_is_no_number_is_told(level: int, odd: float) -> None:
    weight = torch.zeros(5000, requires_grad=True)
    weight.grad = torch.ones(5000)
    weight.grad[4321] = odd
    assert not math.isfinite(clip([weight], 1.0))
