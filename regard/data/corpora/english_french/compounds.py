"""Patterns: several clauses or several nouns in one sentence, and orders."""

from __future__ import annotations

from regard.data.corpora.english_french import closed
from regard.data.corpora.english_french.clause import COMING, TENSES, Clause, tense_of
from regard.data.corpora.english_french.closed import NOT_PAS
from regard.data.corpora.english_french.draw import Draw
from regard.data.corpora.english_french.form import english, french
from regard.data.corpora.english_french.lexicon import lexicon, nouns_of
from regard.data.corpora.english_french.phrase import Phrase, bare, noun_phrase, place, time
from regard.data.corpora.english_french.plain import (
    AND,
    LINKS,
    comma,
    end_sentence,
    link,
    quality,
    simple,
    somebody,
    verb_of,
)

THAT = (english("that", "SCONJ"), closed.QUE)
IF = (english("if", "SCONJ"), closed.SI)
WHEN = (english("when", "SCONJ"), french("quand", "SCONJ"))
BECAUSE, PARCE = english("because", "SCONJ"), french("parce", "SCONJ")
LET, US = english("let", "VERB"), english("us", "PRON", "we")


def somebody_does_this_and_somebody_does_that(draw: Draw) -> Phrase:
    first = simple(draw, "", draw.pick("", "tense", TENSES))
    second = simple(draw, "second ", draw.pick("second ", "tense", TENSES))
    return end_sentence(draw, first + link(draw, LINKS[draw.pick("", "link", ("and", "but"))]) + second)


def three_things_happen(draw: Draw) -> Phrase:
    """A long sentence of three clauses."""
    tense = draw.pick("", "tense", TENSES)
    first = simple(draw, "", tense) + comma(draw) + simple(draw, "second ", tense)
    return end_sentence(draw, first + link(draw, AND) + simple(draw, "third ", tense) + time(draw, tense))


def because(draw: Draw) -> Phrase:
    """Parce que, parce qu'il."""
    key = draw.key()
    return Phrase([(BECAUSE, key)], [(PARCE, key), (closed.QUE, key)])


def somebody_does_this_because_somebody_does_that(draw: Draw) -> Phrase:
    first = simple(draw, "", draw.pick("", "tense", TENSES))
    return end_sentence(draw, first + because(draw) + simple(draw, "second ", draw.pick("second ", "tense", TENSES)))


def sometime_somebody_does_this_because_of_that(draw: Draw) -> Phrase:
    """Long: a time, a reason with two clauses."""
    tense = draw.pick("", "tense", TENSES)
    main = time(draw, tense) + comma(draw) + simple(draw, "", tense)
    reason = because(draw) + simple(draw, "second ", tense) + link(draw, AND) + simple(draw, "third ", tense)
    return end_sentence(draw, main + reason)


def somebody_thinks_that(draw: Draw) -> Phrase:
    verb = verb_of(draw, "speaking")
    who = somebody(draw, verb)
    what = link(draw, THAT) + simple(draw, "second ", draw.pick("second ", "tense", TENSES))
    return end_sentence(draw, Clause(who, verb, "present", others=[what]).realise(draw))


def somebody_thinks_that_this_and_that(draw: Draw) -> Phrase:
    """Long: que is said twice."""
    verb = verb_of(draw, "speaking")
    who = somebody(draw, verb)
    what = link(draw, THAT) + simple(draw, "second ", draw.pick("second ", "tense", TENSES))
    what += link(draw, AND) + link(draw, THAT) + simple(draw, "third ", draw.pick("third ", "tense", TENSES))
    return end_sentence(draw, Clause(who, verb, "present", others=[what]).realise(draw))


def if_this_then_that(draw: Draw) -> Phrase:
    """The present after if, the future in the main clause; s'il, but si elle."""
    condition = link(draw, IF) + simple(draw, "", "present") + comma(draw)
    return end_sentence(draw, condition + simple(draw, "second ", "future"))


def that_if_this(draw: Draw) -> Phrase:
    return end_sentence(draw, simple(draw, "", "future") + link(draw, IF) + simple(draw, "second ", "present"))


def when_this_then_that(draw: Draw) -> Phrase:
    """English has the present after when where French has the future: quand elle arrivera, je partirai."""
    first = simple(draw, "", COMING)
    return end_sentence(draw, link(draw, WHEN) + first + comma(draw) + simple(draw, "second ", "future"))


def somebody_and_somebody_see_something(draw: Draw) -> Phrase:
    """All feminine, or masculine: Marie et Julie sont arrivées."""
    verb = verb_of(draw, draw.pick("", "group", ("intransitive", "transitive")))
    names = draw.maybe("", "names", 0.3, ("names",))
    people = lexicon().names["people"]
    if names:
        first = bare(draw, draw.pick("subject ", "name", people), False)
        second = bare(draw, draw.pick("other ", "name", people), False)
    else:
        first = noun_phrase(draw, "subject ", verb.subjects, decorated=0.2)
        second = noun_phrase(draw, "other ", verb.subjects, decorated=0.2)
    both = first + link(draw, AND) + second
    both.person, both.feminine, both.plural = 5, first.feminine and second.feminine, True
    clause = Clause(both, verb, tense_of(draw, "", verb))
    clause.object = noun_phrase(draw, "object ", verb.objects) if verb.objects else None
    clause.others = [] if verb.objects else [place(draw)]
    return end_sentence(draw, clause.realise(draw))


def somebody_and_somebody_are_small(draw: Draw) -> Phrase:
    nouns = nouns_of("person relative")
    first = noun_phrase(draw, "subject ", nouns, decorated=0.2, specific=True)
    second = noun_phrase(draw, "other ", nouns, decorated=0.2, specific=True)
    both = first + link(draw, AND) + second
    both.person, both.feminine, both.plural = 5, first.feminine and second.feminine, True
    what = quality(draw, both, draw.pick("", "adjective", nouns[-1].adjectives))
    tense = draw.pick("", "tense", ("present", "future"))
    return end_sentence(draw, Clause(both, lexicon().single["be être"], tense, what).realise(draw))


def somebody_sees_this_and_that(draw: Draw) -> Phrase:
    verb = verb_of(draw, "transitive")
    who = somebody(draw, verb)
    what = noun_phrase(draw, "object ", verb.objects) + link(draw, LINKS[draw.pick("", "link", ("and", "or"))])
    what += noun_phrase(draw, "other ", verb.objects)
    return end_sentence(draw, Clause(who, verb, tense_of(draw, "", verb), what).realise(draw))


def somebody_sees_three_kinds_of_things(draw: Draw) -> Phrase:
    verb = verb_of(draw, "transitive")
    who = somebody(draw, verb)
    what = noun_phrase(draw, "object ", verb.objects, decorated=0.25) + comma(draw)
    what += noun_phrase(draw, "other ", verb.objects, decorated=0.25) + link(draw, AND)
    what += noun_phrase(draw, "third ", verb.objects, decorated=0.25)
    return end_sentence(draw, Clause(who, verb, tense_of(draw, "", verb), what).realise(draw))


def somebody_sings_and_dances(draw: Draw) -> Phrase:
    """One subject, two verbs of one tense."""
    verb = verb_of(draw, "intransitive")
    who = somebody(draw, verb)
    tense = draw.pick("", "tense", ("present", "future"))
    main = Clause(who, verb, tense, others=[place(draw)]).realise(draw)
    nobody = Phrase([], [], who.person, who.feminine, who.plural)
    second = draw.pick("second ", "verb", lexicon().verbs["general"])
    clause = Clause(nobody, second, tense, noun_phrase(draw, "object ", second.objects))
    return end_sentence(draw, main + link(draw, AND) + clause.realise(draw))


def open_the_door(draw: Draw) -> Phrase:
    """An order, to one who is addressed with vous."""
    verb = verb_of(draw, "transitive", tense="past")
    denied = draw.maybe("", "polarity", 0.35, (NOT_PAS,))
    what = noun_phrase(draw, "object ", verb.objects, denied is not None)
    nobody = Phrase([], [], 4)
    clause = Clause(nobody, verb, "present", what, polarity=denied)
    clause.others = [place(draw)] if draw.maybe("", "where", 0.5, ("somewhere",)) else []
    return end_sentence(draw, clause.realise(draw))


def let_us_open_the_door(draw: Draw) -> Phrase:
    verb = verb_of(draw, "transitive", tense="past")
    what = noun_phrase(draw, "object ", verb.objects)
    clause = Clause(Phrase([], [], 3), verb, "present", what)
    clause.others = [place(draw)] if draw.maybe("", "where", 0.5, ("somewhere",)) else []
    phrase = clause.realise(draw)
    phrase.english[:0] = [(LET, clause.verb_key), (US, clause.verb_key)]
    return end_sentence(draw, phrase)
