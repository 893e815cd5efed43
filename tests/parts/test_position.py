"""Positions against their formulas, and against the reference implementation where there is one."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention

from regard.core.view import View
from regard.parts.position import Alibi, Bucketed, BucketedBias, Rotary, ScalingSpec, Sinusoidal, frequencies


def test_sinusoids_are_the_papers() -> None:
    width, view = 12, View.of(torch.zeros(1, 20, 1))
    found = Sinusoidal().build(width)(view)[0]
    for position in (0, 1, 7, 19):
        for i in range(width // 2):
            angle = position / 10000 ** (2 * i / width)
            assert found[position, 2 * i] == pytest.approx(math.sin(angle), abs=1e-5)
            assert found[position, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-5)


def test_a_rotated_score_depends_on_the_distance_alone() -> None:
    rotation: Any = Rotary().build(1, 8)
    query, key = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    view = View.of(torch.zeros(1, 50, 1))
    turned_query = rotation.rotate(query.expand(1, 1, 50, 8), view)[0, 0]
    turned_key = rotation.rotate(key.expand(1, 1, 50, 8), view)[0, 0]
    scores = turned_query @ turned_key.T
    for distance in (0, 3, 20):
        torch.testing.assert_close(scores.diagonal(-distance), scores[distance, 0].expand(50 - distance))


SCALINGS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"kind": "linear", "factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
    ({"kind": "dynamic", "factor": 2.0, "context": 64}, {"rope_type": "dynamic", "factor": 2.0}),
    (
        {"kind": "yarn", "factor": 8.0, "context": 64},
        {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64},
    ),
    (
        {"kind": "yarn", "factor": 40.0, "context": 64, "mscale": 1.0, "mscale_all": 0.7},
        {
            "rope_type": "yarn",
            "factor": 40.0,
            "original_max_position_embeddings": 64,
            "mscale": 1.0,
            "mscale_all_dim": 0.7,
        },
    ),
    (
        {"kind": "llama3", "factor": 8.0, "context": 64},
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "original_max_position_embeddings": 64,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
        },
    ),
]


@pytest.mark.parametrize("length", [32, 64, 200])
@pytest.mark.parametrize(("ours", "theirs"), SCALINGS, ids=lambda value: value.get("kind", ""))
def test_scaled_frequencies_are_the_reference_ones(ours: Any, theirs: Any, length: int) -> None:
    config = LlamaConfig(
        hidden_size=64,
        num_attention_heads=2,
        head_dim=32,
        max_position_embeddings=64,
        rope_parameters={"rope_theta": 10000.0, **theirs},
    )
    expected, gain = ROPE_INIT_FUNCTIONS[theirs["rope_type"]](config, device="cpu", seq_len=length)
    scaling: Any = ScalingSpec.parse(ours)
    torch.testing.assert_close(scaling.frequencies(32, 10000.0, length), expected)
    assert scaling.gain == pytest.approx(gain)


def test_plain_frequencies_are_powers_of_the_base() -> None:
    torch.testing.assert_close(frequencies(4, 100.0), torch.tensor([1.0, 0.1]))


@pytest.mark.parametrize("heads", [1, 2, 8, 6, 12])
def test_alibi_slopes_are_the_reference_ones(heads: int) -> None:
    position: Any = Alibi().build(heads, 4)
    theirs = build_alibi_tensor(torch.ones(1, 5), heads, torch.float32)  # slope * key index
    index = torch.arange(5)[None]
    ours = position.bias(index, index)[0]
    torch.testing.assert_close(ours[:, -1] - ours[:, -1, :1], theirs[:, 0] - theirs[:, 0, :1])


@pytest.mark.parametrize("both", [False, True])
def test_t5_buckets_are_the_reference_ones(both: bool) -> None:
    position = Bucketed(both=both).build(4, 8)
    assert isinstance(position, BucketedBias)
    behind = torch.arange(-300, 301)
    expected = T5Attention._relative_position_bucket(-behind, bidirectional=both, num_buckets=32, max_distance=128)
    assert (position.bucket(behind) == expected).all()
