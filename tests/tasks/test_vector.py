"""Sentence vectors as the files of sentence-transformers say, against its formulas on the states of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers as hf
from safetensors.torch import save_file
from torch import Tensor

from regard.data.tokenizer import TokenizerSpec
from regard.errors import CheckpointError, RegardError
from regard.hub.load import import_folder
from regard.models import preset
from regard.runs.convert import keep
from regard.runs.load import load
from regard.tasks.embedding import Embedder
from tests.cli.test_cli import regard
from tests.hub.test_answers import WORDS
from tests.parity.test_hub import BERT, LLAMA

KINDS = "sentence_transformers.models."
TEXTS = ["the cat sees the dog.", "green", "the green house sees the cat", "Dog house"]
TOKENIZER = hf.BertTokenizer(vocab={word: n for n, word in enumerate(WORDS)})


def encoder(folder: Path, **files: Any) -> Path:
    """A random encoder in the layout of sentence-transformers; `files` by name, `__` for a slash."""
    torch.manual_seed(3)
    hf.BertModel(hf.BertConfig(**{**BERT, "vocab_size": len(WORDS)})).save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    modules(folder, "Pooling")
    write(folder, "1_Pooling/config.json", {"pooling_mode_mean_tokens": True})
    for name, content in files.items():
        write(folder, name.replace("__", "/") + ".json", content)
    return folder


def modules(folder: Path, *kinds: str) -> None:
    listed = [{"idx": 0, "name": "0", "path": "", "type": f"{KINDS}Transformer"}]
    listed += [{"idx": n, "name": str(n), "path": f"{n}_{k}", "type": KINDS + k} for n, k in enumerate(kinds, 1)]
    write(folder, "modules.json", listed)


def write(folder: Path, name: str, content: Any) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(json.dumps(content))


@torch.no_grad()
def states(folder: Path, texts: list[str], **how: Any) -> tuple[Tensor, Tensor]:
    words = TOKENIZER(texts, padding=True, return_tensors="pt", **how)
    found = hf.BertModel.from_pretrained(folder).eval()(**words).last_hidden_state
    return found, words["attention_mask"][..., None].float()


def formula(x: Tensor, mask: Tensor, mode: str) -> Tensor:
    """As sentence-transformers' Pooling computes it."""
    if mode == "cls_token":
        return x[:, 0]
    if mode == "max_tokens":
        return torch.where(mask == 0, torch.tensor(-1e9), x).max(1).values
    if mode == "mean_tokens":
        return (x * mask).sum(1) / mask.sum(1)
    if mode == "mean_sqrt_len_tokens":
        return (x * mask).sum(1) / mask.sum(1).sqrt()
    if mode == "weightedmean_tokens":
        weights = torch.arange(1, x.shape[1] + 1)[None, :, None] * mask
        return (x * weights).sum(1) / weights.sum(1)
    last = mask[..., 0].sum(1).long() - 1
    return x[torch.arange(len(x)), last]


@pytest.mark.parametrize(
    "modes",
    [
        ["cls_token"],
        ["max_tokens"],
        ["mean_tokens"],
        ["mean_sqrt_len_tokens"],
        ["weightedmean_tokens"],
        ["lasttoken"],
        ["cls_token", "max_tokens", "mean_tokens", "lasttoken"],
    ],
)
def test_a_folder_is_pooled_as_it_says(tmp_path: Path, modes: list[str]) -> None:
    told = {"pooling_mode_mean_tokens": False, **{f"pooling_mode_{mode}": True for mode in modes}}
    folder = encoder(tmp_path / "model")
    write(folder, "1_Pooling/config.json", told)
    keep(import_folder(folder), tmp_path / "kept")
    found = states(folder, TEXTS)
    expected = torch.cat([formula(*found, mode) for mode in modes], 1)
    for noun in ("model", "kept"):
        torch.testing.assert_close(load(str(tmp_path / noun)).embed(TEXTS), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("activation", ["Tanh", "Identity"])
def test_dense_and_normalize_come_in_their_order(tmp_path: Path, activation: str) -> None:
    folder = encoder(tmp_path / "model")
    modules(folder, "Pooling", "Dense", "Normalize")
    layer = {"in_features": 64, "out_features": 5, "bias": True}
    write(folder, "2_Dense/config.json", {**layer, "activation_function": f"torch.nn.modules.x.{activation}"})
    weights = {"linear.weight": torch.randn(5, 64), "linear.bias": torch.randn(5)}
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    keep(import_folder(folder), tmp_path / "kept")
    mean = formula(*states(folder, TEXTS), "mean_tokens")
    dense = F.linear(mean, weights["linear.weight"], weights["linear.bias"])
    expected = F.normalize(torch.tanh(dense) if activation == "Tanh" else dense, dim=-1)
    for noun in ("model", "kept"):
        torch.testing.assert_close(load(str(tmp_path / noun)).embed(TEXTS), expected, atol=1e-5, rtol=1e-5)


def test_without_such_files_it_is_the_mean_at_unit_length(tmp_path: Path) -> None:
    folder = encoder(tmp_path)
    (folder / "modules.json").unlink()
    expected = F.normalize(formula(*states(folder, TEXTS), "mean_tokens"), dim=-1)
    torch.testing.assert_close(load(str(folder)).embed(TEXTS), expected, atol=1e-5, rtol=1e-5)


def test_prompts_stand_before_texts_by_default_or_by_name(tmp_path: Path) -> None:
    prompts = {"query": "the dog sees ", "passage": "green "}
    folder = encoder(tmp_path, config_sentence_transformers={"prompts": prompts, "default_prompt_name": "query"})
    ours = load(str(folder))
    for name, before in (*prompts.items(), (None, prompts["query"])):
        expected = formula(*states(folder, [before + text for text in TEXTS]), "mean_tokens")
        torch.testing.assert_close(ours.embed(TEXTS, prompt=name), expected, atol=1e-5, rtol=1e-5)
    with pytest.raises(RegardError, match="no such prompt"):
        ours.embed(TEXTS, prompt="other")


def test_a_long_text_is_refused_or_cut_where_it_says(tmp_path: Path) -> None:
    folder = encoder(tmp_path / "model", sentence_bert_config={"max_seq_length": 5, "do_lower_case": True})
    ours = load(str(folder))
    with pytest.raises(RegardError, match="a text of 8 tokens, and this model reads 5"):
        ours.embed(TEXTS)
    expected = formula(*states(folder, TEXTS, truncation=True, max_length=5), "mean_tokens")
    torch.testing.assert_close(ours.embed(TEXTS, cut=True), expected, atol=1e-5, rtol=1e-5)
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    assert "--cut" in regard("embed", str(folder), "--file", str(tmp_path / "in.txt")).stderr
    assert regard("embed", str(folder), "--file", str(tmp_path / "in.txt"), "--cut").returncode == 0


def test_a_long_text_is_cut_at_the_positions_of_a_folder_that_says_nothing(tmp_path: Path) -> None:
    folder = encoder(tmp_path)
    positions = BERT["max_position_embeddings"]
    long = "the cat sees the dog " * positions
    ours = load(str(folder))
    with pytest.raises(RegardError, match=f"tokens, and this model reads {positions}\n.*--cut"):
        ours.embed([long])
    expected = formula(*states(folder, [long], truncation=True, max_length=positions), "mean_tokens")
    torch.testing.assert_close(ours.embed([long], cut=True), expected, atol=1e-5, rtol=1e-5)


def test_a_model_of_our_own_reads_the_beginning_of_a_long_text() -> None:
    words = TokenizerSpec(pieces="word").train(["the green cat sees a dog"])
    torch.manual_seed(0)
    sizes = {"width": 16, "depth": 1, "heads": 2, "hidden": 32, "context": 5, "vocabulary": len(words)}
    ours = Embedder(preset("bert-tiny", **sizes).replace(head=None).build().eval(), words)
    with pytest.raises(RegardError, match=r"a text of 8 tokens, and this model reads 5\n.*--cut"):
        ours.embed(["the green cat sees a dog", "a dog"])
    found = ours.embed(["the green cat sees a dog", "a dog"], cut=True)
    torch.testing.assert_close(found, ours.embed(["the green cat", "a dog"]))


def test_lower_case_is_read_where_it_says(tmp_path: Path) -> None:
    folder = encoder(tmp_path)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    plain, lower = load(str(folder)).embed(["the cat", "The Cat"])
    assert not torch.allclose(plain, lower)
    write(folder, "sentence_bert_config.json", {"do_lower_case": True})
    plain, lower = load(str(folder)).embed(["the cat", " The Cat "])
    torch.testing.assert_close(plain, lower)


def test_a_decoder_with_a_pooling_makes_vectors(tmp_path: Path) -> None:
    torch.manual_seed(0)
    hf.Qwen3ForCausalLM(hf.Qwen3Config(**{**LLAMA, "vocab_size": len(WORDS), "head_dim": 8})).save_pretrained(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    modules(tmp_path, "Pooling", "Normalize")
    write(tmp_path, "1_Pooling/config.json", {"pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True})
    ours = load(str(tmp_path))
    assert isinstance(ours, Embedder)
    words = TOKENIZER(TEXTS[0], return_tensors="pt")["input_ids"]
    with torch.no_grad():
        last = hf.Qwen3ForCausalLM.from_pretrained(tmp_path).eval().model(words).last_hidden_state[0, -1]
    torch.testing.assert_close(ours.embed(TEXTS)[0], F.normalize(last, dim=-1), atol=1e-5, rtol=1e-5)


def test_search_ranks_by_cosine_whatever_the_length(tmp_path: Path) -> None:
    folder = encoder(tmp_path / "model", config_sentence_transformers={"prompts": {"query": "the ", "passage": "dog "}})
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    done = regard("search", str(tmp_path / "lines.txt"), "green cat", "--model", str(folder), "--json", "--best", "4")
    assert done.returncode == 0, done.stderr
    hits = [json.loads(line) for line in done.stdout.splitlines()]
    lines = formula(*states(folder, [f"dog {text}" for text in TEXTS]), "mean_tokens")
    query = formula(*states(folder, ["the green cat"]), "mean_tokens")
    cosines = F.cosine_similarity(lines, query)
    assert [hit["text"] for hit in hits] == [TEXTS[n] for n in cosines.argsort(descending=True)]
    assert [hit["cosine"] for hit in hits] == pytest.approx(cosines.sort(descending=True).values.tolist(), abs=1e-5)


def test_an_index_has_its_lines_after_the_prompt_that_is_asked_for(tmp_path: Path) -> None:
    prompts = {"query": "the dog sees ", "passage": "green "}
    folder = encoder(tmp_path / "model", config_sentence_transformers={"prompts": prompts})
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    words = ["embed", str(folder), "--file", str(tmp_path / "lines.txt"), "--index"]
    for options, before in ((["--prompt", "query"], prompts["query"]), ([], prompts["passage"])):
        place = tmp_path / f"index of {before}"
        assert regard(*words, str(place), *options).returncode == 0
        expected = formula(*states(folder, [before + text for text in TEXTS]), "mean_tokens")
        torch.testing.assert_close(torch.from_numpy(np.load(place / "vectors.npy")), expected, atol=1e-5, rtol=1e-5)
    done = regard(*words, str(tmp_path / "none"), "--prompt", "other")
    assert done.returncode != 0
    assert "no such prompt" in done.stderr
    assert not (tmp_path / "none").exists()


def test_vectors_go_to_a_file_or_to_an_index(tmp_path: Path) -> None:
    folder = encoder(tmp_path / "model")
    (tmp_path / "lines.txt").write_text("the cat\n")
    places = tmp_path / "x.npy", tmp_path / "index"
    lines = str(tmp_path / "lines.txt")
    done = regard("embed", str(folder), "--file", lines, "--out", str(places[0]), "--index", str(places[1]))
    assert done.returncode != 0
    assert "--out and --index" in done.stderr
    assert not any(place.exists() for place in places)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("modules.json", [{"type": "Transformer", "path": ""}, {"type": "WordWeights", "path": "x"}], "WordWeights"),
        ("modules.json", [{"type": "Transformer", "path": "0_T"}, {"type": "Pooling", "path": "1_Pooling"}], "itself"),
        ("modules.json", {"type": "Transformer"}, "not a list"),
        ("1_Pooling/config.json", {"pooling_mode_evil": True}, "pooling_mode_evil"),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": False}, "no mode"),
        ("1_Pooling/config.json", {"pooling_mode": "evil"}, "'evil' isn't known"),
        ("sentence_bert_config.json", {"max_seq_length": "long"}, "max_seq_length"),
        ("config_sentence_transformers.json", {"prompts": [1]}, "prompts"),
    ],
)
def test_what_cannot_be_represented_is_refused_by_name(tmp_path: Path, name: str, content: Any, told: str) -> None:
    folder = encoder(tmp_path)
    write(folder, name, content)
    with pytest.raises(RegardError, match=told):
        load(str(folder))


@pytest.mark.parametrize("missing", ["1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"])
def test_a_module_whose_files_are_missing_is_refused_by_name(tmp_path: Path, missing: str) -> None:
    folder = encoder(tmp_path)
    modules(folder, "Pooling", "Dense")
    write(folder, "2_Dense/config.json", {"in_features": 64, "out_features": 64, "bias": False})
    save_file({"linear.weight": torch.eye(64)}, folder / "2_Dense" / "model.safetensors")
    assert load(str(folder)).embed(TEXTS).shape == (4, 64)
    (folder / missing).unlink()
    with pytest.raises(CheckpointError, match=missing):
        load(str(folder))


def test_a_pooling_in_a_folder_that_is_not_kept_is_no_mean(tmp_path: Path) -> None:
    folder = encoder(tmp_path)
    listed = [{"path": "", "type": f"{KINDS}Transformer"}, {"path": "pooling", "type": f"{KINDS}Pooling"}]
    write(folder, "modules.json", listed)
    write(folder, "pooling/config.json", {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True})
    with pytest.raises(CheckpointError, match=r"modules.json: .*pooling/config.json"):
        load(str(folder))


def test_vectors_that_are_compared_otherwise_are_not_searched(tmp_path: Path) -> None:
    folder = encoder(tmp_path / "model", config_sentence_transformers={"similarity_fn_name": "dot"})
    (tmp_path / "lines.txt").write_text("the cat\n")
    done = regard("search", str(tmp_path / "lines.txt"), "cat", "--model", str(folder))
    assert done.returncode != 0
    assert "compared by dot" in done.stderr
    modules(folder, "Pooling", "Normalize")
    assert regard("search", str(tmp_path / "lines.txt"), "cat", "--model", str(folder)).returncode == 0
