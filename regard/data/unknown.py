"""Words that a vocabulary doesn't have, by numbers of their own: those of a source, from the vocabulary's size upwards.

A model that copies can write them. They are numbered anew for each source, in the order in which they come, so a target
that has such a word has the source's number for it; a word that the source doesn't have stays unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import Encoding, models

from regard.data.given import check_texts
from regard.data.tokenizer import Tokenizer, plain

MOST = 2**16  # unknown words of a source


@dataclass(frozen=True)
class Numbered:
    """A text as numbers, and the words beyond the vocabulary: the first has the number of the vocabulary's size."""

    tokens: list[int]
    words: tuple[str, ...] = ()


def number_texts(tokenizer: Tokenizer, texts: Sequence[str], known: Sequence[Numbered] | None = None) -> list[Numbered]:
    """Texts with their unknown words; or, where `known` are their sources, with those of the sources alone.

    Only where a piece is a whole word, or a letter: else what is unknown is a part of a word, and stays so.
    """
    check_texts(texts, 'number_texts(tokenizer, ["The cat."])')
    if not isinstance(tokenizer.engine.model, models.WordLevel):
        return [Numbered(row) for row in tokenizer.encode(texts)]
    found = tokenizer.engine.encode_batch(list(texts), add_special_tokens=False)
    sources: Sequence[Numbered | None] = [None] * len(texts) if known is None else known
    return [_number(tokenizer, *one) for one in zip(texts, found, sources, strict=True)]


def _number(tokenizer: Tokenizer, text: str, encoding: Encoding, source: Numbered | None) -> Numbered:
    size, words = len(tokenizer), {} if source is None else {word: n for n, word in enumerate(source.words)}
    tokens = plain(encoding, tokenizer.controls, tokenizer.unknown)
    for place, (first, last) in enumerate(encoding.offsets):
        if tokens[place] != tokenizer.unknown:
            continue
        word = text[first:last]
        if source is None and len(words) < MOST:
            words.setdefault(word, len(words))
        if word in words:
            tokens = [*tokens[:place], size + words[word], *tokens[place + 1 :]]
    return Numbered(tokens, tuple(words))


def spell_pieces(tokenizer: Tokenizer, tokens: Sequence[int], words: Sequence[str]) -> list[str]:
    """Each number's piece; those beyond the vocabulary are words."""
    size = len(tokenizer)
    return [words[token - size] if token >= size else tokenizer.pieces([token])[0] for token in tokens]


def spell_text(tokenizer: Tokenizer, tokens: Sequence[int], words: Sequence[str]) -> str:
    """A text whose numbers may be beyond the vocabulary, special tokens left out."""
    if all(token < len(tokenizer) for token in tokens):
        return tokenizer.decode([tokens])[0]
    hidden = {*tokenizer.controls, tokenizer.unknown}
    pieces = spell_pieces(tokenizer, [token for token in tokens if token not in hidden], words)
    return " ".join(pieces) if tokenizer.engine.decoder is None else str(tokenizer.engine.decoder.decode(pieces))
