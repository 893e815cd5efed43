"""Pieces as people read them: each letter of a byte-level tokenizer's piece stands for a byte."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tokenizers import decoders

from regard.data.tokenizer import Tokenizer


def spell_tokens(tokenizer: Tokenizer, numbers: Sequence[int], words: Sequence[str] = ()) -> list[str]:
    """Each number's piece as people read it: bytes as the letters that they make, and a space before as ▁.

    `words`: those that numbers beyond the vocabulary stand for, in order.
    """
    pieces = tokenizer.pieces(numbers)
    if words:
        size = len(tokenizer)
        return [
            words[n - size] if n - size in range(len(words)) else piece
            for n, piece in zip(numbers, pieces, strict=True)
        ]
    if not isinstance(tokenizer.engine.decoder, decoders.ByteLevel):
        return pieces
    controls = tokenizer.controls
    return [piece if number in controls else spell_bytes(piece) for number, piece in zip(numbers, pieces, strict=True)]


@cache
def _byte_of() -> dict[str, int]:
    """The byte behind each letter of the library's byte-level alphabet: its own, or one that has no letter, in turn."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(hidden)}


def spell_bytes(piece: str) -> str:
    """A piece of a byte-level alphabet as text; bytes that are no letter by themselves as numbers."""
    table = _byte_of()
    if any(letter not in table for letter in piece):
        return piece  # a token that was added as it is
    content = bytes(table[letter] for letter in piece)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "".join(f"<{byte:02X}>" for byte in content)
    return f"▁{text[1:]}" if text.startswith(" ") else text
