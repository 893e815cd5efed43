"""Noun phrases, pronouns and adverbials, built once and written in both languages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from regard.data.corpora.english_french import closed
from regard.data.corpora.english_french.closed import Determiner, Person
from regard.data.corpora.english_french.draw import Draw
from regard.data.corpora.english_french.entry import Adjective, Noun, Phrasing
from regard.data.corpora.english_french.form import Form, Token, english, french
from regard.data.corpora.english_french.lexicon import lexicon
from regard.data.corpora.english_french.numeral import in_english, in_french

NUMBERS = ("singular", "singular", "plural")
VERY = (english("very", "ADV"), french("très", "ADV"))


@dataclass(slots=True)
class Phrase:
    """The same words in both languages, with what others agree with; person counts je, tu, il, nous, vous, ils."""

    english: list[Token]
    french: list[Token]
    person: int = 2
    feminine: bool = False
    plural: bool = False

    @property
    def gender_number(self) -> int:
        """The place of the agreeing form among four."""
        return 2 * self.feminine + self.plural

    def __add__(self, other: Phrase) -> Phrase:
        """One after the other; the sum agrees as the first does."""
        joined = self.english + other.english, self.french + other.french
        return Phrase(*joined, self.person, self.feminine, self.plural)


def word(draw: Draw, source: Form, *targets: Form) -> Phrase:
    """One English word and all that stands for it."""
    key = draw.key()
    return Phrase([(source, key)], [(target, key) for target in targets])


def write_fixed(draw: Draw, phrasing: Phrasing) -> Phrase:
    start = draw.count
    draw.count += max(phrasing.english_marks)
    return Phrase(
        [
            (form, start + mark if mark else 0)
            for form, mark in zip(phrasing.english, phrasing.english_marks, strict=True)
        ],
        [
            (form, start + mark if mark else 0)
            for form, mark in zip(phrasing.french, phrasing.french_marks, strict=True)
        ],
    )


def noun_phrase(
    draw: Draw,
    slot: str,
    nouns: Sequence[Noun],
    negative: bool = False,
    decorated: float = 0.4,
    specific: bool = False,
    some: bool = True,
) -> Phrase:
    """A noun with its article and perhaps adjectives.

    `negative` for the object of a negated verb; `specific` for the articles that point at something known; without
    `some` where French would say *de des*.
    """
    noun = draw.pick(slot, "noun", nouns)
    plural = not noun.mass and draw.pick(slot, "number", NUMBERS) == "plural"
    if noun.mass:
        determiners = closed.SPECIFIC_MASS if specific else closed.MASS
    elif plural:
        determiners = closed.SPECIFIC_PLURAL if specific or not some else closed.PLURAL
    else:
        determiners = closed.SPECIFIC if specific else closed.SINGULAR
    determiner = draw.pick(slot, "determiner", determiners)
    if negative:
        determiner = closed.UNDER_NEGATION.get(determiner, determiner)
    return determine(draw, slot, determiner, noun, plural, decorated)


def determine(
    draw: Draw, slot: str, determiner: Determiner, noun: Noun, plural: bool, decorated: float = 0.4
) -> Phrase:
    """The noun phrase of a given determiner and noun."""
    phrase = describe(draw, slot, noun, plural, decorated)
    key = draw.key()
    article = determiner.french[phrase.gender_number]
    if determiner.partitive:
        articles = [(closed.SOME, key), (article, key)]
    elif determiner.yields and phrase.french[0][0].word.tag != "NOUN":
        articles = [(closed.OF, key)]
    else:
        articles = [(article, key)]
    phrase.english.insert(0, (determiner.english, key))
    phrase.french[:0] = articles
    return phrase


def describe(draw: Draw, slot: str, noun: Noun, plural: bool, decorated: float = 0.4) -> Phrase:
    """A noun with the adjectives that one may have drawn, without an article."""
    phrase = bare(draw, noun, plural)
    adjective = draw.maybe(slot, "adjective", decorated, noun.adjectives)
    if adjective is None:
        return phrase
    if adjective.before:
        second = draw.maybe(slot, "second", 0.25, noun.following)
        if second is not None:
            decorate(draw, phrase, second)
    very = draw.maybe(slot, "very", 0.12, ("very",) if adjective.comparative else ())
    decorate(draw, phrase, adjective, VERY if very else None)
    return phrase


def bare(draw: Draw, noun: Noun, plural: bool) -> Phrase:
    key = draw.key()
    person = 5 if plural else 2
    return Phrase([(noun.english[plural], key)], [(noun.french[plural], key)], person, noun.feminine, plural)


def decorate(draw: Draw, phrase: Phrase, adjective: Adjective, very: tuple[Form, Form] | None = None) -> None:
    """Put an adjective on its side of the noun."""
    key = draw.key()
    left = [(adjective.english, key)]
    right = [(adjective.french[phrase.gender_number], key)]
    if very:
        degree = draw.key()
        left.insert(0, (very[0], degree))
        right.insert(0, (very[1], degree))
    phrase.english[:0] = left
    if adjective.before:
        phrase.french[:0] = right
    else:
        phrase.french.extend(right)


@cache
def number_forms(number: int, feminine: bool) -> tuple[tuple[Form, ...], tuple[Form, ...]]:
    left = tuple(english(text, "CCONJ" if text == "and" else "NUM") for text in in_english(number))
    right = tuple(french(text, "CCONJ" if text == "et" else "NUM") for text in in_french(number, feminine))
    return left, right


def numeral(draw: Draw, number: int, feminine: bool) -> Phrase:
    key = draw.key()
    left, right = number_forms(number, feminine)
    return Phrase([(form, key) for form in left], [(form, key) for form in right])


def count(draw: Draw, slot: str, nouns: Sequence[Noun], numbers: Sequence[int]) -> Phrase:
    """A number and a noun: twenty-one cows, vingt et une vaches."""
    number = draw.pick(slot, "count", numbers)
    noun = draw.pick(slot, "noun", nouns)
    phrase = describe(draw, slot, noun, number > 1)
    head = numeral(draw, number, noun.feminine)
    return Phrase(
        head.english + phrase.english, head.french + phrase.french, phrase.person, phrase.feminine, phrase.plural
    )


def pronoun(draw: Draw, person: Person) -> Phrase:
    """A pronoun as the subject."""
    key = draw.key()
    left, right = person.subject
    return Phrase([(left, key)], [(right, key)], person.person, person.feminine, person.plural)


def stress(draw: Draw, person: Person) -> Phrase:
    """A pronoun after a preposition: with him, avec lui."""
    key = draw.key()
    return Phrase([(person.direct[0], key)], [(person.stressed, key)])


def subject(
    draw: Draw, slot: str, nouns: Sequence[Noun], persons: Sequence[Person] = closed.PERSONS, specific: bool = False
) -> Phrase:
    """A pronoun, a name or a noun phrase."""
    person = draw.maybe(slot, "pronoun", 0.4, persons)
    if person is not None:
        return pronoun(draw, person)
    somebody = draw.maybe(slot, "name", 0.2, lexicon().names["people"])
    return bare(draw, somebody, False) if somebody else noun_phrase(draw, slot, nouns, specific=specific)


def time(draw: Draw, tense: str, slot: str = "") -> Phrase:
    return write_fixed(draw, draw.pick(slot, "time", lexicon().adverbs[tense]))


def place(draw: Draw, slot: str = "place ") -> Phrase:
    """A preposition with what it goes with: behind the house, derrière la maison."""
    relation = draw.pick(slot, "relation", lexicon().places)
    return write_fixed(draw, relation) + noun_phrase(draw, slot, relation.nouns, decorated=0.25, some=False)


def after(draw: Draw, preposition: Form, phrase: Phrase, source: Form | None = None) -> Phrase:
    """A phrase behind a preposition; with no English one the French stands alone."""
    key = draw.key() if source else 0
    left = [(source, key)] if source else []
    return Phrase(left + phrase.english, [(preposition, key), *phrase.french], 2, phrase.feminine, phrase.plural)
