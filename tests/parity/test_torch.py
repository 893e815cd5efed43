"""The same numbers as torch.nn, given the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.core.block import Block, BlockSpec, Sublayer
from regard.core.state import Memory
from regard.core.view import View
from regard.mixers.attention import Attention, MultiHeadAttention
from regard.mixers.recurrent import Recurrence, Recurrent
from regard.parts.feedforward import FeedForward, FeedForwardLayer
from regard.parts.norm import LayerNorm

WIDTH, HEADS, HIDDEN = 24, 4, 40
CLOSE: Any = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def lengths_mask(lengths: list[int]) -> Tensor:
    return torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("both", [False, True], ids=["forward", "both"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("cell", "theirs"), [("rnn", nn.RNN), ("lstm", nn.LSTM), ("gru", nn.GRU)])
def test_recurrence(cell: Any, theirs: Any, layers: int, both: bool) -> None:
    direction: Any = "both" if both else "forward"
    size = WIDTH // (1 + both)
    reference = theirs(WIDTH, size, layers, batch_first=True, bidirectional=both)
    ours = Recurrent(cell=cell, layers=layers, direction=direction).build(WIDTH)
    assert isinstance(ours, Recurrence)
    ours.cell.fused.load_state_dict(reference.state_dict())
    x = torch.randn(3, 11, WIDTH)
    view = View.of(x)
    state = ours.start(3, view)
    expected, end = reference(x)
    torch.testing.assert_close(ours(x, view, state), expected, **CLOSE)
    hidden = end[0] if cell == "lstm" else end
    assert state is not None
    summary = state.summary()
    assert summary is not None
    torch.testing.assert_close(summary[:, 0].reshape(3, -1), hidden.transpose(0, 1).reshape(3, -1), **CLOSE)


@pytest.mark.parametrize(("cell", "theirs"), [("rnn", nn.RNNCell), ("lstm", nn.LSTMCell), ("gru", nn.GRUCell)])
def test_one_step_of_a_cell(cell: Any, theirs: Any) -> None:
    reference = theirs(WIDTH, WIDTH)
    ours = Recurrent(cell=cell).build(WIDTH)
    assert isinstance(ours, Recurrence)
    ours.cell.fused.load_state_dict({f"{name}_l0": weight for name, weight in reference.state_dict().items()})
    x, h, c = torch.randn(5, WIDTH), torch.randn(5, WIDTH), torch.randn(5, WIDTH)
    given, carry = ((h, c), (h[:, None], c[:, None])) if cell == "lstm" else (h, (h[:, None],))
    expected = reference(x, given)
    top, after = ours.cell.step(x, carry)
    torch.testing.assert_close(top, expected[0] if cell == "lstm" else expected, **CLOSE)
    if cell == "lstm":
        torch.testing.assert_close(after[1][:, 0], expected[1], **CLOSE)


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    weights, biases = theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3)
    for linear, weight, bias in zip((ours.query, ours.key, ours.value), weights, biases, strict=True):
        linear.weight.data, linear.bias.data = weight.clone(), bias.clone()
    ours.output.load_state_dict(theirs.out_proj.state_dict())


@pytest.mark.parametrize("causal", [False, True])
def test_multi_head_attention(causal: bool) -> None:
    reference = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    ours = Attention(heads=HEADS, causal=causal).build(WIDTH)
    assert isinstance(ours, MultiHeadAttention)
    nn.init.normal_(reference.in_proj_bias)
    copy_attention(ours, reference)
    x, valid = torch.randn(3, 7, WIDTH), lengths_mask([7, 4, 5])
    hidden = torch.ones(7, 7, dtype=torch.bool).triu(1) if causal else None
    expected, _ = reference(x, x, x, key_padding_mask=~valid, attn_mask=hidden, need_weights=False)
    torch.testing.assert_close(ours(x, View.of(x, valid))[valid], expected[valid], **CLOSE)


def copy_norm(sublayer: Sublayer, theirs: nn.LayerNorm) -> None:
    assert sublayer.norm is not None
    nn.init.normal_(theirs.weight)
    nn.init.normal_(theirs.bias)
    sublayer.norm.load_state_dict(theirs.state_dict())


def copy_layer(block: Block, theirs: Any) -> None:
    assert block.mix is not None and block.ffn is not None
    assert isinstance(block.mix.inner, MultiHeadAttention) and isinstance(block.ffn.inner, FeedForwardLayer)
    copy_attention(block.mix.inner, theirs.self_attn)
    block.ffn.inner.up.load_state_dict(theirs.linear1.state_dict())
    block.ffn.inner.down.load_state_dict(theirs.linear2.state_dict())
    sublayers = [block.mix, block.ffn]
    if block.cross is not None:
        assert isinstance(block.cross.inner, MultiHeadAttention)
        copy_attention(block.cross.inner, theirs.multihead_attn)
        sublayers.insert(1, block.cross)
    for number, sublayer in enumerate(sublayers, 1):
        copy_norm(sublayer, getattr(theirs, f"norm{number}"))


@pytest.mark.parametrize("place", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_transformer_encoder_layer(place: Any, activation: Any) -> None:
    reference = nn.TransformerEncoderLayer(
        WIDTH, HEADS, HIDDEN, 0.0, activation, batch_first=True, norm_first=place == "pre"
    )
    block = BlockSpec(
        mix=Attention(heads=HEADS),
        ffn=FeedForward(hidden=HIDDEN, activation=activation),
        norm=LayerNorm(),
        place=place,
    ).build(WIDTH)
    copy_layer(block, reference)
    x, valid = torch.randn(3, 7, WIDTH), lengths_mask([7, 4, 5])
    expected = reference(x, src_key_padding_mask=~valid)
    torch.testing.assert_close(block(x, View.of(x, valid))[valid], expected[valid], **CLOSE)


@pytest.mark.parametrize("place", ["pre", "post"])
def test_transformer_decoder_layer(place: Any) -> None:
    reference = nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, 0.0, batch_first=True, norm_first=place == "pre")
    block = BlockSpec(
        mix=Attention(heads=HEADS, causal=True),
        cross=Attention(heads=HEADS, over="memory"),
        ffn=FeedForward(hidden=HIDDEN),
        norm=LayerNorm(),
        place=place,
    ).build(WIDTH)
    copy_layer(block, reference)
    x, source = torch.randn(3, 7, WIDTH), torch.randn(3, 9, WIDTH)
    valid, there = lengths_mask([7, 4, 5]), lengths_mask([3, 9, 6])
    later = torch.ones(7, 7, dtype=torch.bool).triu(1)
    expected = reference(
        x, source, tgt_mask=later, tgt_key_padding_mask=~valid, memory_key_padding_mask=~there, tgt_is_causal=True
    )
    view = View.of(x, valid, memory=Memory(tensors=(source,), valid=there))
    torch.testing.assert_close(block(x, view)[valid], expected[valid], **CLOSE)
