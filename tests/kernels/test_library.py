"""Our own kernels give what torch's give, with every path that a machine may take."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.core.product import EXACT, ByteKernel, ByteProduct
from regard.decode.best import add_up, find_best
from regard.kernels import library as kernels
from regard.kernels.library import Library
from regard.parts.look import look

SIZES = [(1, 1, 1), (1, 512, 64), (2, 7, 65), (5, 130, 70), (6, 64, 63), (49, 100, 200), (97, 33, 129), (3, 2048, 1000)]


@pytest.fixture(scope="module")
def library() -> Library:
    found = kernels.find_library()
    if not isinstance(found, Library):
        pytest.skip(f"kernels: {found}")
    return found


def multiply_plainly(x: Tensor, product: ByteProduct, levels: int, bias: Tensor) -> Tensor:
    """The definition, in whole numbers: ((p qᵀ) · scale) · size + bias."""
    tiny = torch.finfo(torch.float32).tiny * 127
    size = x.abs().amax(1, keepdim=True).clamp_min(tiny) / levels
    whole = (x / size).round().long()
    return (whole @ product.plain.long().T).float() * product.scale * size + bias


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("level", [1, 2])
def test_a_product_is_the_same_to_the_bit(library: Library, level: int, sizes: tuple[int, int, int]) -> None:
    if level > library.level:
        pytest.skip(f"this machine has {kernels.LEVELS[library.level]}")
    rows, inputs, outputs = sizes
    torch.manual_seed(rows * inputs)
    product = ByteProduct(torch.randn(outputs, inputs))
    kernel = ByteKernel(library, product)
    kernel.level, kernel.levels = level, EXACT[level]
    x, bias = torch.randn(rows, inputs) * torch.logspace(-3, 3, rows)[:, None], torch.randn(outputs)
    x[0] = 0.0
    expected = multiply_plainly(x, product, kernel.levels, bias)
    assert torch.equal(kernel.multiply(x, bias), expected)
    assert torch.equal(kernel.multiply(x, None) + bias, expected)
    strided = torch.stack((x, x), 2)[..., 0]
    assert torch.equal(kernel.multiply(strided, bias), expected)


def test_torch_gives_the_same(library: Library) -> None:
    torch.manual_seed(0)
    product = ByteProduct(torch.randn(70, 130))
    x = torch.randn(9, 130)
    ours = product(x)
    assert product.kernel is not None
    product.kernel = None
    assert torch.equal(ours, product(x))


def test_a_product_that_was_used_can_be_copied(library: Library) -> None:
    product, x = ByteProduct(torch.randn(70, 130)), torch.randn(3, 130)
    before = product(x)
    for other in (deepcopy(product), pickle.loads(pickle.dumps(product))):
        assert torch.equal(other(x), before) and other.kernel is not product.kernel


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_what_is_no_number_stays_none(library: Library, odd: float) -> None:
    """A row that is broken says so, and its neighbours don't."""
    kernel = ByteKernel(library, ByteProduct(torch.randn(80, 50)))
    for place in (3, 49):
        x = torch.randn(4, 50)
        x[2, place] = odd
        finite = kernel.multiply(x, None).isfinite()
        assert not finite[2].any() and finite[[0, 1, 3]].all()


def test_rows_do_not_know_of_each_other(library: Library) -> None:
    kernel = ByteKernel(library, ByteProduct(torch.randn(200, 64)))
    x = torch.randn(100, 64)
    together = kernel.multiply(x, None)
    assert all(torch.equal(together[row : row + 1], kernel.multiply(x[row : row + 1], None)) for row in range(100))


def test_without_kernels_all_goes_on(tmp_path: Path) -> None:
    """Switched off, or without a compiler: torch's route, and the same answer."""
    code = (
        "import torch\nfrom regard.core.product import ByteProduct\nfrom regard.kernels.library import describe\n"
        "torch.manual_seed(0)\nproduct = ByteProduct(torch.randn(70, 130))\n"
        "print(describe(), product(torch.randn(9, 130)).double().sum().item())"
    )

    here = {name: value for name, value in os.environ.items() if name != kernels.SWITCH}  # whoever tests without them

    def ask(**told: str) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", code], env={**here, **told}, capture_output=True, text=True, check=True
        )
        words, number = done.stdout.strip().rsplit(" ", 1)
        return words, number

    usual = ask()
    assert ask(REGARD_KERNELS="off") == ("switched off", usual[1])
    told = ask(REGARD_KERNELS="avx2")
    assert told[0] == kernels.LEVELS[1] or usual[0] not in kernels.LEVELS.values()
    # rows have 7 bits there: each of 630 products is off by some hundredths
    assert float(told[1]) == pytest.approx(float(usual[1]), abs=5)
    nowhere = ask(PATH="", XDG_CACHE_HOME=str(tmp_path))
    assert nowhere == ("no compiler", usual[1]) or usual[0] == "not for this machine"


def test_a_folder_of_others_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands there is run, so nobody else may write there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = kernels.find_folder()
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o777)
    with pytest.raises(PermissionError):
        kernels.find_folder()


def test_a_library_is_built_once(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = kernels.build()
    assert first is not None and [path.name for path in first.parent.iterdir()] == [first.name]
    before = first.stat().st_mtime_ns
    assert kernels.build() == first and first.stat().st_mtime_ns == before


LOOKS = [(1, 4, 4, 1, 1, 16), (3, 4, 2, 1, 37, 32), (5, 8, 1, 1, 16, 64), (2, 6, 3, 5, 20, 48), (2, 2, 2, 8, 130, 112)]


@pytest.mark.parametrize("sizes", LOOKS, ids=str)
@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("masked", [False, True])
@torch.no_grad()
def test_a_look_is_that_of_torch(
    library: Library, masked: bool, level: int, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if level > library.level:
        pytest.skip(f"this machine has {kernels.LEVELS[library.level]}")
    monkeypatch.setattr(library, "level", level)
    rows, heads, groups, queries, keys, size = sizes
    torch.manual_seed(keys)
    query = torch.randn(rows, queries, heads, size).transpose(1, 2) * 3
    # of a longer buffer, as a state holds them
    key, value = (torch.randn(rows, groups, keys + 3, size)[:, :, :keys] for _ in range(2))
    allowed = torch.rand(rows, 1, queries, keys) < 0.7 if masked else None
    if allowed is not None:
        allowed[..., 0] = True
        allowed[0, 0, 0] = False  # who may look at nothing sees zeros
    tables = [allowed] if allowed is None else [allowed, allowed[:1, :, :1]]  # the second is one for all
    for table in tables:
        found = look(query, key, value, table, 0.3)
        assert found is not None
        grown = None if table is None else table.expand(rows, 1, queries, keys)
        theirs, exact = (
            F.scaled_dot_product_attention(
                query.to(kind), key.to(kind), value.to(kind), grown, scale=0.3, enable_gqa=groups < heads
            )
            for kind in (torch.float32, torch.float64)
        )
        # as near to what it should be as torch's own
        assert (found - exact).abs().max() <= 2 * (theirs - exact).abs().max() + 1e-6


@torch.no_grad()
def test_far_scores_and_broken_ones(library: Library) -> None:
    query, key, value = torch.ones(2, 1, 1, 16), torch.zeros(2, 1, 20, 16), torch.randn(2, 1, 20, 16)
    key[:, :, 3] = 40.0
    key[:, :, 4] = -90.0
    torch.testing.assert_close(look(query, key, value, None, 1.0)[:, :, 0], value[:, :, 3])  # type: ignore[index]
    key[1, 0, 7, 2] = float("nan")
    found = look(query, key, value, None, 1.0)
    assert found is not None and found[0].isfinite().all() and found[1].isnan().all()


def test_where_the_kernel_can_not_serve_it_says_so(library: Library) -> None:
    query, key = torch.randn(2, 4, 1, 32), torch.randn(2, 4, 9, 32)
    with torch.enable_grad():
        assert look(query, key, key, None, 1.0) is None
    with torch.no_grad(), FlopCounterMode(display=False):  # who counts would miss what we compute
        assert look(query, key, key, None, 1.0) is None
    with torch.no_grad():
        assert look(query, key, key, None, 1.0) is not None
        assert look(query.double(), key.double(), key.double(), None, 1.0) is None
        assert look(query[..., :15], key[..., :15], key[..., :15], None, 1.0) is None
        assert look(query.expand(2, 4, 9, 32), key, key, None, 1.0) is None
        assert look(query[..., ::2], key[..., ::2], key[..., ::2], None, 1.0) is None


@pytest.mark.parametrize("words", [1, 7, 16, 8000, 50257])
@pytest.mark.parametrize("level", [1, 2])
@torch.no_grad()
def test_totals_are_those_of_torch(library: Library, level: int, words: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if level > library.level:
        pytest.skip(f"this machine has {kernels.LEVELS[library.level]}")
    monkeypatch.setattr(library, "level", level)
    torch.manual_seed(words)
    logits = torch.randn(5, words + 3)[:, :words] * torch.tensor([0.0, 1.0, 10.0, 100.0, 1.0])[:, None]
    logits[4, words // 2] = -math.inf
    exact = logits.double().logsumexp(-1, keepdim=True)
    torch.testing.assert_close(add_up(logits), exact.float(), rtol=1e-6, atol=1e-6)


@torch.no_grad()
def test_totals_of_what_is_no_number(library: Library) -> None:
    logits = torch.randn(4, 100)
    logits[1, 50], logits[2, 99] = math.nan, math.inf
    logits[3] = -math.inf
    found = add_up(logits)[:, 0]
    assert found[0].isfinite() and found[1].isnan() and found[2] == math.inf and found[3] == -math.inf


@pytest.mark.parametrize("words", [5, 64, 640, 1000, 8000])
@pytest.mark.parametrize("count", [1, 6, 15])
def test_the_best_are_those_that_topk_finds(words: int, count: int) -> None:
    torch.manual_seed(words + count)
    scores = torch.randn(9, words)
    scores[3, ::2] = -math.inf
    values, places = find_best(scores, count)
    expected = scores.topk(min(count, words))
    assert torch.equal(values, expected.values) and torch.equal(scores.gather(1, places), values)


def test_without_a_place_to_keep_it_nothing_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    locked = tmp_path / "file"
    locked.write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(locked))
    monkeypatch.delenv(kernels.SWITCH, raising=False)
    assert kernels.find_library.__wrapped__() in ("not built", "not for this machine")
