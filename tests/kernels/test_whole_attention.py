"""Attention of whole sequences by our own kernel against torch's in double precision, forward and back."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core import matrix
from regard.core.mask import choose
from regard.kernels.library import load
from regard.parts import fused
from regard.parts.fused import attend_openly, attend_whole

# rows, heads, heads that share keys, queries, keys, numbers of a head
SIZES = [
    (1, 1, 1, 1, 1, 16),
    (2, 4, 4, 7, 7, 32),
    (3, 4, 2, 24, 33, 16),
    (2, 6, 1, 25, 16, 48),
    (2, 2, 2, 61, 130, 64),
    (1, 2, 2, 100, 100, 96),
]


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our kernel on every machine that can run it."""
    library = load()
    if library is None or library.level < 2:
        pytest.skip("the kernel of whole sequences needs AVX-512")
    monkeypatch.setattr(fused, "find_faster", lambda: library)
    for name in ("find_faster", "find_reader"):
        monkeypatch.setattr(matrix, name, lambda: library)


def draw(sizes: tuple[int, ...], seed: int = 0) -> list[Tensor]:
    """Queries, keys, values and a slope, laid out as projections leave them."""
    torch.manual_seed(seed)
    rows, heads, groups, queries, keys, size = sizes
    shapes = ((queries, heads), (keys, groups), (keys, groups), (queries, heads))
    return [torch.randn(rows, *shape, size).transpose(1, 2) for shape in shapes]


def compare(parts: list[Tensor], allowed: Tensor | None, causal: bool, scale: float = 0.3) -> None:
    *single, slope = parts
    leaves = query, key, value = [part.clone().requires_grad_() for part in single]
    exact = [part.double().requires_grad_() for part in single]
    found = attend_whole(query, key, value, allowed, scale, causal)
    assert found is not None
    grouped = key.shape[1] < query.shape[1]
    query, key, value = exact
    wanted = F.scaled_dot_product_attention(
        query, key, value, allowed, is_causal=causal, scale=scale, enable_gqa=grouped
    )
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=1e-5)
    gradients = zip(
        torch.autograd.grad(found, leaves, slope), torch.autograd.grad(wanted, exact, slope.double()), strict=True
    )
    for one, other in gradients:
        torch.testing.assert_close(one.double(), other, rtol=0, atol=3e-6 * (1 + float(other.abs().max())))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_all_see_all(sizes: tuple[int, ...]) -> None:
    compare(draw(sizes), None, causal=False)


@pytest.mark.parametrize("sizes", [sizes for sizes in SIZES if sizes[3] == sizes[4]], ids=str)
def test_nobody_sees_what_comes_later(sizes: tuple[int, ...]) -> None:
    compare(draw(sizes), None, causal=True)


@pytest.mark.parametrize("kind", ["pads", "pairs", "one for all", "turned"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_what_is_hidden_counts_for_nothing(sizes: tuple[int, ...], kind: str) -> None:
    rows, _, _, queries, keys, _ = sizes
    parts = draw(sizes)
    shape = {"pads": (rows, 1, 1, keys), "one for all": (1, 1, queries, keys)}.get(kind, (rows, 1, queries, keys))
    allowed = torch.rand(shape) < 0.6
    if kind == "turned":  # keys aren't side by side
        allowed = (torch.rand(rows, 1, keys, queries) < 0.6).transpose(2, 3)
    allowed[..., 0] = True
    compare(parts, allowed, causal=False)


def test_one_who_may_look_at_nothing_sees_zeros_and_learns_nothing() -> None:
    query, key, value, slope = (part.requires_grad_() for part in draw((2, 2, 2, 5, 9, 16)))
    allowed = torch.ones(2, 1, 5, 9, dtype=torch.bool)
    allowed[1, :, 3] = False
    found = attend_whole(query, key, value, allowed, 0.3, False)
    assert found is not None and not found[1, :, 3].any() and found[0].abs().sum() > 0
    (learned,) = torch.autograd.grad(found, query, slope)
    assert not learned[1, :, 3].any() and learned.isfinite().all()


def test_a_row_is_seen_alike_in_any_company() -> None:
    query, key, value, _ = draw((5, 4, 4, 30, 30, 32))
    whole = attend_whole(query, key, value, None, 0.2, True)
    alone = attend_whole(query[2:3], key[2:3], value[2:3], None, 0.2, True)
    assert whole is not None and alone is not None and torch.equal(whole[2:3], alone)


def test_what_is_no_number_is_told_and_goes_no_further() -> None:
    query, key, value, _ = draw((2, 2, 2, 6, 6, 16))
    query[0, 0, 2, 3] = math.nan
    found = attend_whole(query, key, value, None, 0.3, True)
    assert found is not None
    assert found[0, 0, 2].isnan().all() and found.isnan().sum() == 16


def test_gradients_of_gradients_are_those_of_plain_operations() -> None:
    parts = query, key, value = [part.requires_grad_() for part in draw((1, 2, 1, 4, 4, 16))[:3]]
    found = []
    for attend in (attend_whole, attend_openly):
        seen = attend(query, key, value, None, 0.3, True)
        assert seen is not None
        slopes = torch.autograd.grad(seen.square().sum(), parts, create_graph=True)
        total = torch.stack([slope.square().sum() for slope in slopes]).sum()
        found.append(torch.autograd.grad(total, parts))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_others_are_left_to_torch() -> None:
    query, key, value, _ = draw((1, 2, 2, 4, 4, 16))
    assert attend_whole(query[..., :15], key[..., :15], value[..., :15], None, 0.3, False) is None
    assert attend_whole(query.double(), key.double(), value.double(), None, 0.3, False) is None
    assert attend_whole(query, key, value, torch.zeros(1, 2, 4, 4, dtype=torch.bool), 0.3, False) is None
    assert attend_whole(query, key, value, torch.zeros(1, 1, 4, 4), 0.3, False) is None


def test_choosing_is_indexing() -> None:
    x = torch.randn(3, 5, 4, requires_grad=True)
    for kept in (torch.rand(3, 5) < 0.5, torch.ones(3, 5, dtype=torch.bool), torch.zeros(3, 5, dtype=torch.bool)):
        assert torch.equal(choose(x, kept), x[kept])
        slope = torch.randn_like(x[kept])
        (one,), (other,) = (torch.autograd.grad(part, x, slope) for part in (choose(x, kept), x[kept]))
        assert torch.equal(one, other)
