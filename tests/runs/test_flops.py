"""Operations that are counted equal those that are reckoned by hand, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config import Document
from regard.core.factors import Factors
from regard.runs.flops import count, count_steps
from regard.runs.folder import Run
from regard.tasks.entropy import cross_entropy

BATCH, TIME, INPUTS, SIZE = 3, 7, 8, 16
TREE = {
    "task": "algorithm",
    "corpus": {"kind": "copy", "train": 40, "validation": 8, "test": 0},
    "tokenizer": {"pieces": "given"},
    "batches": {"rows": 4},
    "model": {"kind": "decoder-tiny", "depth": 1, "width": 16, "heads": 2},
    "train": {"steps": 3, "evaluate": 0},
}


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def count_both(work: Callable[[], Tensor]) -> tuple[int, int]:
    """Of a computation, and of its gradient."""
    with count() as tally:
        found = work()
        forward = tally.flops
        found.sum().backward()
        return forward, tally.flops - forward


def test_a_linear_map() -> None:
    layer, x = nn.Linear(INPUTS, SIZE), draw(BATCH, TIME, INPUTS)
    forward = 2 * BATCH * TIME * INPUTS * SIZE
    assert count_both(lambda: layer(x)) == (forward, 2 * forward)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])  # without, the fused kernel; with, open products
def test_attention(causal: bool, dropout: float) -> None:
    heads, keys = 4, TIME if causal else 5
    q, k, v = draw(BATCH, heads, TIME, INPUTS), draw(BATCH, heads, keys, INPUTS), draw(BATCH, heads, keys, INPUTS)
    product = 2 * BATCH * heads * TIME * keys * INPUTS
    back = 5 if dropout == 0 else 4  # the fused kernel computes the scores again
    work = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal, dropout_p=dropout)  # noqa: E731
    assert count_both(work) == (2 * product, back * product)


@pytest.mark.parametrize(("kind", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
@pytest.mark.parametrize("both_ways", [False, True])
def test_recurrences(kind: type[nn.Module], gates: int, both_ways: bool) -> None:
    cell, x = kind(INPUTS, SIZE, batch_first=True, bidirectional=both_ways), draw(BATCH, TIME, INPUTS)
    step = 2 * BATCH * gates * SIZE * (INPUTS + SIZE) * (1 + both_ways)
    forward, back = count_both(lambda: cell(x)[0])
    assert forward == TIME * step
    # nobody asks for the gradient of the first state, which is zeros; the fused kernel computes it all the same
    unasked = 0 if kind is nn.LSTM else 2 * BATCH * gates * SIZE * SIZE * (1 + both_ways)
    assert back == 2 * forward - unasked


@pytest.mark.parametrize("groups", [1, 4])
def test_a_convolution(groups: int) -> None:
    layer, x = nn.Conv1d(INPUTS, SIZE, 3, padding=1, groups=groups), draw(BATCH, INPUTS, TIME)
    forward = 2 * BATCH * TIME * 3 * SIZE * INPUTS // groups
    assert count_both(lambda: layer(x)) == (forward, 2 * forward)


def test_the_loss_computes_its_gradient_on_the_way() -> None:
    rows, words = 11, 13
    factors = Factors(draw(rows, SIZE), draw(words, SIZE), None)
    targets = torch.randint(words, (rows,))
    product = 2 * rows * words * SIZE
    assert count_both(lambda: cross_entropy(factors, targets)) == (3 * product, 0)


def test_complex_products_are_four_real_ones() -> None:
    a, b = torch.randn(3, 4, dtype=torch.complex64), torch.randn(4, 5, dtype=torch.complex64)
    with count() as tally:
        _ = a @ b
    assert tally.flops == 4 * 2 * 3 * 4 * 5


def test_a_fourier_transform() -> None:
    with count() as tally:
        torch.fft.irfft(torch.fft.rfft(torch.randn(6, 32)))
    assert tally.flops == 2 * 6 * 2.5 * 32 * 5


def test_steps_of_a_run_are_counted_and_nothing_is_kept(tmp_path: Path) -> None:
    run = Run.begin(Document({**TREE, "out": str(tmp_path / "run")}))
    before = sorted(path.name for path in (tmp_path / "run").rglob("*"))
    one, two = count_steps(run, 1), count_steps(run, 2)
    assert one.steps == 1 and two.steps == 2 and two.flops > one.flops and two.tokens > one.tokens
    assert count_steps(run, 2) == two  # the same batches, to the last one
    assert sorted(path.name for path in (tmp_path / "run").rglob("*")) == before
