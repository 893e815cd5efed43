"""Looks at numbered tokens in small models of random weights, in double precision unless told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import nn

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.role import HeadSpec
from regard.decode.reading import Reading, Strip
from regard.lens.look import Look
from regard.models import preset

WORDS = 11
TEXT, SOURCE = (3, 1, 4, 1, 5, 9), (2, 7, 1, 8)


def build(name: str, **settings: Any) -> Model:
    torch.manual_seed(1)
    return stir(preset(name, **{"width": 16, "vocabulary": WORDS, **settings}).build())


def build_encoder(head: HeadSpec, **settings: Any) -> Model:
    """A small BERT with another head."""
    bert = build("bert-tiny", **{"depth": 2, "heads": 2, **settings})
    return stir(bert.spec.replace(head=head).build())


def stir(model: Model) -> Model:
    """Weights so large that nothing is nearly linear."""
    for weight in model.parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=0.25)
    return model.double().eval()


def look_at(
    model: Model,
    text: Sequence[int] = TEXT,
    source: Sequence[int] | None = None,
    targets: Mapping[int, int | None] | None = None,
    output: Literal["softmax", "sigmoid", "none"] = "softmax",
) -> Look:
    """A text that predicts its next tokens, unless other targets are given."""
    memory = None if source is None else Inputs(torch.tensor([source]))
    reading = Reading(
        Inputs(torch.tensor([text]), memory=memory),
        strip(text),
        None if source is None else strip(source),
        targets=dict(enumerate(text[1:])) if targets is None else targets,
        spell=lambda numbers: [f"w{number}" for number in numbers],
        output=output,
    )
    return Look(model, reading)


def strip(tokens: Sequence[int]) -> Strip:
    return Strip(tuple(f"w{token}" for token in tokens), (False,) * len(tokens))
