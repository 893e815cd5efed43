"""Tokenizers that come with a folder, against the libraries that they come from."""

from __future__ import annotations

import io
import json
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from transformers import BertTokenizer, GPT2Tokenizer, OpenAIGPTTokenizer

from regard.data.corpora.english_french import pairs
from regard.data.tokenizer import TokenizerSpec
from regard.errors import DataError
from regard.hub.words import tokenizers

TEXTS = [text for pair in islice(pairs("train"), 300) for text in (pair.source, pair.target)]
STRANGE = ["Ça va ?  Oui, très bien…", "naïve café 12½", "", "日本語 🐈", "tabs\tand   spaces", "don't stop"]


def numbers(folder: Path, kind: str, texts: list[str]) -> list[list[int]]:
    found = tokenizers(folder, {"model_type": kind, "eos_token_id": 1})
    assert found is not None
    return found[0].encode(texts)


@pytest.mark.parametrize(("kind", "reference"), [("gpt2", GPT2Tokenizer), ("openai-gpt", OpenAIGPTTokenizer)])
def test_vocabulary_and_merges(tmp_path: Path, kind: str, reference: Any) -> None:
    learned = json.loads(TokenizerSpec(pieces="byte").train(TEXTS).engine.to_str())["model"]["vocab"]
    if kind == "gpt2":
        vocabulary, merges = dict(learned), [("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ġ", "c"), ("o", "u")]
    else:
        letters = sorted({letter for text in TEXTS for letter in text.lower()} | set("abcdefghijklmnopqrstuvwxyz"))
        names = ["<unk>", *letters, *(f"{letter}</w>" for letter in letters)]
        vocabulary = {name: n for n, name in enumerate(dict.fromkeys(names))}
        merges = [("t", "h"), ("th", "e</w>"), ("o", "u")]
    for left, right in merges:
        vocabulary[left + right] = len(vocabulary)
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    theirs = reference(vocab=vocabulary, merges=merges)
    expected = [theirs(text, add_special_tokens=False)["input_ids"] for text in TEXTS + STRANGE]
    assert numbers(tmp_path, kind, TEXTS + STRANGE) == expected


@pytest.mark.parametrize("lower", [True, False])
def test_a_list_of_words(tmp_path: Path, lower: bool) -> None:
    engine = TokenizerSpec(pieces="wordpiece", vocabulary=400, lowercase=lower).train(TEXTS).engine
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted(engine.get_vocab())]
    vocabulary = {word: n for n, word in enumerate(dict.fromkeys(words))}
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": lower}))
    theirs = BertTokenizer(vocab=vocabulary, do_lower_case=lower)
    expected = [theirs(text, add_special_tokens=False)["input_ids"] for text in TEXTS + STRANGE]
    assert numbers(tmp_path, "bert", TEXTS + STRANGE) == expected
    found = tokenizers(tmp_path, {"model_type": "bert"})
    assert found is not None
    assert found[0].obey("a [MASK] [SEP]", [4]) == [*found[0].encode(["a"])[0], 4, *found[0].encode(["[SEP]"])[0]]


def learned(kind: str, texts: list[str], size: int, **settings: Any) -> bytes:
    """A SentencePiece model of some texts."""
    library = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    library.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        model_type=kind,
        vocab_size=size,
        minloglevel=2,
        num_threads=1,
        character_coverage=1.0,
        **settings,
    )
    return model.getvalue()


@pytest.mark.parametrize("kind", ["llama", "t5"])
def test_a_sentencepiece_model(tmp_path: Path, kind: str) -> None:
    library = pytest.importorskip("sentencepiece")
    if kind == "llama":
        plain = {"byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}
        content, name = learned("bpe", TEXTS, 600, **plain), "tokenizer.model"
    else:
        content, name = learned("unigram", TEXTS, 400), "spiece.model"
    (tmp_path / name).write_bytes(content)
    theirs = library.SentencePieceProcessor(model_proto=content)
    texts = [text for text in TEXTS + STRANGE if text]
    assert numbers(tmp_path, kind, texts) == theirs.encode(texts)
    ours = tokenizers(tmp_path, {"model_type": kind, "eos_token_id": 2})
    assert ours is not None
    assert ours[0].decode(ours[0].encode(TEXTS)) == TEXTS


def test_a_pair_of_sentencepiece_models_with_one_list(tmp_path: Path) -> None:
    library = pytest.importorskip("sentencepiece")
    sides = {"source": TEXTS[::2], "target": TEXTS[1::2]}
    models = {side: learned("unigram", texts, 300) for side, texts in sides.items()}
    engines = {side: library.SentencePieceProcessor(model_proto=model) for side, model in models.items()}
    names = ["</s>", "<unk>", *(engine.id_to_piece(n) for engine in engines.values() for n in range(300)), "<pad>"]
    numbered = {name: n for n, name in enumerate(dict.fromkeys(names))}
    (tmp_path / "vocab.json").write_text(json.dumps(numbered))
    for side, model in models.items():
        (tmp_path / f"{side}.spm").write_bytes(model)
    found = tokenizers(tmp_path, {"model_type": "marian", "eos_token_id": 0, "pad_token_id": len(numbered) - 1})
    assert found is not None
    for tokenizer, (side, texts) in zip(found, sides.items(), strict=True):
        pieces = engines[side].encode(texts, out_type=str)
        assert tokenizer.encode(texts) == [[numbered.get(piece, 1) for piece in row] for row in pieces]


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt", "tokenizer.model", "spiece.model"])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    pytest.importorskip("sentencepiece")
    (tmp_path / name).write_bytes(b"{not a tokenizer")
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        tokenizers(tmp_path, {"model_type": "x"})


def test_no_tokenizer_is_nothing(tmp_path: Path) -> None:
    assert tokenizers(tmp_path, {}) is None


def test_what_a_file_says_of_special_tokens_lengths_and_nothing(tmp_path: Path) -> None:
    """BERT's own: config.json may say null, and tokenizer.json may cut and pad."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "dog"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    found = tokenizers(tmp_path, {"model_type": "bert", "bos_token_id": None, "eos_token_id": None, "pad_token_id": 0})
    assert found is not None
    one = found[0]
    assert (one.pad, one.unknown, one.begin, one.end, one.separator, one.mask) == (0, 1, 2, 3, 3, 4)
    one.engine.enable_truncation(3)
    one.engine.enable_padding(length=5)
    one.engine.save(str(tmp_path / "tokenizer.json"))
    again = tokenizers(tmp_path, {"model_type": "bert"})
    assert again is not None
    assert again[0].encode(["cat dog cat dog"]) == [[5, 6, 5, 6]]


@pytest.mark.parametrize("flags", [{}, {"add_bos_token": False}, {"add_eos_token": True}])
def test_a_tokenizer_model_alone_frames_texts_as_llama_does(tmp_path: Path, flags: dict[str, bool]) -> None:
    plain = {"byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False}
    (tmp_path / "tokenizer.model").write_bytes(learned("bpe", TEXTS, 600, **plain))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "LlamaTokenizer", **flags}))
    found = tokenizers(tmp_path, {"model_type": "llama", "bos_token_id": 1, "eos_token_id": 2})
    assert found is not None
    first = (1,) if flags.get("add_bos_token", True) else ()
    assert found[0].frame == (first, (2,) if flags.get("add_eos_token") else ())
    assert found[0].engine.encode("a cat").ids[: len(first)] == list(first)
    assert (found[0].begin, found[0].end) == (1, 2)


def test_a_damaged_tokenizer_config_is_named(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat"]))
    for content in ("{", "[]"):
        (tmp_path / "tokenizer_config.json").write_text(content)
        with pytest.raises(DataError, match=r"tokenizer_config\.json"):
            tokenizers(tmp_path, {"model_type": "bert"})


def test_the_template_tells_what_stands_around_a_text_not_the_config_of_a_bert(tmp_path: Path) -> None:
    """There are configs of BERT with bos_token_id 0, which is [PAD]."""
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat"]))
    found = tokenizers(tmp_path, {"model_type": "bert", "bos_token_id": 0, "eos_token_id": 5, "pad_token_id": None})
    assert found is not None
    assert (found[0].begin, found[0].end, found[0].pad) == (2, 3, 0)


def test_sources_of_t5_and_marian_end_as_their_libraries_end_them(tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(learned("unigram", TEXTS, 400))
    found = tokenizers(tmp_path, {"model_type": "t5", "eos_token_id": 2, "decoder_start_token_id": 0})
    assert found is not None
    assert found[0].frame == ((), (found[0].engine.token_to_id("</s>"),))
    assert found[0].begin == 0
