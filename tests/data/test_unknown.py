"""Words beyond a vocabulary: numbered by their source, and spelled again."""

from __future__ import annotations

from itertools import islice

import pytest

from regard.data.corpora.notices import Notices
from regard.data.tokenizer import Tokenizer, TokenizerSpec
from regard.data.unknown import Numbered, number_texts, spell_pieces, spell_text

TEXTS = ["a cat met a dog .", "the dog saw the cat"]


@pytest.fixture
def words() -> Tokenizer:
    return TokenizerSpec.parse({"pieces": "word"}).train(TEXTS)


def test_unknown_words_are_numbered_by_their_source(words: Tokenizer) -> None:
    size = len(words)
    [source] = number_texts(words, ["the Zorn met Blim . Zorn saw a cat"])
    assert source.words == ("Zorn", "Blim")
    assert [token - size for token in source.tokens if token >= size] == [0, 1, 0]
    [target] = number_texts(words, ["Blim saw Zorn and Quix"], [source])
    assert target.tokens[0] == size + 1 and target.tokens[2] == size
    assert target.tokens[3:] == [words.unknown] * 2  # neither the vocabulary nor the source has them


def test_a_text_is_spelled_with_them(words: Tokenizer) -> None:
    text = "the Zorn met a Blim."
    [source] = number_texts(words, [text])
    assert spell_text(words, [*source.tokens, words.end], source.words) == text
    assert spell_pieces(words, source.tokens, source.words) == ["the", "Zorn", "met", "a", "Blim", "."]
    known = number_texts(words, ["the cat"])[0]
    assert known == Numbered(words.encode(["the cat"])[0]) and spell_text(words, known.tokens, ()) == "the cat"


def test_a_special_token_in_a_text_is_a_word_as_others(words: Tokenizer) -> None:
    [source] = number_texts(words, ["the [EOS] cat"])
    assert "[EOS]" in " ".join(source.words) or words.end not in source.tokens


def test_letters_can_be_copied_and_parts_of_words_stay_unknown() -> None:
    letters = TokenizerSpec.parse({"pieces": "character"}).train(["abc"])
    [source] = number_texts(letters, ["abx"])
    assert source.words == ("x",) and spell_text(letters, source.tokens, source.words) == "abx"
    pieces = TokenizerSpec.parse({"pieces": "bpe", "vocabulary": 40}).train(TEXTS)
    assert number_texts(pieces, ["the ☃ cat"]) == [Numbered(pieces.encode(["the ☃ cat"])[0])]


def test_names_of_notices_belong_to_one_split_and_stand_in_the_notice() -> None:
    seen: dict[str, set[str]] = {}
    for split in ("train", "validation", "test"):
        samples = list(islice(Notices().stream("pairs", split), 200))
        for sample in samples:
            first, _, second, _, town = sample["target"].split()
            assert {first, second, town} <= set(sample["source"].split())
            seen.setdefault(split, set()).update((first, second, town))
    assert not seen["train"] & seen["test"] and not seen["train"] & seen["validation"]
    corpus = Notices()
    assert [next(corpus.stream("pairs", "train"))] == [next(corpus.stream("pairs", "train"))]
