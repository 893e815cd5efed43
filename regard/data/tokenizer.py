"""Tokenizers, by the `tokenizers` library: trained on the training data, and saved as one `tokenizer.json`.

BPE (Sennrich et al. 2016, with the dropout of Provilkov et al. 2020), BPE over bytes (Radford et al. 2019), unigram
(Kudo 2018), WordPiece, whole words, words as they are given, characters, bytes. Bytes, alone or merged, give back any
text to the byte. The others bring accents to one form (NFC) and know the characters of their corpus: BPE and unigram
lose a space at the beginning of a text and read `▁` as a space; WordPiece and words lose the spaces around punctuation.

Text is only text: `[EOS]` in it is five letters. Special tokens come from tasks, or from users who mean them (`obey`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator
from tokenizers import AddedToken, Encoding, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from regard.core.registry import Kinds
from regard.core.spec import FileName, Rate, Size, Spec
from regard.data.boundary import BOUNDS, JOIN
from regard.data.given import check_text, check_texts
from regard.data.rewriting import insist_on_size
from regard.errors import DataError, InputError

PAD, UNKNOWN, BEGIN, END = "[PAD]", "[UNK]", "[BOS]", "[EOS]"
SPECIAL = (PAD, UNKNOWN, BEGIN, END)
SEPARATOR, MASK = "[SEP]", "[MASK]"  # for tasks that need them; they come after the others
Kind = Literal["bpe", "byte-bpe", "unigram", "wordpiece", "word", "given", "character", "byte"]


class TokenizerSpec(Spec):
    """Which pieces text is cut into, and how many there are."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    home: ClassVar[str | None] = "tokenizer"
    kind: Literal["tokenizer"] = "tokenizer"
    pieces: Kind = "bpe"
    """Text is cut into pieces of this kind; `given` are words that spaces divide already."""
    vocabulary: Size = 8000
    """There are at most this many different pieces, special tokens included."""
    dropout: Rate = 0.0
    """This share of BPE merges is left out at random while training, so that words are cut anew each time."""
    lowercase: bool = False
    """All text becomes lower case."""
    shared: bool = True
    """Both languages have one vocabulary."""
    rewrite: dict[str, str] = Field(default={})
    """What matches one of these patterns is written anew before text is cut, in this order: {"n't": " not"}."""
    least: Size = 1
    """A word or character that occurs less often than this is unknown."""
    like: FileName | None = None
    """The vocabulary of this run is taken as it is."""

    @model_validator(mode="after")
    def check(self) -> Self:
        try:
            self._blank()
        except Exception as error:  # the library has no kind of its own for a pattern that isn't one
            raise ValueError(f"rewrite: {error}") from None
        if self.dropout and self.pieces != "bpe":
            raise ValueError(f"dropout: {self.pieces} has no merges to leave out; try pieces=bpe")
        return self

    def train(self, texts: Iterable[str], more: Sequence[str] = ()) -> Tokenizer:
        """Learn the pieces of a corpus, which is read once; `more`: special tokens beside the usual ones."""
        engine = self._blank()
        # a mask takes the space before it along, as the word that it hides does
        special: list[str | AddedToken] = [*SPECIAL, *(AddedToken(token, lstrip=token == MASK) for token in more)]
        trainer = self._trainer(special)
        if trainer is None:
            engine.add_special_tokens(special)
        else:
            if self.pieces == "given":  # a word that is written like a special token would take its number
                names = {*SPECIAL, *more}
                texts = (" ".join(word for word in text.split() if word not in names) for text in texts)
            engine.train_from_iterator(texts, trainer)
        if trainer is not None and engine.get_vocab_size() <= len(special):
            raise DataError("there is no text to learn a vocabulary from", "check the training files")
        return Tokenizer(engine, self.dropout).named()

    def alters(self, text: str) -> str | None:
        """Why a text doesn't come back as it is, though all of its characters are known; None where it does."""
        if self.pieces not in ("bpe", "unigram") or not (text.startswith(" ") or "▁" in text):
            return None
        what = "▁ is read as a space" if "▁" in text else "its first space is lost"
        return f"altered by {self.pieces}: {what}; tokenizer.pieces=byte-bpe keeps it"

    def _blank(self) -> Engine:
        """An engine that has learned nothing yet."""
        model, cut, join = self._parts()
        engine = Engine(model)
        rules: list[normalizers.Normalizer] = [] if self.pieces in ("byte", "byte-bpe") else [normalizers.NFC()]
        if self.lowercase:
            rules.append(normalizers.Lowercase())
        rules += [normalizers.Replace(Regex(pattern), text) for pattern, text in self.rewrite.items()]
        if rules:
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
            return model, pre_tokenizers.Sequence([pre_tokenizers.Metaspace(), BOUNDS]), decoders.Metaspace()
        if self.pieces == "wordpiece":
            return models.WordPiece(unk_token=UNKNOWN), words, decoders.WordPiece()
        if self.pieces in ("word", "given"):
            way = (words, JOIN) if self.pieces == "word" else (pre_tokenizers.WhitespaceSplit(), None)
            return models.WordLevel(unk_token=UNKNOWN), *way
        if self.pieces == "character":
            each = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
            return models.WordLevel(unk_token=UNKNOWN), each, decoders.Fuse()
        raw = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=self.pieces == "byte-bpe")
        model = models.BPE() if self.pieces == "byte-bpe" else models.BPE(vocab=_bytes(), merges=[])
        return model, raw, decoders.ByteLevel()

    def _trainer(self, special: list[str | AddedToken]) -> Any:
        """What fills the vocabulary; None for bytes, which need nothing."""
        common: Any = {"vocab_size": self.vocabulary, "special_tokens": special, "show_progress": False}
        if self.pieces == "bpe":
            return trainers.BpeTrainer(**common)
        if self.pieces == "byte-bpe":
            return trainers.BpeTrainer(**common, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
        if self.pieces == "unigram":
            return trainers.UnigramTrainer(**common, unk_token=UNKNOWN)
        if self.pieces == "wordpiece":
            return trainers.WordPieceTrainer(**common)
        return None if self.pieces == "byte" else trainers.WordLevelTrainer(**common, min_frequency=self.least)


def _bytes() -> dict[str, int]:
    """The 256 bytes as the library's byte-level alphabet writes them, after the special tokens."""
    special = {token: number for number, token in enumerate(SPECIAL)}
    return special | {letter: len(SPECIAL) + n for n, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}


Frame = tuple[tuple[int, ...], tuple[int, ...]]  # tokens before a text, and after it


@dataclass
class Tokenizer:
    """Text to numbers and back. In ours the special tokens stand first; those of others have numbers of their own."""

    engine: Engine
    dropout: float = 0.0
    pad: int = 0
    unknown: int = 1
    begin: int = 2
    end: int = 3
    separator: int | None = None
    mask: int | None = None
    further: tuple[int, ...] = ()  # other tokens that end a text, in those of others
    _obedient: dict[frozenset[int], Engine] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.engine.encode_special_tokens = True  # text that looks like a special token is text; no file says so

    @property
    def ends(self) -> tuple[int, ...]:
        """All tokens that end a text; the first is the one that training writes."""
        return self.end, *self.further

    def __len__(self) -> int:
        return self.engine.get_vocab_size()

    def named(self) -> Tokenizer:
        """This one, once it knows its further special tokens by their names."""
        self.separator, self.mask = (self.engine.token_to_id(token) for token in (SEPARATOR, MASK))
        return self

    def extend(self, tokens: Sequence[str]) -> None:
        """Add the special tokens that it lacks, after all others."""
        have = {token: self.engine.token_to_id(token) in self.controls for token in tokens}
        have |= {SEPARATOR: self.separator is not None, MASK: self.mask is not None}  # others' have other names
        missing = [token for token in tokens if not have[token]]
        self._obedient.clear()
        self.engine.add_special_tokens([AddedToken(token, lstrip=token == MASK) for token in missing])
        numbers = {token: self.engine.token_to_id(token) for token in missing}
        self.separator = numbers.get(SEPARATOR, self.separator)
        self.mask = numbers.get(MASK, self.mask)

    @property
    def controls(self) -> set[int]:
        """The tokens that steer a model and are no text."""
        added = self.engine.get_added_tokens_decoder()
        return {number for number, token in added.items() if token.special} - {self.unknown}

    def encode(self, texts: Sequence[str], *, framed: bool = False) -> list[list[int]]:
        """Numbers for each text; `framed`: with the special tokens that its own file says belong around a text."""
        check_texts(texts, 'encode(["The cat."])')
        # nobody asks where in a text a token stands, and counting that takes a sixth of the time
        found = self.engine.encode_batch_fast(list(texts), add_special_tokens=framed)
        controls = self.controls
        return [plain(encoding, controls, self.unknown) for encoding in found]

    def obey(self, text: str, tokens: Collection[int], *, framed: bool = False) -> list[int]:
        """Numbers for a text whose writer means the special tokens that are written in it: a mask, a chat's turn."""
        check_text(text, "one text at a time")
        wanted = frozenset(tokens)
        if not any(piece in text for piece in self.pieces(tuple(wanted))):
            return self.encode([text], framed=framed)[0]
        if wanted not in self._obedient:
            tree = json.loads(self.engine.to_str())
            usual = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
            added = {token["id"]: token for token in tree["added_tokens"]}
            for number in wanted:  # the library finds what isn't special in any text
                name = {"id": number, "content": self.engine.id_to_token(number)}
                added[number] = usual | name | added.get(number, {}) | {"special": False}
            copy = Engine.from_str(json.dumps(tree | {"added_tokens": [added[number] for number in sorted(added)]}))
            copy.encode_special_tokens = True
            self._obedient[wanted] = copy
        found = self._obedient[wanted].encode(text, add_special_tokens=framed)
        return plain(found, self.controls - wanted, self.unknown)

    @cached_property
    def frame(self) -> Frame | None:
        """What a tokenizer of others puts around a text by its own template; None where it has no template."""
        if self.engine.post_processor is None:
            return None
        found = self.engine.encode("a", add_special_tokens=True)
        inside = [n for n, special in enumerate(found.special_tokens_mask) if not special]
        first, last = (inside[0], inside[-1] + 1) if inside else (len(found.ids), len(found.ids))
        return tuple(found.ids[:first]), tuple(found.ids[last:])

    def wrap(self, row: Sequence[int], usual: Frame, foreign: bool) -> list[int]:
        """A text's tokens with what stands around them: `usual`, or by the template where the tokenizer is foreign."""
        before, after = (self.frame if foreign else None) or usual
        return [*before, *row, *after]

    @cached_property
    def begins(self) -> list[bool]:
        """For each token, whether a word begins with it."""
        pieces = self.pieces(range(len(self)))
        if any(piece.startswith("##") for piece in pieces):
            return [not piece.startswith("##") for piece in pieces]
        sign = next((sign for sign in ("▁", "Ġ") if any(piece.startswith(sign) for piece in pieces)), "")
        return [piece.startswith(sign) for piece in pieces]

    def tokens(self, text: str) -> list[str]:
        """The pieces that a text is cut into."""
        check_text(text, "one text at a time")
        return list(self.engine.encode(text, add_special_tokens=False).tokens)

    def pieces(self, numbers: Sequence[int]) -> list[str]:
        """Each number's piece."""
        return [self.engine.id_to_token(number) or UNKNOWN for number in numbers]

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Texts, special tokens left out."""
        if any(isinstance(row, int) for row in rows):
            raise InputError("one list of numbers, and a list of such lists is expected", "decode([numbers])")
        return list(self.engine.decode_batch([list(row) for row in rows], skip_special_tokens=True))

    @cached_property
    def cutter(self) -> Cutter | None:
        """What cuts words anew while training, or None where there is no dropout."""
        return Cutter(json.loads(self.engine.to_str()), self.dropout) if self.dropout else None

    def save(self, path: Path) -> None:
        self.engine.save(str(path))

    @property
    def digest(self) -> str:
        """Equal for tokenizers that cut alike."""
        return hashlib.sha256(self.engine.to_str().encode()).hexdigest()

    @classmethod
    def load(cls, path: Path, dropout: float = 0.0) -> Tokenizer:
        """From a `tokenizer.json` that was saved here; it is data, and nothing in it is run."""
        try:
            return cls.parse(path.read_bytes(), str(path), dropout)
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}") from None

    @classmethod
    def parse(cls, content: bytes, name: str, dropout: float = 0.0) -> Tokenizer:
        """From the bytes of a `tokenizer.json`."""
        engine = parse_engine(content, name)
        known = engine.get_vocab(with_added_tokens=False)
        for number, token in enumerate(SPECIAL):
            if known.get(token) != number:
                raise DataError(f"{name}: {token} is {known.get(token)} there, and {number} is expected")
        numbers = sorted(engine.get_vocab().values())
        if numbers != list(range(len(numbers))):
            raise DataError(f"{name}: its {len(numbers)} pieces aren't numbered from 0 to {len(numbers) - 1}")
        tree = json.loads(content)
        if strange := sorted(set(_kinds(tree)) - KINDS):
            raise DataError(f"{name}: {strange[0]} isn't a part of our tokenizers")
        insist_on_size(engine, tree, name)
        return cls(engine, dropout).named()


def plain(encoding: Encoding, controls: AbstractSet[int], unknown: int) -> list[int]:
    """The numbers of a text, unknown where it spells a special token that the vocabulary has as a word.

    The library doesn't look for special tokens in text, but lists of words and unigrams hold them like other pieces.
    What a template put around the text stays.
    """
    numbers: list[int] = encoding.ids
    if controls.isdisjoint(numbers):
        return numbers
    return [
        unknown if number in controls and not added else number
        for number, added in zip(numbers, encoding.special_tokens_mask, strict=True)
    ]


def parse_engine(content: bytes, name: str) -> Engine:
    """The library's tokenizer in a file; it is data, and nothing in it is run."""
    try:
        return Engine.from_str(content.decode())
    except BaseException as error:  # the library raises a bare Exception, and panics on some damage
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        raise DataError(f"{name}: not a tokenizer: {error}") from None


KINDS = {"Sequence", "NFC", "Lowercase", "Metaspace", "WhitespaceSplit", "Punctuation", "Split", "ByteLevel", "Fuse"}
KINDS |= {"WordPiece", "BPE", "Unigram", "WordLevel", "Replace"}


def _kinds(tree: Any) -> Iterator[str]:
    """The types of all parts of a saved tokenizer."""
    for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        if key == "type" and isinstance(value, str):
            yield value
        elif key != "vocab":
            yield from _kinds(value)


class Cutter:
    """BPE-dropout: words cut anew by merges of which some are left out (Provilkov et al. 2020).

    The library draws from a source that can't be seeded, so a run could not be resumed to the bit. Here each word has a
    few cuts, drawn once from the word itself, and whoever trains picks among them by chance of its own.
    """

    CUTS = 16  # of each word

    def __init__(self, engine: dict[str, Any], rate: float) -> None:
        model = engine["model"]
        self.rate = rate
        self.numbers: dict[str, int] = model["vocab"]
        self.names = {number: name for name, number in self.numbers.items()}
        merges = (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])
        self.ranks = {tuple(merge): rank for rank, merge in enumerate(merges)}
        self.cuts: dict[tuple[int, ...], list[list[int]]] = {}

    def __call__(self, sentence: Sequence[int], chance: Random) -> list[int]:
        """The same sentence in other pieces."""
        cut: list[int] = []
        for word in self.words(sentence):
            cut += self.options(word)[int(chance.random() * self.CUTS)]
        return cut

    def words(self, sentence: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """The pieces of each word; one begins where a piece begins with a space."""
        begin = 0
        for place in range(1, len(sentence) + 1):
            if place == len(sentence) or self.names.get(sentence[place], "").startswith("▁"):
                yield tuple(sentence[begin:place])
                begin = place

    def options(self, word: tuple[int, ...]) -> list[list[int]]:
        if word not in self.cuts:
            text = "".join(self.names.get(number, "") for number in word)
            plain = Tokenizer.unknown in word or any(letter not in self.numbers for letter in text)
            parts = [part for part, _ in BOUNDS.pre_tokenize_str(text)]
            chance = Random(text)
            self.cuts[word] = [
                list(word) if plain else [number for part in parts for number in self.merged(part, chance)]
                for _ in range(self.CUTS)
            ]
        return self.cuts[word]

    def merged(self, letters: str, chance: Random) -> list[int]:
        """Merge letters as BPE does, each time without the pairs that chance leaves out."""
        pieces = list(letters)
        while True:
            ranked = [(self.ranks.get(pair), at) for at, pair in enumerate(pairwise(pieces))]
            open_pairs = [(rank, at) for rank, at in ranked if rank is not None and chance.random() >= self.rate]
            if not open_pairs:
                return [self.numbers[piece] for piece in pieces]
            _, at = min(open_pairs)
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
