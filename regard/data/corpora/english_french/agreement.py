"""How French nouns and adjectives agree, with irregular forms given by the lexicon."""

from __future__ import annotations

DOUBLING = ("el", "eil", "en", "on", "il")  # cruel, cruelle; italien, italienne; bon, bonne; gentil, gentille
BEFORE_VOWEL = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}
FEMININES = {
    "beau": "belle", "nouveau": "nouvelle", "vieux": "vieille", "blanc": "blanche", "long": "longue", "gros": "grosse",
    "doux": "douce", "jaloux": "jalouse", "sec": "sèche", "frais": "fraîche", "public": "publique", "bas": "basse",
    "premier": "première", "dernier": "dernière", "léger": "légère", "cher": "chère", "fier": "fière", "amer": "amère",
    "violet": "violette", "épais": "épaisse", "faux": "fausse", "fou": "folle", "secret": "secrète", "étranger":
    "étrangère", "inquiet": "inquiète",
}  # fmt: skip


def plural(word: str) -> str:
    """The plural of a noun or of a masculine adjective."""
    if word[-1] in "sxz":
        return word
    if word.endswith(("au", "eu")) and word != "bleu":
        return word + "x"
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + "s"


def feminine(adjective: str) -> str:
    if adjective in FEMININES:
        return FEMININES[adjective]
    if adjective.endswith("e"):
        return adjective
    if adjective.endswith("eux"):
        return adjective[:-1] + "se"
    if adjective.endswith("f"):
        return adjective[:-1] + "ve"
    if adjective.endswith(DOUBLING):
        return adjective + adjective[-1] + "e"
    return adjective + "e"


def four(adjective: str) -> tuple[str, str, str, str]:
    """Masculine singular and plural, feminine singular and plural; participles agree in the same way."""
    female = feminine(adjective)
    return adjective, plural(adjective), female, female + "s"
