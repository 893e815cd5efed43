"""Feed-forwards, norms and heads against their formulas."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from regard.core.dense import Lookup
from regard.core.view import View
from regard.errors import SpecError
from regard.models import preset
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward, FeedForwardLayer
from regard.parts.head import Classes, Pooler, Tags, Vocabulary
from regard.parts.norm import LayerNorm, RMSNorm
from regard.parts.picture import Patches

WIDTH = 8
X = torch.randn(3, 5, WIDTH, generator=torch.Generator().manual_seed(0))
VALID = torch.tensor([[True] * 5, [False, False, True, True, True], [True, True, False, False, False]])

FORMULAS: dict[str, Any] = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu-tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "tanh": lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp()),
}


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("activation", FORMULAS)
def test_the_feed_forward_is_its_formula(activation: Any, gated: bool) -> None:
    part = FeedForward(hidden=12, activation=activation, gated=gated, bias=False).build(WIDTH)
    assert isinstance(part, FeedForwardLayer)
    act = FORMULAS[activation]
    up = X @ part.up.weight.T
    hidden = act(up) if part.gate is None else act(X @ part.gate.weight.T) * up
    torch.testing.assert_close(part(X, View.of(X)), hidden @ part.down.weight.T, atol=1e-5, rtol=1e-4)


def test_norms_are_their_formulas() -> None:
    centred = X - X.mean(-1, keepdim=True)
    expected = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(LayerNorm().build(WIDTH)(X), expected)
    assert LayerNorm(bias=False).build(WIDTH).bias is None
    torch.testing.assert_close(RMSNorm().build(WIDTH)(X), X / (X.square().mean(-1, keepdim=True) + 1e-6).sqrt())


def test_a_sandwich_has_a_norm_on_both_sides() -> None:
    block = preset("gpt2", width=64, depth=1, vocabulary=9).decoder.blocks[0]  # type: ignore[union-attr]
    sub = block.replace(place="sandwich", dropout=0.0).build(64).eval().mix
    x = torch.randn(2, 5, 64)
    view = View.of(x)
    assert sub is not None and sub.norm is not None and sub.after is not None
    torch.testing.assert_close(sub(x, view, None), x + sub.after(sub.inner(sub.norm(x), view)))


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        ("first", [X[0, 0], X[1, 2], X[2, 0]]),
        ("last", [X[0, 4], X[1, 4], X[2, 1]]),
        ("mean", [X[0].mean(0), X[1, 2:].mean(0), X[2, :2].mean(0)]),
    ],
)
def test_pooling_passes_over_pads(pool: Any, expected: list[torch.Tensor]) -> None:
    head = Pooler(pool=pool, dense=False).build(WIDTH)
    torch.testing.assert_close(head(X, View.of(X, VALID)), torch.stack(expected))
    classes = Classes(classes=3, pool=pool).build(WIDTH)
    assert classes(X, View.of(X, VALID)).shape == (3, 3)


def test_tags_are_scored_at_every_position() -> None:
    assert Tags(tags=4).build(WIDTH)(X, View.of(X)).shape == (3, 5, 4)


def test_a_tied_head_scores_with_the_token_vectors_and_owns_nothing() -> None:
    model = preset("gpt2", width=64, depth=1, vocabulary=9).build()
    assert sum(weight.shape[0] == 9 for weight in model.parameters()) == 1
    names = [name for name in model.state_dict() if "head" in name]
    assert names == []
    table = model.get_parameter("decoder.embedding.tokens.weight")
    hidden = model.eval().features(torch.zeros(1, 2, dtype=torch.long))
    torch.testing.assert_close(model(torch.zeros(1, 2, dtype=torch.long)), hidden @ table.T)


def test_one_table_serves_encoder_decoder_and_softmax() -> None:
    model = preset("transformer-tiny", vocabulary=50, depth=1).build()
    assert [name for name in model.state_dict() if "tokens" in name] == ["decoder.embedding.tokens.weight"]
    moved = model.to(torch.float64)
    memory = moved.encode(torch.randint(50, (2, 4)))
    assert moved(torch.randint(50, (2, 3)), memory).dtype == torch.float64


def test_heads_that_cannot_be_tied_are_refused() -> None:
    table = Lookup(9, 4)
    with pytest.raises(SpecError, match="vectors of 4 can't score vectors of 8"):
        Vocabulary().build(8, table)
    with pytest.raises(SpecError, match="10 words can't share a table of 9"):
        Vocabulary(size=10).build(4, table)
    with pytest.raises(SpecError, match="no table"):
        Vocabulary().build(4)


def test_segments_and_copies_are_part_of_the_embedding() -> None:
    embedding = Tokens(vocabulary=9, segments=2).build(WIDTH)
    tokens = torch.zeros(1, 3, dtype=torch.long)
    view = View.of(tokens)
    view.extras = {"segments": torch.tensor([[0, 1, 1]])}
    found = embedding(tokens, view)
    assert not torch.equal(found[0, 0], found[0, 1])
    assert torch.equal(found[0, 1], found[0, 2])
    twice = Tokens(vocabulary=9, copies=2).build(WIDTH)(tokens, View.of(tokens))
    assert torch.equal(twice[..., :4], twice[..., 4:])


def test_patches_are_squares_of_the_image_in_reading_order() -> None:
    embedding: Any = Patches(image=4, patch=2, channels=2).build(WIDTH)
    image = torch.randn(1, 2, 4, 4)
    found = embedding(image, View.of(torch.zeros(1, 5, 1)))
    square = image[:, :, 0:2, 2:4].flatten(1)
    torch.testing.assert_close(found[:, 2], embedding.project(square) + embedding.position[:, 2])
    conv = embedding.project.weight.view(WIDTH, 2, 2, 2)
    reference = F.conv2d(image, conv, embedding.project.bias, stride=2).flatten(2).mT
    torch.testing.assert_close(found[:, 1:], reference + embedding.position[:, 1:])
