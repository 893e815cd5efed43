"""The loss that never makes its table of scores, against torch's own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from regard.core.factors import Factors
from regard.tasks import entropy
from regard.tasks.entropy import cross_entropy, pieces


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 50])
def test_loss_and_gradients_are_torchs(
    smoothing: float, with_bias: bool, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entropy, "ROWS", 20)
    chance = torch.Generator().manual_seed(rows)
    vectors = torch.randn(rows, 8, generator=chance, requires_grad=True)
    words = torch.randn(30, 8, generator=chance, requires_grad=True)
    bias = torch.randn(30, generator=chance, requires_grad=True) if with_bias else None
    targets = torch.randint(30, (rows,), generator=chance)
    leaves = [leaf for leaf in (vectors, words, bias) if leaf is not None]
    logits = F.linear(vectors, words, bias)
    expected = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    found = cross_entropy(Factors(vectors, words, bias), targets, smoothing)
    torch.testing.assert_close(found, expected)
    wanted = torch.autograd.grad(expected * 0.7, leaves)
    torch.testing.assert_close(torch.autograd.grad(found * 0.7, leaves), wanted)
    with torch.no_grad():
        torch.testing.assert_close(cross_entropy(Factors(vectors, words, bias), targets, smoothing), expected)


def test_scores_that_are_large_do_not_overflow() -> None:
    vectors, words = torch.full((3, 4), 100.0), torch.randn(9, 4, generator=torch.Generator().manual_seed(0)) * 100
    targets = torch.tensor([0, 4, 8])
    expected = F.cross_entropy(vectors @ words.T, targets, reduction="sum")
    torch.testing.assert_close(cross_entropy(Factors(vectors, words), targets), expected)


def test_memory_does_not_grow_with_the_vocabulary_times_the_rows() -> None:
    made = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            found = func(*args, **(kwargs or {}))
            if isinstance(found, torch.Tensor):
                made.append(found.numel())
            return found

    vectors, words = torch.randn(5000, 4, requires_grad=True), torch.randn(500, 4, requires_grad=True)
    with Watch():
        cross_entropy(Factors(vectors, words), torch.zeros(5000, dtype=torch.long), 0.1).backward()
    assert max(made) <= entropy.ROWS * 500


def test_pieces_cover_all_rows_once() -> None:
    for count in (1, 1024, 1025, 5000):
        rows = [row for piece in pieces(count) for row in range(piece.start, piece.stop)]
        assert rows == list(range(count))
        assert max(piece.stop - piece.start for piece in pieces(count)) <= entropy.ROWS
