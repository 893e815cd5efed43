"""A folder's texts here and in transformers: the tokens that reach the model, and what it answers or writes.

Random tokens compare two networks; a text goes through both tokenizers and both searches too, where most of what goes
wrong between two libraries goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers.models import Unigram
from torch import Tensor

from regard.core.model import Model
from regard.data.tokenizer import MASK, Tokenizer
from regard.decode.filler import Filler
from regard.decode.prompted import Prompted
from regard.decode.translator import Translator
from regard.decode.writer import Writer
from regard.errors import InputError, Mismatch
from regard.host.meter import Advance, ignore
from regard.hub.check import largest_difference, reference
from regard.hub.load import import_folder
from regard.tasks.bundle import Bundle
from regard.tasks.classification import Classifier
from regard.tasks.embedding import Embedder
from regard.tasks.tagging import RAW, Tagger
from regard.tasks.vector import Mode

TEXTS = (
    "The cat sleeps.",
    "Été naïve : une œuvre, ça va ?",
    "12,345.67 € in 2024, 3 × 4",
    "don't stop -- it's \"fine\" (really)!",
    "antidisestablishmentarianism",
    "two  spaces,\ta tab",
    "日本語 🐈",
    "e\u0301 is é",
    "a",
    "[MASK] [SEP] [EOS] </s> <s> <|endoftext|>",
)
WRITTEN = 3  # texts that are written on from
STEPS = 8  # tokens that are written
CLOSE = 1e-3  # of scores


@dataclass
class Difference:
    """The first text that comes out in another way."""

    text: str
    what: str  # tokens, scores, labels, vectors or what was written
    here: list[Any]
    there: list[Any]


@dataclass
class Comparison:
    """How a folder compares with what transformers makes of it."""

    largest_difference: float  # of any output, on random tokens with pads
    texts: int  # that were compared; 0 where there is no tokenizer
    difference: Difference | None
    failure: str | None = None  # why no text could be compared, though there is a tokenizer

    def insist(self, folder: Path) -> None:
        """Raise where the two differ."""
        if self.largest_difference > CLOSE:
            raise Mismatch(f"{folder}: outputs differ from those of transformers by {self.largest_difference:.2g}")
        if self.difference is not None:
            found = self.difference
            told = (
                f"{found.what} of {found.text!r} differ:\n  here          {found.here}\n  transformers  {found.there}"
            )
            raise Mismatch(f"{folder}: {told}")
        if self.failure is not None:
            raise Mismatch(f"{folder}: no text could be compared with transformers: {self.failure}")


def compare(folder: Path, given: Bundle, advance: Advance = ignore) -> Comparison:
    """Compare a folder as transformers reads it with itself as it is read here, or with the run that it came from."""
    arrived = import_folder(folder)
    theirs = reference(folder, arrived)
    gap = largest_difference(folder, arrived, theirs=theirs)
    if given.lexicon is None or given.lexicon.words is None:
        return Comparison(gap, 0, None)
    given.model.float()
    pipeline = given.pipeline()
    ask = next((ask for kind, ask in ASKED.items() if isinstance(pipeline, kind)), None)
    if ask is None:
        return Comparison(gap, 0, None, f"there is no way yet to ask a {type(pipeline).__name__.lower()} in both")
    # a text that spells a special token is text here, unless it is a prompt for a model from elsewhere
    prompted = isinstance(pipeline, Writer) and pipeline.foreign
    plain = not prompted if given.lexicon.foreign else None
    other, count = Theirs(theirs, tokenizer_of(folder), plain), 0
    refused: InputError | None = None
    # SentencePiece has special tokens among its pieces: text that spells one is unknown here, and spelled out there
    pieces = isinstance(given.lexicon.tokenizer.engine.model, Unigram)
    for number, text in enumerate(TEXTS[:-1] if plain and pieces else TEXTS):
        try:
            found = ask(pipeline, other, text, number < WRITTEN)
        except InputError as error:  # longer than the model reads
            refused = error
            continue
        count += 1
        advance()
        if found is not None:
            return Comparison(gap, count, found)
    return Comparison(gap, count, None, None if count or refused is None else refused.message)


def tokenizer_of(folder: Path) -> Any:
    """The folder's tokenizer as transformers loads it."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # whatever a stranger's library raises
        raise Mismatch(f"{folder}: transformers can't load its tokenizer: {error}") from None


@dataclass
class Theirs:
    """A model and its tokenizer, as transformers loads them."""

    model: Any
    tokenizer: Any
    plain: bool | None  # whether a text that spells special tokens is to be read as text; None: as its files say

    def read(self, *texts: str) -> Any:
        told = {} if self.plain is None else {"split_special_tokens": self.plain}
        return self.tokenizer(*texts, return_tensors="pt", **told)

    @torch.no_grad()
    def scores(self, words: Any) -> Tensor | None:
        answer = self.model(**words)
        return next((answer[name] for name in ("logits", "prediction_logits") if name in answer), None)

    @torch.no_grad()
    def states(self, words: Any) -> Tensor:
        """What its last layer makes of a text: (time, width)."""
        found: Tensor = self.model.base_model(**words).last_hidden_state[0]
        return found

    @torch.no_grad()
    def write(self, words: Any) -> list[int]:
        """The tokens that it writes; one more than is compared, since the last may be forced to be the end."""
        found = self.model.generate(**words, max_new_tokens=STEPS + 1, do_sample=False, num_beams=1)[0].tolist()
        return found[1 if self.model.config.is_encoder_decoder else len(words["input_ids"][0]) :][:STEPS]


@dataclass
class Overheard:
    """What a network was given first, and what it answered."""

    rows: list[Tensor] = field(default_factory=list)
    scores: list[Tensor] = field(default_factory=list)

    def difference(self, text: str, tokenizer: Tokenizer, theirs: Theirs, words: Any) -> Difference | None:
        """Where tokens differ, or else scores."""
        rows = self.rows[0].tolist() if self.rows else [[]]
        there = words["input_ids"].tolist()
        if rows != there:
            return Difference(text, "tokens", tokenizer.pieces(rows[0]), tokenizer.pieces(there[0]))
        expected = theirs.scores(words) if self.scores else None
        if expected is None or bool((expected - self.scores[0]).abs().max() <= CLOSE):
            return None
        return Difference(text, "scores", self.scores[0].flatten().tolist()[:9], expected.flatten().tolist()[:9])


@contextmanager
def listen(network: Model) -> Iterator[Overheard]:
    """Listen to what a network is given, whoever asks it."""
    heard, stack = Overheard(), network.encoder or network.decoder
    assert stack is not None
    hooks = (
        stack.embedding.register_forward_pre_hook(lambda _, given: heard.rows.append(given[0])),
        network.register_forward_hook(lambda _, given, found: heard.scores.append(found)),
    )
    try:
        yield heard
    finally:
        for hook in hooks:
            hook.remove()


def compare_texts(text: str, tokenizer: Tokenizer, here: list[str], theirs: Theirs, words: Any) -> Difference | None:
    """Where two continuations part."""
    here, there = here[:STEPS], tokenizer.pieces(theirs.write(words))
    if tokenizer.pieces([tokenizer.end])[0] not in here:  # the context was full
        there = there[: len(here)]
    return None if here == there else Difference(text, "continuations", here, there)


def ask_writer(pipeline: Writer, theirs: Theirs, text: str, on: bool) -> Difference | None:
    words = theirs.read(text)
    with listen(pipeline.model) as heard:
        found = pipeline.write(text, sample=False, max_tokens=STEPS + 1 if on else 1)[0]
    first = heard.difference(text, pipeline.tokenizer, theirs, words)
    return first or (compare_texts(text, pipeline.tokenizer, found.tokens, theirs, words) if on else None)


def ask_translator(pipeline: Translator, theirs: Theirs, text: str, on: bool) -> Difference | None:
    words, network = theirs.read(text), pipeline.scorer
    joined = isinstance(network, Prompted)  # a decoder alone reads the separator with what it writes
    assert isinstance(network, Prompted | Model)
    with listen(network.model if isinstance(network, Prompted) else network) as heard:
        found = pipeline.translate(text, beam=1, max_tokens=STEPS + 1)
    first = None if joined else heard.difference(text, pipeline.source, theirs, words)
    return first or (compare_texts(text, pipeline.target, found.tokens, theirs, words) if on or joined else None)


def ask_classifier(pipeline: Classifier, theirs: Theirs, text: str, on: bool) -> Difference | None:
    pairs = ((text, TEXTS[0]),) if pipeline.lexicon.tokenizer.separator is not None else ()
    for texts in ((text,), *pairs):
        with listen(pipeline.model) as heard:
            pipeline.classify(*texts)
        found = heard.difference(" | ".join(texts), pipeline.lexicon.tokenizer, theirs, theirs.read(*texts))
        if found is not None:
            return found
    return None


def ask_filler(pipeline: Filler, theirs: Theirs, text: str, on: bool) -> Difference | None:
    mask = pipeline.tokenizer.mask
    if mask is None or text == TEXTS[-1]:  # of special tokens only the mask is read as one here
        raise InputError("there is nothing to fill in")
    with listen(pipeline.model) as heard:
        pipeline.fill(f"{text} {MASK}")
    shown = f"{text} {MASK}".replace(MASK, pipeline.tokenizer.pieces([mask])[0])
    return heard.difference(shown, pipeline.tokenizer, theirs, replace(theirs, plain=False).read(shown))


def ask_tagger(pipeline: Tagger, theirs: Theirs, text: str, on: bool) -> Difference | None:
    tokenizer = pipeline.lexicon.tokenizer
    # what a tokenizer makes nothing of, an accent that stands alone, is unknown here and isn't there at all elsewhere
    words = [word for word in RAW.findall(text) if tokenizer.tokens(word)]
    if not words:
        raise InputError("there is no word to tag")
    joined = " ".join(words)
    read = theirs.read(joined)
    with listen(pipeline.model) as heard:
        here = [tag for _, tag in pipeline.tag(words)]
    found = heard.difference(joined, tokenizer, theirs, read)
    scores = None if found is not None else theirs.scores(read)
    if scores is None:
        return found
    there, begin = [], 0
    for word in words:
        places = (read.char_to_token(0, place) for place in range(begin, begin + len(word)))
        first = next(place for place in places if place is not None)  # an accent may be gone
        there.append(theirs.model.config.id2label[int(scores[0, first].argmax())])
        begin += len(word) + 1
    return None if here == there else Difference(joined, "labels", here, there)


def ask_embedder(pipeline: Embedder, theirs: Theirs, text: str, on: bool) -> Difference | None:
    recipe = pipeline.recipe
    words = theirs.read(*recipe.prepared([text], None))
    with listen(pipeline.model) as heard:
        here = pipeline.embed([text])[0]
    found = heard.difference(text, pipeline.tokenizer, theirs, words)
    if found is not None:
        return found
    states = theirs.states(words)
    there = torch.cat([POOLED[mode](states) for mode in recipe.modes])
    for step in recipe.steps:
        there = step(there)
    if bool((here - there).abs().max() <= CLOSE):
        return None
    return Difference(text, "vectors", here.tolist()[:9], there.tolist()[:9])


# one text's states become a vector: as sentence-transformers has it, and apart from how many are pooled here
POOLED: dict[Mode, Callable[[Tensor], Tensor]] = {
    "cls": lambda states: states[0],
    "max": lambda states: states.amax(0),
    "mean": lambda states: states.sum(0) / len(states),
    "mean_sqrt_len_tokens": lambda states: states.sum(0) / len(states) ** 0.5,
    "weightedmean": lambda states: sum(n * state for n, state in enumerate(states, 1)) / sum(range(len(states) + 1)),
    "lasttoken": lambda states: states[-1],
}
ASKED: dict[type, Callable[[Any, Theirs, str, bool], Difference | None]] = {
    Writer: ask_writer,
    Translator: ask_translator,
    Classifier: ask_classifier,
    Filler: ask_filler,
    Embedder: ask_embedder,
    Tagger: ask_tagger,
}
