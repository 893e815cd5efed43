"""Mixtral: Mistral with two of eight experts for each token (Jiang et al. 2024)."""

from __future__ import annotations

from typing import Literal

from regard.core.model import ModelSpec
from regard.core.spec import Positive, Size
from regard.models import Family
from regard.models.llama import Decoder, stacked
from regard.parts.experts import Experts


class Mixtral(Decoder):
    kind: Literal["mixtral"] = "mixtral"
    kv_heads: Size | None = 8
    hidden: Size = 14336
    base: Positive = 1000000.0
    experts: Size = 8
    top: Size = 2


def compose(s: Mixtral) -> ModelSpec:
    return stacked(s, Experts(hidden=s.hidden, experts=s.experts, top=s.top, activation=s.activation))


family = Family(Mixtral, compose, {"mixtral-8x7b": {}}, hf=("mixtral",))
