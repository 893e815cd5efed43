"""The loss of scores and its gradient by our own kernel, against torch's in double precision."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.core.factors import Factors
from regard.tasks import entropy
from regard.tasks.entropy import cross_entropy, lose


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 7), (50, 69), (9, 1000)], ids=str)
def test_losses_and_gradients_are_those_of_double_precision(
    level: int, sizes: tuple[int, int], smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, words = sizes
    torch.manual_seed(words)
    scores, targets = torch.randn(rows, words) * 20, torch.randint(words, (rows,))
    exact = scores.double().requires_grad_()
    wanted = F.cross_entropy(exact, targets, label_smoothing=smoothing, reduction="sum")
    wanted.backward()
    for compiled in (True, False):
        if not compiled:
            monkeypatch.setattr(entropy, "load_unfollowed", lambda: None)
        slopes = scores.clone()
        found = lose(slopes, targets, smoothing)
        torch.testing.assert_close(found.double(), wanted.detach(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(slopes.double(), exact.grad, rtol=0, atol=2e-6)


def test_a_score_that_is_no_number_is_told(level: int) -> None:
    scores = torch.randn(4, 40)
    scores[2, 33] = torch.nan
    assert bool(lose(scores.clone(), torch.zeros(4, dtype=torch.long), 0.0).isnan())
    assert bool(lose(scores[:2].clone(), torch.zeros(2, dtype=torch.long), 0.0).isfinite())


def test_threads_change_nothing(level: int) -> None:
    torch.manual_seed(0)
    vectors, words = torch.randn(700, 32, requires_grad=True), torch.randn(300, 32, requires_grad=True)
    targets, before, found = torch.randint(300, (700,)), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            loss = cross_entropy(Factors(vectors, words), targets, 0.1)
            found.append((loss, *torch.autograd.grad(loss, (vectors, words))))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(one, two) for one, two in zip(found[0], other, strict=True))


@pytest.mark.parametrize("target", [-1, 9, 2**40])
def test_a_word_that_there_is_not_loses_no_number(level: int, target: int) -> None:
    scores = torch.randn(3, 9)
    assert lose(scores, torch.tensor([0, target, 8]), 0.1).isnan()
