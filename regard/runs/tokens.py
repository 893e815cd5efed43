"""What a model makes of a text before it reads it: the pieces, their numbers, and how many bytes each stands for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tokenizers import decoders

from regard.data.lexicon import Lexicon
from regard.data.prepared import content
from regard.data.tokenizer import Tokenizer, plain
from regard.errors import InputError
from regard.hub.load import read_json
from regard.hub.words import tokenizers
from regard.runs.resolve import RUN, is_folder, read_resolved
from regard.train.checkpoint import Checkpoint, Store

BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # how SentencePiece writes a byte that no piece has


@dataclass
class TokenRow:
    """One token of a text."""

    piece: str
    number: int
    bytes: int  # of the text in UTF-8


def load_lexicon(noun: str) -> Lexicon:
    """The tokenizers of a run, a checkpoint, or a folder in Hugging Face layout; no weights are read."""
    folder = Path(noun)
    if is_folder(folder):
        found = tokenizers(folder, read_json(folder / "config.json"))
        lexicon = Lexicon(found, foreign=True)
    elif (folder / RUN).is_file() and not Store(folder / "checkpoints").list_steps():
        data = folder / "data"  # nothing was saved yet, but its corpus was made ready
        lexicon = Lexicon.read(lambda name: content(data, name), str(data))
    else:
        lexicon = read_resolved(noun, _read)
    if lexicon.words is None:
        raise InputError(f"{noun}: there is no tokenizer in it", "a model that reads words")
    return lexicon


def _read(checkpoint: Checkpoint) -> Lexicon:
    def file(name: str) -> bytes | None:
        return checkpoint.read(name) if name in checkpoint.files else None

    return Lexicon.read(file, str(checkpoint.path))


def cut_text(tokenizer: Tokenizer, text: str) -> list[TokenRow]:
    """The tokens of a text, in order; those that a model puts around a text aren't among them."""
    tokenizer.encode([text])  # it refuses what isn't text
    engine = tokenizer.engine
    found = engine.encode(text, add_special_tokens=False)
    numbers = plain(found, tokenizer.controls, tokenizer.unknown)
    spelled = isinstance(engine.decoder, decoders.ByteLevel)  # each letter of a piece is a byte then
    rows = []
    for piece, number, (begin, end) in zip(found.tokens, numbers, found.offsets, strict=True):
        size = len(piece) if spelled else 1 if BYTE.fullmatch(piece) else len(text[begin:end].encode())
        rows.append(TokenRow(piece, number, size))
    return rows
