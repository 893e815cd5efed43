"""What the corpus hands out: words with their part of speech, and aligned pairs of sentences."""

from __future__ import annotations

from dataclasses import dataclass

TAGS = frozenset(
    ("NOUN", "VERB", "ADJ", "DET", "PRON", "ADP", "ADV", "AUX", "NUM", "CCONJ", "SCONJ", "PART", "PROPN", "PUNCT")
)
CONTENT = frozenset(["NOUN", "VERB", "ADJ", "ADV", "NUM", "PROPN"])


@dataclass(frozen=True)
class Word:
    """One word as it is written, its universal part of speech, and the word to look up in a dictionary."""

    text: str
    tag: str
    lemma: str


@dataclass(frozen=True)
class BilingualPair:
    """An English sentence, its one French translation, and which word stands for which."""

    source: str
    target: str
    source_words: tuple[Word, ...]
    target_words: tuple[Word, ...]
    alignment: tuple[tuple[int, int], ...]  # (source index, target index), sorted
    pattern: str
    lemmas: frozenset[str]  # the English content words
