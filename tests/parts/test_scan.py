"""The chunked scan against the recurrence that defines it, forward and backward."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import regard.parts.scan
from regard.parts.scan import selective_scan
from regard.parts.selective import ShortConvolution


def drawn(batch: int = 2, time: int = 11, inner: int = 5, states: int = 3) -> list[Tensor]:
    g = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    u, delta, A = random(batch, time, inner), random(batch, time, inner).exp(), -random(inner, states).exp()
    return [u, delta, A, random(batch, time, states), random(batch, time, states), random(batch, states, inner)]


def plain(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    outputs = []
    for t in range(u.shape[1]):
        decay = torch.exp(delta[:, t, None] * A.T)
        state = decay * state + (delta[:, t] * u[:, t])[:, None] * B[:, t, :, None]
        outputs.append((C[:, t, :, None] * state).sum(1))
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize("chunk", [1, 2, 4, 11, 100])
def test_every_chunk_length_gives_the_recurrence(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [tensor.requires_grad_() for tensor in drawn()]
    monkeypatch.setattr(regard.parts.scan, "CACHED", chunk * inputs[-1].numel())
    for found, expected in zip(selective_scan(*inputs), plain(*inputs), strict=True):
        torch.testing.assert_close(found, expected)
        weights = torch.randn_like(found)
        ours = torch.autograd.grad((found * weights).sum(), inputs, retain_graph=True, allow_unused=True)
        theirs = torch.autograd.grad((expected * weights).sum(), inputs, retain_graph=True, allow_unused=True)
        for mine, reference in zip(ours, theirs, strict=True):
            torch.testing.assert_close(mine, torch.zeros_like(mine) if reference is None else reference)


def test_large_steps_neither_overflow_nor_lose_the_gradient() -> None:
    inputs = [tensor.float() for tensor in drawn()]
    inputs[1] = inputs[1] * 1000
    for tensor in inputs:
        tensor.requires_grad_()
    y, end = selective_scan(*inputs)
    (y.sum() + end.sum()).backward()
    assert y.isfinite().all()
    assert all(tensor.grad is not None and tensor.grad.isfinite().all() for tensor in inputs)


def test_the_short_convolution_is_a_convolution() -> None:
    x = torch.randn(2, 9, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(4, dtype=torch.float64, requires_grad=True)
    expected = torch.nn.functional.conv1d(x.mT, weight[:, None], bias, groups=4).mT
    torch.testing.assert_close(ShortConvolution.apply(x, weight, bias), expected)
    assert torch.autograd.gradcheck(ShortConvolution.apply, (x, weight, bias))
