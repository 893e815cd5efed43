"""The lexicon: tables of text turned into entries with all their forms, once, when first asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from regard.data.corpora.english_french import adjectives, adverbials, nouns, verbs
from regard.data.corpora.english_french.agreement import BEFORE_VOWEL, four, plural
from regard.data.corpora.english_french.closed import DE, A
from regard.data.corpora.english_french.conjugation import conjugate
from regard.data.corpora.english_french.entry import Adjective, Noun, Phrasing, Verb
from regard.data.corpora.english_french.form import Form, english, french
from regard.data.corpora.english_french.inflection import add_degree, past, present, with_s

MODALS = {"be": ("am", "are", "is", "are", "are", "are"), "can": ("can",) * 6, "must": ("must",) * 6}
PREPOSITIONS = {"à": A, "de": DE, "dans": french("dans", "ADP")}
TAGS = {
    "front": "NOUN", "far": "ADV", "next": "ADJ", "près": "ADV", "loin": "ADV", "côté": "NOUN", "face": "NOUN",
    "dressed": "ADJ", "fun": "NOUN", "up": "ADP", "going": "VERB",
}  # fmt: skip


def entries(text: str) -> Iterator[list[str]]:
    """The comma-separated entries of a table, each as its fields."""
    for part in text.split(","):
        yield part.split()


def adjective_forms(word: str) -> tuple[Form, Form, Form, Form]:
    single, several, female, females = four(word)
    first = french(single, "ADJ", word, BEFORE_VOWEL.get(word))
    return first, french(several, "ADJ", word), french(female, "ADJ", word), french(females, "ADJ", word)


def adjective(fields: list[str]) -> Adjective:
    """From `small + petit <`, `good better bon <` or `famous célèbre`."""
    before = fields[-1] == "<"
    fields = fields[:-1] if before else fields
    word, grade, translation = fields if len(fields) == 3 else (fields[0], "more", fields[1])
    comparative: tuple[Form, ...] = ()
    superlative: tuple[Form, ...] = ()
    if grade == "more":
        base = english(word, "ADJ")
        comparative, superlative = (english("more", "ADV"), base), (english("most", "ADV"), base)
    elif grade != "-":
        more = add_degree(word, "er") if grade == "+" else grade
        most = add_degree(word, "est") if grade == "+" else adjectives.SUPERLATIVES[word]
        comparative, superlative = (english(more, "ADJ", word),), (english(most, "ADJ", word),)
    own = {"better": "meilleur", "worse": "pire"}.get(grade)
    return Adjective(
        word, english(word, "ADJ"), comparative, superlative, adjective_forms(translation), before,
        adjective_forms(own) if own else None,
    )  # fmt: skip


def noun(fields: list[str], kind: str) -> Noun:
    """From `horse cheval m`, `child/children enfant m` or `friend ami m amie`."""
    one, _, many = fields[0].partition("/")
    single, _, several = fields[1].partition("/")
    forms = french(single, "NOUN"), french(several or plural(single), "NOUN", single)
    female = french(fields[3], "NOUN") if len(fields) > 3 else forms[0] if fields[2] == "f" else None
    words = english(one, "NOUN"), english(many or with_s(one), "NOUN", one)
    return Noun(one, kind, words, forms, fields[2] == "f", kind in nouns.MASS, female)


def verb(fields: list[str], subjects: tuple[Noun, ...] = (), objects: tuple[Noun, ...] = ()) -> Verb:
    """From `see/saw voir`, `look+at regarder`, `obey obéir+à` or `rest se+reposer`."""
    head, *particles = fields[0].split("+")
    base, _, irregular = head.partition("/")
    *pronoun, infinitive = fields[1].removesuffix("+à").removesuffix("+de").removesuffix("+dans").split("+")
    preposition = PREPOSITIONS.get(fields[1].rpartition("+")[2])
    table = conjugate(infinitive, bool(pronoun))
    before = irregular if irregular else past(base)
    tag = "AUX" if base in MODALS else "VERB"
    modal = MODALS.get(base)
    french_tag = "AUX" if infinitive == "être" else "VERB"
    participle = four(table.participle)
    return Verb(
        base,
        english(base, tag),
        tuple(english(text, tag, base) for text in modal or present(base)),
        None if before in ("-", base) else english(before, tag, base),
        tuple(english(word, TAGS.get(word, "ADP"), "go" if word == "going" else word) for word in particles),
        modal is not None,
        french(infinitive, french_tag),
        tuple(french(text, french_tag, infinitive) for text in table.present),
        tuple(french(text, french_tag, infinitive) for text in table.future),
        tuple4([french(text, french_tag, infinitive) for text in participle]),
        tuple(french(text, "AUX", table.auxiliary) for text in conjugate(table.auxiliary).present),
        table.auxiliary == "être",
        bool(pronoun),
        preposition,
        subjects,
        objects,
        tuple(thing for thing in objects if not thing.mass),
    )


def tuple4(forms: list[Form]) -> tuple[Form, Form, Form, Form]:
    return forms[0], forms[1], forms[2], forms[3]


def phrasing(text: str, tenses: str) -> Phrasing:
    """From `every/DET=1 day/NOUN=2 | tous/DET/tout=1 les/DET/le=1 jours/NOUN/jour=2`."""
    left, right = (side.split() for side in text.split("|"))
    words = [(part.split("=")[0].split("/"), part.partition("=")[2]) for part in left]
    others = [(part.split("=")[0].split("/"), part.partition("=")[2]) for part in right]
    return Phrasing(
        " ".join(fields[0] for fields, _ in words),
        tuple(english(*fields) for fields, _ in words),
        tuple(french(*fields) for fields, _ in others),
        tuple(int(mark or 0) for _, mark in words),
        tuple(int(mark or 0) for _, mark in others),
        tuple(tenses.split()),
    )


def simple(fields: list[str], tag: str, nouns: tuple[Noun, ...] = ()) -> Phrasing:
    """From `often souvent` or `in+front+of devant`: everything on one side stands for everything on the other."""
    left, right = fields[0].split("+"), fields[1].split("+")
    words = tuple(english(word, TAGS.get(word, tag)) for word in left)
    others = tuple(PREPOSITIONS.get(word) or french(word, TAGS.get(word, tag)) for word in right)
    return Phrasing(" ".join(left), words, others, (1,) * len(left), (1,) * len(right), nouns=nouns)


def place(fields: list[str]) -> Noun:
    """A country, city, language or person's name, from `Italy Italie f`."""
    gender = fields[2] if len(fields) > 2 else "m"
    word, other = english(fields[0], "PROPN"), french(fields[1], "PROPN")
    return Noun(fields[0], "name", (word, word), (other, other), gender == "f", False, None)


@dataclass(frozen=True)
class WordLists:
    nouns: dict[str, tuple[Noun, ...]]  # by kind
    adjectives: tuple[Adjective, ...]
    verbs: dict[str, tuple[Verb, ...]]  # intransitive, reflexive, transitive, oblique, giving, control, …
    single: dict[str, Verb]  # by both languages: "be avoir"
    adverbs: dict[str, tuple[Phrasing, ...]]  # middle, manner, spot, degree, company, and times by tense
    places: tuple[Phrasing, ...]
    names: dict[str, tuple[Noun, ...]]  # people, languages, countries, cities


@cache
def lexicon() -> WordLists:
    things, qualities = load_nouns()

    def of(kinds: str) -> tuple[Noun, ...]:
        return tuple(thing for kind in kinds.split() for thing in things[kind])

    people, living = of(verbs.PERSON), of(verbs.LIVING)
    table = {
        "intransitive": [verb(f, of(who)) for who, text in verbs.INTRANSITIVE.items() for f in entries(text)],
        "reflexive": [verb(f, of(who)) for who, text in verbs.REFLEXIVE.items() for f in entries(text)],
        "transitive": [verb(f, of(who), of(what)) for who, what, text in verbs.TRANSITIVE for f in entries(text)],
        "oblique": [verb(f, of(who), of(what)) for who, what, text in verbs.OBLIQUE for f in entries(text)],
        "giving": [verb(f, people, of("thing text garment")) for f in entries(verbs.GIVING)],
        "control": [verb(f, people) for f in entries(verbs.CONTROL)],
        "speaking": [verb(f, people) for f in entries(verbs.SPEAKING)],
        "motion": [verb(f, living) for f in entries(verbs.MOTION)],
        "dwelling": [verb(f, people) for f in entries(verbs.DWELLING)],
    }
    singles = [verb(fields, people) for fields in entries(verbs.SINGLE)]
    single = {f"{entry} {entry.infinitive.word.text}": entry for entry in singles}
    table["general"] = [entry for entry in table["transitive"] if entry.lemma in verbs.GENERAL]
    acts = table["transitive"]
    table["countable"] = [entry for entry in acts if not entry.objects[0].mass]
    table["edible"] = [entry for entry in acts if entry.objects[-1].mass]
    table["to people"] = [entry for entry in acts if entry.objects[0].kind == "person"]
    table["to things"] = [entry for entry in acts if entry.objects[0].kind != "person"]
    table["dative"] = [entry for entry in table["oblique"] if entry.preposition is A]
    table["pouring"] = [entry for entry in acts if entry.lemma in ("drink", "buy", "order", "sell")]
    table["serving"] = [entry for entry in acts if entry.lemma in ("eat", "taste", "buy", "order", "sell", "prepare")]
    table["living"] = [entry for entry in table["intransitive"] if entry.subjects[-1].kind == "animal"]
    table |= {f"{name} past": [entry for entry in group if entry.past] for name, group in table.items()}
    places = [simple(fields, "ADP", of("building")) for fields in entries(adverbials.INSIDE)]
    places += [simple(fields, "ADP", of("building landmark")) for fields in entries(adverbials.AROUND)]
    places += [simple(fields, "ADP", of("furniture")) for fields in entries(adverbials.ONTO)]
    names = {
        "people": adverbials.NAMES, "languages": adverbials.LANGUAGES,
        "countries": adverbials.COUNTRIES, "cities": adverbials.CITIES,
    }  # fmt: skip
    return WordLists(
        things, qualities, {name: tuple(group) for name, group in table.items()}, single, load_adverbs(), tuple(places),
        {name: tuple(place(fields) for fields in entries(text)) for name, text in names.items()},
    )  # fmt: skip


def load_nouns() -> tuple[dict[str, tuple[Noun, ...]], tuple[Adjective, ...]]:
    """The nouns by kind, each with the adjectives that fit it, and all adjectives."""
    qualities = [(kinds.split(), adjective(f)) for kinds, text in adjectives.ADJECTIVES.items() for f in entries(text)]
    things = {kind: tuple(noun(fields, kind) for fields in entries(text)) for kind, text in nouns.NOUNS.items()}
    for kind, group in things.items():
        fitting = tuple(quality for kinds, quality in qualities if kind in kinds)
        for thing in group:
            thing.adjectives = fitting
            thing.following = tuple(quality for quality in fitting if not quality.before)
            thing.gradable = tuple(quality for quality in fitting if quality.comparative)
    return things, tuple(quality for _, quality in qualities)


def load_adverbs() -> dict[str, tuple[Phrasing, ...]]:
    tables = {
        "middle": adverbials.MIDDLE, "manner": adverbials.MANNER, "spot": adverbials.SPOT, "degree": adverbials.DEGREE,
    }  # fmt: skip
    adverbs = {name: tuple(simple(fields, "ADV") for fields in entries(text)) for name, text in tables.items()}
    adverbs["company"] = tuple(simple(fields, "ADP") for fields in entries(adverbials.COMPANY))
    adverbs["middle with not"] = tuple(entry for entry in adverbs["middle"] if entry.lemma in adverbials.AFTER_NOT)
    times = [phrasing(text, tenses) for text, tenses in adverbials.TIMES.items()]
    for tense in ("present", "past", "future"):
        adverbs[tense] = tuple(time for time in times if tense in time.tenses)
    return adverbs


@cache
def common() -> frozenset[str]:
    """The words of a first course: the first few of each kind."""
    entries = lexicon()
    found = {str(noun) for group in entries.nouns.values() for noun in group[:5]}
    found |= {str(verb) for group in entries.verbs.values() for verb in group[:6]}
    for group in (*entries.names.values(), *entries.adverbs.values()):
        found |= {str(entry) for entry in group[:3]}
    for kinds in {noun.kind: noun.adjectives for group in entries.nouns.values() for noun in group}.values():
        found |= {str(adjective) for adjective in kinds[:8:2]}
    return frozenset(found | {"green", "small", "old"})


@cache
def nouns_of(kinds: str) -> tuple[Noun, ...]:
    """The nouns of several kinds: `nouns_of("person animal")`."""
    return tuple(thing for kind in kinds.split() for thing in lexicon().nouns[kind])


@cache
def find_noun(lemma: str) -> Noun:
    return next(thing for group in lexicon().nouns.values() for thing in group if thing.lemma == lemma)
