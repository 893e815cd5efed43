"""Products with weights of 16 bits by our own kernels: sums in single precision, by every path of a machine."""

from __future__ import annotations

import pickle
from copy import deepcopy

import pytest
import torch
from torch import Tensor

from regard.core.product import BrainKernel, BrainProduct, HalfKernel, HalfProduct, Kernel
from regard.kernels.library import crowd
from tests.kernels.test_library import SIZES

Sixteen = type[BrainProduct] | type[HalfProduct]
# half of the distance from 1 to the next number, of what torch rounds
UNITS: dict[Sixteen, float] = {BrainProduct: 2.0**-8, HalfProduct: 2.0**-20}


@pytest.fixture(params=[BrainProduct, HalfProduct])
def kind(request: pytest.FixtureRequest) -> Sixteen:
    found: Sixteen = request.param
    return found


def make(kind: Sixteen, outputs: int, inputs: int) -> tuple[BrainProduct | HalfProduct, Kernel]:
    product = kind(torch.randn(outputs, inputs))
    kernel = product.kernel
    assert isinstance(kernel, BrainKernel if kind is BrainProduct else HalfKernel)
    return product, kernel


def read_rows(kernel: Kernel, x: Tensor) -> Tensor:
    """Rows as a path multiplies them, in double precision."""
    rounds = isinstance(kernel, BrainKernel) and kernel.functions.regard_rounds_brains(kernel.level)
    return (x.bfloat16() if rounds else x).double()


@pytest.mark.parametrize("sizes", [*SIZES, (0, 5, 7), (8, 3, 1)], ids=str)
def test_only_what_comes_in_is_rounded(kind: Sixteen, level: int, sizes: tuple[int, int, int]) -> None:
    rows, inputs, outputs = sizes
    torch.manual_seed(rows * inputs)
    product, kernel = make(kind, outputs, inputs)
    x, bias = torch.randn(rows, inputs) * torch.logspace(-3, 3, rows)[:, None], torch.randn(outputs)
    exact, weight = read_rows(kernel, x), product.plain.double().T
    far = 1e-6 * (exact.abs() @ weight.abs() + bias.abs())
    assert ((kernel.multiply(x, bias) - (exact @ weight + bias)).abs() <= far).all()
    assert torch.equal(kernel.multiply(x, None) + bias, kernel.multiply(x, bias))
    strided = torch.stack((x, x), 2)[..., 0]
    assert torch.equal(kernel.multiply(strided, bias), kernel.multiply(x, bias))


def test_a_sum_has_more_bits_than_its_terms(kind: Sixteen, level: int) -> None:
    """257 isn't a number of bf16, nor 2,049 one of fp16, and 1 + 1 + … ends before that there."""
    for count in (257, 2049):
        assert kind(torch.ones(3, count))(torch.ones(2, count)).eq(count).all()


def test_torch_gives_the_same_but_for_what_it_rounds(kind: Sixteen, level: int) -> None:
    torch.manual_seed(0)
    product, _ = make(kind, 70, 130)
    x = torch.randn(9, 130)
    ours, most = product(x), x.abs() @ product.plain.float().abs().T
    product.kernel = None
    assert ((product(x) - ours).abs() <= UNITS[kind] * (ours.abs() + most)).all()


@pytest.mark.parametrize("most", [1, 3, 6, 7, 50])
def test_rows_do_not_know_of_each_other(kind: Sixteen, level: int, most: int) -> None:
    torch.manual_seed(0)
    _, kernel = make(kind, 200, 65)
    x = torch.randn(100, 65)
    together = kernel.multiply(x, None)
    assert torch.equal(together, torch.cat([kernel.multiply(part, None) for part in x.split(most)]))


def test_an_answer_does_not_depend_on_threads(kind: Sixteen, level: int, several: None) -> None:
    torch.manual_seed(0)
    _, kernel = make(kind, 300, 129)
    x, found = torch.randn(64, 129), list[Tensor]()
    for alone in (False, True):
        crowd(alone)
        found.append(kernel.multiply(x, None))
    assert torch.equal(*found)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("nan")])
def test_what_is_no_number_stays_none(kind: Sixteen, level: int, odd: float) -> None:
    """A row that is broken says so, and its neighbours don't."""
    torch.manual_seed(0)
    _, kernel = make(kind, 80, 51)
    for place in (3, 50):
        x = torch.randn(4, 51)
        x[2, place] = odd
        finite = kernel.multiply(x, None).isfinite()
        assert not finite[2].any() and finite[[0, 1, 3]].all()


def test_what_is_no_number_with_all_bits_stays_none(kind: Sixteen, level: int) -> None:
    """Rounding it as if it were a number would make it 0."""
    _, kernel = make(kind, 8, 16)
    x = torch.full((1, 16), -1, dtype=torch.int32).view(torch.float32)
    assert kernel.multiply(x, None).isnan().all()


def test_a_broken_weight_breaks_its_own_output(kind: Sixteen, level: int) -> None:
    weight = torch.randn(70, 33)
    weight[5, 32] = float("nan")
    found = kind(weight)(torch.randn(3, 33))
    assert found[:, 5].isnan().all() and found.isnan().sum() == 3


def test_a_product_that_was_used_can_be_copied(kind: Sixteen, level: int) -> None:
    product, kernel = make(kind, 70, 130)
    x = torch.randn(3, 130)
    before = product(x)
    for other in (deepcopy(product), pickle.loads(pickle.dumps(product))):
        assert "kernel" not in vars(other)
        assert torch.equal(other(x), before) and other.kernel is not kernel


def test_weights_without_memory_need_none(kind: Sixteen) -> None:
    product = kind(torch.empty(2**20, 2**20, device="meta"))
    assert product.plain.is_meta and "kernel" not in vars(product)


@torch.no_grad()
def test_without_kernels_it_is_torchs(kind: Sixteen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.core.product.load", lambda: None)
    product, x = kind(torch.randn(70, 130)), torch.randn(9, 130)
    assert product.kernel is None
    exact = x.bfloat16() @ product.plain.T if kind is BrainProduct else x @ product.plain.float().T
    torch.testing.assert_close(product(x), exact.float(), rtol=1e-5, atol=1e-5)


def test_every_half_is_read_as_it_is(level: int) -> None:
    """The small ones, which have fewer digits, too."""
    bits = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(torch.float16)
    plain = bits[bits.isfinite()][:, None]
    found = HalfProduct(plain.float())(torch.ones(1, 1))
    assert torch.equal(found[0], plain[:, 0].float())
