"""Additive scores by our own kernel, against torch's in double precision."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.parts import additive
from regard.parts.additive import CompiledScore, score_pairs


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additive, "SMALL", 0)


def draw(rows: int, queries: int, keys: int, hidden: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and weights; some pairs are far beyond where a tanh is 1."""
    torch.manual_seed(0)
    sizes = (rows, queries, hidden), (rows, keys, hidden), (1, hidden)
    query, key, weight = (torch.randn(size) for size in sizes)
    query[:, :, 0] *= 100
    return query.requires_grad_(), key.requires_grad_(), weight.requires_grad_()


@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1), (2, 3, 5, 7), (64, 1, 36, 64), (3, 20, 17, 130), (2, 2, 0, 4)], ids=str
)
def test_scores_and_gradients_are_those_of_double_precision(level: int, sizes: tuple[int, int, int, int]) -> None:
    given = draw(*sizes)
    exact = tuple(part.detach().double().requires_grad_() for part in given)
    found, wanted = score_pairs(*given), score_pairs(*exact)
    assert type(found.grad_fn).__name__ == f"{CompiledScore.__name__}Backward"
    assert type(wanted.grad_fn).__name__ != f"{CompiledScore.__name__}Backward"
    torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=1e-5)
    slope = torch.randn(found.shape)
    learned = torch.autograd.grad(found, given, slope)
    for one, two in zip(learned, torch.autograd.grad(wanted, exact, slope.double()), strict=True):
        torch.testing.assert_close(
            one.double(), two, rtol=1e-5, atol=1e-5 * (1 + float(two.abs().sum() and two.abs().max()))
        )


def test_half_precision_is_summed_in_single(level: int) -> None:
    query, keys, weight = draw(4, 2, 9, 32)
    found = score_pairs(query.bfloat16(), keys.bfloat16(), weight)
    wanted = score_pairs(query.bfloat16().double(), keys.bfloat16().double(), weight.double())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, rtol=1e-6, atol=1e-5)
    learned = torch.autograd.grad(found.sum(), [query, keys])
    for one, two in zip(learned, torch.autograd.grad(wanted.sum(), [query, keys]), strict=True):
        torch.testing.assert_close(one, two, rtol=2**-7, atol=1e-3)


def test_gradients_have_gradients() -> None:
    def turn(dtype: torch.dtype) -> Tensor:
        query, keys, weight = (part.to(dtype) for part in draw(2, 3, 4, 5))
        slope = torch.autograd.grad(score_pairs(query, keys, weight).pow(3).sum(), query, create_graph=True)[0]
        return torch.autograd.grad(slope.square().sum(), query)[0].double()

    torch.testing.assert_close(turn(torch.float32), turn(torch.float64), rtol=1e-3, atol=1e-4)


def test_the_last_digits_do_not_depend_on_other_rows(level: int) -> None:
    query, keys, weight = draw(5, 3, 11, 40)
    together = score_pairs(query, keys, weight)
    assert all(
        torch.equal(together[n : n + 1], score_pairs(query[n : n + 1], keys[n : n + 1], weight)) for n in range(5)
    )
