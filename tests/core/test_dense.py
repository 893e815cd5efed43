"""Every matrix that vectors are multiplied by is a Dense or a Lookup, so that one place can pack or adapt them all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from torch import nn

import regard
from regard.core.dense import Dense, Lookup
from regard.models import preset, presets

PACKAGE = Path(regard.__file__).parent

PLACES = {
    "first": "a vector that is put in front",
    "second": "another one",
    "position": "vectors that are added",
}
# weights of more than one axis that belong to something else, by their owner's class, and why
BARE = {
    "LSTM": {"weight_ih": "torch's fused kernel takes all gates at once", "weight_hh": "the same"},
    "GRU": {"weight_ih": "torch's fused kernel takes all gates at once", "weight_hh": "the same"},
    "RNN": {"weight_ih": "torch's fused kernel takes it", "weight_hh": "the same"},
    "MixtureOfExperts": {
        "gate": "experts are stacked: 256 of them are one tensor",
        "up": "the same",
        "down": "the same",
    },
    "Conv1d": {"weight": "a depthwise convolution weighs each channel by itself"},
    "SelectiveStateSpace": {"decay": "one rate for each channel and state; nothing is multiplied by it as a matrix"},
    "DiagonalStateSpace": {
        "decay": "one rate for each channel and pair",
        "frequency": "one frequency for each channel and pair",
        "readout": "complex numbers as pairs, one for each channel and pair",
    },
    "TuringMachine": {"rest": "where heads stand before the first token"},
    "MaskedConvolution": {"weight": "a kernel of which a mask hides what comes later"},
    "RowRecurrence": {
        "input": "one matrix for all gates, masked where a place has several channels",
        "recurrent": "what a wave multiplies front by front",
        "bias": "broadcast over directions and places",
    },
    "DiagonalRecurrence": {
        "input": "one matrix for all gates in each direction, masked where a place has several channels",
        "recurrent": "what a wave multiplies front by front, in each direction",
        "bias": "one vector for each direction",
    },
    "PatchEmbedding": PLACES,
    "ConvolutionalEmbedding": PLACES,
    "Conv2d": {"weight": "a convolution's kernels"},
}
# files that call torch's own linear map or lookup, and why
CALLS = {
    "core/dense.py": "here they are",
    "core/factors.py": "the scores of a loss that was given vectors and words as tensors",
    "core/matrix.py": "products by the faster of two kernels",
    "core/packed.py": "a packed matrix that is multiplied whole, for a choice",
    "core/product.py": "products with packed weights",
    "parts/cell.py": "a fused cell's weights, in the open when somebody watches",
    "parts/experts.py": "one expert's slice of a stack",
    "mixers/masked.py": "one place of a masked kernel, when stepping",
}


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_matrix_of_a_preset_is_dense(name: str) -> None:
    for path, module in preset(name).build("meta").named_modules():
        kind = type(module).__name__
        assert not isinstance(module, nn.Linear | nn.Embedding | nn.Bilinear) or isinstance(module, Dense | Lookup), (
            path
        )
        if isinstance(module, Dense | Lookup):
            continue
        known = BARE.get(kind, {})
        for weight, values in module.named_parameters(recurse=False):
            told = any(weight == own or weight.startswith(f"{own}_l") for own in known)
            assert values.dim() < 2 or told, f"{path}.{weight}: a bare matrix of {kind}"


def test_torch_is_asked_for_a_product_in_few_places() -> None:
    names = {"linear", "embedding", "bilinear", "Linear", "Embedding", "LazyLinear", "Bilinear"}
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "linear":
                found.add(str(path.relative_to(PACKAGE)))
            torchlike = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if torchlike and node.value.id in ("F", "nn") and node.attr in names:  # type: ignore[attr-defined]
                found.add(str(path.relative_to(PACKAGE)))
    assert found == set(CALLS)


def test_a_dense_starts_and_counts_as_a_linear_layer_does() -> None:
    torch.manual_seed(3)
    theirs, table = nn.Linear(5, 7), nn.Embedding(9, 5)
    torch.manual_seed(3)
    ours, own = Dense(5, 7), Lookup(9, 5)
    x, numbers = torch.randn(2, 3, 5), torch.tensor([[1, 8], [0, 2]])
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    assert torch.equal(ours(x), theirs(x))
    assert torch.equal(own(numbers), table(numbers))
    assert torch.equal(own.score(x), x @ table.weight.T)
    assert torch.equal(ours.score(x, ours.bias), ours(x))


def test_a_choice_is_made_in_single_precision() -> None:
    dense, x = Dense(64, 8, bias=False).bfloat16(), torch.randn(3, 64).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        found = dense.score_in_single(x)
    assert torch.equal(found, x.float() @ dense.weight.float().T)


def test_another_way_to_multiply_serves_embedding_and_head() -> None:
    """What stands in `forward`, `score` and `matrix` is all that a tied table is used by."""

    class Rounded(Lookup):
        """Vectors that are kept as eighths."""

        def forward(self, numbers: torch.Tensor) -> torch.Tensor:
            return self.matrix()[numbers]

        def matrix(self) -> torch.Tensor:
            return (self.weight * 8).round() / 8

    model = preset("gpt2", width=16, depth=1, vocabulary=11).build().eval()
    tokens = torch.tensor([[3, 1, 4]])
    assert model.decoder is not None
    table = model.decoder.embedding.table
    assert isinstance(table, Lookup)
    with torch.no_grad():
        table.weight.mul_(30)
        plain = model(tokens)
        table.__class__ = Rounded
        packed, scored = model(tokens), model.scored(model.features(tokens)).table()
        table.__class__ = Lookup
        table.weight.mul_(8).round_().div_(8)
        assert torch.equal(packed, model(tokens))
    assert torch.equal(packed, scored)
    assert not torch.equal(packed, plain)
