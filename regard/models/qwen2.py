"""Qwen2: Llama with biases on queries, keys and values (Yang et al. 2024)."""

from __future__ import annotations

from typing import Literal

from regard.core.spec import Positive, Size
from regard.models import Family, llama
from regard.models.llama import LlamaLike, compose


class Qwen2(LlamaLike):
    kind: Literal["qwen2"] = "qwen2"
    vocabulary: Size = 151936
    base: Positive = 1000000.0
    eps: Positive = 1e-6
    bias: bool = True
    output_bias: bool | None = False


layout = llama.layout(
    "Qwen2ForCausalLM", llama.ATTENTION + llama.CHANNELS, llama.KEYS, fixed={"use_sliding_window": False}
)
family = Family(
    Qwen2,
    compose,
    {"qwen2-0.5b": {"width": 896, "depth": 24, "heads": 14, "kv_heads": 2, "hidden": 4864, "tied": True}},
    {"qwen2": layout},
)
