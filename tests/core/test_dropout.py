"""Dropout: the right share, scaled right, by torch's own generator."""

from __future__ import annotations

import pytest
import torch

from regard.core.dropout import dropout, skip_rows
from regard.errors import SpecError
from regard.models import preset


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_share_that_is_dropped_is_the_rate(rate: float) -> None:
    torch.manual_seed(0)
    found = dropout(torch.ones(1001, 999), rate)
    assert (found == 0).float().mean().item() == pytest.approx(rate, abs=0.002)
    assert found.mean().item() == pytest.approx(1.0, abs=0.01)
    assert found.unique().numel() == 2


@pytest.mark.parametrize("rate", [1e-6, 0.999999])
def test_a_rate_that_sixteen_bits_cannot_tell_is_kept_too(rate: float) -> None:
    torch.manual_seed(0)
    found = dropout(torch.ones(10_000_000), rate)
    assert found.isfinite().all()
    rare = int((found == 0).sum()) if rate < 0.5 else int(found.count_nonzero())
    assert 1 <= rare <= 30
    assert found.max().item() == pytest.approx(1 / (1 - rate), rel=0.05)


def test_neighbours_are_dropped_independently() -> None:
    torch.manual_seed(0)
    kept = (dropout(torch.ones(1_000_000), 0.5) > 0).float() - 0.5
    for shift in (1, 2, 3, 4, 1000):
        assert abs(float((kept[shift:] * kept[:-shift]).mean())) < 0.001


def test_the_gradient_goes_where_the_value_went() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 5, 7, requires_grad=True)
    y = dropout(x, 0.4)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


def test_the_seed_decides() -> None:
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(dropout(torch.ones(100), 0.5))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


def test_a_sublayer_is_skipped_for_whole_rows_and_never_when_used() -> None:
    torch.manual_seed(0)
    x = torch.ones(20_000, 2, 3)
    found = skip_rows(x, 0.3)
    kept = found[:, 0, 0] > 0
    assert torch.equal(found, torch.where(kept[:, None, None], 1 / 0.7, 0.0).expand_as(x))
    assert abs(kept.float().mean().item() - 0.7) < 0.02


def test_stochastic_depth_rises_with_depth_and_is_off_in_use() -> None:
    model = preset("vit-tiny", depth=3, stochastic_depth=0.4).build()
    assert model.encoder is not None
    rates = [[sublayer.skip for sublayer in block.sublayers] for block in model.encoder.layers()]
    assert rates == [[0.0] * 2, [0.2] * 2, [0.4] * 2]
    plain = preset("vit-tiny", depth=3).build()
    plain.load_state_dict(model.state_dict())
    pictures = torch.randn(4, 1, 8, 8)
    assert torch.equal(model.eval()(pictures), plain.eval()(pictures))
    torch.manual_seed(1)
    first = model.train()(pictures)
    torch.manual_seed(1)
    assert torch.equal(first, model(pictures)) and not torch.equal(first, model(pictures))
    with pytest.raises(SpecError, match="without residual has nothing left"):
        preset("rnn").replace(decoder=preset("rnn").main.replace(stochastic_depth=0.1))
