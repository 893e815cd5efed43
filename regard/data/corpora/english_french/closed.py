"""The words that are few and do much: articles, pronouns, prepositions, conjunctions, auxiliaries."""

from __future__ import annotations

from dataclasses import dataclass

from regard.data.corpora.english_french.form import Form, english, french

Four = tuple[Form, Form, Form, Form]  # masculine singular and plural, feminine singular and plural


def four(text: str, tag: str, lemma: str) -> Four:
    """Forms from a line such as `ce|cet ces cette ces`; what follows the bar stands before a vowel."""
    forms = []
    for part in text.split():
        written, _, elided = part.partition("|")
        forms.append(french(written, tag, lemma, elided or None))
    return forms[0], forms[1], forms[2], forms[3]


LE, LES, LA, _ = four("le|l' les la|l' les", "DET", "le")
THE = (LE, LES, LA, LES)  # one les, so that de swallows it for both genders
DU, AU = french("du", "ADP", "de"), french("au", "ADP", "à")
DES, AUX = french("des", "ADP", "de"), french("aux", "ADP", "à")
DE = french("de", "ADP", "de", "d'")
DE.swallow({LE: DU, LES: DES})
A = french("à", "ADP")
A.swallow({LE: AU, LES: AUX})
SOME = french("de", "DET", "de")  # the partitive: du pain, de la viande, de l'eau
SOME.swallow({LE: french("du", "DET", "de")})
OF = french("de", "DET", "de", "d'")  # pas de pain, de petits chats, beaucoup d'eau

NE = french("ne", "ADV", "ne", "n'")
QUE = french("que", "SCONJ", "que", "qu'")
THAT = french("que", "PRON", "que", "qu'")  # the relative pronoun
QUI, OU_PLACE = french("qui", "PRON"), french("où", "PRON")
EST_CE = french("est-ce", "AUX", "être")
IL, ELLE, ILS = french("il", "PRON", "il"), french("elle", "PRON", "il"), french("ils", "PRON", "il")
CE = french("ce", "PRON", "ce", "c'")
SI = french("si", "SCONJ", "si", "s'")
SI.only = (IL, ILS)
Y = french("y", "PRON")
Y.vowel = True

COMMA, STOP, QUESTION = english(",", "PUNCT"), english(".", "PUNCT"), english("?", "PUNCT")
WILL = english("will", "AUX")
TO = english("to", "PART")
NOT = english("not", "PART")
IT = english("it", "PRON")
THERE = english("there", "PRON")


@dataclass(frozen=True, eq=False)
class Determiner:
    """An article or its like, in one number; `partitive` asks French for de before the article."""

    name: str
    english: Form
    french: Four
    partitive: bool = False
    yields: bool = False  # gives way to de before an adjective: de petits chats

    def __str__(self) -> str:
        return self.name


def determiner(name: str, forms: Four, lemma: str | None = None, yields: bool = False) -> Determiner:
    word = english(name, "DET" if name not in OWNERS else "PRON", lemma)
    if name == "a":
        word.elided, word.changes = english("an", "DET", "a"), True
    return Determiner(name, word, forms, yields=yields)


OWNERS = {
    "my": "mon mes ma|mon mes", "your": "votre vos votre vos", "his": "son ses sa|son ses", "her": "son ses sa|son ses",
    "our": "notre nos notre nos", "their": "leur leurs leur leurs",
}  # fmt: skip
DEMONSTRATIVE = four("ce|cet ces cette ces", "DET", "ce")
UN = four("un des une des", "DET", "un")
NONE = (OF, OF, OF, OF)
POSSESSIVES = tuple(determiner(name, four(text, "DET", text.split()[0])) for name, text in OWNERS.items())
DEFINITE = determiner("the", THE)
INDEFINITE = determiner("a", UN)
SEVERAL = determiner("some", UN, yields=True)
PARTITIVE = Determiner("some", english("some", "DET"), THE, partitive=True)
NEGATED = determiner("a", NONE)  # I do not have a dog: je n'ai pas de chien
ANY = determiner("any", NONE)

SINGULAR = (
    DEFINITE, DEFINITE, DEFINITE, INDEFINITE, INDEFINITE, determiner("this", DEMONSTRATIVE),
    determiner("that", DEMONSTRATIVE), *POSSESSIVES,
)  # fmt: skip
PLURAL = (
    DEFINITE, DEFINITE, DEFINITE, SEVERAL, SEVERAL, determiner("these", DEMONSTRATIVE, "this"),
    determiner("those", DEMONSTRATIVE, "that"), *POSSESSIVES, determiner("several", four(
    "plusieurs plusieurs plusieurs plusieurs", "DET", "plusieurs")),
)  # fmt: skip
MASS = (DEFINITE, DEFINITE, PARTITIVE, PARTITIVE, SINGULAR[5], SINGULAR[6], *POSSESSIVES)
# those that point at something known
SPECIFIC = (SINGULAR[0], *SINGULAR[5:])
SPECIFIC_PLURAL = (PLURAL[0], *PLURAL[5:-1])
SPECIFIC_MASS = (MASS[0], *MASS[4:])
# what a direct object's determiner becomes under negation
UNDER_NEGATION = {INDEFINITE: NEGATED, SEVERAL: ANY, PARTITIVE: ANY}


@dataclass(frozen=True, eq=False)
class Person:
    """A personal pronoun in all its roles; person counts je, tu, il, nous, vous, ils from 0.

    *You* is one man who is addressed politely and *they* are men, so that each sentence has one translation.
    """

    name: str
    person: int
    feminine: bool
    plural: bool
    subject: tuple[Form, Form]
    direct: tuple[Form, Form]
    indirect: Form
    stressed: Form

    def __str__(self) -> str:
        return self.name


def pronoun(line: str) -> Person:
    """From `I me 0 m s je|j' me|m' me|m' moi`."""
    name, other, person, gender, number, *rest = line.split()
    parts = [part.partition("|") for part in rest]
    subject, direct, indirect, stressed = (french(text, "PRON", text, elided or None) for text, _, elided in parts)
    subject = {"il": IL, "elle": ELLE, "ils": ILS}.get(parts[0][0], subject)
    return Person(
        name, int(person), gender == "f", number == "p", (english(name, "PRON"), subject),
        (english(other, "PRON", name), direct), indirect, stressed,
    )  # fmt: skip


PERSONS = tuple(
    pronoun(line)
    for line in (
        "I me 0 m s je|j' me|m' me|m' moi",
        "you you 4 m s vous vous vous vous",
        "he him 2 m s il le|l' lui lui",
        "she her 2 f s elle la|l' lui elle",
        "we us 3 m p nous nous nous nous",
        "they them 5 m p ils les leur eux",
    )
)
SAFE = PERSONS[:-1]  # in a sentence of two clauses, they would point back at somebody
NEUTER = pronoun("it it 2 m s il le|l' y y")
FEMALE_NEUTER = pronoun("it it 2 f s elle la|l' y y")
FEMALE_THEY = pronoun("they them 5 f p elles les leur elles")
REFLEXIVE = tuple(
    french(text, "PRON", "se", elided)
    for text, elided in (("me", "m'"), ("te", "t'"), ("se", "s'"), ("nous", None), ("vous", None), ("se", "s'"))
)


@dataclass(frozen=True, eq=False)
class Polarity:
    """A way to say no: what stands beside the verb in English, and what closes ne in French."""

    name: str
    english: tuple[Form, ...]
    french: Form
    support: bool = False  # asks for do
    after: bool = False  # stands after the verb in English: sees nothing
    late: bool = False  # stands after the participle: je n'ai vu personne

    def __str__(self) -> str:
        return self.name


NOT_PAS = Polarity("not", (NOT,), french("pas", "ADV"), support=True)
NEVER = Polarity("never", (english("never", "ADV"),), french("jamais", "ADV"))
NO_LONGER = Polarity("no longer", (english("no", "ADV"), english("longer", "ADV")), french("plus", "ADV"))
NOTHING = Polarity("nothing", (english("nothing", "PRON"),), french("rien", "PRON"), after=True)
NOBODY = Polarity("nobody", (english("nobody", "PRON"),), french("personne", "PRON"), after=True, late=True)
