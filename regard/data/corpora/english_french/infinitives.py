"""Patterns: a verb with an infinitive: can, must, want to, try to, going to."""

from __future__ import annotations

from regard.data.corpora.english_french import closed
from regard.data.corpora.english_french.clause import Clause, tense_of
from regard.data.corpora.english_french.closed import NEVER, NOT_PAS, Polarity
from regard.data.corpora.english_french.draw import Draw
from regard.data.corpora.english_french.entry import Verb
from regard.data.corpora.english_french.form import Form, english, french
from regard.data.corpora.english_french.lexicon import lexicon
from regard.data.corpora.english_french.phrase import Phrase, noun_phrase, place, pronoun, subject, time, word
from regard.data.corpora.english_french.plain import direct, end_sentence, other, verb_of

MODALS = ("can pouvoir", "must devoir")
TO = closed.TO
IN_ORDER = (english("in", "ADP"), english("order", "NOUN"))
POUR = french("pour", "ADP")
TASKS = "easy facile, difficult difficile, important important, useful utile, dangerous dangereux, useless inutile"
JUDGED = {
    left: (english(left, "ADJ"), french(right, "ADJ")) for left, right in (part.split() for part in TASKS.split(","))
}


def doing(draw: Draw, who: Phrase, to: Form | None, link: Form | None, person: bool = False) -> Phrase:
    """An infinitive with its object; the object may be a pronoun, which stands before it in French."""
    kind = "pronoun" if person else draw.pick("", "action", ("transitive", "transitive", "intransitive", "reflexive"))
    if kind in ("intransitive", "reflexive"):
        return Clause(who, draw.pick("", "deed", lexicon().verbs[kind]), others=[place(draw)]).infinitive(
            draw, to, link
        )
    verb = draw.pick("", "deed", lexicon().verbs["general" if person else "transitive past"])
    if person:
        whom, clitic = direct(draw, other(draw, "object ", who))
        return Clause(who, verb, object=whom, clitics=[clitic]).infinitive(draw, to, link)
    return Clause(who, verb, object=noun_phrase(draw, "object ", verb.objects, specific=True)).infinitive(
        draw, to, link
    )


def modal(draw: Draw, polarity: Polarity | None, person: bool = False) -> Phrase:
    verb = lexicon().single[draw.pick("", "verb", MODALS)]
    who = subject(draw, "subject ", verb.subjects)
    what = doing(draw, who, None, None, person)
    return Clause(who, verb, "present", what, polarity=polarity).realise(draw)


def somebody_can_see_something(draw: Draw) -> Phrase:
    return end_sentence(draw, modal(draw, None))


def somebody_cannot_see_something(draw: Draw) -> Phrase:
    return end_sentence(draw, modal(draw, draw.pick("", "polarity", (NOT_PAS, NEVER))))


def somebody_can_see_her(draw: Draw) -> Phrase:
    """Je peux la voir: the pronoun stays with the infinitive."""
    phrase = modal(draw, draw.maybe("", "polarity", 0.3, (NOT_PAS,)), person=True)
    return end_sentence(draw, phrase + place(draw) if draw.maybe("", "where", 0.5, ("somewhere",)) else phrase)


def controlling(draw: Draw, verb: Verb, polarity: Polarity | None, person: bool = False) -> Phrase:
    """Wants to sleep, veut dormir; tries to sleep, essaie de dormir."""
    who = subject(draw, "subject ", verb.subjects)
    tense = tense_of(draw, "", verb)
    what = doing(draw, who, TO, verb.preposition, person)
    clause = Clause(who, verb, tense, polarity=polarity, others=[what])
    return clause.realise(draw)


def somebody_wants_to_see_something(draw: Draw) -> Phrase:
    verb = verb_of(draw, "control")
    return end_sentence(draw, controlling(draw, verb, None))


def somebody_does_not_want_to_see_something(draw: Draw) -> Phrase:
    verb = verb_of(draw, "control")
    return end_sentence(draw, controlling(draw, verb, draw.pick("", "polarity", (NOT_PAS, NEVER))))


def somebody_wants_to_see_her(draw: Draw) -> Phrase:
    verb = verb_of(draw, "control")
    phrase = controlling(draw, verb, draw.maybe("", "polarity", 0.3, (NOT_PAS,)), person=True)
    return end_sentence(draw, phrase)


def somebody_is_going_to_see_something(draw: Draw) -> Phrase:
    verb = lexicon().single["be going aller"]
    who = subject(draw, "subject ", verb.subjects)
    what = doing(draw, who, TO, None)
    clause = Clause(who, verb, "present", others=[what])
    clause.polarity = draw.maybe("", "polarity", 0.3, (NOT_PAS, NEVER))
    phrase = clause.realise(draw)
    return end_sentence(draw, phrase + time(draw, "future") if draw.maybe("", "when", 0.5, ("sometime",)) else phrase)


def somebody_works_in_order_to_see_something(draw: Draw) -> Phrase:
    verb = draw.pick("", "verb", lexicon().verbs["intransitive"])
    who = subject(draw, "subject ", verb.subjects)
    main = Clause(who, verb, tense_of(draw, "", verb)).realise(draw)
    purpose = doing(draw, who, TO, POUR)
    key = purpose.english[0][1]
    purpose.english[:0] = [(form, key) for form in IN_ORDER]
    return end_sentence(draw, main + purpose)


def it_is_easy_to_see_something(draw: Draw) -> Phrase:
    """Il est facile d'ouvrir la porte."""
    who = pronoun(draw, closed.NEUTER)
    what = word(draw, *JUDGED[draw.pick("", "adjective", tuple(JUDGED))])
    deed = doing(draw, who, TO, closed.DE)
    clause = Clause(who, lexicon().single["be être"], draw.pick("", "tense", ("present", "future")), what, [deed])
    clause.polarity = draw.maybe("", "polarity", 0.3, (NOT_PAS,))
    return end_sentence(draw, clause.realise(draw))
