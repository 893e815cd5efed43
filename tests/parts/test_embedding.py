"""Positions beside the words: added, or concatenated and projected."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.core.view import View
from regard.errors import SpecError
from regard.parts.embedding import TokenEmbedding, Tokens
from regard.parts.position import Learned, Sinusoidal

WIDTH = 6
tokens = torch.randint(9, (2, 5))


def make(**position: Any) -> TokenEmbedding:
    torch.manual_seed(0)
    built = Tokens(vocabulary=9, position=position).build(WIDTH)
    assert isinstance(built, TokenEmbedding)
    return built


@pytest.mark.parametrize("kind", ["learned", "sinusoidal"])
@torch.no_grad()
def test_concatenated_positions_are_features_of_their_own(kind: str) -> None:
    embedding = make(kind=kind, join="concatenate", size=4)
    assert embedding.beside is not None and embedding.beside.weight.shape == (WIDTH, WIDTH + 4)
    view = View.of(tokens)
    assert embedding.position is not None
    places = embedding.position(view)  # (1, time, 4)
    words = embedding.tokens(tokens)
    for row in range(2):
        for time in range(5):
            side_by_side = torch.cat((words[row, time], places[0, time]))
            expected = embedding.beside.weight @ side_by_side
            torch.testing.assert_close(embedding(tokens, view)[row, time], expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("kind", ["learned", "sinusoidal"])
@torch.no_grad()
def test_adding_is_one_way_of_concatenating(kind: str) -> None:
    added, beside = make(kind=kind), make(kind=kind, join="concatenate")
    assert beside.beside is not None
    beside.beside.weight.copy_(torch.cat((torch.eye(WIDTH), torch.eye(WIDTH)), 1))
    beside.load_state_dict(added.state_dict(), strict=False)
    torch.testing.assert_close(beside(tokens, View.of(tokens)), added(tokens, View.of(tokens)))


def test_what_is_added_has_no_size_of_its_own() -> None:
    with pytest.raises(SpecError, match="size: what is added is as wide as the model, and not 4"):
        Learned(size=4)
    with pytest.raises(SpecError, match=r"position\.size 5 is odd"):
        Sinusoidal(join="concatenate", size=5).build(WIDTH)
