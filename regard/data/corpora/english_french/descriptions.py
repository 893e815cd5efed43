"""Patterns: what something is like, whose it is, where it is and how much of it there is."""

from __future__ import annotations

from functools import cache

from regard.data.corpora.english_french import closed
from regard.data.corpora.english_french.clause import Clause, tense_of
from regard.data.corpora.english_french.closed import NOT_PAS, four
from regard.data.corpora.english_french.draw import Draw
from regard.data.corpora.english_french.entry import Adjective, Noun
from regard.data.corpora.english_french.form import Form, english, french
from regard.data.corpora.english_french.lexicon import lexicon, nouns_of
from regard.data.corpora.english_french.phrase import (
    Phrase,
    after,
    bare,
    count,
    describe,
    determine,
    noun_phrase,
    numeral,
    place,
    pronoun,
    stress,
    subject,
)
from regard.data.corpora.english_french.plain import (
    LINKS,
    city,
    copular,
    describable,
    end_sentence,
    link,
    quality,
    somebody,
    transitive,
    verb_of,
)

THAN = english("than", "ADP")
AS, AS_ADP = english("as", "ADV"), english("as", "ADP")
LESS, MOINS, PLUS, AUSSI = english("less", "ADV"), *(french(text, "ADV") for text in ("moins", "plus", "aussi"))
OF_ENGLISH = english("of", "ADP")
GENITIVE = english("'s", "PART")
NUMBERS = tuple(range(2, 13)) * 4 + tuple(range(2, 101)) + tuple(range(200, 1000, 100))
EACH = (english("each", "DET"), french("chaque", "DET"))
ALL = english("all", "DET")
TOUS = four("tout tous toute toutes", "DET", "tout")
# a lot of, too many, a few: words that go with a plural
MANY = (english("many", "ADJ"), french("beaucoup", "ADV"))
TOO = (english("too", "ADV"), french("trop", "ADV"))
LOT = (english("a", "DET"), english("lot", "NOUN"), OF_ENGLISH)
FEW = (english("a", "DET"), english("few", "ADJ"))
QUELQUES = french("quelques", "DET", "quelque")
ENOUGH = (english("enough", "ADJ"), french("assez", "ADV"))
NO_TRADE = (
    "man", "boy", "child", "baby", "friend", "neighbour", "guest", "hero", "woman", "girl", "lady", "king", "queen",
    "prince", "princess",
)  # fmt: skip
FEMALE, MALE = closed.PERSONS[3], closed.PERSONS[2]


def something_is_small(draw: Draw) -> Phrase:
    return end_sentence(draw, copular(draw).realise(draw))


def something_is_not_small(draw: Draw) -> Phrase:
    return end_sentence(draw, copular(draw, polarity=NOT_PAS).realise(draw))


def something_is_small_and_green(draw: Draw) -> Phrase:
    who, qualities = describable(draw)
    first = draw.pick("", "adjective", qualities)
    second = draw.pick("second ", "adjective", [entry for entry in qualities if entry is not first])
    both = link(draw, LINKS[draw.pick("", "link", ("and", "but"))]) + quality(draw, who, second)
    what = quality(draw, who, first) + both
    tense = draw.pick("", "tense", ("present", "future"))
    return end_sentence(draw, Clause(who, lexicon().single["be être"], tense, what).realise(draw))


def comparable(draw: Draw, slot: str) -> tuple[Noun, Adjective]:
    """A noun and an adjective of it that has degrees."""
    noun = draw.pick(slot, "noun", nouns_of("person relative animal thing text garment vehicle building landmark"))
    return noun, draw.pick("", "adjective", noun.gradable)


def compare(draw: Draw, who: Phrase, adjective: Adjective) -> Phrase:
    """Smaller, plus petit; better, meilleur."""
    key = draw.key()
    own = adjective.own
    words = [own[who.gender_number]] if own else [PLUS, adjective.french[who.gender_number]]
    return Phrase([(form, key) for form in adjective.comparative], [(form, key) for form in words])


def something_is_smaller_than_something(draw: Draw) -> Phrase:
    noun, adjective = comparable(draw, "subject ")
    who = noun_phrase(draw, "subject ", (noun,), decorated=0.2, specific=True)
    rival = noun_phrase(draw, "other ", nouns_of(noun.kind), decorated=0.2, specific=True)
    clause = Clause(who, lexicon().single["be être"], draw.pick("", "tense", ("present", "future")))
    clause.polarity = draw.maybe("", "polarity", 0.2, (NOT_PAS,))
    clause.object = compare(draw, who, adjective) + after(draw, closed.QUE, rival, THAN)
    return end_sentence(draw, clause.realise(draw))


def somebody_is_taller_than_her(draw: Draw) -> Phrase:
    who = subject(draw, "subject ", nouns_of("person relative"), specific=True)
    adjective = draw.pick("", "adjective", nouns_of("relative")[0].gradable)
    person = draw.pick("other ", "pronoun", closed.PERSONS)
    clause = Clause(who, lexicon().single["be être"], draw.pick("", "tense", ("present", "future")))
    clause.object = compare(draw, who, adjective) + after(draw, closed.QUE, stress(draw, person), THAN)
    return end_sentence(draw, clause.realise(draw))


def something_is_less_or_as_big(draw: Draw) -> Phrase:
    """Less … than is moins … que; as … as is aussi … que."""
    noun, adjective = comparable(draw, "subject ")
    who = noun_phrase(draw, "subject ", (noun,), decorated=0.2, specific=True)
    rival = noun_phrase(draw, "other ", nouns_of(noun.kind), decorated=0.2, specific=True)
    less = draw.pick("", "degree", ("less", "as")) == "less"
    degree = link(draw, (LESS, MOINS) if less else (AS, AUSSI))
    what = degree + quality(draw, who, adjective) + after(draw, closed.QUE, rival, THAN if less else AS_ADP)
    return end_sentence(draw, Clause(who, lexicon().single["be être"], "present", what).realise(draw))


def superlative(draw: Draw, noun: Noun, plural: bool, adjective: Adjective) -> Phrase:
    """The smallest cat, le plus petit chat; the most dangerous cat, le chat le plus dangereux."""
    phrase = bare(draw, noun, plural)
    place, key, article = phrase.gender_number, draw.key(), draw.key()
    words = [adjective.own[place]] if adjective.own else [PLUS, adjective.french[place]]
    the = closed.THE[place]
    left = [(closed.DEFINITE.english, article), *((form, key) for form in adjective.superlative), *phrase.english]
    degree = [(form, key) for form in words]
    before = [(the, article), *degree, *phrase.french]
    behind = [(the, article), *phrase.french, (the, key), *degree]
    return Phrase(left, before if adjective.before else behind, phrase.person, phrase.feminine, phrase.plural)


def somebody_sees_the_biggest_thing(draw: Draw) -> Phrase:
    verb = verb_of(draw, "general")
    who = somebody(draw, verb)
    noun, adjective = comparable(draw, "object ")
    what = superlative(draw, noun, draw.pick("object ", "number", ("singular", "plural")) == "plural", adjective)
    clause = Clause(who, verb, tense_of(draw, "", verb), what)
    clause.others = [place(draw)] if draw.maybe("", "where", 0.6, ("somewhere",)) else []
    return end_sentence(draw, clause.realise(draw))


def somebody_is_a_doctor(draw: Draw) -> Phrase:
    """A bare noun in French: elle est avocate."""
    person = draw.pick("subject ", "pronoun", closed.PERSONS[:4])
    noun = draw.pick("", "noun", trades(person.feminine))
    who = pronoun(draw, person)
    key, article = draw.key(), draw.key()
    form = noun.female if person.feminine and noun.female else noun.french[0]
    what = Phrase([(closed.INDEFINITE.english, article), (noun.english[0], key)], [(form, key)])
    tense = draw.pick("", "tense", ("present", "future"))
    clause = Clause(who, lexicon().single["be être"], tense, what)
    clause.polarity = draw.maybe("", "polarity", 0.25, (NOT_PAS,))
    clause.others = [city(draw)] if draw.maybe("", "where", 0.6, ("somewhere",)) else []
    return end_sentence(draw, clause.realise(draw))


def she_is_my_friend(draw: Draw) -> Phrase:
    """C'est mon amie: he and she become ce, and the noun shows which."""
    person = draw.pick("subject ", "pronoun", (FEMALE, MALE))
    noun = draw.pick("", "noun", people(person.feminine))
    key = draw.key()
    form = noun.female if person.feminine and noun.female else noun.french[0]
    gendered = Noun(noun.lemma, noun.kind, noun.english, (form, form), person.feminine, False, None, noun.adjectives)
    determiner = draw.pick("", "determiner", (closed.INDEFINITE, *closed.POSSESSIVES))
    # with no adjective, he is a doctor is il est médecin
    what = determine(draw, "", determiner, gendered, False, 1.0 if determiner is closed.INDEFINITE else 0.6)
    who = Phrase([(person.subject[0], key)], [(closed.CE, key)])
    return end_sentence(draw, Clause(who, lexicon().single["be être"], "present", what).realise(draw))


@cache
def people(feminine: bool) -> tuple[Noun, ...]:
    """The nouns that can stand for a man or for a woman."""
    return tuple(noun for noun in nouns_of("person") if (noun.female if feminine else not noun.feminine))


@cache
def trades(feminine: bool) -> tuple[Noun, ...]:
    return tuple(noun for noun in people(feminine) if noun.lemma not in NO_TRADE)


def own(draw: Draw, nouns: tuple[Noun, ...]) -> Phrase:
    """The boy's dog, le chien du garçon."""
    name = draw.maybe("owner ", "name", 0.3, lexicon().names["people"])
    noun = None if name else draw.pick("owner ", "noun", nouns_of("person relative"))
    determiner = draw.pick("owner ", "determiner", closed.SPECIFIC)
    owner = bare(draw, name, False) if name else determine(draw, "owner ", determiner, noun or nouns[0], False, 0.2)
    thing = draw.pick("owned ", "noun", nouns)
    plural = not thing.mass and draw.pick("owned ", "number", ("singular", "plural")) == "plural"
    what = describe(draw, "owned ", thing, plural, 0.25)
    key = draw.key()
    left = [*owner.english, (GENITIVE, key), *what.english]
    right = [(closed.THE[what.gender_number], 0), *what.french, (closed.DE, key), *owner.french]
    return Phrase(left, right, what.person, what.feminine, what.plural)


def the_dog_of_somebody_sleeps(draw: Draw) -> Phrase:
    verb = verb_of(draw, "intransitive")
    who = own(draw, nouns_of("relative animal") if verb.subjects[-1].kind == "animal" else nouns_of("relative"))
    clause = Clause(who, verb, tense_of(draw, "", verb), others=[place(draw)])
    return end_sentence(draw, clause.realise(draw))


def somebody_sees_the_dog_of_somebody(draw: Draw) -> Phrase:
    verb = verb_of(draw, "transitive")
    who = somebody(draw, verb)
    clause = Clause(who, verb, tense_of(draw, "", verb), own(draw, verb.objects))
    clause.polarity = draw.maybe("", "polarity", 0.2, (NOT_PAS,))
    return end_sentence(draw, clause.realise(draw))


def somebody_sees_the_door_of_something(draw: Draw) -> Phrase:
    verb = verb_of(draw, "general")
    who = somebody(draw, verb)
    noun = draw.pick("object ", "noun", nouns_of("opening"))
    plural = draw.pick("object ", "number", ("singular", "plural")) == "plural"
    part = determine(draw, "object ", closed.DEFINITE, noun, plural, 0.3)
    whole = noun_phrase(draw, "whole ", nouns_of("building vehicle"), decorated=0.3, specific=True)
    clause = Clause(who, verb, tense_of(draw, "", verb), part + after(draw, closed.DE, whole, OF_ENGLISH))
    return end_sentence(draw, clause.realise(draw))


def something_is_somewhere(draw: Draw) -> Phrase:
    nouns = nouns_of("person relative animal thing text garment vehicle container")
    what = noun_phrase(draw, "subject ", nouns, specific=True)
    clause = Clause(what, lexicon().single["be être"], draw.pick("", "tense", ("present", "future")))
    clause.polarity = draw.maybe("", "polarity", 0.25, (NOT_PAS,))
    clause.others = [place(draw)]
    return end_sentence(draw, clause.realise(draw))


def somebody_eats_some_bread(draw: Draw) -> Phrase:
    """Du pain, de la viande, de l'eau; pas de pain."""
    verb = verb_of(draw, "edible")
    noun = draw.pick("object ", "noun", nouns_of(verb.objects[-1].kind))
    polarity = draw.maybe("", "polarity", 0.4, (NOT_PAS, closed.NEVER))
    what = determine(draw, "object ", closed.ANY if polarity else closed.PARTITIVE, noun, False)
    clause = Clause(somebody(draw, verb), verb, tense_of(draw, "", verb), what, polarity=polarity)
    clause.others = [place(draw)] if draw.maybe("", "where", 0.4, ("somewhere",)) else []
    return end_sentence(draw, clause.realise(draw))


def quantify(draw: Draw, slot: str, nouns: tuple[Noun, ...]) -> Phrase:
    """Many, too many, a lot of, enough, a few."""
    how = draw.pick(slot, "quantity", ("many", "too many", "a lot of", "enough", "a few"))
    noun = draw.pick(slot, "noun", nouns)
    what = describe(draw, slot, noun, True, 0.25)
    key, second = draw.key(), draw.key()
    of: list[tuple[Form, int]] = [(closed.OF, key)]
    if how == "too many":
        left, right = [(TOO[0], second), (MANY[0], key)], [(TOO[1], second), *of]
    elif how == "a lot of":
        left, right = [(form, key) for form in LOT], [(MANY[1], key), *of]
    elif how == "a few":
        left, right = [(form, key) for form in FEW], [(QUELQUES, key)]
    else:
        pair = MANY if how == "many" else ENOUGH
        left, right = [(pair[0], key)], [(pair[1], key), *of]
    return Phrase(left + what.english, right + what.french, 5, noun.feminine, True)


def somebody_sees_many_things(draw: Draw) -> Phrase:
    verb = verb_of(draw, "countable")
    who = somebody(draw, verb)
    clause = Clause(who, verb, tense_of(draw, "", verb), quantify(draw, "object ", verb.countable))
    return end_sentence(draw, clause.realise(draw))


def somebody_sees_three_things(draw: Draw) -> Phrase:
    verb = verb_of(draw, "countable")
    who = somebody(draw, verb)
    clause = Clause(who, verb, tense_of(draw, "", verb), count(draw, "object ", verb.countable, NUMBERS))
    return end_sentence(draw, clause.realise(draw))


def the_three_cats_see_something(draw: Draw) -> Phrase:
    clause = transitive(draw, persons=())
    nouns = clause.verb.subjects
    group = count(draw, "group ", nouns, NUMBERS)
    key = draw.key()
    group.english.insert(0, (closed.DEFINITE.english, key))
    group.french.insert(0, (closed.LES, key))
    clause.subject = group
    return end_sentence(draw, clause.realise(draw))


def each_cat_sleeps(draw: Draw) -> Phrase:
    verb = verb_of(draw, "intransitive")
    noun = draw.pick("subject ", "noun", verb.subjects)
    plural = draw.pick("subject ", "number", ("singular", "plural")) == "plural"
    who = describe(draw, "subject ", noun, plural)
    key, article = draw.key(), draw.key()
    if plural:
        who.english[:0] = [(ALL, key), (closed.DEFINITE.english, article)]
        who.french[:0] = [(TOUS[who.gender_number], key), (closed.LES, article)]
    else:
        who.english.insert(0, (EACH[0], key))
        who.french.insert(0, (EACH[1], key))
    clause = Clause(who, verb, tense_of(draw, "", verb), others=[place(draw)])
    return end_sentence(draw, clause.realise(draw))


def somebody_drinks_a_glass_of_water(draw: Draw) -> Phrase:
    """Un verre d'eau, un kilo de pommes."""
    liquid = draw.pick("", "content", ("drink", "dish")) == "drink"
    verb = verb_of(draw, "pouring" if liquid else "serving")
    who = somebody(draw, verb)
    holder = draw.pick("holder ", "noun", nouns_of("container") if liquid else nouns_of("portion"))
    count = draw.pick("holder ", "count", (1, 1, 2, 3, 4, 5, 6))
    if count == 1:
        measure = determine(draw, "holder ", closed.INDEFINITE, holder, False, 0)
    else:
        measure = numeral(draw, count, holder.feminine) + bare(draw, holder, True)
    noun = draw.pick("object ", "noun", nouns_of("drink") if liquid else nouns_of("staple"))
    content = describe(draw, "object ", noun, False, 0.2)
    key = draw.key()
    measure.english.append((OF_ENGLISH, key))
    measure.french.append((closed.DE, key))
    clause = Clause(who, verb, tense_of(draw, "", verb), measure + content)
    return end_sentence(draw, clause.realise(draw))
