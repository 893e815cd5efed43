"""Attributions: they add up, and each is the slope or the integral that it says."""

from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor

from regard.core.model import Model
from regard.core.probe import Edit
from regard.errors import InputError
from regard.lens.attribution import gradient_times_input, integrated_gradients
from regard.lens.finding import ask, choose_answers, score_answers
from regard.lens.look import Look
from regard.parts.head import Classes
from tests.lens.texts import SOURCE, TEXT, build, build_encoder, look_at

Side = Literal["source", "target"] | None
TRANSLATORS = ["transformer-tiny", "bahdanau", "luong-feed", "seq2seq"]
SMOOTH = ["gpt2", "luong-feed", "seq2seq", "lstm", "ntm", "classifier"]  # without kinks, an integral is nearly exact
ALONE = ["gpt2", "lstm", "hybrid", "ntm"]


def small(name: str) -> Model:
    heads = {"heads": 2} if name in ("gpt2", "transformer-tiny", "hybrid") else {}
    depth = {} if name == "ntm" else {"depth": 1 if name in ("luong-feed", "transformer-tiny") else 2}
    return build(name, **heads, **depth)


def classifier() -> Look:
    return look_at(build_encoder(Classes(classes=3)), targets={0: None})


LOOKS = [
    *((name, side) for name in TRANSLATORS for side in ("source", "target")),
    *((name, None) for name in ALONE),
    ("classifier", None),
]


def open_look(name: str) -> Look:
    if name == "classifier":
        return classifier()
    return look_at(small(name), source=SOURCE if name in TRANSLATORS else None)


@pytest.mark.parametrize("baseline", [None, 7])
@pytest.mark.parametrize(("name", "side"), [each for each in LOOKS if each[0] != "hybrid"])  # its way is rough: slow
def test_integrated_gradients_add_up_to_the_difference_from_the_baseline(
    name: str, side: Side, baseline: int | None
) -> None:
    look = open_look(name)
    found = integrated_gradients(look, side=side, baseline=baseline)
    assert found.baseline is not None
    assert found.values.shape == (len(found.positions), len(found.tokens))
    assert found.tokens == [f"w{token}" for token in (SOURCE if side == "source" else TEXT)]
    assert float((found.scores - found.baseline).abs().max()) > 0.015
    torch.testing.assert_close(found.gap, torch.zeros_like(found.gap), atol=0.01, rtol=0)
    if name in SMOOTH and baseline is not None:
        torch.testing.assert_close(found.gap, torch.zeros_like(found.gap), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.scores, score_answers(look, ask(look), choose_answers(look))[0].detach())


def test_a_baseline_of_the_text_itself_leaves_nothing() -> None:
    look = look_at(small("gpt2"), (5, 5, 5, 5))
    found = integrated_gradients(look, baseline=5)
    torch.testing.assert_close(found.values, torch.zeros_like(found.values))


@torch.no_grad()
def test_an_integrated_gradient_is_that_of_each_token_along_the_way() -> None:
    """By differences: how the score answers to one token's step alone, at many places of the way, added up."""
    look = look_at(small("gpt2"), (3, 1, 4), targets={2: 6})
    found = integrated_gradients(look, baseline=7, tolerance=1e-5)
    answers = choose_answers(look, [2])
    start, end = (
        look_at(look.model, text).values("decoder.embedded")["decoder.embedded"] for text in ((7,) * 3, (3, 1, 4))
    )
    places = (torch.arange(400, dtype=torch.float64) + 0.5) / 400

    def score(way: Tensor) -> Tensor:
        return score_answers(look, ask(look, Edit({"decoder.embedded": lambda _: way}), len(way)), answers)[:, 0]

    for token in range(3):
        step = torch.zeros(3, 1, dtype=torch.float64)
        step[token] = 1e-4
        ahead, back = (start + (places[:, None, None] + sign * step) * (end - start) for sign in (1, -1))
        expected = ((score(ahead) - score(back)) / 2e-4).mean()
        torch.testing.assert_close(found.values[0, token], expected, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize(("name", "side"), LOOKS)
def test_gradient_times_input_is_the_slope_along_each_vector(name: str, side: Side) -> None:
    """By differences: every answer's score when one token's vector is a little longer, or shorter."""
    look = open_look(name)
    found = gradient_times_input(look, side=side)
    answers = choose_answers(look)
    where = "encoder" if side == "source" or name == "classifier" else "decoder"

    def score(token: int, factor: float) -> Tensor:
        with torch.no_grad():
            edit = Edit.scale(f"{where}.embedded", factor, positions=[token])
            return score_answers(look, ask(look, edit), answers)[0]

    for token in range(len(found.tokens)):
        slope = (score(token, 1 + 1e-5) - score(token, 1 - 1e-5)) / 2e-5
        torch.testing.assert_close(found.values[:, token], slope, atol=1e-6, rtol=1e-5)


def test_what_a_decoder_has_not_read_yet_adds_nothing() -> None:
    found = integrated_gradients(look_at(small("gpt2")))
    assert found.positions == [0, 1, 2, 3, 4]
    assert not found.values.triu(1).any()
    assert found.values.diagonal().abs().min() > 0


def test_a_finding_is_plain_data() -> None:
    found = integrated_gradients(look_at(small("gpt2")), [1, 4]).as_json()
    assert found["answers"] == ["w4", "w9"]
    assert np.shape(found["values"]) == (2, 6)
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_what_can_not_be_asked_is_refused() -> None:
    look, translator = look_at(small("gpt2")), look_at(small("transformer-tiny"), source=SOURCE)
    cases: list[tuple[Any, str]] = [
        (lambda: gradient_times_input(look, side="source"), "has no source beside it"),
        (lambda: gradient_times_input(look, [5]), r"position 5 answers nothing here(.|\n)*one of 0, 1, 2, 3, 4"),
        (lambda: integrated_gradients(look, baseline=11), "there is no token 11 among 11"),
        (lambda: integrated_gradients(translator, baseline=-1), "there is no token -1"),
        (lambda: integrated_gradients(look, tolerance=0), "tolerance: 0 is not above 0"),
        (lambda: gradient_times_input(look).gap, "no baseline"),
        (lambda: gradient_times_input(look_at(build("bilstm", depth=1), targets={})), "no single answer"),
        (lambda: gradient_times_input(look_at(build("elmo", depth=1))), "no single answer"),
        (lambda: gradient_times_input(look_at(build("bert-tiny", depth=1, heads=2))), "no single answer"),
    ]
    for call, message in cases:
        with pytest.raises(InputError, match=message):
            call()
