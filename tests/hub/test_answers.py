"""Classifiers of others answer as their own config says: transformers' pipeline and the formulas are the oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from regard.errors import RegardError
from regard.hub.load import import_folder
from regard.runs.convert import keep
from regard.runs.load import load
from tests.cli.test_cli import regard
from tests.parity.test_hub import BERT

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sees", "green", "house", "."]
TEXTS = ["the cat sees the dog.", "green", "the green house sees"]


def bert(folder: Path, **settings: Any) -> Path:
    """A random classifier with a few words."""
    torch.manual_seed(2)
    model = hf.BertForSequenceClassification(hf.BertConfig(**{**BERT, "vocab_size": len(WORDS), **settings})).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight) * 0.2)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    return folder


def pipeline(folder: Path) -> Any:
    model = hf.BertForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = hf.BertTokenizer(vocab={word: n for n, word in enumerate(WORDS)})
    return hf.TextClassificationPipeline(model=model, tokenizer=tokenizer, top_k=None)


@pytest.mark.parametrize(
    ("output", "settings"),
    [
        ("softmax", {"num_labels": 3}),
        ("softmax", {}),  # two labels that the config doesn't name
        ("sigmoid", {"num_labels": 3, "problem_type": "multi_label_classification"}),
        ("sigmoid", {"num_labels": 1}),
        ("none", {"num_labels": 1, "problem_type": "regression"}),
        ("none", {"num_labels": 2, "problem_type": "regression"}),
    ],
)
def test_a_head_answers_as_its_config_says(tmp_path: Path, output: str, settings: dict[str, Any]) -> None:
    folder = bert(tmp_path / "model", **settings)
    keep(import_folder(folder), tmp_path / "kept")
    expected = [{item["label"]: item["score"] for item in found} for found in pipeline(folder)(TEXTS)]
    for noun in ("model", "kept"):
        ours = load(str(tmp_path / noun))
        assert ours.output == output
        for text, wanted in zip(TEXTS, expected, strict=True):
            verdict = ours.classify(text)
            assert (verdict.scores if output == "none" else verdict.probabilities) == pytest.approx(wanted, abs=1e-5)
            assert verdict.label == max(wanted, key=lambda label: wanted[label])
            assert (verdict.probability is None) == (output == "none")
            if output == "sigmoid":
                assert verdict.labels == [label for label in verdict.probabilities if wanted[label] >= 0.5]
                assert torch.tensor(verdict.scores[verdict.label]).sigmoid() == pytest.approx(verdict.probability)


@pytest.mark.parametrize(
    "keys",
    [
        {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}},
        {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
    ],
)
def test_a_cross_encoder_that_says_identity_gives_its_score(tmp_path: Path, keys: dict[str, Any]) -> None:
    folder = bert(tmp_path, num_labels=1)
    plain = load(str(folder)).classify("the cat", "the dog")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | keys))
    verdict = load(str(folder)).classify("the cat", "the dog")
    assert verdict.probability is None
    assert verdict.scores == plain.scores
    assert 0 < plain.probability < 1
    config |= {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(RegardError, match=r"activation .*Tanh"):
        load(str(folder))


def test_the_verb_prints_all_labels_that_hold_and_scores_without_labels(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    many = bert(tmp_path / "many", num_labels=3, problem_type="multi_label_classification")
    ours = load(str(many))
    lines = regard("classify", str(many), "--file", str(tmp_path / "in.txt")).stdout.splitlines()
    for text, line in zip(TEXTS, lines, strict=True):
        found = ours.classify(text)
        shares = ",".join(f"{found.probabilities[label]:.4f}" for label in found.labels)
        assert line == f"{','.join(found.labels)}\t{shares}\t{text}"
    one = bert(tmp_path / "one", num_labels=1, problem_type="regression")
    done = regard("classify", str(one), "--file", str(tmp_path / "in.txt"))
    assert (
        done.stdout.splitlines()[0] == f"LABEL_0\t{load(str(one)).classify(TEXTS[0]).scores['LABEL_0']:.4f}\t{TEXTS[0]}"
    )
    told = json.loads(regard("classify", str(one), "--file", str(tmp_path / "in.txt"), "--json").stdout.splitlines()[0])
    assert told["probability"] is None
    assert told["scores"].keys() == {"LABEL_0"}


@pytest.mark.parametrize("problem", ["multi_label_classification", "regression"])
def test_eval_refuses_what_does_not_choose_one_label(tmp_path: Path, problem: str) -> None:
    folder = bert(tmp_path / "model", num_labels=2, problem_type=problem)
    (tmp_path / "test.tsv").write_text("the cat\tLABEL_0\n")
    done = regard("eval", str(folder), "--data", str(tmp_path / "test.tsv"))
    assert done.returncode != 0
    assert "eval measures one label of several" in done.stderr


def test_two_classes_of_one_name_are_refused(tmp_path: Path) -> None:
    folder = bert(tmp_path, id2label={0: "same", 1: "same"})
    with pytest.raises(RegardError, match="'same' is the name of two classes"):
        load(str(folder))
