"""Inflected words before their neighbours are known, and the last pass that fits them together.

French words change with what follows: *le ami* is written *l'ami*, *de le pain* is *du pain*, *un beau homme* is *un
bel homme*; English has *an apple*. A form knows its own alternatives, so that no rule has to guess from spelling later.
"""

from __future__ import annotations

from regard.data.corpora.english_french.word import Word

FRENCH_VOWELS = "aâàeéèêëiîïoôuûœh"  # an h is silent unless it is listed below
ASPIRATED = (
    "handball", "haricot", "homard", "hibou", "hamster", "héros", "hache", "harpe", "haut", "hockey", "huit", "onze",
)  # fmt: skip
SPOKEN_YOU = ("use", "univ", "one", "eu")  # written with a vowel, spoken with a consonant: a useful tool
SILENT_H = ("honest", "hour")


class Form:
    """One inflected word, with the shapes that it takes before a vowel and before the articles it swallows."""

    __slots__ = ("capital", "changes", "elided", "only", "swallows", "vowel", "word")

    def __init__(self, word: Word, vowel: bool, elided: Form | None = None) -> None:
        self.word, self.vowel, self.elided = word, vowel, elided
        self.capital = Word(word.text[:1].upper() + word.text[1:], word.tag, word.lemma)
        self.only: tuple[Form, ...] = ()  # where not empty, elided before these words alone: si, s'il
        self.swallows: dict[Form, Form] = {}  # de: {le: du, les: des}
        self.changes = elided is not None

    def swallow(self, contractions: dict[Form, Form]) -> None:
        self.swallows, self.changes = contractions, True

    def __repr__(self) -> str:
        return f"{self.word.text}/{self.word.tag}"


# a form and the key that it shares with its counterparts in the other language; 0: it has none
Token = tuple[Form, int]


def english(text: str, tag: str, lemma: str | None = None) -> Form:
    vowel = text.startswith(SILENT_H) or (text[:1].lower() in "aeiou" and not text.lower().startswith(SPOKEN_YOU))
    return Form(Word(text, tag, lemma or text), vowel)


def french(text: str, tag: str, lemma: str | None = None, elided: str | None = None) -> Form:
    """A French form; `elided` is how it is written before a vowel, where that differs."""
    first = text[:1].lower()
    vowel = first in FRENCH_VOWELS and not text.startswith(ASPIRATED)
    other = Form(Word(elided, tag, lemma or text), vowel) if elided else None
    return Form(Word(text, tag, lemma or text), vowel, other)
