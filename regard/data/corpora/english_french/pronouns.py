"""Patterns: object pronouns, which French moves before the verb."""

from __future__ import annotations

from regard.data.corpora.english_french import closed
from regard.data.corpora.english_french.clause import Clause, tense_of
from regard.data.corpora.english_french.closed import NEVER, NOT_PAS, Person, Polarity
from regard.data.corpora.english_french.draw import Draw
from regard.data.corpora.english_french.entry import Verb
from regard.data.corpora.english_french.form import Token, english
from regard.data.corpora.english_french.lexicon import lexicon, nouns_of
from regard.data.corpora.english_french.phrase import Phrase, after, noun_phrase, place, pronoun, time
from regard.data.corpora.english_french.plain import (
    AND,
    BUT,
    direct,
    end_sentence,
    indirect,
    link,
    other,
    quality,
    somebody,
    verb_of,
)

TO = english("to", "ADP")
DENIALS = (NOT_PAS, NEVER)


def seeing(draw: Draw, slot: str = "", polarity: Polarity | None = None) -> Clause:
    """Somebody sees her; a thing is it, and French takes it as masculine where nothing says otherwise."""
    verb = verb_of(draw, "transitive", slot)
    who = somebody(draw, verb, slot)
    if verb.objects[0].kind == "person":
        person = other(draw, slot + "object ", who)
    else:
        person = draw.pick(slot + "object ", "pronoun", (closed.NEUTER, closed.PERSONS[-1]))
    what, clitic = direct(draw, person)
    tense = tense_of(draw, slot, verb)
    return Clause(who, verb, tense, what, polarity=polarity, clitics=[clitic], preceding=what)


def somebody_sees_her(draw: Draw) -> Phrase:
    clause = seeing(draw)
    clause.others = [place(draw)] if draw.maybe("", "where", 0.4, ("somewhere",)) else []
    return end_sentence(draw, clause.realise(draw))


def somebody_does_not_see_her(draw: Draw) -> Phrase:
    clause = seeing(draw, polarity=draw.pick("", "polarity", DENIALS))
    clause.others = [place(draw)] if draw.maybe("", "where", 0.4, ("somewhere",)) else []
    return end_sentence(draw, clause.realise(draw))


def somebody_often_sees_her(draw: Draw) -> Phrase:
    clause = seeing(draw)
    clause.middle = draw.pick("", "adverb", lexicon().adverbs["middle"])
    clause.others = [time(draw, clause.tense)]
    return end_sentence(draw, clause.realise(draw))


def somebody_answers_her(draw: Draw) -> Phrase:
    """French has an indirect object: she answers him, elle lui répond."""
    verb = verb_of(draw, "dative")
    who = somebody(draw, verb)
    whom, clitic = indirect(draw, other(draw, "object ", who))
    clause = Clause(who, verb, tense_of(draw, "", verb), whom, clitics=[clitic])
    clause.polarity = draw.maybe("", "polarity", 0.3, DENIALS)
    clause.others = [place(draw)] if draw.maybe("", "where", 0.4, ("somewhere",)) else []
    return end_sentence(draw, clause.realise(draw))


def giving(draw: Draw) -> tuple[Verb, Phrase]:
    verb = verb_of(draw, "giving")
    return verb, somebody(draw, verb)


def receiver(draw: Draw) -> Phrase:
    return after(draw, closed.A, noun_phrase(draw, "receiver ", nouns_of("person relative animal"), specific=True), TO)


def somebody_gives_something_to_somebody(draw: Draw) -> Phrase:
    verb, who = giving(draw)
    polarity = draw.maybe("", "polarity", 0.25, DENIALS)
    what = noun_phrase(draw, "object ", verb.objects, polarity is not None)
    clause = Clause(who, verb, tense_of(draw, "", verb), what, [receiver(draw)], polarity)
    return end_sentence(draw, clause.realise(draw))


def somebody_gives_something_to_her(draw: Draw) -> Phrase:
    verb, who = giving(draw)
    polarity = draw.maybe("", "polarity", 0.25, DENIALS)
    what = noun_phrase(draw, "object ", verb.objects, polarity is not None)
    whom, clitic = indirect(draw, other(draw, "receiver ", who), TO)
    clause = Clause(who, verb, tense_of(draw, "", verb), what, [whom], polarity, clitics=[clitic])
    return end_sentence(draw, clause.realise(draw))


def somebody_gives_it_to_somebody(draw: Draw) -> Phrase:
    verb, who = giving(draw)
    what, clitic = direct(draw, draw.pick("object ", "pronoun", (closed.NEUTER, closed.PERSONS[-1])))
    clause = Clause(who, verb, tense_of(draw, "", verb), what, [receiver(draw)], clitics=[clitic], preceding=what)
    clause.polarity = draw.maybe("", "polarity", 0.25, DENIALS)
    return end_sentence(draw, clause.realise(draw))


def order(person: Person, thing: Token, receiver: Token) -> list[Token]:
    """Me le, vous le, but le lui, le leur."""
    return [receiver, thing] if person.person in (0, 3, 4) else [thing, receiver]


def somebody_gives_it_to_her(draw: Draw) -> Phrase:
    verb, who = giving(draw)
    what, thing = direct(draw, draw.pick("object ", "pronoun", (closed.NEUTER, closed.PERSONS[-1])))
    person = other(draw, "receiver ", who)
    whom, clitic = indirect(draw, person, TO)
    both = order(person, thing, clitic)
    clause = Clause(who, verb, tense_of(draw, "", verb), what, [whom], clitics=both, preceding=what)
    clause.polarity = draw.maybe("", "polarity", 0.3, DENIALS)
    clause.others = [whom, place(draw)] if draw.maybe("", "where", 0.6, ("somewhere",)) else [whom]
    return end_sentence(draw, clause.realise(draw))


def referring(phrase: Phrase) -> Person:
    """The pronoun that takes up a thing: la voiture, elle."""
    if phrase.plural:
        return closed.FEMALE_THEY if phrase.feminine else closed.PERSONS[-1]
    return closed.FEMALE_NEUTER if phrase.feminine else closed.NEUTER


def somebody_takes_something_and_sees_it(draw: Draw) -> Phrase:
    """The pronoun has the gender of what it stands for: I bought the car and I like it, je l'aime."""
    things = nouns_of("thing text garment vehicle craft furniture device instrument")
    verb = draw.pick("", "verb", lexicon().verbs["general"])
    tense = tense_of(draw, "", verb)
    what = noun_phrase(draw, "object ", things)
    first = Clause(pronoun(draw, draw.pick("subject ", "pronoun", closed.SAFE)), verb, tense, what).realise(draw)
    second = draw.pick("second ", "verb", lexicon().verbs["general"])
    again, clitic = direct(draw, referring(what))
    who = pronoun(draw, draw.pick("second subject ", "pronoun", closed.SAFE))
    clause = Clause(who, second, tense_of(draw, "second ", second), again, clitics=[clitic], preceding=what)
    return end_sentence(draw, first + link(draw, AND) + clause.realise(draw))


def something_is_small_but_it_is_fast(draw: Draw) -> Phrase:
    noun = draw.pick("subject ", "noun", nouns_of("thing text garment vehicle craft furniture device building"))
    what = noun_phrase(draw, "subject ", (noun,), specific=True)
    verb = lexicon().single["be être"]
    tense = draw.pick("", "tense", ("present", "future"))
    adjective = draw.pick("", "adjective", noun.adjectives)
    first = Clause(what, verb, tense, quality(draw, what, adjective))
    again = pronoun(draw, referring(what))
    others = [entry for entry in noun.adjectives if entry is not adjective]
    second = Clause(again, verb, tense, quality(draw, what, draw.pick("second ", "adjective", others)))
    return end_sentence(draw, first.realise(draw) + link(draw, BUT) + second.realise(draw))
