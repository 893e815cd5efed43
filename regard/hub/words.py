"""The tokenizers that come with a folder: `tokenizer.json`, GPT's merges, BERT's word list, SentencePiece models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Engine

from regard.data.origin import content_of
from regard.data.tokenizer import Tokenizer, parse_engine
from regard.errors import DataError, MissingPackage

SIDES = ("source", "target")
MASKS, PADS = ("[MASK]", "<mask>"), ("[PAD]", "<pad>")


def tokenizers(folder: Path, config: Mapping[str, Any]) -> tuple[Tokenizer, Tokenizer] | None:
    """What cuts a model's source and target, mostly one and the same; None where there is nothing to read."""
    if (folder / "source.spm").is_file() and (folder / "vocab.json").is_file():
        numbers = _vocabulary(folder / "vocab.json")
        source, target = (_wrap(folder, config, _read_numbered(folder / f"{side}.spm", numbers)) for side in SIDES)
        return source, target
    engine = _engine(folder, str(config.get("model_type")))
    if engine is None:
        return None
    one = _wrap(folder, config, engine)
    return one, one


def foreign(content: bytes, name: str, config: Mapping[str, Any]) -> Tokenizer:
    """A tokenizer of others, from the bytes of a `tokenizer.json`."""
    return _wrap(Path(name).parent, config, parse_engine(content, name))


def _wrap(folder: Path, config: Mapping[str, Any], engine: Engine) -> Tokenizer:
    """With the numbers of its special tokens, as config.json tells them.

    A file may ask for rows of one length; here no text is cut in silence, and each is as long as it is.
    """
    engine.no_padding()
    engine.no_truncation()
    size = engine.get_vocab_size()
    told = [settings.get("eos_token_id") for settings in (_settings(folder, "generation_config.json"), config)]
    lists = [each if isinstance(each, list) else [] if each is None else [each] for each in told]
    given = [token for each in lists for token in each]
    keys = ("pad_token_id", "decoder_start_token_id", "bos_token_id")
    for key, number in (*((key, config.get(key)) for key in keys), *(("eos_token_id", token) for token in given)):
        if number is not None and not (type(number) is int and number >= 0):
            raise DataError(f"{folder}/config.json: {key}: {number!r} isn't a token of {size}")
    # what this vocabulary doesn't reach is a default of their library
    listed = next((found for each in lists if (found := [token for token in each if token < size])), [])
    end = listed[0] if listed else None
    first, closing, mask, pad = (_find_known(engine, names) for names in (("[CLS]",), ("[SEP]",), MASKS, PADS))
    before, after = Tokenizer(engine).frame or ((), ())
    opens, closes = (tokens[0] if len(tokens) == 1 else None for tokens in (before, after))
    # what stands around a text tells more than config.json, where encoders have numbers that nobody reads
    begins = (config.get("decoder_start_token_id"), opens, config.get("bos_token_id"), first)
    ends = (closes, end, closing) if mask is not None else (end, closes, closing)
    # a model that never pads still needs something to fill rectangles with: nobody looks at it
    filled = {"pad": next((n for n in (config.get("pad_token_id"), pad) if n is not None and n < size), 0)}
    for name, numbers in (("begin", begins), ("end", (*ends, *given))):
        there = [number for number in numbers if number is not None]
        if there and min(there) >= size:
            raise DataError(f"{folder}/config.json: {name}: {there[0]} isn't a token of {size}")
        filled[name] = next((number for number in there if number < size), 0)
    unknown = _unknown(engine)
    further = tuple(dict.fromkeys(token for token in listed if token != filled["end"])) if mask is None else ()
    return Tokenizer(engine, 0.0, unknown=unknown, **filled, separator=closing, mask=mask, further=further)


def _unknown(engine: Engine) -> int:
    """What stands for text that it has no piece for, by what its file says or by the usual names."""
    model = json.loads(engine.to_str())["model"]
    names = [name for name in (model.get("unk_token"), "[UNK]", "<unk>") if isinstance(name, str)]
    listed = model.get("unk_id")
    return int(listed) if isinstance(listed, int) else _find_known(engine, names) or 0


def _find_known(engine: Engine, names: Sequence[str]) -> int | None:
    """The number of the first of these tokens that there is."""
    return next((number for name in names if (number := engine.token_to_id(name)) is not None), None)


def _engine(folder: Path, kind: str) -> Engine | None:
    if (folder / "tokenizer.json").is_file():
        return parse_engine(_bytes(folder / "tokenizer.json"), str(folder / "tokenizer.json"))
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        return _read_merges(folder, spaces=kind != "openai-gpt")
    if (folder / "vocab.txt").is_file():
        return _read_list(folder)
    if (folder / "tokenizer.model").is_file():
        told = _settings(folder)
        engine, opens = _read_ranked(folder / "tokenizer.model"), told.get("add_bos_token", True)
        return _add_template(engine, "<s>" if opens else None, "</s>" if told.get("add_eos_token", False) else None)
    if (folder / "spiece.model").is_file():
        pieces = _pieces(folder / "spiece.model")
        engine = _likely(pieces, unknown=next(n for n, piece in enumerate(pieces) if piece.unknown))
        return _add_template(engine, None, "</s>")
    return None


def _add_template(engine: Engine, opening: str | None, closing: str | None) -> Engine:
    """With the tokens that their library puts around a text, where no file says it."""
    around = [(token, engine.token_to_id(token)) for token in (opening, closing) if token is not None]
    known = {token: number for token, number in around if number is not None}
    before, after = ([f"{token}"] if token in known else [] for token in (opening, closing))
    one = [*before, "$A", *after]
    two = [*one, *(f"{token}:1" for token in before), "$B:1", *(f"{token}:1" for token in after)]
    engine.post_processor = processors.TemplateProcessing(
        single=" ".join(one), pair=" ".join(two), special_tokens=list(known.items())
    )
    return engine


def _settings(folder: Path, name: str = "tokenizer_config.json") -> dict[str, Any]:
    """The settings in a file; nothing where there is none."""
    path = folder / name
    if not path.is_file():
        return {}
    try:
        found = json.loads(_bytes(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise DataError(f"{path}: not an object")
    return found


@dataclass
class ScoredPiece:
    """One piece of a SentencePiece model."""

    text: str
    score: float
    unknown: bool
    byte: bool


def _pieces(path: Path) -> list[ScoredPiece]:
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise MissingPackage(f"{path}: reading it", "sentencepiece", "hub") from None
    try:
        model = SentencePieceProcessor(model_proto=_bytes(path))
    except RuntimeError as error:
        raise DataError(f"{path}: not a SentencePiece model: {error}") from None
    return [
        ScoredPiece(model.id_to_piece(n), model.get_score(n), model.is_unknown(n), model.is_byte(n))
        for n in range(model.get_piece_size())
    ]


def _read_ranked(path: Path) -> Engine:
    """Llama's: merges in the order of the scores; letters that it doesn't know become bytes."""
    pieces = _pieces(path)
    numbers = {piece.text: n for n, piece in enumerate(pieces)}
    merges = []
    for piece in sorted((piece for piece in pieces if not piece.byte), key=lambda piece: -piece.score):
        cuts = ((piece.text[:at], piece.text[at:]) for at in range(1, len(piece.text)))
        known = [cut for cut in cuts if cut[0] in numbers and cut[1] in numbers]
        merges += sorted(known, key=lambda cut: (numbers[cut[0]], numbers[cut[1]]))
    unknown = next(piece.text for piece in pieces if piece.unknown)
    engine = Engine(models.BPE(numbers, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    spaces = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    engine.normalizer = normalizers.Sequence(spaces)
    joins = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    engine.decoder = decoders.Sequence(joins)
    engine.add_special_tokens([piece.text for piece in pieces if piece.text in ("<s>", "</s>", unknown)])
    return engine


def _likely(pieces: list[ScoredPiece], unknown: int) -> Engine:
    """The most likely pieces (unigram), after SentencePiece's usual normalisation."""
    engine = Engine(models.Unigram([(piece.text, piece.score) for piece in pieces], unknown, byte_fallback=False))
    plain = [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip()]
    engine.normalizer = normalizers.Sequence(plain)
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    engine.add_special_tokens([piece.text for piece in pieces if piece.text in ("<s>", "</s>", "<pad>", "<unk>")])
    return engine


def _read_numbered(path: Path, numbers: Mapping[str, int]) -> Engine:
    """Marian's: each side has pieces of its own, and one list numbers them all."""
    own = {piece.text: piece for piece in _pieces(path)}
    # the other side's pieces come where nothing else will do
    least = min(piece.score for piece in own.values()) - 100
    names = sorted(numbers, key=lambda name: numbers[name])
    pieces = [own.get(name, ScoredPiece(name, least, False, False)) for name in names]
    return _add_template(_likely(pieces, numbers["<unk>"]), None, "</s>")


def _vocabulary(path: Path) -> dict[str, int]:
    try:
        found = json.loads(_bytes(path))
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict) or sorted(map(str, found.values())) != sorted(map(str, range(len(found)))):
        raise DataError(f"{path}: it isn't a list of pieces with a number each")
    if "<unk>" not in found:
        raise DataError(f"{path}: <unk> isn't in it")
    return found


def _read_merges(folder: Path, spaces: bool) -> Engine:
    """Merges over bytes (GPT-2), or over the lowercase words of the first GPT."""
    try:
        vocabulary = json.loads(_bytes(folder / "vocab.json"))
        lines = _bytes(folder / "merges.txt").decode().splitlines()
        cuts = (line.partition(" ") for line in lines if line and not line.startswith("#version"))
        merges = [(left, right) for left, _, right in cuts]
        if spaces:
            engine = Engine(models.BPE(vocab=vocabulary, merges=merges))
            engine.pre_tokenizer, engine.decoder = (
                pre_tokenizers.ByteLevel(add_prefix_space=False),
                decoders.ByteLevel(),
            )
            return engine
        engine = Engine(models.BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", end_of_word_suffix="</w>"))
    except Exception as error:  # the library raises bare ones
        raise DataError(f"{folder}: vocab.json and merges.txt don't make a tokenizer: {error}") from None
    engine.normalizer = normalizers.BertNormalizer(lowercase=True)
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.BertPreTokenizer(), decoders.BPEDecoder(suffix="</w>")
    return engine


def _read_list(folder: Path) -> Engine:
    """BERT's: one piece a line; tokenizer_config.json says whether case counts."""
    words = _bytes(folder / "vocab.txt").decode().split("\n")
    vocabulary = {word.rstrip("\r"): number for number, word in enumerate(words) if word}
    missing = [token for token in ("[UNK]", "[CLS]", "[SEP]") if token not in vocabulary]
    if missing:
        raise DataError(f"{folder}/vocab.txt: {', '.join(missing)} isn't in it")
    told = _settings(folder)
    engine = Engine(models.WordPiece(vocabulary, unk_token="[UNK]"))
    engine.normalizer = normalizers.BertNormalizer(
        lowercase=told.get("do_lower_case", True),
        strip_accents=told.get("strip_accents"),
        handle_chinese_chars=told.get("tokenize_chinese_chars", True),
    )
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.BertPreTokenizer(), decoders.WordPiece()
    engine.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return engine


def _bytes(path: Path) -> bytes:
    return content_of(path.parent, path.name)
