"""Paths and chains against a search through every single number, and against graphs whose counts are plain."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import Node

from regard.errors import InputError
from regard.lab.apparatus.graph import count_chain, count_path, moves
from regard.lab.apparatus.lineup import LINEUP, make_memory, run_openly


def make_leaf(time: int, width: int = 2) -> Tensor:
    return torch.randn(1, time, width, generator=torch.Generator().manual_seed(1)).requires_grad_()


def search_numbers(end: Tensor, leaf: Tensor, position: int) -> float:
    """The shortest way by trying every number of every node alone, from the result down."""

    @cache
    def search(node: Node, output: int, place: int) -> float:
        shapes = [tuple(told.shape) for told in node._input_metadata]
        if getattr(node, "variable", None) is leaf:
            return 0 if place // leaf.shape[2] == position else float("inf")
        if not node.next_functions:
            return float("inf")
        given = [torch.zeros(shape) for shape in shapes]
        given[output].view(-1)[place] = 1.0
        backward: Any = node
        found = backward(*given)
        best = float("inf")
        for (deeper, entry), gradient in zip(
            node.next_functions, found if isinstance(found, tuple) else (found,), strict=True
        ):
            if deeper is not None and gradient is not None:
                shape = tuple(deeper._input_metadata[entry].shape)
                for at in gradient.sum_to_size(shape).reshape(-1).nonzero()[:, 0].tolist():
                    best = min(best, search(deeper, entry, at))
        return best + (not moves(node))

    assert end.grad_fn is not None
    return min(search(end.grad_fn, 0, place) for place in range(end.numel()))


def search_nodes(node: Node | None, leaf: Tensor) -> float:
    """The longest chain by trying every way through the graph."""
    if node is None:
        return -float("inf")
    if getattr(node, "variable", None) is leaf:
        return 0
    ways = [search_nodes(deeper, leaf) for deeper, _ in node.next_functions]
    return max(ways, default=-float("inf")) + (not moves(node))


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU", "RNN, skip 8", "windowed attention", "mean pooling"])
def test_counts_are_those_of_a_search_through_every_number(name: str) -> None:
    torch.manual_seed(1)
    contestant, x = LINEUP[name], make_leaf(4)
    mixer = contestant.build(2)
    y = run_openly(mixer, x, contestant.opened, make_memory(mixer, 1, 2))
    for position in (0, 2):
        assert count_path(y[:, -1], x, position) == search_numbers(y[:, -1], x, position)
    if name not in ("GRU", "LSTM"):  # whose ways are too many to try all
        assert count_chain(y, x) == search_nodes(y.grad_fn, x)


def test_a_shortcut_makes_the_path_shorter_and_not_the_chain() -> None:
    x = make_leaf(3)
    far = x[:, 0].tanh().sin().exp()
    assert (count_path(far + x[:, 2], x, 0), count_chain(far + x[:, 2], x)) == (4, 4)
    assert (count_path(far + x[:, 0], x, 0), count_chain(far + x[:, 0], x)) == (1, 4)


def test_a_tensor_that_holds_a_position_is_no_path_from_it() -> None:
    """All positions go through one product, and yet the last one's result knows nothing of the first."""
    x = make_leaf(3)
    y = torch.nn.functional.linear(x, torch.ones(2, 2))
    assert count_path(y[:, 2], x, 0) is None
    assert count_path(y[:, 2], x, 2) == 1


def test_moving_numbers_counts_for_nothing() -> None:
    x = make_leaf(3)
    y = torch.cat((x, x.flip(1)), 1).transpose(1, 2).reshape(1, -1).roll(3).tanh()
    assert (count_path(y, x, 0), count_chain(y, x)) == (1, 1)


def test_what_was_broadcast_is_followed() -> None:
    x = make_leaf(3)
    assert count_path((x[:, :1] + torch.ones(1, 5, 2)).exp()[:, 4], x, 0) == 2


def test_a_result_without_a_graph_is_refused() -> None:
    x = make_leaf(3)
    with pytest.raises(InputError, match="no graph"):
        count_path(x.detach(), x, 0)
    with pytest.raises(InputError, match="doesn't depend"):
        count_chain(make_leaf(2).tanh(), x)


@pytest.mark.parametrize("name", LINEUP)
def test_running_openly_gives_what_running_whole_gives(name: str) -> None:
    torch.manual_seed(1)
    contestant, x = LINEUP[name], torch.randn(1, 6, 8)
    mixer = contestant.build(8)
    memory = make_memory(mixer, 1, 8)
    openly, whole = (run_openly(mixer, x, opened, memory) for opened in (contestant.opened, "whole"))
    torch.testing.assert_close(openly, whole, atol=1e-5, rtol=1e-4)
