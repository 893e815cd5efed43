"""The English words that the corpus is made of."""

from __future__ import annotations

from regard.data.corpora.english_french.closed import PERSONS, POSSESSIVES
from regard.data.corpora.english_french.idioms import SENSATIONS
from regard.data.corpora.english_french.lexicon import lexicon
from regard.data.corpora.english_french.numeral import in_english

CLOSED = """
    's a ago all and any as because but cool do each enough few how if it less let longer lot many more most never nice
    no nobody not nothing o'clock or several some than that there what when where which who why will windy
"""


def lemmas() -> frozenset[str]:
    """Every English lemma that a sentence can hold, numbers and small words included."""
    entries = lexicon()
    found = set(CLOSED.split()) | set(SENSATIONS) | {str(word) for word in PERSONS + POSSESSIVES}
    found |= {noun.lemma for group in (*entries.nouns.values(), *entries.names.values()) for noun in group}
    found |= {adjective.lemma for adjective in entries.adjectives}
    verbs = [verb for group in (*entries.verbs.values(), entries.single.values()) for verb in group]
    found |= {verb.lemma for verb in verbs} | {form.word.lemma for verb in verbs for form in verb.particles}
    phrasings = [phrasing for group in (*entries.adverbs.values(), entries.places) for phrasing in group]
    found |= {form.word.lemma for phrasing in phrasings for form in phrasing.english}
    return frozenset(found.union(*(in_english(number) for number in (*range(1, 101), *range(200, 1000, 100)))))
