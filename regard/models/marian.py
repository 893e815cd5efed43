"""Marian: the paper's Transformer as OPUS-MT trains it, with a bias on the words (Junczys-Dowmunt et al. 2018)."""

from __future__ import annotations

from typing import Literal

from regard.core.spec import AbsoluteSpec, Size
from regard.models import Family
from regard.models.transformer import Transformer, compose, layout
from regard.parts.feedforward import Activation
from regard.parts.position import Sinusoidal


class Marian(Transformer):
    kind: Literal["marian"] = "marian"  # type: ignore[assignment]
    vocabulary: Size = 65001
    activation: Activation = "silu"
    position: AbsoluteSpec | None = Sinusoidal(halves=True)
    bias: bool = True


LAST = {"share_encoder_decoder_embeddings": True, "normalize_before": False, "normalize_embedding": False}
family = Family(Marian, compose, {"marian-base": {}}, {"marian": layout("MarianMTModel", "post", "", LAST)})
