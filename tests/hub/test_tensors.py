"""Files that say otherwise than their config.json: tensors that repeat others, and several types in one file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import CheckpointError
from regard.hub.check import largest_difference
from regard.hub.load import import_folder
from regard.runs.convert import keep, send
from regard.runs.load import load_bundle
from tests.parity.test_hub import CLOSE, made

TIED = {
    "llama tied, one key head": "model.embed_tokens.weight",
    "gpt2": "transformer.wte.weight",
    "mamba": "backbone.embeddings.weight",
}


def change(folder: Path, **tensors: torch.Tensor) -> None:
    path = folder / "model.safetensors"
    changed = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    save_file(load_file(path) | changed, path, metadata={"format": "pt"})


@pytest.mark.parametrize("case", TIED)
def test_a_tied_head_that_the_file_has_otherwise_is_used_as_it_is(tmp_path: Path, case: str) -> None:
    folder = tmp_path / "model"
    made(case, folder)
    words = load_file(folder / "model.safetensors")[TIED[case]]
    change(folder, lm_head__weight=words.clone())
    same = import_folder(folder)
    assert same.unused == ["lm_head.weight"]
    assert largest_difference(folder, same) <= CLOSE
    change(folder, lm_head__weight=words + torch.randn_like(words))
    found = import_folder(folder)
    assert found.unused == []
    assert largest_difference(folder, found) <= CLOSE  # transformers doesn't tie them either
    keep(found, tmp_path / "kept")
    tokens = torch.arange(5)[None]
    kept = load_bundle(str(tmp_path / "kept"), "cpu").model
    # matrices that lie the other way round are multiplied in another order of sums
    torch.testing.assert_close(kept(tokens), found.model(tokens), rtol=1e-5, atol=1e-5)
    send(str(tmp_path / "kept"), "hf", tmp_path / "again")
    assert torch.equal(import_folder(tmp_path / "again").model(tokens), found.model(tokens))


@pytest.mark.parametrize(
    ("case", "name", "other"),
    [
        ("bert masking", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("bert masking", "cls.predictions.decoder.bias", "cls.predictions.bias"),
        ("modernbert masking", "decoder.weight", "model.embeddings.tok_embeddings.weight"),
        ("t5", "encoder.embed_tokens.weight", "shared.weight"),
        ("marian", "lm_head.weight", "model.shared.weight"),
        ("openai-gpt", "lm_head.weight", "transformer.tokens_embed.weight"),
    ],
)
def test_a_copy_that_differs_is_refused_by_name(tmp_path: Path, case: str, name: str, other: str) -> None:
    made(case, tmp_path)
    tensor = load_file(tmp_path / "model.safetensors")[other]
    change(tmp_path, **{name: tensor.clone()})
    assert name in import_folder(tmp_path).unused
    change(tmp_path, **{name: tensor + 1})
    with pytest.raises(CheckpointError, match=f"copies that differ from what they must equal:\n    {name} and {other}"):
        import_folder(tmp_path)


@pytest.mark.parametrize(
    ("dtypes", "widest"),
    [
        ((torch.bfloat16, torch.float32), torch.float32),
        ((torch.bfloat16, torch.float16), torch.float32),
        ((torch.bfloat16, torch.bfloat16), torch.bfloat16),
    ],
)
def test_a_file_of_several_types_is_read_in_one_that_rounds_nothing(
    tmp_path: Path, dtypes: tuple[torch.dtype, torch.dtype], widest: torch.dtype
) -> None:
    made("llama", tmp_path)
    path = tmp_path / "model.safetensors"
    mixed = {name: tensor.to(dtypes["norm" in name]) for name, tensor in load_file(path).items()}
    save_file(mixed, path, metadata={"format": "pt"})
    model = import_folder(tmp_path).model
    assert {weight.dtype for weight in model.parameters()} == {widest}
    assert torch.equal(model.get_parameter("decoder.norm.weight"), mixed["model.norm.weight"].to(widest))
    assert model(torch.arange(4)[None]).dtype == widest


def test_a_type_that_is_not_computed_with_is_refused_by_name(tmp_path: Path) -> None:
    made("llama", tmp_path)
    change(
        tmp_path, model__norm__weight=torch.ones(64).to(torch.float8_e4m3fn), lm_head__weight=torch.ones(97, 64).int()
    )
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight torch\.float8_e4m3fn") as caught:
        import_folder(tmp_path)
    assert "lm_head.weight torch.int32" in str(caught.value)
