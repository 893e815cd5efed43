"""Texts through both tokenizers and both models: what agrees, and what is said where something doesn't."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import Mismatch
from regard.hub.compare import TEXTS, Comparison, compare
from regard.runs.load import load_bundle
from tests.cli.test_cli import regard
from tests.cli.test_verbs import told
from tests.hub.test_outgoing import BERT, BESIDE, LLAMA, LLAMA_KEYS, came, opus, spelled
from tests.runs.test_tasks import ENCODER, FINE, FIRST, RUNS, train

PAIR = {"kind": "transformer-tiny", "width": 16, "depth": 1, "heads": 2, "hidden": 32, "dropout": 0.0}
TREES: dict[str, dict[str, Any]] = {
    **{name: RUNS[name] for name in ("language", "masking", "classification", "embedding")},
    "tagging": {"task": "tagging", "corpus": FIRST, "model": ENCODER},
    "translation": {"task": "translation", "corpus": FIRST, "model": PAIR},
    "a decoder alone": RUNS["translation"],
}


@pytest.mark.parametrize("name", TREES)
def test_what_was_trained_here_reads_and_writes_alike_elsewhere(tmp_path: Path, name: str) -> None:
    done = train(tmp_path, TREES[name], "train.evaluate=0", "train.steps=4")
    assert done.returncode == 0, done.stderr
    (found,) = told(regard("export", str(tmp_path / "run"), str(tmp_path / "out"), "--check", "--json"))
    assert found["largest_difference"] < 1e-4
    assert found["difference"] is None
    assert found["texts"] >= len(TEXTS) - 3


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with a tagger and an encoder, as they go out."""
    found = {}
    for name in ("tagging", "embedding"):
        folder = tmp_path_factory.mktemp(name)
        assert train(folder, TREES[name], "train.evaluate=0", "train.steps=4").returncode == 0
        assert regard("export", str(folder / "run"), str(folder / "out")).returncode == 0
        found[name] = folder / "out"
    return found


def test_labels_that_differ_are_told(sent: dict[str, Path]) -> None:
    folder = sent["tagging"]
    given = load_bundle(str(folder), "cpu")
    assert compare(folder, given).difference is None
    assert given.lexicon is not None
    labels = [label.lower() for label in given.lexicon.labels]
    found = compare(folder, replace(given, lexicon=replace(given.lexicon, labels=labels))).difference
    assert found is not None
    assert found.what == "labels"
    assert found.here == [label.lower() for label in found.there]


def test_vectors_that_differ_are_told(sent: dict[str, Path]) -> None:
    folder = sent["embedding"]
    given = load_bundle(str(folder), "cpu")
    assert compare(folder, given).difference is None
    with torch.no_grad():
        next(given.model.parameters()).mul_(2)
    found = compare(folder, given).difference
    assert found is not None
    assert found.what == "vectors"


def test_a_check_that_compares_no_text_fails_and_says_why(sent: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "short"
    shutil.copytree(sent["embedding"], folder)
    listed = [{"type": "Transformer", "path": ""}, {"type": "Pooling", "path": "1_Pooling"}]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 1}')
    done = regard("import", str(folder), "--check", "--json")
    assert done.returncode == Mismatch.status
    assert json.loads(done.stdout)["texts"] == 0
    assert "no text could be compared" in done.stderr
    assert "this model reads 1" in done.stderr


def llama(folder: Path) -> None:
    came("llama", folder, spelled(LLAMA, "<s> $A"), BESIDE, **LLAMA_KEYS)


def bert(folder: Path) -> None:
    engine = spelled(BERT, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
    keys = {"pad_token_id": 0, "bos_token_id": None, "eos_token_id": None}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": ["input_ids", "token_type_ids"]}
    came("bert classes", folder, engine, {"tokenizer_config.json": json.dumps(config).encode()}, **keys)


@pytest.mark.filterwarnings("ignore:Recommended")
@pytest.mark.parametrize("make", [llama, bert, opus])
def test_what_comes_from_elsewhere_reads_and_writes_alike_here(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "came")
    shown = regard("import", str(tmp_path / "came"), "--check")
    assert shown.returncode == 0, shown.stderr
    assert "texts" in shown.stdout
    (found,) = told(regard("import", str(tmp_path / "came"), "--check", "--json"))
    assert found["texts"] >= len(TEXTS) - 3
    assert found["difference"] is None


def test_the_first_text_that_differs_is_told_with_both_lists_of_tokens(tmp_path: Path) -> None:
    """transformers' BertTokenizer lowers letters by a setting of its own; tokenizer.json doesn't."""
    bert(tmp_path / "came")
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (tmp_path / "came" / "tokenizer_config.json").write_text(json.dumps(config))
    done = regard("import", str(tmp_path / "came"), "--check", "--json")
    assert done.returncode == 4
    found = json.loads(done.stdout)["difference"]
    assert found["text"] == TEXTS[0]
    assert found["what"] == "tokens"
    assert found["here"][:3] == ["[CLS]", "T", "h"]
    assert found["there"] != found["here"]
    assert "tokens of 'The cat sleeps.' differ" in done.stderr


def test_outputs_that_differ_end_in_an_error() -> None:
    with pytest.raises(Mismatch, match=r"by 0\.5"):
        Comparison(0.5, 0, None).insist(Path("folder"))
    Comparison(1e-5, 3, None).insist(Path("folder"))


def test_only_what_transformers_reads_is_compared_with_it(tmp_path: Path) -> None:
    llama(tmp_path / "came")
    done = regard("export", str(tmp_path / "came"), str(tmp_path / "x"), "--to", "onnx", "--check")
    assert done.returncode != 0
    assert "--to hf" in done.stderr


def test_a_fine_tuned_model_reads_and_writes_alike_elsewhere(tmp_path: Path) -> None:
    llama(tmp_path / "came")
    tree = {"task": {"kind": "language", "context": 64}, "corpus": FIRST, "start": str(tmp_path / "came")}
    assert train(tmp_path, {**tree, "train": {**FINE, "evaluate": 0}}).returncode == 0
    (found,) = told(regard("export", str(tmp_path / "run"), str(tmp_path / "out"), "--check", "--json"))
    assert found["difference"] is None
    assert found["texts"] > 3
