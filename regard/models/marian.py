"""Marian: the paper's Transformer as OPUS-MT trains it, with a bias on the words (Junczys-Dowmunt et al. 2018)."""

from __future__ import annotations

from typing import Literal

from regard.core.activation import Activation
from regard.core.spec import Size
from regard.models import Family, PositionSlot
from regard.models.slot import Choice
from regard.models.transformer import Transformer, compose, layout

OWN: Choice = {"kind": "sinusoidal", "halves": True}


class Marian(Transformer):
    kind: Literal["marian"] = "marian"  # type: ignore[assignment]
    vocabulary: Size = 65001
    activation: Activation = "silu"
    position: PositionSlot = OWN
    bias: bool = True


LAST = {"share_encoder_decoder_embeddings": True, "normalize_before": False, "normalize_embedding": False}
family = Family(Marian, compose, {"marian-base": {}}, {"marian": layout("MarianMTModel", "post", "", LAST)})
