"""How weights start, as the papers say."""

from __future__ import annotations

import pytest
import torch

from regard.mixers.recurrent import Recurrence, Recurrent
from regard.models import preset
from regard.parts.cell import Kind


def test_gpt2_scales_residual_outputs_by_the_number_of_sublayers() -> None:
    torch.manual_seed(0)
    model = preset("gpt2", width=256, depth=8, vocabulary=500).build()
    for name, weight in model.named_parameters():
        if name.endswith("weight") and weight.dim() == 2:
            writes = ".output." in name or ".down." in name
            expected = 0.02 / 16**0.5 if writes else 0.02
            assert float(weight.detach().std()) == pytest.approx(expected, rel=0.05), name
        elif name.endswith("bias"):
            assert (weight == 0).all()
        else:
            assert (weight == 1).all()


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_recurrent_weights_are_orthogonal_and_the_forget_bias_is_one(cell: Kind) -> None:
    for model in (Recurrent(cell=cell).build(16), preset(cell, width=16, depth=1, vocabulary=9).build()):
        (mixer,) = (part for part in model.modules() if isinstance(part, Recurrence))
        fused = mixer.cell.fused
        for gate in fused.get_parameter("weight_hh_l0").split(16):
            torch.testing.assert_close(gate @ gate.T, torch.eye(16), atol=1e-5, rtol=0)
        bias = fused.get_parameter("bias_ih_l0") + fused.get_parameter("bias_hh_l0")
        assert bias[16:32].eq(1 if cell == "lstm" else 0).all()
        assert bias[:16].eq(0).all()


def test_xavier_bounds_are_the_formula() -> None:
    torch.manual_seed(0)
    model = preset("transformer-tiny", vocabulary=500).build()
    weight = model.get_parameter("encoder.blocks.0.ffn.inner.up.weight")
    bound = (6 / (128 + 256)) ** 0.5
    assert bound * 0.95 < float(weight.detach().abs().max()) <= bound
    table = model.get_parameter("decoder.embedding.tokens.weight")
    assert float(table.detach().std()) == pytest.approx(128**-0.5, rel=0.05)


def test_mamba_starts_with_decays_one_to_n_and_steps_in_range() -> None:
    model = preset("mamba-130m", width=64, depth=1, vocabulary=9).build()
    path = "decoder.blocks.0.mix.inner"
    decay = model.get_parameter(f"{path}.decay").exp()
    torch.testing.assert_close(decay, torch.arange(1.0, 17).expand(128, 16))
    steps = torch.nn.functional.softplus(model.get_parameter(f"{path}.delta.bias"))
    assert ((steps > 0.0009) & (steps < 0.101)).all()


def test_two_models_from_one_seed_are_equal() -> None:
    for name in ("hybrid", "ntm", "bahdanau", "ssm", "deepseek-tiny"):
        states = []
        for _ in range(2):
            torch.manual_seed(3)
            states.append(preset(name, vocabulary=9).build().state_dict())
        assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_every_weight_is_set() -> None:
    """Memory is taken before it is filled: what was forgotten would hold whatever was there."""
    for name in ("hybrid", "ntm", "tutorial", "ssm", "deepseek-tiny", "vit-tiny", "elmo", "t5-small", "mixtral-8x7b"):
        sizes = {"mixtral-8x7b": {"width": 64, "depth": 1, "hidden": 16, "kv_heads": 1, "vocabulary": 9}}.get(name, {})
        model = preset(name, **sizes).build("meta")
        model.to_empty(device="cpu")
        with torch.no_grad():
            for weight in (*model.parameters(), *model.buffers()):
                weight.fill_(float("nan"))
        model.reset()
        for path, weight in (*model.named_parameters(), *model.named_buffers()):
            assert weight.isfinite().all(), f"{name}: {path}"
