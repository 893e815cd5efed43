"""Patterns: what the two languages say in different words: I am hungry, j'ai faim; it is cold, il fait froid."""

from __future__ import annotations

from regard.data.corpora.english_french import closed
from regard.data.corpora.english_french.clause import Clause, tense_of
from regard.data.corpora.english_french.closed import NOT_PAS
from regard.data.corpora.english_french.draw import Draw
from regard.data.corpora.english_french.form import Form, english, french
from regard.data.corpora.english_french.lexicon import find_noun, lexicon, nouns_of
from regard.data.corpora.english_french.phrase import (
    Phrase,
    after,
    bare,
    count,
    determine,
    noun_phrase,
    numeral,
    place,
    pronoun,
    subject,
    time,
    word,
)
from regard.data.corpora.english_french.plain import city, end_sentence, hours, intransitive, somebody, transitive

SENSATIONS = {
    "hungry": "faim", "thirsty": "soif", "cold": "froid", "hot": "chaud", "sleepy": "sommeil", "afraid": "peur",
    "right": "raison", "wrong": "tort",
}  # fmt: skip
FEELINGS = {left: (english(left, "ADJ"), french(right, "NOUN")) for left, right in SENSATIONS.items()}
SKIES: dict[str, tuple[Form, ...]] = {
    left: (english(left, "ADJ"), french(right, "ADJ"))
    for left, right in (("cold", "froid"), ("hot", "chaud"), ("nice", "beau"), ("cool", "frais"))
}
SKIES["windy"] = (english("windy", "ADJ"), closed.SOME, closed.LE, french("vent", "NOUN"))
OLD = english("old", "ADJ")
BESOIN, PEUR = french("besoin", "NOUN"), french("peur", "NOUN")
AFRAID, OF = english("afraid", "ADJ"), english("of", "ADP")
AGO, FOR, IN = english("ago", "ADV"), english("for", "ADP"), english("in", "ADP")
PENDANT, DANS = french("pendant", "ADP"), french("dans", "ADP")
HAS = french("a", "VERB", "avoir")
MANY_YEARS = tuple(range(1, 101))


def somebody_is_hungry(draw: Draw) -> Phrase:
    verb = lexicon().single["be avoir"]
    who = subject(draw, "subject ", nouns_of("person relative animal"), specific=True)
    what = word(draw, *FEELINGS[draw.pick("", "feeling", tuple(FEELINGS))])
    clause = Clause(who, verb, draw.pick("", "tense", ("present", "future")), what)
    clause.polarity = draw.maybe("", "polarity", 0.3, (NOT_PAS, closed.NEVER))
    clause.others = [place(draw)] if draw.maybe("", "where", 0.5, ("somewhere",)) else []
    return end_sentence(draw, clause.realise(draw))


def somebody_is_twenty_years_old(draw: Draw) -> Phrase:
    number = draw.pick("", "count", MANY_YEARS)
    who = subject(draw, "subject ", nouns_of("person relative animal"), specific=True)
    age = numeral(draw, number, False) + bare(draw, find_noun("year"), number > 1)
    age.english.append((OLD, age.english[-1][1]))
    tense = draw.pick("", "tense", ("present", "future"))
    return end_sentence(draw, Clause(who, lexicon().single["be avoir"], tense, age).realise(draw))


def impersonal(draw: Draw) -> Phrase:
    return pronoun(draw, closed.NEUTER)


def it_is_cold(draw: Draw) -> Phrase:
    """The weather: il fait froid, il fait du vent."""
    tense = draw.pick("", "tense", ("present", "future"))
    what = word(draw, *SKIES[draw.pick("", "sky", tuple(SKIES))])
    clause = Clause(impersonal(draw), lexicon().single["be faire"], tense, what)
    clause.others = [city(draw) if draw.maybe("", "where", 0.5, ("city",)) else place(draw), time(draw, tense)]
    return end_sentence(draw, clause.realise(draw))


def it_rains(draw: Draw) -> Phrase:
    verb = lexicon().single[draw.pick("", "verb", ("rain pleuvoir", "snow neiger"))]
    tense = tense_of(draw, "", verb)
    clause = Clause(impersonal(draw), verb, tense, polarity=draw.maybe("", "polarity", 0.3, (NOT_PAS, closed.NEVER)))
    clause.others = [city(draw) if draw.maybe("", "where", 0.5, ("city",)) else place(draw), time(draw, tense)]
    return end_sentence(draw, clause.realise(draw))


def it_is_three_o_clock(draw: Draw) -> Phrase:
    return end_sentence(
        draw, Clause(impersonal(draw), lexicon().single["be être"], "present", hours(draw)).realise(draw)
    )


def existing(draw: Draw, what: Phrase, tense: str, denied: bool) -> Phrase:
    """There is, il y a; there is not, il n'y a pas."""
    key, denial = draw.key(), draw.key()
    be, avoir = lexicon().single["be être"], lexicon().single["be avoir"]
    left = [(closed.THERE, key)]
    if tense == "future":
        left.append((closed.WILL, key))
    else:
        left.append((be.present[what.person], key))
    left += [(closed.NOT, denial)] if denied else []
    left += [(be.base, key)] if tense == "future" else []
    right = [(closed.IL, key), *([(closed.NE, denial)] if denied else []), (closed.Y, key)]
    right.append(((avoir.future if tense == "future" else avoir.indicative)[2], key))
    right += [(NOT_PAS.french, denial)] if denied else []
    return Phrase(left + what.english, right + what.french)


EXISTING = "person animal thing text garment vehicle furniture staple drink dish"


def there_is_something_somewhere(draw: Draw) -> Phrase:
    noun = draw.pick("", "noun", nouns_of(EXISTING))
    tense = draw.pick("", "tense", ("present", "present", "future"))
    plural = not noun.mass and draw.pick("", "number", ("singular", "plural")) == "plural"
    determiner = closed.PARTITIVE if noun.mass else closed.SEVERAL if plural else closed.INDEFINITE
    what = determine(draw, "", determiner, noun, plural)
    return end_sentence(draw, existing(draw, what, tense, False) + place(draw))


def there_are_three_things_somewhere(draw: Draw) -> Phrase:
    nouns = nouns_of("person animal thing text garment vehicle furniture dish")
    what = count(draw, "", nouns, tuple(range(2, 101)))
    return end_sentence(draw, existing(draw, what, draw.pick("", "tense", ("present", "future")), False) + place(draw))


def there_is_nothing_of_it_somewhere(draw: Draw) -> Phrase:
    """Il n'y a pas de pain."""
    noun = draw.pick("", "noun", nouns_of(EXISTING))
    tense = draw.pick("", "tense", ("present", "present", "future"))
    plural = not noun.mass and draw.pick("", "number", ("singular", "plural")) == "plural"
    what = determine(draw, "", closed.ANY if noun.mass or plural else closed.NEGATED, noun, plural)
    return end_sentence(draw, existing(draw, what, tense, True) + place(draw))


def somebody_needs_something(draw: Draw) -> Phrase:
    """I need the key, j'ai besoin de la clé."""
    verb = lexicon().single["need avoir"]
    nouns = nouns_of("person relative animal thing text garment vehicle device instrument")
    what = noun_phrase(draw, "object ", nouns, specific=True)
    clause = Clause(somebody(draw, verb), verb, draw.pick("", "tense", ("present", "future")))
    clause.polarity = draw.maybe("", "polarity", 0.25, (NOT_PAS,))
    clause.others = [Phrase([], [(BESOIN, 0), (closed.DE, 0)]), what]
    phrase = clause.realise(draw)
    # the noun besoin and its de belong to the verb, whose key is known only now
    phrase.french = [(form, key or clause.verb_key) for form, key in phrase.french]
    return end_sentence(draw, phrase)


def somebody_is_afraid_of_something(draw: Draw) -> Phrase:
    nouns = nouns_of("person relative animal vehicle device landmark")
    what = after(draw, closed.DE, noun_phrase(draw, "object ", nouns, specific=True), OF)
    who = subject(draw, "subject ", nouns_of("person relative animal"), specific=True)
    clause = Clause(who, lexicon().single["be avoir"], draw.pick("", "tense", ("present", "future")))
    clause.polarity = draw.maybe("", "polarity", 0.3, (NOT_PAS, closed.NEVER))
    clause.others = [word(draw, AFRAID, PEUR), what]
    return end_sentence(draw, clause.realise(draw))


def span(draw: Draw) -> Phrase:
    number = draw.pick("", "count", tuple(range(1, 31)))
    unit = draw.pick("", "unit", nouns_of("unit"))
    return numeral(draw, number, unit.feminine) + bare(draw, unit, number > 1)


def somebody_did_something_two_days_ago(draw: Draw) -> Phrase:
    clause = transitive(draw, tense="past")
    key = draw.key()
    ago = Phrase([], [(closed.IL, key), (closed.Y, key), (HAS, key)]) + span(draw)
    ago.english.append((AGO, key))
    clause.others = [ago]
    return end_sentence(draw, clause.realise(draw))


def somebody_sleeps_for_two_hours(draw: Draw) -> Phrase:
    clause = intransitive(draw)
    clause.others = [place(draw), after(draw, PENDANT, span(draw), FOR)]
    return end_sentence(draw, clause.realise(draw))


def somebody_will_see_something_in_two_days(draw: Draw) -> Phrase:
    clause = transitive(draw, tense="future")
    clause.others = [after(draw, DANS, span(draw), IN)]
    return end_sentence(draw, clause.realise(draw))
