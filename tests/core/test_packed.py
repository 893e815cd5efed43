"""Packed weights: each product against its own arithmetic in double precision, rows apart from their neighbours, and
models that answer as they did.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from regard.core.dense import Dense, Lookup
from regard.core.packed import PackedDense, PackedLookup, find_precision, pack_model, unpack_model
from regard.core.product import GROUP, PRECISIONS, PRODUCTS, ByteProduct, Precision, count_levels
from regard.errors import InputError, SpecError
from regard.models import preset

PACKED = [precision for precision in PRECISIONS if precision != "fp32"]
# how much of a product's size rounding may change: bits of the mantissa, or half a step of the whole numbers
FAR = {"fp16": 2e-3, "bf16": 1e-2, "int8": 2e-2, "int4": 0.2}


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("precision", PACKED)
@pytest.mark.parametrize("shape", [(128, 128), (130, 100), (1, 64), (7, 33)])
def test_a_product_is_near_that_of_whole_weights(precision: Precision, shape: tuple[int, int]) -> None:
    weight, x = draw(*shape), draw(5, shape[1], seed=1)
    product = PRODUCTS[precision](weight)
    exact = x.double() @ weight.double().T
    assert product(x).dtype == torch.float32 and product(x).shape == (5, shape[0])
    assert float((product(x) - exact).norm() / exact.norm()) < FAR[precision]
    # and nearer to what the packed weights say of themselves
    own = x.double() @ product.unpack().double().T
    assert float((product(x) - own).norm() / own.norm()) < {"int8": 1e-2 * 127 / count_levels()}.get(precision, 1e-2)


def test_bytes_are_multiplied_exactly() -> None:
    weight, x = draw(70, 50), draw(6, 50, seed=1)
    product = ByteProduct(weight)
    size = x.abs().amax(1, keepdim=True) / product.levels
    whole = torch.div(x, size).round().double()
    expected = whole @ product.plain.double().T * product.scale.double() * size.double()
    torch.testing.assert_close(product(x).double(), expected, rtol=1e-6, atol=1e-6)


def test_the_largest_numbers_are_not_cut_off() -> None:
    """Two products of 8 bits don't fit 16: a processor that adds them there says less than the truth."""
    product = ByteProduct(torch.ones(64, 256))
    torch.testing.assert_close(product(torch.full((3, 256), 2.0)), torch.full((3, 64), 512.0))
    torch.testing.assert_close(product(torch.full((3, 256), -2.0)), torch.full((3, 64), -512.0))


@pytest.mark.parametrize("precision", PACKED)
def test_a_row_does_not_depend_on_its_neighbours(precision: Precision) -> None:
    product, x = PRODUCTS[precision](draw(96, 64)), draw(9, 64, seed=1)
    x[3] *= 1e4
    x[4] = 0.0
    together = product(x)
    for row in range(9):
        assert torch.allclose(product(x[row : row + 1])[0], together[row], rtol=1e-5, atol=1e-6)
    assert torch.equal(together[4], torch.zeros(96)) or float(together[4].abs().max()) < 1e-6


@pytest.mark.parametrize("precision", PACKED)
def test_what_is_not_finite_stays_so(precision: Precision) -> None:
    x = draw(3, 64)
    x[1, 5] = torch.nan
    found = PRODUCTS[precision](draw(32, 64))(x)
    assert found[1].isnan().all() and found[0].isfinite().all()


def test_four_bits_have_a_scale_for_each_group() -> None:
    weight = torch.cat((draw(16, GROUP) * 1e-3, draw(16, GROUP, seed=1) * 10), 1)
    unpacked = PRODUCTS["int4"](weight).unpack()
    for part in (slice(0, GROUP), slice(GROUP, 2 * GROUP)):
        step = (weight[:, part].amax(1) - weight[:, part].amin(1)) / 15
        assert ((unpacked[:, part] - weight[:, part]).abs() <= 0.7 * step[:, None] + 1e-7).all()


@pytest.mark.parametrize("precision", PACKED)
def test_tables_are_looked_up_and_compared(precision: Precision) -> None:
    table = Lookup(300, 64)
    packed = PackedLookup(table, PRODUCTS[precision])
    numbers = torch.tensor([[0, 299], [7, 7]])
    assert torch.equal(packed(numbers), packed.matrix()[numbers])
    whole = table(numbers).detach()
    error = (packed(numbers) - whole).norm() / whole.norm()
    assert float(error) < FAR[precision]
    x = draw(2, 3, 64)
    assert packed.score(x).shape == (2, 3, 300)


def test_who_shares_a_table_goes_on_sharing_it() -> None:
    model = preset("transformer-tiny", vocabulary=600).build().eval()
    count = model.parameter_count()
    packing = pack_model(model, "int8")
    assert model.parameter_count() == count == packing.packed + packing.whole
    assert model.decoder is not None and model.encoder is not None and model.head is not None
    tables = {id(model.decoder.embedding.tokens), id(model.encoder.embedding.tokens), id(model.head.words)}
    assert len(tables) == 1 and isinstance(model.head.words, PackedLookup)
    assert packing.share > 0.9
    assert not any(isinstance(part, Dense) and part.weight.numel() >= 2**14 for part in model.modules())


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8"])
@pytest.mark.parametrize("kind", ["gpt2", "llama-tiny", "deepseek-tiny", "hybrid", "lstm"])
def test_models_score_as_they_did(kind: str, precision: Precision) -> None:
    torch.manual_seed(0)
    model = preset(kind, width=128, depth=2, vocabulary=400).build().eval()
    tokens = torch.randint(5, 400, (3, 12), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        before = model(tokens)
        pack_model(model, precision)
        after = model(tokens)
        state = model.start(3)
        stepped = torch.stack([model.step(tokens[:, n : n + 1], state) for n in range(12)], 1)
    assert float((after - before).norm() / before.norm()) < {"fp16": 3e-3, "bf16": 3e-2, "int8": 5e-2}[precision]
    # a row is rounded by itself, so one token at a time is the same as all at once
    assert float((stepped - after).abs().max() / after.abs().max()) < {"bf16": 1e-2}.get(precision, 2e-3)


def test_only_processors_pack_and_fp32_changes_nothing() -> None:
    model = preset("gpt2", width=128, depth=1, vocabulary=400).build()
    same = copy.deepcopy(model)
    assert pack_model(model, "fp32").packed == 0
    assert all(torch.equal(one, other) for one, other in zip(model.parameters(), same.parameters(), strict=True))
    with pytest.raises(SpecError, match="for CPUs"):
        pack_model(same.to("meta"), "int8")
    with pytest.raises(SpecError, match="larger than 65504"):
        PRODUCTS["fp16"](torch.full((2, 4), 1e6))


def test_a_router_keeps_its_weights() -> None:
    dense = Dense(256, 256)
    dense.exact = True
    holder = nn.Sequential(dense, Dense(256, 256))
    pack_model(holder, "int8")
    assert holder[0] is dense and isinstance(holder[1], PackedDense)


@pytest.mark.parametrize("precision", PACKED)
def test_a_matrix_that_came_transposed_is_the_same_matrix(precision: Precision) -> None:
    """As GPT-2's do; oneDNN packs other numbers than a strided one holds."""
    weight, x = draw(64, 96), draw(5, 96, seed=1)
    straight, turned = PRODUCTS[precision](weight), PRODUCTS[precision](weight.T.contiguous().T)
    assert torch.equal(straight(x), turned(x))


@pytest.mark.parametrize("precision", PACKED)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_in_half_precision_are_packed_too(precision: Precision, dtype: torch.dtype) -> None:
    """What isn't packed is in single precision from then on, as what is multiplied is."""
    torch.manual_seed(0)
    half = preset("llama-tiny", width=128, depth=1, vocabulary=400).build().eval().to(dtype)
    whole, tokens = copy.deepcopy(half).float(), torch.arange(12)[None]
    pack_model(half, precision)
    pack_model(whole, precision)
    with torch.no_grad():
        assert half(tokens).dtype == torch.float32 and torch.equal(half(tokens), whole(tokens))


def test_packed_weights_refuse_gradients() -> None:
    """Rounding has none, and what autograd found without it was wrong."""
    model = preset("gpt2", width=128, depth=1, vocabulary=400).build().eval()
    pack_model(model, "int8")
    tokens = torch.arange(5)[None]
    assert not model(tokens).requires_grad  # nobody asked for one
    packed = next(part for part in model.modules() if isinstance(part, PackedDense))
    x = torch.ones(2, packed.in_features, requires_grad=True)
    with pytest.raises(InputError, match="packed weights have no gradients"):
        packed(x)
    with torch.no_grad():
        assert packed(x).shape == (2, packed.out_features)


@pytest.mark.parametrize("precision", PACKED)
def test_unpacking_gives_the_numbers_that_were_counted(precision: Precision) -> None:
    torch.manual_seed(0)
    model = preset("transformer-tiny", width=128, depth=1, vocabulary=600).build().eval()
    pack_model(model, precision)
    parts = {
        name: part.matrix() for name, part in model.named_modules() if isinstance(part, PackedDense | PackedLookup)
    }
    unpack_model(model)
    whole = dict(model.named_modules())
    assert find_precision(model) == "fp32" and parts
    for name, matrix in parts.items():
        part = whole[name]
        assert isinstance(part, Dense | Lookup) and torch.equal(part.weight, matrix), name
    assert model.decoder is not None and model.head is not None
    assert model.head.words is model.decoder.embedding.tokens
