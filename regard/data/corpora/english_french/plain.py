"""The plain clauses that patterns are made of: somebody does something, somebody is something."""

from __future__ import annotations

from collections.abc import Sequence

from regard.data.corpora.english_french import closed
from regard.data.corpora.english_french.clause import Clause, tense_of
from regard.data.corpora.english_french.closed import Person, Polarity
from regard.data.corpora.english_french.draw import Draw
from regard.data.corpora.english_french.entry import Adjective, Phrasing, Verb
from regard.data.corpora.english_french.form import Form, Token, english, french
from regard.data.corpora.english_french.lexicon import find_noun, lexicon, nouns_of
from regard.data.corpora.english_french.phrase import (
    Phrase,
    after,
    bare,
    noun_phrase,
    numeral,
    pronoun,
    subject,
    write_fixed,
)

ANYTHING = (
    "person relative animal thing text garment vehicle craft furniture opening device building landmark dish staple "
    "drink idea instrument"
)
LINKS = {
    left: (english(left, "CCONJ"), french(right, "CCONJ"))
    for left, right in (("and", "et"), ("but", "mais"), ("or", "ou"))
}
AND, BUT = LINKS["and"], LINKS["but"]
IN = english("in", "ADP")
OCLOCK = english("o'clock", "NOUN")
# whom a person can see without seeing themselves, by the subject's person
OTHERS = tuple(
    tuple(other for other in closed.PERSONS if person not in (0, 3, 4) or other.person not in clashing)
    for person, clashing in enumerate(((0, 3), (), (), (0, 3), (4,), ()))
)


def verb_of(draw: Draw, group: str, slot: str = "", tense: str | None = None) -> Verb:
    """A verb of a group, one that has a past where the tense asks for it."""
    return draw.pick(slot, "verb", lexicon().verbs[group + " past" if tense == "past" else group])


def somebody(draw: Draw, verb: Verb, slot: str = "", persons: Sequence[Person] = closed.PERSONS) -> Phrase:
    return subject(draw, slot + "subject ", verb.subjects, persons)


def intransitive(
    draw: Draw,
    slot: str = "",
    tense: str | None = None,
    polarity: Polarity | None = None,
    group: str = "intransitive",
    persons: Sequence[Person] = closed.PERSONS,
) -> Clause:
    verb = verb_of(draw, group, slot, tense)
    tense = tense or tense_of(draw, slot, verb)
    return Clause(somebody(draw, verb, slot, persons), verb, tense, polarity=polarity)


def transitive(
    draw: Draw,
    slot: str = "",
    tense: str | None = None,
    polarity: Polarity | None = None,
    group: str = "transitive",
    persons: Sequence[Person] = closed.PERSONS,
) -> Clause:
    """Somebody does something to something; a French preposition comes with the verb."""
    verb = verb_of(draw, group, slot, tense)
    tense = tense or tense_of(draw, slot, verb)
    who = somebody(draw, verb, slot, persons)
    plain = verb.preposition is None
    negative = polarity is not None and plain
    what = noun_phrase(draw, slot + "object ", verb.objects, negative, specific=not plain)
    return Clause(who, verb, tense, what, polarity=polarity)


def copular(
    draw: Draw,
    slot: str = "",
    tense: str | None = None,
    polarity: Polarity | None = None,
    persons: Sequence[Person] = closed.PERSONS,
) -> Clause:
    """Something is somehow."""
    tense = tense or draw.pick(slot, "tense", ("present", "present", "future"))
    who, qualities = describable(draw, slot, persons)
    adjective = draw.pick(slot, "adjective", qualities)
    what = quality(draw, who, adjective)
    degree = draw.maybe(slot, "degree", 0.2, lexicon().adverbs["degree"] if adjective.comparative else ())
    what = write_fixed(draw, degree) + what if degree else what
    return Clause(who, lexicon().single["be être"], tense, what, polarity=polarity)


def describable(
    draw: Draw, slot: str = "", persons: Sequence[Person] = closed.PERSONS
) -> tuple[Phrase, Sequence[Adjective]]:
    """A subject, and the adjectives that fit it."""
    person = draw.maybe(slot + "subject ", "pronoun", 0.3, persons)
    human = nouns_of("person")[0].adjectives
    if person is not None:
        return pronoun(draw, person), human
    name = draw.maybe(slot + "subject ", "name", 0.15, lexicon().names["people"])
    if name is not None:
        return bare(draw, name, False), human
    noun = draw.pick(slot + "subject ", "noun", nouns_of(ANYTHING))
    return noun_phrase(draw, slot + "subject ", (noun,), decorated=0.2, specific=True), noun.adjectives


def quality(draw: Draw, who: Phrase, adjective: Adjective) -> Phrase:
    """An adjective that agrees with somebody."""
    key = draw.key()
    return Phrase([(adjective.english, key)], [(adjective.french[who.gender_number], key)])


def simple(draw: Draw, slot: str, tense: str, persons: Sequence[Person] = closed.SAFE) -> Phrase:
    """Any plain clause, as a part of a longer sentence."""
    kinds = KINDS if tense != "past" else KINDS[:-1]
    kind = draw.pick(slot, "kind", kinds)
    if kind == "intransitive":
        return intransitive(draw, slot, tense, persons=persons).realise(draw)
    if kind == "copular":
        return copular(draw, slot, tense, persons=persons).realise(draw)
    return transitive(draw, slot, tense, persons=persons).realise(draw)


KINDS = ("transitive", "intransitive", "transitive", "transitive", "copular")


def other(draw: Draw, slot: str, who: Phrase) -> Person:
    """Somebody else than the subject."""
    return draw.pick(slot, "pronoun", OTHERS[who.person])


def direct(draw: Draw, person: Person) -> tuple[Phrase, Token]:
    """A direct object pronoun: its English place, with what the participle agrees with, and its French clitic."""
    key = draw.key()
    left, right = person.direct
    return Phrase([(left, key)], [], person.person, person.feminine, person.plural), (right, key)


def indirect(draw: Draw, person: Person, to: Form | None = None) -> tuple[Phrase, Token]:
    """An indirect object pronoun: to him, lui."""
    key = draw.key()
    left = [(to, key)] if to else []
    return Phrase([*left, (person.direct[0], key)], []), (person.indirect, key)


def end_sentence(draw: Draw, phrase: Phrase, mark: Form = closed.STOP) -> Phrase:
    """A sentence with its final mark."""
    key = draw.key()
    phrase.english.append((mark, key))
    phrase.french.append((mark, key))
    return phrase


def comma(draw: Draw) -> Phrase:
    key = draw.key()
    return Phrase([(closed.COMMA, key)], [(closed.COMMA, key)])


def link(draw: Draw, forms: tuple[Form, Form]) -> Phrase:
    """A conjunction or the like: one word on each side."""
    key = draw.key()
    return Phrase([(forms[0], key)], [(forms[1], key)])


def expression(draw: Draw, phrasing: Phrasing | None) -> list[Phrase]:
    return [write_fixed(draw, phrasing)] if phrasing else []


def hours(draw: Draw) -> Phrase:
    """Three o'clock, trois heures."""
    number = draw.pick("", "hour", tuple(range(1, 12)))
    key = draw.key()
    return numeral(draw, number, True) + Phrase([(OCLOCK, key)], [(find_noun("hour").french[number > 1], key)])


def city(draw: Draw) -> Phrase:
    """In Paris, à Paris."""
    return after(draw, closed.A, bare(draw, draw.pick("", "city", lexicon().names["cities"]), False), IN)
