"""The template of a tokenizer of others decides how texts begin and end, for every verb: the tokens reach the model as
transformers would send them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers, processors

from regard.hub.load import import_folder
from regard.runs.convert import keep
from regard.runs.load import load
from tests.parity.test_hub import BERT, LLAMA, MARIAN

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<odd>", "the", "cat", "dog", "sees", "</s>"]
NUMBERS = {word: n for n, word in enumerate(WORDS)}
TEXT, SECOND = "the cat sees", "the dog"


def words(folder: Path, single: str, pair: str = "$A $B") -> Any:
    """A tokenizer with a template of its own, as a file and as transformers reads it."""
    engine = Engine(models.WordLevel(NUMBERS, unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    engine.add_special_tokens([word for word in WORDS if not word.isalpha()])
    special = [(word, n) for word, n in NUMBERS.items() if not word.isalpha()]
    engine.post_processor = processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)
    engine.save(str(folder / "tokenizer.json"))
    return hf.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))


def saved(folder: Path, kind: str, config: Any, **keys: Any) -> Any:
    torch.manual_seed(4)
    model = getattr(hf, kind)(config).eval()
    with torch.no_grad():
        for weight in (weight for name, weight in model.named_parameters() if "embed_positions" not in name):
            weight.add_(torch.randn_like(weight) * 0.2)
    model.save_pretrained(folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))
    return model


def pipelines(folder: Path) -> list[Any]:
    """From the folder, and from a run that keeps it."""
    keep(import_folder(folder), folder.parent / "kept")
    return [load(str(folder)), load(str(folder.parent / "kept"))]


@torch.no_grad()
@pytest.mark.parametrize("template", ["[CLS] $A [SEP]", "<odd> [CLS] $A", "$A"])
def test_an_encoder_classifies_tags_and_fills_in_by_the_template(tmp_path: Path, template: str) -> None:
    config = hf.BertConfig(**{**BERT, "vocab_size": len(WORDS), "num_labels": 3})
    pair = f"{template} $B:1 [SEP]:1"
    for kind in ("SequenceClassification", "TokenClassification", "MaskedLM"):
        folder = tmp_path / kind / "model"
        model = saved(folder, f"BertFor{kind}", config, bos_token_id=0)
        theirs = words(folder, template, pair)
        one = theirs(TEXT, return_tensors="pt")
        for ours in pipelines(folder):
            if kind == "SequenceClassification":
                both = theirs(TEXT, SECOND, return_tensors="pt", return_token_type_ids=True)
                for given, texts in ((one, (TEXT,)), (both, (TEXT, SECOND))):
                    expected = model(**given).logits[0].tolist()
                    assert list(ours.classify(*texts).scores.values()) == pytest.approx(expected, abs=1e-4)
            elif kind == "TokenClassification":
                first = one["input_ids"][0].tolist().index(NUMBERS["the"])
                places = model(**one).logits[0, first : first + 3].argmax(-1)
                assert ours.tag(TEXT.split()) == [
                    (word, f"LABEL_{n}") for word, n in zip(TEXT.split(), places.tolist(), strict=True)
                ]
            else:
                hidden = theirs("the [MASK] sees", return_tensors="pt")
                place = hidden["input_ids"][0].tolist().index(NUMBERS["[MASK]"])
                best = model(**hidden).logits[0, place].softmax(-1).max()
                assert ours.fill("the [MASK] sees").guesses[0][0].probability == pytest.approx(float(best), abs=1e-5)


def test_a_pair_whose_texts_spell_special_tokens_has_only_those_of_the_template(tmp_path: Path) -> None:
    saved(tmp_path, "BertForSequenceClassification", hf.BertConfig(**{**BERT, "vocab_size": len(WORDS)}))
    words(tmp_path, "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1")
    ours = load(str(tmp_path))
    odd, usual = ours.classify("the [SEP] cat", "[CLS] dog"), ours.classify("the [UNK] cat", "[UNK] dog")
    assert odd.scores == pytest.approx(usual.scores, abs=1e-6)


@pytest.mark.parametrize("template", ["$A </s>", "<odd> $A </s>", "$A"])
def test_a_source_is_translated_by_the_template(tmp_path: Path, template: str) -> None:
    sizes = {"vocab_size": len(WORDS), "decoder_vocab_size": len(WORDS), "eos_token_id": 10}
    folder = tmp_path / "model"
    model = saved(folder, "MarianMTModel", hf.MarianConfig(**{**MARIAN, **sizes}))
    given = words(folder, template)(TEXT, return_tensors="pt", return_token_type_ids=False)
    (folder / "generation_config.json").unlink()
    expected = model.generate(**given, num_beams=1, do_sample=False, max_new_tokens=8)[0].tolist()
    for ours in pipelines(folder):
        found = ours.translate(TEXT, beam=1, max_tokens=8)
        assert found.source_tokens == [WORDS[n] for n in given["input_ids"][0].tolist()]
        length = min(len(found.tokens) - 1, 7)
        assert [NUMBERS[piece] for piece in found.tokens][:length] == expected[1 : length + 1]


@pytest.mark.parametrize("template", ["[CLS] $A", "[CLS] $A [SEP]", "$A"])
def test_a_prompt_is_read_by_the_template(tmp_path: Path, template: str) -> None:
    folder = tmp_path / "model"
    saved(folder, "LlamaForCausalLM", hf.LlamaConfig(**{**LLAMA, "vocab_size": len(WORDS)}), eos_token_id=10)
    theirs = words(folder, template)
    for ours in pipelines(folder):
        assert ours.read(TEXT) == theirs(TEXT)["input_ids"]
