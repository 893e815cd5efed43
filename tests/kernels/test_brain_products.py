"""Products with weights of bf16 by our own kernel: sums in single precision, by every path that a machine may take."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from copy import deepcopy

import pytest
import torch
from torch import Tensor

from regard.core.product import BrainKernel, BrainProduct
from regard.kernels import library as kernels
from regard.kernels.library import Library, crowd
from tests.kernels.test_library import SIZES

UNIT = 2.0**-8  # half of the distance from 1 to the next number of bf16


def make(outputs: int, inputs: int) -> tuple[BrainProduct, BrainKernel]:
    product = BrainProduct(torch.randn(outputs, inputs))
    kernel = product.kernel
    assert isinstance(kernel, BrainKernel)
    return product, kernel


def read_rows(kernel: BrainKernel, x: Tensor) -> Tensor:
    """Rows as a path multiplies them, in double precision."""
    return (x.bfloat16() if kernel.functions.regard_rounds_brains(kernel.level) else x).double()


@pytest.mark.parametrize("sizes", [*SIZES, (0, 5, 7), (8, 3, 1)], ids=str)
def test_only_what_comes_in_is_rounded(level: int, sizes: tuple[int, int, int]) -> None:
    rows, inputs, outputs = sizes
    torch.manual_seed(rows * inputs)
    product, kernel = make(outputs, inputs)
    x, bias = torch.randn(rows, inputs) * torch.logspace(-3, 3, rows)[:, None], torch.randn(outputs)
    exact, weight = read_rows(kernel, x), product.plain.double().T
    far = 1e-6 * (exact.abs() @ weight.abs() + bias.abs())
    assert ((kernel.multiply(x, bias) - (exact @ weight + bias)).abs() <= far).all()
    assert torch.equal(kernel.multiply(x, None) + bias, kernel.multiply(x, bias))
    strided = torch.stack((x, x), 2)[..., 0]
    assert torch.equal(kernel.multiply(strided, bias), kernel.multiply(x, bias))


def test_a_sum_has_more_bits_than_its_terms(level: int) -> None:
    """257 isn't a number of bf16, and 1 + 1 + … ends at 256 there."""
    product = BrainProduct(torch.ones(3, 257))
    assert product(torch.ones(2, 257)).eq(257.0).all()


def test_torch_gives_the_same_but_for_what_it_rounds(level: int) -> None:
    torch.manual_seed(0)
    product, _ = make(70, 130)
    x = torch.randn(9, 130)
    ours, most = product(x), x.abs() @ product.plain.float().abs().T
    product.kernel = None
    assert ((product(x) - ours).abs() <= UNIT * (ours.abs() + most)).all()


@pytest.mark.parametrize("most", [1, 3, 6, 7, 50])
def test_rows_do_not_know_of_each_other(level: int, most: int) -> None:
    torch.manual_seed(0)
    _, kernel = make(200, 65)
    x = torch.randn(100, 65)
    together = kernel.multiply(x, None)
    assert torch.equal(together, torch.cat([kernel.multiply(part, None) for part in x.split(most)]))


@pytest.fixture
def several() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    crowd(False)
    torch.set_num_threads(before)


def test_an_answer_does_not_depend_on_threads(level: int, several: None) -> None:
    torch.manual_seed(0)
    _, kernel = make(300, 129)
    x, found = torch.randn(64, 129), list[Tensor]()
    for alone in (False, True):
        crowd(alone)
        found.append(kernel.multiply(x, None))
    assert torch.equal(*found)


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("nan")])
def test_what_is_no_number_stays_none(level: int, odd: float) -> None:
    """A row that is broken says so, and its neighbours don't."""
    torch.manual_seed(0)
    _, kernel = make(80, 51)
    for place in (3, 50):
        x = torch.randn(4, 51)
        x[2, place] = odd
        finite = kernel.multiply(x, None).isfinite()
        assert not finite[2].any() and finite[[0, 1, 3]].all()


def test_what_is_no_number_with_all_bits_stays_none(level: int) -> None:
    """Rounding it as if it were a number would make it 0."""
    _, kernel = make(8, 16)
    x = torch.full((1, 16), -1, dtype=torch.int32).view(torch.float32)
    assert kernel.multiply(x, None).isnan().all()


def test_a_broken_weight_breaks_its_own_output(level: int) -> None:
    weight = torch.randn(70, 33)
    weight[5, 32] = float("nan")
    found = BrainProduct(weight)(torch.randn(3, 33))
    assert found[:, 5].isnan().all() and found.isnan().sum() == 3


def test_a_product_that_was_used_can_be_copied(level: int) -> None:
    product, kernel = make(70, 130)
    x = torch.randn(3, 130)
    before = product(x)
    for other in (deepcopy(product), pickle.loads(pickle.dumps(product))):
        assert "kernel" not in vars(other)
        assert torch.equal(other(x), before) and other.kernel is not kernel


def test_weights_without_memory_need_none() -> None:
    product = BrainProduct(torch.empty(2**20, 2**20, device="meta"))
    assert product.plain.is_meta and "kernel" not in vars(product)


def test_without_kernels_it_is_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.core.product.load", lambda: None)
    product, x = BrainProduct(torch.randn(70, 130)), torch.randn(9, 130)
    assert product.kernel is None
    assert torch.equal(product(x), (x.bfloat16() @ product.plain.T).float())


def test_the_better_path_is_taken() -> None:
    """Rows are rounded where the processor multiplies what is rounded, and nowhere else."""
    found = kernels.find_library()
    if not isinstance(found, Library):
        pytest.skip(f"kernels: {found}")
    assert not found.functions.regard_rounds_brains(1)
    if found.functions.regard_rounds_brains(found.level):
        assert torch.cpu._is_avx512_bf16_supported()
