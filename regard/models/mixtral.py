"""Mixtral: Mistral with two of eight experts for each token (Jiang et al. 2024)."""

from __future__ import annotations

from typing import Literal

from regard.core.model import ModelSpec
from regard.core.spec import Positive, Size
from regard.models import Family, llama
from regard.models.layout import Key
from regard.models.llama import LlamaLike, stack_blocks
from regard.parts.experts import Experts


class Mixtral(LlamaLike):
    kind: Literal["mixtral"] = "mixtral"
    kv_heads: Size | None = 8
    hidden: Size = 14336
    base: Positive = 1000000.0
    experts: Size = 8
    top: Size = 2


def compose(s: Mixtral) -> ModelSpec:
    return stack_blocks(s, Experts(hidden=s.hidden, experts=s.experts, top=s.top, activation=s.activation))


ROWS = """
model.layers.{i}.block_sparse_moe.gate                    -> decoder.blocks.{i}.ffn.inner.router
model.layers.{i}.block_sparse_moe.experts.{e}.w1.weight   -> decoder.blocks.{i}.ffn.inner.gate
model.layers.{i}.block_sparse_moe.experts.{e}.w3.weight   -> decoder.blocks.{i}.ffn.inner.up
model.layers.{i}.block_sparse_moe.experts.{e}.w2.weight   -> decoder.blocks.{i}.ffn.inner.down
"""
KEYS = {
    **llama.KEYS,
    "kv_heads": Key("num_key_value_heads", 8),
    "window": Key("sliding_window", None),
    "eps": Key("rms_norm_eps", 1e-5),
    "experts": Key("num_local_experts", 8),
    "top": Key("num_experts_per_tok", 2),
}
layout = llama.layout("MixtralForCausalLM", llama.ATTENTION + ROWS, KEYS, base=1000000.0)
family = Family(Mixtral, compose, {"mixtral-8x7b": {}}, {"mixtral": layout})
