"""Products of matrices by our own kernel: torch's numbers, forward and backward, whatever the sizes and steps."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core import matrix
from regard.core.dense import Dense, project
from regard.core.matrix import linear, matmul, multiply, multiply_rows
from regard.kernels.library import load

SIZES = [
    (1, 16, 64),
    (1, 1, 1),
    (5, 33, 70),
    (6, 512, 4),
    (30, 272, 192),
    (49, 513, 65),
    (97, 40, 2100),
    (200, 1030, 3),
    (300, 64, 66),
]


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our kernel for all sizes, on every machine that can run it."""
    library = load()
    if library is None or library.level < 2:
        pytest.skip("the kernel of products needs AVX-512")
    for name in ("find_faster", "find_reader"):
        monkeypatch.setattr(matrix, name, lambda: library)
    monkeypatch.setattr(matrix, "SMALL", 0)


def draw(rows: int, columns: int, turned: bool) -> Tensor:
    return torch.randn(columns, rows).T if turned else torch.randn(rows, columns)


def assert_near(found: Tensor, exact: Tensor) -> None:
    """As near as sums in single precision are to those in double."""
    assert found.dtype == torch.float32
    scale = float(exact.abs().max()) + 1.0
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=2e-6 * scale)


@pytest.mark.parametrize("rows, inputs, outputs", SIZES)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_products_are_those_of_double_precision(
    rows: int, inputs: int, outputs: int, first: bool, second: bool
) -> None:
    x, w, bias = draw(rows, inputs, first), draw(inputs, outputs, second), torch.randn(outputs)
    exact = x.double() @ w.double() + bias.double()
    assert_near(multiply(x, w, bias), exact)
    assert_near(multiply_rows(x, w.T, bias), exact)
    out = torch.ones(rows, outputs)
    assert_near(matmul(x, w, out=out, adds=True), exact - bias.double() + 1)
    assert_near(matmul(x, w, out=out), exact - bias.double())


@pytest.mark.parametrize("rows, inputs, outputs", SIZES)
def test_gradients_are_those_of_torch(rows: int, inputs: int, outputs: int) -> None:
    parts = torch.randn(rows, 1, inputs), torch.randn(outputs, inputs), torch.randn(outputs)
    slope = torch.randn(rows, 1, outputs)

    def differentiate(function: object, dtype: torch.dtype) -> tuple[Tensor, ...]:
        given = [part.to(dtype).requires_grad_() for part in parts]
        return torch.autograd.grad(function(*given), given, slope.to(dtype))  # type: ignore[operator]

    for mine, exact in zip(differentiate(linear, torch.float32), differentiate(F.linear, torch.float64), strict=True):
        assert_near(mine, exact)


def test_a_row_never_depends_on_its_neighbours_nor_on_threads() -> None:
    x, weight = torch.randn(400, 96), torch.randn(130, 96)
    whole, threads = multiply(x, weight.T, None), torch.get_num_threads()
    for rows in (1, 5, 200, 399):
        assert torch.equal(multiply(x[:rows], weight.T, None), whole[:rows])
    few, some = multiply_rows(x[:23], weight, None), multiply_rows(x[:150], weight, None)
    for rows in (1, 7, 22):
        assert torch.equal(multiply_rows(x[:rows], weight, None), few[:rows])
    assert torch.equal(multiply_rows(x[:24], weight, None), some[:24])
    try:
        torch.set_num_threads(1)
        assert torch.equal(multiply(x, weight.T, None), whole)
        assert torch.equal(multiply_rows(x[:150], weight, None), some)
        assert torch.equal(multiply_rows(x[:23], weight, None), few)
    finally:
        torch.set_num_threads(threads)


def test_what_is_no_number_stays_none() -> None:
    x, weight = torch.randn(300, 32), torch.randn(70, 32)
    x[7, 3], x[9, 4] = torch.nan, torch.inf
    for found in (multiply(x, weight.T, None), multiply_rows(x[:20], weight, None)):
        assert found[7].isnan().all()
        assert not found[9].isfinite().any()
        assert found[8].isfinite().all()


def test_gradients_of_gradients_can_be_had() -> None:
    x, weight = torch.randn(4, 8, requires_grad=True), torch.randn(5, 8, requires_grad=True)
    slope = torch.autograd.grad(linear(x, weight).square().sum(), x, create_graph=True)[0]
    twice = torch.autograd.grad(slope.square().sum(), weight)[0]
    slope = torch.autograd.grad(F.linear(x, weight).square().sum(), x, create_graph=True)[0]
    torch.testing.assert_close(twice, torch.autograd.grad(slope.square().sum(), weight)[0], rtol=1e-4, atol=1e-3)


def test_who_follows_torch_sees_torch_s_own() -> None:
    dense = Dense(64, 64)
    x = torch.randn(8, 64)
    with torch.autocast("cpu", torch.bfloat16):
        assert dense(x).dtype == torch.bfloat16
    each = torch.func.vmap(dense)(x)
    torch.testing.assert_close(each, dense(x))
    assert dense.double()(x.double()).dtype == torch.float64


def test_several_products_of_the_same_rows_are_each_their_own() -> None:
    torch.manual_seed(0)
    layers = [Dense(24, 40), Dense(24, 16, bias=False), Dense(24, 24)]
    x = torch.randn(5, 70, 24, requires_grad=True)
    slopes = [torch.randn(5, 70, layer.out_features) for layer in layers]
    weights = [weight for layer in layers for weight in layer.parameters()]
    together = torch.autograd.grad(project(x, layers), [x, *weights], slopes)
    apart = torch.autograd.grad([layer(x) for layer in layers], [x, *weights], slopes)
    for one, other in zip(together, apart, strict=True):
        assert_near(one, other.double())


def test_products_of_watched_layers_are_called_one_by_one() -> None:
    layers, heard = [Dense(24, 40), Dense(24, 16)], []
    x = torch.randn(90, 24, requires_grad=True)
    layers[1].register_forward_hook(lambda *_: heard.append(1))
    found = project(x, layers)
    assert heard and all(torch.equal(one, layer(x)) for one, layer in zip(found, layers, strict=True))


def test_only_gradients_that_are_wanted_are_made() -> None:
    layers, x = [Dense(24, 40), Dense(24, 16)], torch.randn(90, 24)
    layers[0].weight.requires_grad_(False)
    sum(part.sum() for part in project(x, layers)).backward()  # type: ignore[union-attr]
    assert layers[0].weight.grad is None and layers[0].bias.grad is not None and layers[1].weight.grad is not None
