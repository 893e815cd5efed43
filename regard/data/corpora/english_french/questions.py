"""Patterns: questions, with do in English and est-ce que in French."""

from __future__ import annotations

from regard.data.corpora.english_french import closed
from regard.data.corpora.english_french.clause import Clause, tense_of
from regard.data.corpora.english_french.closed import NOT_PAS, four
from regard.data.corpora.english_french.draw import Draw
from regard.data.corpora.english_french.form import english, french
from regard.data.corpora.english_french.infinitives import MODALS, doing
from regard.data.corpora.english_french.lexicon import lexicon, nouns_of
from regard.data.corpora.english_french.phrase import Phrase, describe, noun_phrase, place, subject, time
from regard.data.corpora.english_french.plain import (
    copular,
    end_sentence,
    intransitive,
    link,
    somebody,
    transitive,
    verb_of,
)
from regard.data.corpora.english_french.pronouns import seeing

WHERE, WHEN, WHY, HOW = (
    (english(left, "ADV"), french(right, "ADV"))
    for left, right in (("where", "où"), ("when", "quand"), ("why", "pourquoi"), ("how", "comment"))
)
WHO = (english("who", "PRON"), closed.QUI)
WHOM = (english("whom", "PRON", "who"), closed.QUI)
WHAT = (english("what", "PRON"), french("que", "PRON", "que", "qu'"))
WHICH = english("which", "DET")
QUEL = four("quel quels quelle quelles", "DET", "quel")
MANY, COMBIEN = english("many", "ADJ"), french("combien", "ADV")
OLD, AGE = english("old", "ADJ"), french("âge", "NOUN")
WITH = (english("with", "ADP"), french("avec", "ADP"))


def ask(draw: Draw, clause: Clause, about: Phrase | None = None) -> Phrase:
    """The question of a clause, about something or about its truth."""
    clause.inverted = True
    clause.question_key = draw.key()
    phrase = clause.realise(draw)
    phrase.french[:0] = [(closed.EST_CE, clause.question_key), (closed.QUE, clause.question_key)]
    return end_sentence(draw, about + phrase if about else phrase, closed.QUESTION)


def does_somebody_see_something(draw: Draw) -> Phrase:
    return ask(draw, transitive(draw))


def does_somebody_not_see_something(draw: Draw) -> Phrase:
    return ask(draw, transitive(draw, polarity=NOT_PAS))


def does_somebody_sleep(draw: Draw) -> Phrase:
    clause = intransitive(draw, group=draw.pick("", "group", ("intransitive", "intransitive", "reflexive")))
    clause.others = [place(draw)] if draw.maybe("", "where", 0.6, ("somewhere",)) else []
    return ask(draw, clause)


def does_somebody_see_her(draw: Draw) -> Phrase:
    return ask(draw, seeing(draw, polarity=draw.maybe("", "polarity", 0.2, (NOT_PAS,))))


def is_something_small(draw: Draw) -> Phrase:
    return ask(draw, copular(draw, polarity=draw.maybe("", "polarity", 0.2, (NOT_PAS,))))


def can_somebody_see_something(draw: Draw) -> Phrase:
    verb = lexicon().single[draw.pick("", "verb", MODALS)]
    who = subject(draw, "subject ", verb.subjects)
    return ask(draw, Clause(who, verb, "present", doing(draw, who, None, None)))


def where_does_somebody_sleep(draw: Draw) -> Phrase:
    clause = intransitive(draw, group=draw.pick("", "group", ("intransitive", "dwelling")))
    clause.others = [time(draw, clause.tense)] if draw.maybe("", "when", 0.5, ("sometime",)) else []
    return ask(draw, clause, link(draw, WHERE))


def where_does_somebody_see_something(draw: Draw) -> Phrase:
    return ask(draw, transitive(draw), link(draw, WHERE))


def when_will_somebody_see_something(draw: Draw) -> Phrase:
    tense = draw.pick("", "tense", ("future", "past"))
    return ask(draw, transitive(draw, tense=tense), link(draw, WHEN))


def why_does_somebody_see_something(draw: Draw) -> Phrase:
    polarity = draw.maybe("", "polarity", 0.3, (NOT_PAS,))
    return ask(draw, transitive(draw, polarity=polarity), link(draw, WHY))


def what_does_somebody_see(draw: Draw) -> Phrase:
    verb = verb_of(draw, "to things")
    clause = Clause(somebody(draw, verb), verb, tense_of(draw, "", verb))
    clause.others = [place(draw)] if draw.maybe("", "where", 0.6, ("somewhere",)) else []
    return ask(draw, clause, link(draw, WHAT))


def whom_does_somebody_see(draw: Draw) -> Phrase:
    verb = verb_of(draw, "to people")
    clause = Clause(somebody(draw, verb), verb, tense_of(draw, "", verb))
    clause.others = [place(draw)] if draw.maybe("", "where", 0.6, ("somewhere",)) else []
    return ask(draw, clause, link(draw, WHOM))


def who_sees_something(draw: Draw) -> Phrase:
    verb = verb_of(draw, "transitive")
    what = noun_phrase(draw, "object ", verb.objects)
    clause = Clause(link(draw, WHO), verb, tense_of(draw, "", verb), what)
    clause.others = [place(draw)] if draw.maybe("", "where", 0.4, ("somewhere",)) else []
    return end_sentence(draw, clause.realise(draw), closed.QUESTION)


def which_thing_does_somebody_see(draw: Draw) -> Phrase:
    """The participle agrees: quelle voiture est-ce que vous avez achetée ?"""
    verb = verb_of(draw, "countable")
    noun = draw.pick("object ", "noun", verb.countable)
    plural = draw.pick("object ", "number", ("singular", "plural")) == "plural"
    what = describe(draw, "object ", noun, plural, 0.3)
    key = draw.key()
    what.english.insert(0, (WHICH, key))
    what.french.insert(0, (QUEL[what.gender_number], key))
    return ask(draw, Clause(somebody(draw, verb), verb, tense_of(draw, "", verb), preceding=what), what)


def how_many_things_does_somebody_see(draw: Draw) -> Phrase:
    verb = verb_of(draw, "countable")
    what = describe(draw, "object ", draw.pick("object ", "noun", verb.countable), True, 0.3)
    key = draw.key()
    what.english[:0] = [(HOW[0], key), (MANY, key)]
    what.french[:0] = [(COMBIEN, key), (closed.OF, key)]
    return ask(draw, Clause(somebody(draw, verb), verb, tense_of(draw, "", verb), preceding=what), what)


def with_whom_does_somebody_sing(draw: Draw) -> Phrase:
    clause = intransitive(draw)
    clause.others = [place(draw)] if draw.maybe("", "where", 0.6, ("somewhere",)) else []
    return ask(draw, clause, link(draw, WITH) + link(draw, WHOM))


def how_old_is_somebody(draw: Draw) -> Phrase:
    """Quel âge est-ce que vous avez ?"""
    who = subject(draw, "subject ", nouns_of("person relative animal"), specific=True)
    key = draw.key()
    about = Phrase([(HOW[0], key), (OLD, key)], [(QUEL[0], key), (AGE, key)])
    return ask(draw, Clause(who, lexicon().single["be avoir"], draw.pick("", "tense", ("present", "future"))), about)


def where_is_something(draw: Draw) -> Phrase:
    """Où est le chat ? The subject follows in both languages."""
    what = noun_phrase(draw, "subject ", nouns_of("person relative animal thing text garment vehicle"), specific=True)
    be = lexicon().single["be être"]
    key = draw.key()
    middle = Phrase([(be.present[what.person], key)], [(be.indicative[what.person], key)])
    return end_sentence(draw, link(draw, WHERE) + middle + what, closed.QUESTION)
