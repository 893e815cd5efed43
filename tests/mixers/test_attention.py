"""Windows block by block: the same as all pairs behind a table, for the price of the window."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.padding import Padding
from regard.core.probe import Record
from regard.core.view import View
from regard.mixers.attention import Attention, MultiHeadAttention
from tests.largest import Largest

WIDTH = 16
SHAPES = [
    {"causal": True, "window": 5},
    {"causal": True, "window": 1},
    {"causal": True, "window": 70, "position": "rotary"},
    {"causal": True, "window": 5, "kv_heads": 2, "position": "alibi"},
    {"causal": True, "window": 5, "kv_heads": 1, "temperature": True},
    {"causal": False, "window": 5},
    {"causal": False, "window": 40, "kv_heads": 2, "position": "rotary"},
    {"causal": False, "window": 5, "position": {"kind": "bucketed", "both": True}},
    {"causal": False, "window": 5, "itself": False},
    {"causal": False, "window": 1, "itself": False},
]
# how rows of so many places are filled; pads are long enough that some see no real token
FILLINGS = {
    "whole": lambda time: None,
    "pads last": lambda time: Padding([time, time - 120], side="right"),
    "pads first": lambda time: Padding([time, time - 120], side="left"),
    "packed": lambda time: Padding.packed([[3, time - 3], [70, 1, time - 130]], time),
}


def build(**settings: Any) -> MultiHeadAttention:
    torch.manual_seed(1)
    mixer = Attention(**{"heads": 4, **settings}).build(WIDTH).double()
    assert isinstance(mixer, MultiHeadAttention)
    for weight in mixer.parameters():
        torch.nn.init.normal_(weight, 0.0, 0.4)
    return mixer


def run(mixer: MultiHeadAttention, time: int, filling: str, openly: bool) -> list[Tensor]:
    """What it says of real tokens, and the gradients of all that it learned and read."""
    torch.manual_seed(2)
    x = torch.randn(2, time, WIDTH, dtype=torch.double, requires_grad=True)
    valid = FILLINGS[filling](time)
    # whoever watches the weights gets all pairs
    y = mixer(x, View.of(x, valid, probe=Record("*.weights") if openly else None))
    said = y if valid is None else y[valid.valid]
    pull = torch.randn(said.shape, dtype=torch.double, generator=torch.Generator().manual_seed(3))
    return [said, *torch.autograd.grad((said * pull).sum(), [x, *mixer.parameters()])]


@pytest.mark.parametrize("filling", FILLINGS)
@pytest.mark.parametrize("settings", SHAPES, ids=str)
def test_blocks_say_and_learn_what_all_pairs_do(settings: dict[str, Any], filling: str) -> None:
    mixer, time = build(**settings), 341  # no multiple of any block
    assert mixer.is_near(time)
    for near, whole in zip(run(mixer, time, filling, False), run(mixer, time, filling, True), strict=True):
        torch.testing.assert_close(near, whole, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("causal", [True, False])
def test_no_length_is_told_from_all_pairs(causal: bool) -> None:
    """Shorter than the window, as long, at the length from which blocks are taken, and around whole blocks."""
    mixer = build(causal=causal, window=8)
    first = next(time for time in range(1000) if mixer.is_near(time))
    for time in (1, 8, 9, first - 1, first, 256, 257):
        for near, whole in zip(run(mixer, time, "whole", False), run(mixer, time, "whole", True), strict=True):
            torch.testing.assert_close(near, whole, atol=1e-11, rtol=1e-11)


def test_dropped_weights_are_dropped_from_windows_only() -> None:
    mixer = build(causal=True, window=3, dropout=0.5, bias=False)
    x = torch.zeros(1, 400, WIDTH, dtype=torch.double)
    x[:, 200] = 1.0
    reached = mixer(x, View.of(x)).abs().sum(-1)[0].nonzero()[:, 0].tolist()
    assert set(reached) <= {200, 201, 202}
    assert not torch.equal(mixer(x, View.of(x)), mixer(x, View.of(x)))
    assert torch.equal(mixer.eval()(x, View.of(x)), mixer(x, View.of(x)))


def find_largest(mixer: MultiHeadAttention, time: int, filling: str) -> int:
    with Largest() as largest:
        run(mixer, time, filling, False)
    return largest.numbers


@pytest.mark.parametrize("filling", FILLINGS)
@pytest.mark.parametrize(
    "settings",
    [
        {"causal": True, "window": 8},
        {"causal": False, "window": 8},
        {"causal": True, "window": 8, "position": "alibi", "dropout": 0.1},
    ],
    ids=str,
)
def test_no_tensor_is_of_all_pairs(settings: dict[str, Any], filling: str) -> None:
    mixer = build(**settings)
    assert find_largest(mixer, 2048, filling) <= 2 * find_largest(mixer, 1024, filling)
    assert find_largest(mixer, 1024, filling) < 1024 * 1024 / 8


def test_who_watches_weights_sees_all_pairs() -> None:
    mixer, x = build(causal=True, window=3), torch.randn(1, 300, WIDTH, dtype=torch.double)
    look = Record("*.weights")
    mixer(x, View.of(x, probe=look))
    weights = look["mixer.weights"]
    assert weights.shape == (1, 4, 300, 300)
    assert int((weights[0, 0, 299] > 0).sum()) == 3


@torch.no_grad()
def test_a_first_chunk_is_read_block_by_block_too() -> None:
    """The state that it fills has a table for later chunks, which nobody makes for this one."""
    mixer, x = build(causal=True, window=8), torch.randn(1, 1025, WIDTH, dtype=torch.double)
    whole = mixer(x, View.of(x))
    state = mixer.start(1, View.of(x[:, :0]))
    assert state is not None
    with Largest() as largest:
        first = mixer(x[:, :1024], View.of(x[:, :1024], state=state), state)
    last = mixer(x[:, 1024:], View.of(x[:, 1024:], state=state), state)
    torch.testing.assert_close(torch.cat((first, last), 1), whole, atol=1e-11, rtol=0)
    assert largest.numbers < 1024 * 1024 / 8
