"""The mixers that torch.nn lacks, against the reference implementation in transformers, given the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DeepseekV3Config, MambaConfig
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention, DeepseekV3RotaryEmbedding
from transformers.models.mamba.modeling_mamba import MambaMixer

from regard.core.view import View
from regard.mixers.latent import Latent
from regard.mixers.mamba import Mamba

CLOSE: Any = {"atol": 1e-5, "rtol": 1e-4}
WIDTH, ROWS, TIME = 32, 3, 13


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def filled(module: torch.nn.Module) -> dict[str, Tensor]:
    """Weights away from their usual start, so that none of them hides behind a one or a zero."""
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    return dict(module.state_dict())


@torch.no_grad()
def test_mamba_is_the_reference_mixer() -> None:
    config = MambaConfig(hidden_size=WIDTH, state_size=5, conv_kernel=3, expand=2, time_step_rank=4, use_bias=False)
    theirs = MambaMixer(config, layer_idx=0)
    given = filled(theirs)
    ours = Mamba(states=5, convolution=3, rank=4).build(WIDTH)
    names = {
        "A_log": "decay",
        "D": "skip",
        "in_proj": "input",
        "conv1d": "convolution",
        "x_proj": "select",
        "dt_proj": "delta",
        "out_proj": "output",
    }
    renamed = {".".join((names[key.split(".")[0]], *key.split(".")[1:])): weight for key, weight in given.items()}
    ours.load_state_dict(renamed)
    x = torch.randn(ROWS, TIME, WIDTH)
    expected = theirs(x)
    torch.testing.assert_close(ours(x, View.of(x)), expected, **CLOSE)
    state = ours.start(ROWS, View.of(x))
    for at in range(TIME):
        step = x[:, at : at + 1]
        torch.testing.assert_close(ours(step, View.of(step, state=state), state)[:, 0], expected[:, at], **CLOSE)


@pytest.mark.parametrize("query_rank", [None, 12])
@torch.no_grad()
def test_latent_attention_is_the_reference_attention(query_rank: int | None) -> None:
    config = DeepseekV3Config(
        hidden_size=WIDTH,
        num_attention_heads=4,
        num_key_value_heads=4,
        q_lora_rank=query_rank,
        kv_lora_rank=10,
        qk_nope_head_dim=6,
        qk_rope_head_dim=4,
        v_head_dim=5,
        rope_interleave=False,
        attention_bias=False,
    )
    config._attn_implementation = "eager"
    theirs = DeepseekV3Attention(config, layer_idx=0).eval()
    given = filled(theirs)
    ours = Latent(heads=4, rank=10, query_rank=query_rank, size=6, rotary=4, value=5).build(WIDTH)
    latent, turn = given["kv_a_proj_with_mqa.weight"].split((10, 4))
    renamed = {
        "latent.weight": latent,
        "turn.weight": turn,
        "latent_norm.weight": given["kv_a_layernorm.weight"],
        "expand.weight": given["kv_b_proj.weight"],
        "output.weight": given["o_proj.weight"],
        "query.weight": given["q_proj.weight" if query_rank is None else "q_b_proj.weight"],
    }
    if query_rank is not None:
        renamed |= {"query_latent.weight": given["q_a_proj.weight"], "query_norm.weight": given["q_a_layernorm.weight"]}
    ours.load_state_dict(renamed)
    x = torch.randn(ROWS, TIME, WIDTH)
    angles = DeepseekV3RotaryEmbedding(config)(x, torch.arange(TIME)[None])
    later = torch.full((TIME, TIME), -torch.inf).triu(1)[None, None]
    expected = theirs(x, position_embeddings=angles, attention_mask=later)[0]
    torch.testing.assert_close(ours(x, View.of(x)), expected, **CLOSE)
