"""From tokens to text: elision, contraction, capitals, spaces and the alignment.

A contracted word has the keys of both of its parts, so it is aligned to what both of them stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.corpora.english_french.form import Form, Token
from regard.data.corpora.english_french.word import Word


@dataclass(slots=True)
class WrittenLine:
    """The words of one sentence as they are written, and `(key, index)` for each word that has a counterpart."""

    words: list[Word]
    links: list[tuple[int, int]]


def settle(tokens: Sequence[Token]) -> WrittenLine:
    """Let each word take the shape that its right neighbour asks for."""
    words = [form.word for form, _ in tokens]
    words[0] = tokens[0][0].capital
    places: Sequence[int] = range(len(words))
    swallowed = []
    for place in [place for place, (form, _) in enumerate(tokens) if form.changes]:
        form, swallows = contract(tokens[place][0], tokens, place + 1)
        words[place] = form.word if place else form.capital
        if swallows:
            swallowed.append(place + 1)
    for place in reversed(swallowed):
        del words[place]
        places = [where - (index >= place) for index, where in enumerate(places)]
    return WrittenLine(words, [(key, where) for (_, key), where in zip(tokens, places, strict=True) if key])


def contract(form: Form, tokens: Sequence[Token], place: int) -> tuple[Form, bool]:
    """The form before what stands at `place`, and whether it swallows that."""
    if place == len(tokens):
        return form, False
    following = tokens[place][0]
    if following in form.swallows and not elides(tokens, place):
        return form.swallows[following], True
    if form.elided is None or not following.vowel or (form.only and following not in form.only):
        return form, False
    if form.word.tag == "ADJ" and following.word.tag not in ("NOUN", "ADJ"):
        return form, False  # un vieil homme, but vieux et malade
    return form.elided, False


def elides(tokens: Sequence[Token], place: int) -> bool:
    """Whether the article at `place` becomes l', which nothing swallows."""
    return tokens[place][0].elided is not None and place + 1 < len(tokens) and tokens[place + 1][0].vowel


def align(source: WrittenLine, target: WrittenLine) -> tuple[tuple[int, int], ...]:
    """All pairs of places that share a key."""
    places: dict[int, list[int]] = {}
    for key, here in source.links:
        if key in places:
            places[key].append(here)
        else:
            places[key] = [here]
    pairs = [(here, there) for key, there in target.links for here in places.get(key, ())]
    return tuple(sorted(set(pairs)))


def english_text(words: Sequence[Word]) -> str:
    text = " ".join([word.text for word in words]).replace("can not", "cannot")
    return text.replace(" '", "'").replace(" .", ".").replace(" ,", ",").replace(" ?", "?")


def french_text(words: Sequence[Word]) -> str:
    """French keeps a space before the question mark."""
    text = " ".join([word.text for word in words])
    return text.replace("' ", "'").replace(" .", ".").replace(" ,", ",")
