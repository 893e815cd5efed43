"""Mixtures of experts against their definition."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from regard.core.probe import Record
from regard.core.view import View
from regard.errors import SpecError
from regard.parts.experts import Experts, MixtureOfExperts

WIDTH = 12
X = torch.randn(2, 7, WIDTH, generator=torch.Generator().manual_seed(0))


def made(**settings: Any) -> MixtureOfExperts:
    torch.manual_seed(1)
    mixture = Experts(hidden=8, **{"experts": 6, "top": 2, **settings}).build(WIDTH)
    assert isinstance(mixture, MixtureOfExperts)
    for weight in mixture.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return mixture


def by_hand(mixture: MixtureOfExperts, x: torch.Tensor) -> torch.Tensor:
    """Every expert on every token, then the chosen ones' weighted sum."""
    spec = mixture.spec
    scores = mixture.router(x)
    scores = scores.softmax(-1) if spec.score == "softmax" else scores.sigmoid()
    ranked = scores if mixture.bias is None else scores + mixture.bias
    out = torch.zeros_like(x)
    for token in range(len(x)):
        allowed = list(range(spec.experts))
        if spec.groups > 1:
            groups = torch.tensor(allowed).chunk(spec.groups)
            strength = torch.stack([ranked[token, group].topk(2).values.sum() for group in groups])
            allowed = [int(e) for g in strength.topk(spec.top_groups).indices for e in groups[int(g)]]
        chosen = sorted(allowed, key=lambda e: -float(ranked[token, e]))[: spec.top]
        weights = scores[token, chosen]
        weights = weights / weights.sum() if spec.normalise else weights
        for weight, expert in zip(weights, chosen, strict=True):
            hidden = F.silu(mixture.gate[expert] @ x[token]) * (mixture.up[expert] @ x[token])
            out[token] += spec.scale * weight * (mixture.down[expert] @ hidden)
    if mixture.shared is not None:
        out = out + mixture.shared(x, View.of(X))
    return out


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"top": 1},
        {"normalise": False, "shared": 2},
        {"score": "sigmoid", "balance": "bias", "scale": 2.5, "shared": 1},
        {"score": "sigmoid", "balance": "bias", "groups": 3, "top_groups": 2},
    ],
    ids=str,
)
@torch.no_grad()
def test_it_is_the_weighted_sum_of_the_chosen(settings: dict[str, Any]) -> None:
    mixture = made(**settings)
    if mixture.bias is not None:
        mixture.bias.normal_()
    expected = by_hand(mixture, X.flatten(0, 1)).view_as(X)
    torch.testing.assert_close(mixture(X, View.of(X)), expected, atol=1e-4, rtol=1e-4)


def reported(mixture: MixtureOfExperts, x: torch.Tensor, valid: torch.Tensor | None = None) -> Record:
    record = Record("*")
    mixture(x, View.of(x, valid, probe=record))
    return record


def test_the_balance_is_one_when_even_and_more_when_not() -> None:
    mixture = made()
    crowded = reported(mixture, X)["part.balance"]
    assert crowded > 1
    crowded.backward()
    assert mixture.router.weight.grad is not None and mixture.router.weight.grad.abs().sum() > 0
    torch.nn.init.zeros_(mixture.router.weight)
    assert float(reported(mixture, X)["part.balance"].detach()) == pytest.approx(1.0)


def test_pads_are_not_counted() -> None:
    mixture, valid = made(), torch.ones(2, 7, dtype=torch.bool)
    valid[1, 3:] = False
    junk = X.clone()
    junk[1, 3:] = 100
    one, other = reported(mixture, X, valid), reported(mixture, junk, valid)
    for name in ("part.balance", "part.load"):
        torch.testing.assert_close(one[name], other[name])
    assert float(one["part.load"].sum()) == pytest.approx(1.0)


@torch.no_grad()
def test_steering_the_bias_evens_the_load() -> None:
    mixture = made(score="sigmoid", balance="bias")
    x = torch.randn(40, 50, WIDTH) + 1  # a common direction, so that some experts are liked by all
    before = reported(mixture, x)["part.load"]
    for _ in range(300):
        mixture.steer({"load": reported(mixture, x)["part.load"]}, speed=0.01)
    after = reported(mixture, x)["part.load"]
    assert after.std() < 0.1 * before.std()


def test_impossible_choices_are_refused() -> None:
    with pytest.raises(SpecError, match="top: 9 experts of the 8"):
        Experts(hidden=4, experts=8, top=9)
    with pytest.raises(SpecError, match="experts 8 is not divisible by groups 3"):
        Experts(hidden=4, experts=8, groups=3)
