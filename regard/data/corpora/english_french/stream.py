"""The corpus as endless streams, and which stream a sentence belongs to.

A sentence belongs to one split by a stable hash of its English text, whatever the seed. Some combinations of a pattern
and a content word are kept out of train, validation and test, so that `combinations` asks for what training never saw.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Literal, get_args

from regard.data.corpora.english_french.draw import Draw, DrawnWords
from regard.data.corpora.english_french.lexicon import common, lexicon
from regard.data.corpora.english_french.pattern import Level, Sentence, table, weights
from regard.data.corpora.english_french.word import BilingualPair
from regard.data.split import TOP, hash_text, split_by_hash

Split = Literal["train", "validation", "test", "combinations"]
HELD_OUT = 0.05  # of the combinations of pattern and word
# words that a pattern can't do without, or has too few of
INDISPENSABLE = frozenset(["year", "old", "order", "easy", "difficult", "important", "useful", "dangerous", "useless"])


@cache
def open_lemmas() -> frozenset[str]:
    """The words that have enough patterns to be kept out of some."""
    entries = lexicon()
    kinds = (kind for kind in entries.nouns if kind not in ("game", "instrument", "container", "portion", "unit"))
    words = {noun.lemma for kind in kinds for noun in entries.nouns[kind]}
    words |= {verb.lemma for group in ("transitive", "intransitive") for verb in entries.verbs[group]}
    words |= {adjective.lemma for adjective in entries.adjectives}
    return frozenset(words - INDISPENSABLE)


@cache
def is_held_out(pattern: str, lemma: str) -> bool:
    """Whether training never sees this word in this pattern."""
    return lemma in open_lemmas() and hash_text(f"{pattern} {lemma}") < HELD_OUT * TOP


def choose_split(sentence: Sentence | BilingualPair, value: int) -> Split:
    """The one split that a sentence belongs to, given the hash of its English text."""
    for lemma in sentence.lemmas:
        if is_held_out(sentence.pattern, lemma):
            return "combinations"
    return split_by_hash(value)


def sentences(seed: str, level: Level) -> Iterator[Sentence]:
    """Sentences of all splits by chance, some of them more than once."""
    random = Random(seed).random
    names, totals = tuple(table()), weights(level)
    words = DrawnWords(common()) if level == "first" else None
    while True:
        yield Sentence(names[bisect(totals, random() * totals[-1])], Draw(random, words))


def pairs(split: Split, seed: int = 0, level: Level = "full") -> Iterator[BilingualPair]:
    """An endless stream of distinct sentences of one split, the same for the same seed.

    The level `first` is a smaller language with the same difficulties, which a small model learns in a minute.
    """
    if split not in get_args(Split):
        raise ValueError(f"split {split} is none of {', '.join(get_args(Split))}")
    seen: set[int] = set()
    for sentence in sentences(f"{split} {seed}", level):
        value = hash_text(sentence.source)
        if value not in seen and choose_split(sentence, value) == split:
            seen.add(value)
            yield sentence.pair()


def patterns() -> tuple[str, ...]:
    """The names of the sentence patterns."""
    return tuple(table())
