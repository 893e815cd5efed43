"""Rows by weights as they lie, in single precision: by every path of a machine, whatever the sizes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core import matrix
from regard.core.matrix import linear, multiply_rows
from regard.kernels import library as kernels
from regard.kernels.library import Library, crowd
from tests.kernels.test_library import SIZES

# rows around those from which on a panel of weights is turned round, and inputs around a panel's
MORE = [(23, 65, 130), (24, 65, 130), (25, 257, 63), (31, 256, 17), (64, 8, 8), (70, 600, 200), (1, 7, 3), (2, 9, 1)]


@pytest.fixture(autouse=True)
def always(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Our kernel for all sizes and on every maker's processors; with AVX2 alone where that is asked."""
    found = kernels.find_library()
    assert isinstance(found, Library)
    monkeypatch.setattr(matrix, "find_reader", lambda: found)
    monkeypatch.setattr(matrix, "find_faster", lambda: None)
    monkeypatch.setattr(matrix, "SMALL", 0)


@pytest.mark.parametrize("sizes", [*SIZES, *MORE], ids=str)
@torch.no_grad()
def test_products_are_those_of_double_precision(sizes: tuple[int, int, int]) -> None:
    rows, inputs, outputs = sizes
    torch.manual_seed(rows * inputs)
    x, weight, bias = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    exact, size = x.double() @ weight.double().T, x.abs().double() @ weight.abs().double().T + 1
    assert ((multiply_rows(x, weight, None) - exact).abs() <= 1e-6 * size).all()
    assert ((linear(x, weight, bias) - exact - bias).abs() <= 2e-6 * size).all()


def test_an_answer_depends_on_no_neighbour_and_no_thread(several: None) -> None:
    torch.manual_seed(0)
    x, weight, found = torch.randn(90, 300), torch.randn(200, 300), list[Tensor]()
    for alone in (False, True):
        crowd(alone)
        found.append(multiply_rows(x, weight, None))
    assert torch.equal(*found)
    assert torch.equal(multiply_rows(x[:31], weight, None), found[0][:31])
    few = multiply_rows(x[:20], weight, None)
    assert torch.equal(torch.cat([multiply_rows(part, weight, None) for part in x[:20].split(3)]), few)


def test_what_is_no_number_stays_none() -> None:
    weight = torch.randn(70, 33)
    for rows in (4, 40):
        x = torch.randn(rows, 33)
        x[2, 32], x[3, 0] = torch.nan, torch.inf
        found = multiply_rows(x, weight, None)
        assert found[2].isnan().all() and not found[3].isfinite().any() and found[:2].isfinite().all()


@torch.no_grad()
def test_weights_that_lie_across_are_torchs() -> None:
    x, weight = torch.randn(30, 40), torch.randn(40, 50).T
    torch.testing.assert_close(linear(x, weight), F.linear(x, weight))


def test_what_learns_is_torchs_without_avx_512() -> None:
    x, weight = torch.randn(30, 40), torch.randn(50, 40, requires_grad=True)
    assert linear(x, weight).grad_fn is not None
    with torch.no_grad():
        torch.testing.assert_close(linear(x, weight), F.linear(x, weight), rtol=1e-4, atol=1e-4)
