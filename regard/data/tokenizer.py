"""Tokenizers, by the `tokenizers` library: trained on the training data, and saved as one `tokenizer.json`.

BPE (Sennrich et al. 2016, with the dropout of Provilkov et al. 2020), unigram (Kudo 2018), WordPiece, whole words,
characters, bytes. Bytes give back any text; BPE, unigram and characters whatever is written with characters that the
corpus has; WordPiece and words lose the spaces around punctuation. All bring accents to one form (NFC).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from regard.core.spec import Rate, Size, Spec
from regard.errors import DataError

PAD, UNKNOWN, BEGIN, END = "[PAD]", "[UNK]", "[BOS]", "[EOS]"
SPECIAL = (PAD, UNKNOWN, BEGIN, END)
Kind = Literal["bpe", "unigram", "wordpiece", "word", "character", "byte"]


class TokenizerSpec(Spec):
    """Which pieces text is cut into, and how many there are."""

    kinds: ClassVar[dict[str, type[Spec]]] = {}
    kind: Literal["tokenizer"] = "tokenizer"
    pieces: Kind = "bpe"
    vocabulary: Size = 8000
    dropout: Rate = 0.0  # of BPE merges, while training
    lowercase: bool = False
    least: Size = 1  # a word or character that is rarer is unknown

    def train(self, texts: Iterable[str]) -> Tokenizer:
        """Learn the pieces of a corpus, which is read once."""
        engine = self._blank()
        trainer = self._trainer()
        if trainer is None:
            engine.add_special_tokens(list(SPECIAL))
        else:
            engine.train_from_iterator(texts, trainer)
        if trainer is not None and engine.get_vocab_size() <= len(SPECIAL):
            raise DataError("there is no text to learn a vocabulary from", "check the training files")
        return Tokenizer(engine, self.dropout if self.pieces == "bpe" else 0.0)

    def _blank(self) -> Engine:
        """An engine that has learned nothing yet."""
        model, cut, join = self._parts()
        engine = Engine(model)
        rules: list[normalizers.Normalizer] = [normalizers.NFC()]
        if self.lowercase:
            rules.append(normalizers.Lowercase())
        engine.normalizer = normalizers.Sequence(rules)
        engine.pre_tokenizer = cut
        if join is not None:
            engine.decoder = join
        return engine

    def _parts(self) -> tuple[Any, Any, Any]:
        """The library's model, how it cuts text first, and how pieces are joined again."""
        words = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
        if self.pieces in ("bpe", "unigram"):
            model = models.BPE(unk_token=UNKNOWN) if self.pieces == "bpe" else models.Unigram()
            return model, pre_tokenizers.Metaspace(), decoders.Metaspace()
        if self.pieces == "wordpiece":
            return models.WordPiece(unk_token=UNKNOWN), words, decoders.WordPiece()
        if self.pieces == "word":
            return models.WordLevel(unk_token=UNKNOWN), words, None
        if self.pieces == "character":
            each = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
            return models.WordLevel(unk_token=UNKNOWN), each, decoders.Fuse()
        raw = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return models.BPE(vocab=_bytes(), merges=[]), raw, decoders.ByteLevel()

    def _trainer(self) -> Any:
        """What fills the vocabulary; None for bytes, which need nothing."""
        common: Any = {"vocab_size": self.vocabulary, "special_tokens": list(SPECIAL), "show_progress": False}
        if self.pieces == "bpe":
            return trainers.BpeTrainer(**common)
        if self.pieces == "unigram":
            return trainers.UnigramTrainer(**common, unk_token=UNKNOWN)
        if self.pieces == "wordpiece":
            return trainers.WordPieceTrainer(**common)
        return None if self.pieces == "byte" else trainers.WordLevelTrainer(**common, min_frequency=self.least)


def _bytes() -> dict[str, int]:
    """The 256 bytes as the library's byte-level alphabet writes them, after the special tokens."""
    special = {token: number for number, token in enumerate(SPECIAL)}
    return special | {letter: len(SPECIAL) + n for n, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}


@dataclass
class Tokenizer:
    """Text to numbers and back. The special tokens stand first: pad 0, unknown 1, begin 2, end 3."""

    engine: Engine
    dropout: float = 0.0

    pad: ClassVar[int] = 0
    unknown: ClassVar[int] = 1
    begin: ClassVar[int] = 2
    end: ClassVar[int] = 3

    def __len__(self) -> int:
        return self.engine.get_vocab_size()

    def encode(self, texts: Sequence[str], *, training: bool = False) -> list[list[int]]:
        """Numbers for each text, without begin or end; in training, BPE leaves out merges at random."""
        self._regularise(training)
        return [found.ids for found in self.engine.encode_batch(list(texts), add_special_tokens=False)]

    def tokens(self, text: str) -> list[str]:
        """The pieces that a text is cut into."""
        self._regularise(False)
        pieces: list[str] = self.engine.encode(text, add_special_tokens=False).tokens
        return pieces

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Texts, special tokens left out."""
        found: list[str] = self.engine.decode_batch([list(row) for row in rows], skip_special_tokens=True)
        return found

    def _regularise(self, on: bool) -> None:
        if self.dropout:
            self.engine.model.dropout = self.dropout if on else None

    def save(self, path: Path) -> None:
        self._regularise(False)
        self.engine.save(str(path))

    @classmethod
    def load(cls, path: Path, dropout: float = 0.0) -> Tokenizer:
        """From a `tokenizer.json` that was saved here; it is data, and nothing in it is run."""
        try:
            engine = Engine.from_file(str(path))
        except Exception as error:  # the library raises a bare Exception for every kind of damage
            raise DataError(f"{path}: not a tokenizer: {error}") from None
        for number, token in enumerate(SPECIAL):
            if engine.token_to_id(token) != number:
                raise DataError(f"{path}: {token} is {engine.token_to_id(token)} there, and {number} is expected")
        return cls(engine, dropout)
