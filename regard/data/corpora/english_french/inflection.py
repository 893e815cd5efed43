"""How English words inflect: the rules, with irregular forms given by the lexicon."""

from __future__ import annotations

VOWELS = "aeiou"
HISSING = ("s", "x", "z", "ch", "sh")


def with_s(word: str) -> str:
    """The plural of a noun, or a verb in the third person: cats, boxes, cities; eats, washes, carries."""
    if word.endswith("y") and word[-2] not in VOWELS:
        return word[:-1] + "ies"
    if word.endswith(HISSING) or word in ("go", "do", "potato", "tomato", "hero"):
        return word + "es"
    return word + "s"


def past(verb: str) -> str:
    """The simple past of a regular verb."""
    if verb.endswith("e"):
        return verb + "d"
    if verb.endswith("y") and verb[-2] not in VOWELS:
        return verb[:-1] + "ied"
    return double_last(verb) + "ed"


def double_last(word: str) -> str:
    """Double the last letter of a short word that ends in one vowel and one consonant: stop, stopp-; big, bigg-."""
    syllables = sum(
        letter in VOWELS and (place == 0 or word[place - 1] not in VOWELS) for place, letter in enumerate(word)
    )
    closed = len(word) > 2 and word[-1] not in VOWELS + "wxy" and word[-2] in VOWELS and word[-3] not in VOWELS
    return word + word[-1] if closed and syllables == 1 else word


def add_degree(adjective: str, ending: str) -> str:
    """A short adjective with -er or -est: smaller, biggest, happier, nicest."""
    if adjective.endswith("e"):
        return adjective + ending[1:]
    if adjective.endswith("y") and adjective[-2] not in VOWELS:
        return adjective[:-1] + "i" + ending
    return double_last(adjective) + ending


def present(verb: str) -> tuple[str, ...]:
    """The six persons of the present."""
    return (verb, verb, with_s(verb) if verb != "have" else "has", verb, verb, verb)
