"""Mistral: Llama with grouped heads and a sliding window (Jiang et al. 2023)."""

from __future__ import annotations

from typing import Literal

from regard.core.spec import Size
from regard.models import Family, llama
from regard.models.layout import Key
from regard.models.llama import LlamaLike, compose


class Mistral(LlamaLike):
    kind: Literal["mistral"] = "mistral"
    kv_heads: Size | None = 8
    hidden: Size = 14336
    window: Size | None = 4096


KEYS = {**llama.KEYS, "kv_heads": Key("num_key_value_heads", 8), "window": Key("sliding_window", 4096)}
layout = llama.layout("MistralForCausalLM", llama.ATTENTION + llama.CHANNELS, KEYS)
family = Family(Mistral, compose, {"mistral-7b": {}}, {"mistral": layout})
