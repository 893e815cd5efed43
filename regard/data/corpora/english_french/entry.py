"""Entries of the lexicon: a noun, adjective or verb with its forms in both languages."""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.corpora.english_french.form import Form

Two = tuple[Form, Form]  # singular, plural


class Named:
    """Something that a slot can be filled with by name."""

    lemma: str

    def __str__(self) -> str:
        return self.lemma


@dataclass(eq=False, slots=True)
class Adjective(Named):
    lemma: str
    english: Form
    comparative: tuple[Form, ...]  # smaller; more beautiful; empty where it has none
    superlative: tuple[Form, ...]
    french: tuple[Form, Form, Form, Form]
    before: bool  # stands before its noun
    own: tuple[Form, Form, Form, Form] | None = None  # meilleur, pire


@dataclass(eq=False, slots=True)
class Noun(Named):
    lemma: str
    kind: str
    english: Two
    french: Two
    feminine: bool
    mass: bool
    female: Form | None  # une amie, beside un ami
    adjectives: tuple[Adjective, ...] = ()
    following: tuple[Adjective, ...] = ()  # those that stand after it
    gradable: tuple[Adjective, ...] = ()  # those that have degrees


@dataclass(eq=False, slots=True)
class Verb(Named):
    """A verb in both languages; lists of six are by person: je, tu, il, nous, vous, ils."""

    lemma: str
    base: Form
    present: tuple[Form, ...]
    past: Form | None
    particles: tuple[Form, ...]
    modal: bool  # be, can, must: no do, no will for the last two
    infinitive: Form
    indicative: tuple[Form, ...]
    future: tuple[Form, ...]
    participle: tuple[Form, Form, Form, Form]
    auxiliary: tuple[Form, ...]
    moves: bool  # conjugated with être, so its participle agrees with the subject
    reflexive: bool
    preposition: Form | None
    subjects: tuple[Noun, ...] = ()
    objects: tuple[Noun, ...] = ()
    countable: tuple[Noun, ...] = ()  # those objects that can be counted

    def __str__(self) -> str:
        return " ".join([self.lemma, *(particle.word.text for particle in self.particles)])


@dataclass(eq=False, slots=True)
class Phrasing(Named):
    """A fixed expression: every day, tous les jours. Words with equal marks stand for each other; 0 stands alone."""

    lemma: str
    english: tuple[Form, ...]
    french: tuple[Form, ...]
    english_marks: tuple[int, ...]
    french_marks: tuple[int, ...]
    tenses: tuple[str, ...] = ()
    nouns: tuple[Noun, ...] = ()  # what a preposition goes with
