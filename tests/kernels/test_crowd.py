"""One thread or several: our kernels compute the same to the bit, so a busy neighbour changes nothing but time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import regard
from regard.kernels.library import crowd, load


@pytest.fixture(autouse=True)
def several() -> Iterator[None]:
    if load() is None:
        pytest.skip("there are no kernels here")
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    crowd(False)
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["gpt2", "mamba-130m", "llama-tiny"])
def test_gradients_are_the_same_to_the_bit(name: str) -> None:
    torch.manual_seed(0)
    model = regard.preset(name, width=64, depth=2, vocabulary=90).build().eval()  # dropout is chance
    tokens = torch.randint(90, (8, 120))

    def learn(alone: bool) -> list[Tensor]:
        crowd(alone)
        loss = model(tokens).square().mean()
        return [loss, *torch.autograd.grad(loss, list(model.parameters()))]

    for one, other in zip(learn(False), learn(True), strict=True):
        assert torch.equal(one, other)
