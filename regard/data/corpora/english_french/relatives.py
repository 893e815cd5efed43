"""Patterns: relative clauses. After que the participle agrees: la voiture que j'ai achetée."""

from __future__ import annotations

from regard.data.corpora.english_french import closed
from regard.data.corpora.english_french.clause import Clause, tense_of
from regard.data.corpora.english_french.closed import NEVER, NOT_PAS
from regard.data.corpora.english_french.draw import Draw
from regard.data.corpora.english_french.entry import Noun, Verb
from regard.data.corpora.english_french.form import english
from regard.data.corpora.english_french.lexicon import lexicon, nouns_of
from regard.data.corpora.english_french.phrase import Phrase, noun_phrase, place, subject, time
from regard.data.corpora.english_french.plain import (
    comma,
    direct,
    end_sentence,
    intransitive,
    link,
    quality,
    somebody,
    verb_of,
)

WHO, THAT = english("who", "PRON"), english("that", "PRON")
WHERE = (english("where", "ADV"), closed.OU_PLACE)
TO_WHOM = (english("to", "ADP"), english("whom", "PRON", "who"))
PEOPLE = "person relative"


def relative(draw: Draw, who: Phrase, human: bool = True) -> Phrase:
    """Who or that as a subject: qui, which agrees as its noun does."""
    key = draw.key()
    return Phrase([(WHO if human else THAT, key)], [(closed.QUI, key)], who.person, who.feminine, who.plural)


def doer(draw: Draw, slot: str) -> Phrase:
    """Somebody who does something, perhaps to something."""
    verb = verb_of(draw, draw.pick(slot, "group", ("transitive", "intransitive", "transitive")), slot)
    noun = draw.pick(slot, "noun", verb.subjects)
    who = noun_phrase(draw, slot, (noun,), decorated=0.25)
    clause = Clause(relative(draw, who, noun.kind != "animal"), verb, tense_of(draw, slot, verb))
    clause.polarity = draw.maybe(slot, "polarity", 0.2, (NOT_PAS, NEVER))
    if verb.objects:
        clause.object = noun_phrase(draw, slot + "object ", verb.objects, clause.polarity is not None)
    return who + clause.realise(draw)


def act_on(draw: Draw, slot: str, what: Phrase, verb: Verb) -> Phrase:
    """Something that somebody does something to."""
    that = link(draw, (THAT, closed.THAT))
    who = subject(draw, slot + "subject ", verb.subjects, closed.SAFE)
    clause = Clause(who, verb, tense_of(draw, slot, verb), preceding=what)
    clause.polarity = draw.maybe(slot, "polarity", 0.2, (NOT_PAS, NEVER))
    return what + that + clause.realise(draw)


def patient(draw: Draw, slot: str) -> tuple[Phrase, Verb, Noun]:
    verb = draw.pick(slot, "verb", lexicon().verbs["transitive"])
    noun = draw.pick(slot, "noun", verb.objects)
    return noun_phrase(draw, slot, (noun,), decorated=0.25, specific=True), verb, noun


def somebody_sees_the_man_who_sells_something(draw: Draw) -> Phrase:
    verb = draw.pick("", "verb", lexicon().verbs["general"])
    who = subject(draw, "subject ", verb.subjects)
    tense = tense_of(draw, "", verb)
    whom = doer(draw, "relative ")
    return end_sentence(draw, Clause(who, verb, tense, whom).realise(draw))


def the_man_who_sells_something_sleeps(draw: Draw) -> Phrase:
    who = doer(draw, "relative ")
    verb = draw.pick("", "verb", lexicon().verbs["living"])
    clause = Clause(who, verb, tense_of(draw, "", verb), others=[place(draw)])
    return end_sentence(draw, clause.realise(draw))


def the_man_who_sees_something_sees_something(draw: Draw) -> Phrase:
    who = doer(draw, "relative ")
    verb = draw.pick("", "verb", lexicon().verbs["general"])
    tense = tense_of(draw, "", verb)
    clause = Clause(who, verb, tense, noun_phrase(draw, "object ", verb.objects))
    return end_sentence(draw, clause.realise(draw))


def somebody_sees_something_that_somebody_bought(draw: Draw) -> Phrase:
    main = draw.pick("", "verb", lexicon().verbs["general"])
    who = subject(draw, "subject ", main.subjects)
    tense = tense_of(draw, "", main)
    what, verb, _ = patient(draw, "relative ")
    return end_sentence(draw, Clause(who, main, tense, act_on(draw, "relative ", what, verb)).realise(draw))


def something_that_somebody_bought_is_small(draw: Draw) -> Phrase:
    what, verb, noun = patient(draw, "relative ")
    whole = act_on(draw, "relative ", what, verb)
    predicate = quality(draw, what, draw.pick("", "adjective", noun.adjectives))
    tense = draw.pick("", "tense", ("present", "future"))
    clause = Clause(whole, lexicon().single["be être"], tense, predicate)
    clause.polarity = draw.maybe("", "polarity", 0.25, (NOT_PAS,))
    return end_sentence(draw, clause.realise(draw))


def somebody_sees_the_house_where_somebody_sleeps(draw: Draw) -> Phrase:
    verb = draw.pick("", "verb", lexicon().verbs["general"])
    who = subject(draw, "subject ", verb.subjects)
    where = noun_phrase(draw, "place ", nouns_of("building"), decorated=0.3, specific=True)
    group = draw.pick("second ", "group", ("intransitive", "dwelling"))
    inner = intransitive(draw, "second ", group=group, persons=closed.SAFE)
    inner.others = [time(draw, inner.tense)] if draw.maybe("", "when", 0.4, ("sometime",)) else []
    what = where + link(draw, WHERE) + inner.realise(draw)
    return end_sentence(draw, Clause(who, verb, tense_of(draw, "", verb), what).realise(draw))


def somebody_sees_the_man_who_sees_her(draw: Draw) -> Phrase:
    """L'homme qui me voit: the pronoun stands between qui and the verb."""
    main = draw.pick("", "verb", lexicon().verbs["general"])
    who = subject(draw, "subject ", main.subjects)
    tense = tense_of(draw, "", main)
    noun = draw.pick("object ", "noun", nouns_of(PEOPLE))
    antecedent = noun_phrase(draw, "object ", (noun,), decorated=0.3)
    inner = draw.pick("relative ", "verb", lexicon().verbs["general"])
    whom, clitic = direct(draw, draw.pick("relative ", "pronoun", closed.SAFE))
    seen = Clause(
        relative(draw, antecedent), inner, tense_of(draw, "relative ", inner), whom, clitics=[clitic], preceding=whom
    )
    what = antecedent + seen.realise(draw)
    return end_sentence(draw, Clause(who, main, tense, what).realise(draw))


def somebody_sees_the_boy_to_whom_somebody_gave_something(draw: Draw) -> Phrase:
    main = draw.pick("", "verb", lexicon().verbs["general"])
    who = subject(draw, "subject ", main.subjects)
    tense = tense_of(draw, "", main)
    whom = noun_phrase(draw, "object ", nouns_of(PEOPLE), decorated=0.25, specific=True)
    to, person = draw.key(), draw.key()
    both = Phrase([(TO_WHOM[0], to), (TO_WHOM[1], person)], [(closed.A, to), (closed.QUI, person)])
    verb = verb_of(draw, "giving", "second ")
    inner = Clause(somebody(draw, verb, "second ", closed.SAFE), verb, tense_of(draw, "second ", verb))
    inner.object = noun_phrase(draw, "second object ", verb.objects)
    return end_sentence(draw, Clause(who, main, tense, whom + both + inner.realise(draw)).realise(draw))


def sometime_the_man_who_sees_something_sees_something_somewhere(draw: Draw) -> Phrase:
    """A long sentence: a time, a relative clause on the subject and another on the object, a place."""
    main = draw.pick("", "verb", lexicon().verbs["general"])
    tense = tense_of(draw, "", main)
    who = doer(draw, "relative ")
    what, verb, _ = patient(draw, "second ")
    clause = Clause(who, main, tense, act_on(draw, "second ", what, verb), [place(draw)])
    return end_sentence(draw, time(draw, tense) + comma(draw) + clause.realise(draw))
