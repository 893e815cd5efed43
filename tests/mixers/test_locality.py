"""Attention for few pictures (Lee et al. 2021): a learned temperature, nobody looks at himself; sequence pooling."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.core.probe import Record
from regard.core.view import View
from regard.errors import SpecError
from regard.mixers.attention import Attention
from regard.models import preset
from regard.parts.head import Pooler

ROWS, TIME, WIDTH = 2, 5, 8


def test_weights_are_a_softmax_over_all_others() -> None:
    torch.manual_seed(0)
    mixer: Any = Attention(heads=2, temperature=True, itself=False).build(WIDTH)
    assert mixer.temperature.tolist() == [pytest.approx(0.5)] * 2  # 1/√4
    x, temperature = torch.randn(ROWS, TIME, WIDTH), torch.tensor([0.7, -1.3])
    with torch.no_grad():
        mixer.temperature.copy_(temperature)
    split = [f(x).view(ROWS, TIME, 2, 4).transpose(1, 2) for f in (mixer.query, mixer.key, mixer.value)]
    scores = split[0] @ split[1].mT * temperature[:, None, None]
    scores = scores.masked_fill(torch.eye(TIME, dtype=torch.bool), -torch.inf)
    wanted = mixer.output((scores.softmax(-1) @ split[2]).transpose(1, 2).flatten(2))
    found = mixer(x, View.of(x))
    torch.testing.assert_close(found, wanted)
    record = Record("*")
    torch.testing.assert_close(mixer(x, View.of(x, probe=record)), wanted)
    found.sum().backward()
    assert mixer.temperature.grad.abs().min() > 0


def test_who_is_alone_looks_at_himself() -> None:
    mixer = Attention(heads=2, itself=False).build(WIDTH)
    x = torch.randn(ROWS, TIME, WIDTH)
    valid = torch.tensor([[True] + [False] * 4, [True] * 5])
    found = mixer(x, View.of(x, valid))
    assert found.isfinite().all()
    torch.testing.assert_close(found[0, 0], mixer(x[:1, :1], View.of(x[:1, :1]))[0, 0])


def test_places_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SpecError, match="the first position sees nothing but itself"):
        Attention(causal=True, itself=False)
    with pytest.raises(SpecError, match="no position of the memory"):
        Attention(over="memory", itself=False)
    with pytest.raises(SpecError, match="the first position sees nothing"):
        preset("gpt2", mix={"itself": False})


def test_a_row_is_pooled_by_a_softmax_over_its_real_positions() -> None:
    torch.manual_seed(0)
    head: Any = Pooler(pool="sequence", dense=False).build(WIDTH)
    x, valid = torch.randn(2, TIME, WIDTH), torch.tensor([[True] * 3 + [False] * 2, [True] * 5])
    found = head(x, View.of(x, valid))
    for row, length in enumerate((3, 5)):
        shares = head.weigh(x[row, :length]).softmax(0)
        torch.testing.assert_close(found[row], (shares * x[row, :length]).sum(0))
