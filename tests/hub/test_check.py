"""Comparing with transformers: every class that can be read, and no false alarm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from regard.hub.check import largest_difference
from regard.hub.load import import_folder
from tests.cli.test_cli import regard
from tests.parity.test_hub import BERT, CLOSE, MAMBA, T5, made


def saved(folder: Path, model: Any) -> Path:
    """A random model of transformers, away from its start."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.1)
    model.eval().save_pretrained(folder)
    return folder


def test_a_bert_for_pretraining_is_compared(tmp_path: Path) -> None:
    folder = saved(tmp_path, hf.BertForPreTraining(hf.BertConfig(**BERT)))
    found = import_folder(folder)
    assert "cls.seq_relationship.weight" in found.unused
    assert largest_difference(folder, found) <= CLOSE
    done = regard("import", str(folder), "--check")
    assert done.returncode == 0, done.stderr


def test_a_bert_without_pooler_is_the_encoder_alone(tmp_path: Path) -> None:
    folder = saved(tmp_path, hf.BertModel(hf.BertConfig(**BERT), add_pooling_layer=False))
    found = import_folder(folder)
    assert found.model.spec.head is None
    assert largest_difference(folder, found) <= CLOSE


def test_mamba_with_biases_raises_no_false_alarm(tmp_path: Path) -> None:
    folder = saved(tmp_path, hf.MambaForCausalLM(hf.MambaConfig(**MAMBA, use_bias=True)))
    assert largest_difference(folder, import_folder(folder)) <= CLOSE


def test_a_mamba_that_differs_is_still_told(tmp_path: Path) -> None:
    folder = saved(tmp_path, hf.MambaForCausalLM(hf.MambaConfig(**MAMBA, use_bias=True)))
    found = import_folder(folder)
    with torch.no_grad():
        found.model.get_parameter("decoder.blocks.0.mix.inner.input.bias").add_(0.1)
    assert largest_difference(folder, found) > CLOSE


def test_the_extra_bias_of_the_first_t5_files_is_left_aside(tmp_path: Path) -> None:
    """The files of t5-small, t5-base and t5-large have it, and transformers ignores it."""
    made("t5", tmp_path)
    path = tmp_path / "model.safetensors"
    stray = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    save_file({**load_file(path), stray: torch.ones(32, T5["num_heads"])}, path, metadata={"format": "pt"})
    found = import_folder(tmp_path)
    assert found.unused == [stray]
    assert largest_difference(tmp_path, found) <= CLOSE


@pytest.mark.parametrize("lacks", ["pooler.dense.weight", "encoder.layer.1.output.dense.bias"])
def test_half_a_pooler_or_a_missing_layer_is_told(tmp_path: Path, lacks: str) -> None:
    folder = saved(tmp_path, hf.BertModel(hf.BertConfig(**BERT)))
    path = folder / "model.safetensors"
    save_file({name: tensor for name, tensor in load_file(path).items() if name != lacks}, path)
    with pytest.raises(Exception, match=f"missing:\n    {lacks}"):
        import_folder(folder)
