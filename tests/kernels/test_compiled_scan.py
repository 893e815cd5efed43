"""The compiled scan against the recurrence that defines it, in double precision, by every path of the kernel."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.models import preset
from regard.parts import scan
from regard.parts.scan import CompiledScan, can_compile, selective_scan

SIZES = [(1, 1, 16, 1), (2, 63, 16, 3), (1, 64, 48, 16), (3, 65, 32, 5), (5, 200, 16, 16), (1, 130, 160, 8)]


def draw(batch: int, time: int, inner: int, states: int) -> list[Tensor]:
    """What the scan is given, single precision; B and C are parts of something wider, as in the mixer."""
    torch.manual_seed(time + inner)
    u, delta = torch.randn(batch, time, inner), torch.rand(batch, time, inner).pow(3)
    A, wide = -torch.rand(inner, states) * 8 - 0.01, torch.randn(batch, time, 2 * states + 3)
    return [u, delta, A, wide[..., 3 : 3 + states], wide[..., 3 + states :], torch.randn(batch, states, inner)]


def run_plainly(u: Tensor, delta: Tensor, A: Tensor, B: Tensor, C: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    outputs = []
    for t in range(u.shape[1]):
        state = torch.exp(delta[:, t, None] * A.T) * state + (delta[:, t] * u[:, t])[:, None] * B[:, t, :, None]
        outputs.append((C[:, t, :, None] * state).sum(1))
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_outputs_states_and_gradients_are_those_of_the_recurrence(level: int, sizes: tuple[int, ...]) -> None:
    given = draw(*sizes)
    ours = [tensor.detach().requires_grad_() for tensor in given]
    theirs = [tensor.detach().double().requires_grad_() for tensor in given]
    assert can_compile(ours[0], torch.float32)
    found, expected = selective_scan(*ours), run_plainly(*theirs)
    weights = [torch.randn_like(one) for one in found]
    sum((one * weight).sum() for one, weight in zip(found, weights, strict=True)).backward()  # type: ignore[union-attr]
    sum((one * weight).sum() for one, weight in zip(expected, weights, strict=True)).backward()  # type: ignore[union-attr]
    pairs = [*zip(found, expected, strict=True)]
    pairs += [(one.grad, other.grad) for one, other in zip(ours, theirs, strict=True)]  # type: ignore[misc]
    for mine, reference in pairs:
        assert mine.dtype == torch.float32
        assert (mine - reference).abs().max() <= 2e-6 * reference.abs().max().clamp(min=1)


def test_a_step_of_zero_changes_nothing_to_the_bit(level: int) -> None:
    given = draw(2, 70, 16, 4)
    given[1].zero_()
    _, end = selective_scan(*given)
    assert torch.equal(end, given[-1])


def test_long_steps_leave_nothing_and_no_number_stays_no_number(level: int) -> None:
    given = draw(1, 5, 16, 2)
    given[1].fill_(1e6)
    y, end = selective_scan(*given)
    assert y.isfinite().all()
    expected = given[1][:, -1:] * given[0][:, -1:] * given[3][:, -1, :, None]
    torch.testing.assert_close(end, expected)
    given[1][0, 2, 3] = float("nan")
    y, _ = selective_scan(*given)
    assert y[0, 2:, 3].isnan().all() and not y[0, :, 4].isnan().any()


def test_sums_dont_depend_on_the_number_of_threads(level: int) -> None:
    def find() -> list[Tensor]:
        given = [tensor.detach().requires_grad_() for tensor in draw(1, 130, 160, 8)]
        y, end = selective_scan(*given)
        (y.square().sum() + end.sum()).backward()
        return [y, end, *(tensor.grad for tensor in given if tensor.grad is not None)]

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = find()
        torch.set_num_threads(2)
        two = find()
    finally:
        torch.set_num_threads(before)
    assert len(one) == 8 and all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


def test_what_the_kernel_cant_serve_takes_torchs_route(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Tensor) -> None:
        raise AssertionError("the kernel was asked")

    monkeypatch.setattr(CompiledScan, "apply", refuse)
    for given in (draw(2, 9, 24, 3), [tensor.double() for tensor in draw(2, 9, 16, 3)]):
        y, _ = selective_scan(*given)
        torch.testing.assert_close(y, run_plainly(*given)[0])


def test_a_model_learns_the_same_with_the_kernel_and_without(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def find() -> list[Tensor]:
        torch.manual_seed(0)
        model = preset("mamba-130m", width=32, depth=2, vocabulary=50).build()
        tokens = torch.randint(50, (3, 80))
        model(tokens).square().mean().backward()
        return [weight.grad for weight in model.parameters() if weight.grad is not None]

    ours = find()
    monkeypatch.setattr(scan, "can_compile", lambda *_: False)
    for one, other in zip(ours, find(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-3)
