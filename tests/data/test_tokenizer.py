"""Tokenizers: there and back, saved and loaded, and every special token in its place."""

from __future__ import annotations

import json
import unicodedata
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers, processors

from regard.data.tokenizer import MASK, SEPARATOR, SPECIAL, Kind, Tokenizer, TokenizerSpec
from regard.errors import DataError, InputError, SpecError

TEXTS = [
    "I like the green cat.",
    "J'aime le chat vert.",
    "The cats don't like the dogs, do they?",
    "Les chats n'aiment pas les chiens, n'est-ce pas ?",
    "Où est l'école de mon amie ?",
] * 20


def trained(pieces: Any, **settings: Any) -> Tokenizer:
    return TokenizerSpec(pieces=pieces, vocabulary=300, **settings).train(iter(TEXTS))


@pytest.mark.parametrize("pieces", get_args(Kind))
def test_text_comes_back(pieces: Any, tmp_path: Path) -> None:
    tokenizer = trained(pieces)
    rows = tokenizer.encode(TEXTS[:5])
    found = tokenizer.decode(rows)
    if pieces in ("wordpiece", "word"):  # spaces around punctuation aren't kept
        assert [text.replace(" ", "") for text in found] == [text.replace(" ", "") for text in TEXTS[:5]]
    else:
        assert found == TEXTS[:5]
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.encode(TEXTS[:5]) == rows
    assert len(again) == len(tokenizer)
    assert [again.engine.token_to_id(token) for token in SPECIAL] == [0, 1, 2, 3]


def test_punctuation_is_put_where_it_stands_among_words() -> None:
    texts = ["a cat, a (small) dog: 5% of them!", "isn't it a t-shirt? [yes]; l'ami\N{RIGHT SINGLE QUOTATION MARK}s..."]
    tokenizer = TokenizerSpec(pieces="word").train(texts)
    (first, second) = tokenizer.encode(texts)
    assert tokenizer.decode([first, second]) == texts
    for row in (first, second):  # a text that grows never takes back what it has shown
        grown = tokenizer.decode([row[:count] for count in range(len(row) + 1)])
        assert all(after.startswith(before) for before, after in pairwise(grown))


NASTY = [
    *(f"a{token}b {token} c" for token in (*SPECIAL, SEPARATOR, MASK)),
    *(unicodedata.normalize(form, "é ﬁ Å が 한") for form in ("NFC", "NFD", "NFKC", "NFKD")),
    *("  two\t\ttabs \r\n\n", "\0", "▁ Ġ Ċ ##", "\u200b\ufeff\u2028", "🐈\u200d⬛", "\U0010ffff", "'s don't 12½"),
]


@pytest.mark.parametrize("pieces", ["byte", "byte-bpe"])
def test_bytes_give_back_any_text_to_the_byte(pieces: Any) -> None:
    tokenizer = trained(pieces)
    tokenizer.extend((SEPARATOR, MASK))
    chance = Random(3)
    drawn = ["".join(chr(chance.choice([chance.randrange(0xD800), 0x1F408])) for _ in range(40)) for _ in range(50)]
    assert tokenizer.decode(tokenizer.encode([*NASTY, *drawn])) == [*NASTY, *drawn]


@pytest.mark.parametrize("pieces", get_args(Kind))
def test_tokens_that_are_lacking_are_added_and_others_keep_their_numbers(pieces: Any, tmp_path: Path) -> None:
    tokenizer = TokenizerSpec(pieces=pieces, vocabulary=300).train([*TEXTS, "a <|turn|> b"], ("<|end|>",))
    size, number = len(tokenizer), tokenizer.engine.token_to_id("<|end|>")
    tokenizer.extend(("<|end|>", "<|turn|>"))
    tokenizer.extend(("<|end|>", "<|turn|>"))
    turn = tokenizer.engine.token_to_id("<|turn|>") or 0
    assert tokenizer.engine.token_to_id("<|end|>") == number and {number, turn} <= tokenizer.controls
    assert len(tokenizer) == size + (turn == size)  # where it was a word, it is the same one
    tokenizer.save(tmp_path / "tokenizer.json")
    for known in (tokenizer, Tokenizer.load(tmp_path / "tokenizer.json")):
        assert {number, turn} <= known.controls and known.controls.isdisjoint(known.encode(["<|turn|> <|end|>"])[0])
        assert known.obey("<|turn|>", {number for number in [turn] if number is not None}) == [turn]


@pytest.mark.parametrize("pieces", get_args(Kind))
def test_text_that_looks_like_a_special_token_is_text(pieces: Any, tmp_path: Path) -> None:
    more = (SEPARATOR, MASK)
    texts = [*TEXTS, *(f"the [ {token} ] cat {token}" for token in (*SPECIAL, *more))]
    tokenizer = TokenizerSpec(pieces=pieces, vocabulary=300).train(texts, more)
    tokenizer.save(tmp_path / "tokenizer.json")
    for known in (tokenizer, Tokenizer.load(tmp_path / "tokenizer.json")):
        assert known.controls == {0, 2, 3, known.separator, known.mask}
        for row in known.encode([*NASTY, *SPECIAL, *more]):
            assert row
            assert known.controls.isdisjoint(row), known.pieces(row)
    asked = tokenizer.obey(f"the {MASK} cat [EOS]", [tokenizer.mask or 0])
    assert asked.count(tokenizer.mask or 0) == 1
    assert (tokenizer.controls - {tokenizer.mask}).isdisjoint(asked)


def test_a_tokenizer_of_others_takes_its_special_tokens_from_its_template_alone() -> None:
    scores = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((piece, -3.0) for piece in ("▁", *"as/<>"))]
    engine = Engine(models.Unigram(scores, 2, False))
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    engine.add_special_tokens(["<pad>", "</s>", "<unk>"])
    engine.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer = Tokenizer(engine, unknown=2, begin=0, end=1)
    assert tokenizer.encode(["a </s> s"]) == [[3, 4, 3, 2, 3, 5]]
    assert tokenizer.encode(["a </s> s"], framed=True) == [[3, 4, 3, 2, 3, 5, 1]]
    assert tokenizer.obey("a </s> s", tokenizer.controls, framed=True) == [3, 4, 3, 1, 3, 5, 1]


def test_a_tokenizer_of_an_earlier_version_cuts_as_it_did(tmp_path: Path) -> None:
    tokenizer = trained("byte")
    tree = json.loads(tokenizer.engine.to_str())
    tree["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFC"}]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tree))
    old = Tokenizer.load(tmp_path / "tokenizer.json")
    assert old.encode(["e\u0301 [EOS]"]) == tokenizer.encode(["é [EOS]"])


@pytest.mark.parametrize("pieces", ["bpe", "unigram"])
def test_a_text_that_wont_come_back_exactly_is_known_before(pieces: Any) -> None:
    spec = TokenizerSpec(pieces=pieces, vocabulary=300)
    tokenizer = spec.train([*TEXTS, "▁ b"])
    for text in (" the cat", "the▁cat", "  the", "the cat", "the  cat ", "a\nb", ""):
        exact = tokenizer.decode(tokenizer.encode([text])) == [text]
        assert exact or set(text) - set("".join(TEXTS)) or spec.alters(text), text
        assert (spec.alters(text) is None) == (not text.startswith(" ") and "▁" not in text)
    assert TokenizerSpec(pieces="byte-bpe").alters(" ▁") is None


def test_bytes_that_are_no_characters_are_refused_by_every_way_in() -> None:
    tokenizer = trained("bpe")
    for cut in (lambda text: tokenizer.encode([text]), tokenizer.tokens, lambda text: tokenizer.obey(text, [2])):
        with pytest.raises(InputError, match="isn't UTF-8"):
            cut("caf\udce9 [BOS]")


def test_a_single_text_is_not_a_list_of_letters() -> None:
    tokenizer = trained("bpe")
    with pytest.raises(InputError, match=r"list of strings, and 'The cat.' is of type str\n  try: encode\(\[\"The cat"):
        tokenizer.encode("The cat.")
    with pytest.raises(InputError, match=r"a text is a string, and 7 is of type int"):
        tokenizer.encode([7])  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"decode\(\[numbers\]\)"):
        tokenizer.decode([4, 5])  # type: ignore[list-item]


@pytest.mark.parametrize("pieces", ["bpe", "unigram", "byte"])
def test_any_text_comes_back_from_bytes_and_nothing_fails(pieces: Any) -> None:
    tokenizer = trained(pieces)
    strange = ["日本語 🐈", "", "   ", "\u2028", "a" * 10_000]
    rows = tokenizer.encode(strange)
    assert rows[1] == []
    if pieces == "byte":
        assert tokenizer.decode(rows) == strange
    else:
        assert tokenizer.unknown in rows[0]


def test_dropout_cuts_the_same_text_in_other_pieces_by_a_chance_that_can_be_seeded() -> None:
    tokenizer = trained("bpe", dropout=0.5)
    plain = tokenizer.encode(TEXTS[:1])[0]
    assert tokenizer.cutter is not None
    drawn = [tokenizer.cutter(plain, Random(n)) for n in range(10)]
    assert len({tuple(row) for row in drawn}) > 1
    assert all(len(row) >= len(plain) for row in drawn)
    assert all(text == TEXTS[0] for text in tokenizer.decode(drawn))
    again = trained("bpe", dropout=0.5).cutter
    assert again is not None
    assert drawn == [again(plain, Random(n)) for n in range(10)]
    assert tokenizer.encode(TEXTS[:1])[0] == plain


def test_without_dropout_the_cutter_merges_as_the_library_does() -> None:
    tokenizer = trained("bpe", dropout=1e-12)
    assert tokenizer.cutter is not None
    for row in tokenizer.encode([*TEXTS, "日本 cat"]):
        assert tokenizer.cutter(row, Random(0)) == row
    assert trained("bpe").cutter is None


@pytest.mark.parametrize("pieces", ["bpe", "unigram"])
def test_a_word_is_the_same_whatever_stands_after_it(pieces: Any) -> None:
    tokenizer = trained(pieces)
    plain = tokenizer.tokens("the cat")
    for after in (".", ",", "?", "...", "!»"):
        found = tokenizer.tokens(f"the cat{after} the cat")
        assert found[: len(plain)] == plain, after
        assert found[-len(plain) :] == plain, after
    assert all(piece.strip("▁'").isalpha() or not any(map(str.isalpha, piece)) for piece in tokenizer.tokens(TEXTS[3]))
    assert tokenizer.tokens("J'aime")[-len(tokenizer.tokens("l'aime")[1:]) :] == tokenizer.tokens("l'aime")[1:]


def test_dropout_is_for_merges() -> None:
    with pytest.raises(SpecError, match="unigram has no merges"):
        TokenizerSpec(pieces="unigram", dropout=0.1)


def test_rare_words_are_unknown() -> None:
    tokenizer = TokenizerSpec(pieces="word", least=2).train(["a a b", "a c"])
    assert tokenizer.encode(["a b c"]) == [[4, 1, 1]]


def test_lowercase_is_a_choice() -> None:
    assert trained("bpe", lowercase=True).decode(trained("bpe", lowercase=True).encode(["The Cat"])) == ["the cat"]


def test_the_vocabulary_is_as_large_as_asked_at_most() -> None:
    for pieces in ("bpe", "unigram", "wordpiece", "word", "character"):
        assert len(trained(pieces)) <= 300
    assert len(trained("byte")) == 260


def test_no_text_is_an_error() -> None:
    with pytest.raises(DataError, match="no text"):
        TokenizerSpec().train([])


@pytest.mark.parametrize("content", ["", "{}", "not json", '{"model": {"type": "BPE"}}'])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(DataError, match=r"tokenizer.json"):
        Tokenizer.load(tmp_path / "tokenizer.json")
