"""Patterns: plain statements, with negation, adverbs, places and times."""

from __future__ import annotations

from regard.data.corpora.english_french import closed
from regard.data.corpora.english_french.clause import Clause, tense_of
from regard.data.corpora.english_french.closed import NEVER, NO_LONGER, NOBODY, NOT_PAS, NOTHING
from regard.data.corpora.english_french.draw import Draw
from regard.data.corpora.english_french.form import english, french
from regard.data.corpora.english_french.lexicon import lexicon, nouns_of
from regard.data.corpora.english_french.phrase import (
    Phrase,
    after,
    bare,
    determine,
    noun_phrase,
    place,
    stress,
    time,
    write_fixed,
)
from regard.data.corpora.english_french.plain import (
    city,
    comma,
    end_sentence,
    expression,
    hours,
    intransitive,
    somebody,
    transitive,
    verb_of,
)

AT, FROM, IN, TO = (english(text, "ADP") for text in ("at", "from", "in", "to"))
PEOPLE = {"person", "relative"}
EN = french("en", "ADP")


def somebody_sleeps(draw: Draw) -> Phrase:
    return end_sentence(draw, intransitive(draw).realise(draw))


def somebody_does_not_sleep(draw: Draw) -> Phrase:
    return end_sentence(draw, intransitive(draw, polarity=NOT_PAS).realise(draw))


def somebody_never_sleeps(draw: Draw) -> Phrase:
    clause = intransitive(draw, polarity=NEVER)
    clause.others = [place(draw)]
    return end_sentence(draw, clause.realise(draw))


def somebody_sleeps_somewhere(draw: Draw) -> Phrase:
    clause = intransitive(draw)
    clause.others = [place(draw)]
    return end_sentence(draw, clause.realise(draw))


def somebody_sleeps_somehow(draw: Draw) -> Phrase:
    clause = intransitive(draw, polarity=draw.maybe("", "polarity", 0.2, (NOT_PAS,)))
    adverbs = lexicon().adverbs
    clause.others = [write_fixed(draw, draw.pick("", "adverb", adverbs["manner"] + adverbs["spot"]))]
    return end_sentence(draw, clause.realise(draw))


def somebody_sleeps_sometime(draw: Draw) -> Phrase:
    clause = intransitive(draw)
    clause.others = [place(draw), time(draw, clause.tense)]
    return end_sentence(draw, clause.realise(draw))


def somebody_sees_something(draw: Draw) -> Phrase:
    return end_sentence(draw, transitive(draw).realise(draw))


def somebody_does_not_see_something(draw: Draw) -> Phrase:
    return end_sentence(draw, transitive(draw, polarity=NOT_PAS).realise(draw))


def somebody_never_sees_something(draw: Draw) -> Phrase:
    return end_sentence(draw, transitive(draw, polarity=NEVER).realise(draw))


def somebody_no_longer_sees_something(draw: Draw) -> Phrase:
    tense = draw.pick("", "tense", ("present", "future"))
    return end_sentence(draw, transitive(draw, tense=tense, polarity=NO_LONGER).realise(draw))


def somebody_sees_nothing(draw: Draw) -> Phrase:
    """Je ne vois rien, but je n'ai vu personne."""
    verb = verb_of(draw, "transitive")
    tense = tense_of(draw, "", verb)
    kinds = {noun.kind for noun in verb.objects}
    denials = [*([NOBODY] if "person" in kinds else []), *([NOTHING] if kinds - PEOPLE else [])]
    polarity = draw.pick("", "polarity", denials)
    clause = Clause(somebody(draw, verb), verb, tense, polarity=polarity)
    clause.others = [place(draw)] if draw.maybe("", "where", 0.6, ("somewhere",)) else []
    return end_sentence(draw, clause.realise(draw))


def somebody_often_sees_something(draw: Draw) -> Phrase:
    clause = transitive(draw)
    clause.middle = draw.pick("", "adverb", lexicon().adverbs["middle"])
    return end_sentence(draw, clause.realise(draw))


def somebody_does_not_often_see_something(draw: Draw) -> Phrase:
    clause = transitive(draw, polarity=NOT_PAS)
    clause.middle = draw.pick("", "adverb", lexicon().adverbs["middle with not"])
    return end_sentence(draw, clause.realise(draw))


def somebody_sees_something_somehow(draw: Draw) -> Phrase:
    clause = transitive(draw)
    clause.others = [write_fixed(draw, draw.pick("", "adverb", lexicon().adverbs["manner"]))]
    return end_sentence(draw, clause.realise(draw))


def somebody_sees_something_somewhere(draw: Draw) -> Phrase:
    clause = transitive(draw, polarity=draw.maybe("", "polarity", 0.25, (NOT_PAS, NEVER)))
    clause.others = [place(draw)]
    return end_sentence(draw, clause.realise(draw))


def somebody_sees_something_sometime(draw: Draw) -> Phrase:
    clause = transitive(draw, polarity=draw.maybe("", "polarity", 0.25, (NOT_PAS,)))
    clause.others = [time(draw, clause.tense)]
    return end_sentence(draw, clause.realise(draw))


def sometime_somebody_sees_something(draw: Draw) -> Phrase:
    """Yesterday, she bought a car in the village."""
    clause = transitive(draw)
    clause.others = [place(draw)]
    return end_sentence(draw, time(draw, clause.tense) + comma(draw) + clause.realise(draw))


def somebody_goes_somewhere(draw: Draw) -> Phrase:
    clause = intransitive(draw, group="motion", polarity=draw.maybe("", "polarity", 0.2, (NOT_PAS, NEVER)))
    goal = noun_phrase(draw, "place ", nouns_of("building landmark"), decorated=0.25, specific=True)
    clause.others = [after(draw, closed.A, goal, TO)]
    if draw.maybe("", "when", 0.4, ("sometime",)):
        clause.others.append(time(draw, clause.tense))
    return end_sentence(draw, clause.realise(draw))


def somebody_comes_from_somewhere(draw: Draw) -> Phrase:
    verb = lexicon().single["come venir"]
    clause = Clause(somebody(draw, verb), verb, tense_of(draw, "", verb))
    country = draw.maybe("", "country", 0.3, lexicon().names["countries"])
    if country is None:
        source = noun_phrase(draw, "place ", nouns_of("building landmark"), decorated=0.25, specific=True)
    else:
        source = bare(draw, country, False)
        source.french[:0] = [] if country.feminine else [(closed.LE, 0)]
    clause.others = [after(draw, closed.DE, source, FROM)]
    return end_sentence(draw, clause.realise(draw))


def somebody_lives_in_a_country(draw: Draw) -> Phrase:
    """En France, but au Canada."""
    clause = intransitive(draw, group="dwelling", polarity=draw.maybe("", "polarity", 0.25, (NOT_PAS, NEVER)))
    country = draw.pick("", "country", lexicon().names["countries"])
    phrase = bare(draw, country, False)
    if country.feminine:
        clause.others = [after(draw, EN, phrase, IN)]
    else:
        phrase.french[:0] = [(closed.LE, 0)]
        clause.others = [after(draw, closed.A, phrase, IN)]
    return end_sentence(draw, clause.realise(draw))


def somebody_lives_in_a_city(draw: Draw) -> Phrase:
    clause = intransitive(draw, group="dwelling")
    company = draw.pick("", "company", lexicon().adverbs["company"][:2])
    clause.others = [
        city(draw),
        write_fixed(draw, company) + noun_phrase(draw, "friend ", nouns_of("person relative"), specific=True),
    ]
    return end_sentence(draw, clause.realise(draw))


def somebody_wakes_up(draw: Draw) -> Phrase:
    clause = intransitive(draw, group="reflexive")
    clause.others = expression(draw, draw.maybe("", "time", 0.7, lexicon().adverbs[clause.tense]))
    return end_sentence(draw, clause.realise(draw))


def somebody_does_not_wake_up(draw: Draw) -> Phrase:
    clause = intransitive(draw, group="reflexive", polarity=draw.pick("", "polarity", (NOT_PAS, NEVER)))
    clause.others = [place(draw)] if draw.maybe("", "where", 0.7, ("somewhere",)) else []
    return end_sentence(draw, clause.realise(draw))


def somebody_obeys_somebody(draw: Draw) -> Phrase:
    """French asks for a preposition where English may have none."""
    polarity = draw.maybe("", "polarity", 0.3, (NOT_PAS, NEVER))
    return end_sentence(draw, transitive(draw, polarity=polarity, group="oblique").realise(draw))


def somebody_plays_a_game(draw: Draw) -> Phrase:
    verb = lexicon().single["play jouer"]
    clause = Clause(somebody(draw, verb), verb, tense_of(draw, "", verb))
    clause.polarity = draw.maybe("", "polarity", 0.3, (NOT_PAS, NEVER))
    game = bare(draw, draw.pick("", "game", nouns_of("game")), False)
    game.french[:0] = [(closed.A, 0), (closed.LE, 0)]
    clause.others = [game, place(draw)]
    return end_sentence(draw, clause.realise(draw))


def somebody_plays_an_instrument(draw: Draw) -> Phrase:
    verb = lexicon().single["play jouer"]
    clause = Clause(somebody(draw, verb), verb, tense_of(draw, "", verb))
    clause.polarity = draw.maybe("", "polarity", 0.3, (NOT_PAS, NEVER))
    noun = draw.pick("", "instrument", nouns_of("instrument"))
    instrument = determine(draw, "instrument ", closed.DEFINITE, noun, False, 0)
    clause.others = [after(draw, closed.DE, instrument), place(draw)]
    return end_sentence(draw, clause.realise(draw))


def somebody_speaks_a_language(draw: Draw) -> Phrase:
    verb = lexicon().single["speak parler"]
    clause = Clause(somebody(draw, verb), verb, tense_of(draw, "", verb))
    clause.polarity = draw.maybe("", "polarity", 0.3, (NOT_PAS, NEVER))
    company = noun_phrase(draw, "friend ", nouns_of("person relative"), specific=True)
    language = bare(draw, draw.pick("", "language", lexicon().names["languages"]), False)
    clause.others = [language, write_fixed(draw, lexicon().adverbs["company"][0]), company]
    return end_sentence(draw, clause.realise(draw))


def somebody_puts_something_somewhere(draw: Draw) -> Phrase:
    verb = lexicon().single["put mettre"]
    clause = Clause(somebody(draw, verb), verb, tense_of(draw, "", verb))
    clause.polarity = draw.maybe("", "polarity", 0.2, (NOT_PAS,))
    goods = nouns_of("thing text garment instrument")
    clause.object = noun_phrase(draw, "object ", goods, clause.polarity is not None)
    clause.others = [place(draw)]
    return end_sentence(draw, clause.realise(draw))


def somebody_sings_with_somebody(draw: Draw) -> Phrase:
    clause = intransitive(draw)
    relation = write_fixed(draw, draw.pick("", "company", lexicon().adverbs["company"]))
    person = draw.maybe("", "pronoun", 0.4, closed.PERSONS[2:])
    people = nouns_of("person relative")
    clause.others = [
        relation,
        stress(draw, person) if person else noun_phrase(draw, "friend ", people, specific=True),
    ]
    return end_sentence(draw, clause.realise(draw))


def somebody_arrives_at_some_hour(draw: Draw) -> Phrase:
    clause = intransitive(draw)
    key = draw.key()
    clause.others = [place(draw), Phrase([(AT, key)], [(closed.A, key)]) + hours(draw)]
    return end_sentence(draw, clause.realise(draw))
