"""Qwen3: Llama with a norm on each head's queries and keys (Yang et al. 2025)."""

from __future__ import annotations

from typing import Literal

from regard.core.spec import Positive, Size
from regard.models import Family, llama
from regard.models.layout import Key
from regard.models.llama import LlamaLike, compose


class Qwen3(LlamaLike):
    kind: Literal["qwen3"] = "qwen3"
    size: Size | None = 128
    vocabulary: Size = 151936
    base: Positive = 1000000.0
    eps: Positive = 1e-6
    head_norm: bool = True


NORMS = """
model.layers.{i}.self_attn.q_norm              -> decoder.blocks.{i}.mix.inner.query_norm
model.layers.{i}.self_attn.k_norm              -> decoder.blocks.{i}.mix.inner.key_norm
"""
layout = llama.layout(
    "Qwen3ForCausalLM",
    llama.ATTENTION + NORMS + llama.CHANNELS,
    {**llama.KEYS, "size": Key("head_dim", 128), "bias": Key("attention_bias", False)},
    fixed={"use_sliding_window": False},
)
family = Family(
    Qwen3,
    compose,
    {"qwen3-0.6b": {"width": 1024, "depth": 28, "heads": 16, "kv_heads": 8, "hidden": 3072, "tied": True}},
    {"qwen3": layout},
)
