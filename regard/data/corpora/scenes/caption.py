"""Captions: what a scene is in English and in French, word by word.

The figure comes first, then its relations in a fixed order: above, below, left, right, in front of, behind. Of a thing
are said its size, unless it is medium, its colour, its texture, unless it is plain, and its shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from regard.data.corpora.scenes.scene import Bulk, Colour, Relation, Scene, Shape, Texture, Thing

Language = Literal["english", "french"]
WordClass = Literal["size", "colour", "texture", "shape", "relation"]


@dataclass(frozen=True, slots=True)
class CaptionWord:
    """A word, its class, and the numbers of the things that it speaks of; a word without them has no class."""

    text: str
    kind: WordClass | None = None
    things: tuple[int, ...] = ()


# the words of each relation, the one that carries its meaning marked
ENGLISH_RELATIONS: dict[Relation, str] = {
    "above": "*above",
    "below": "*below",
    "left": "to the *left of",
    "right": "to the *right of",
    "front": "in *front of",
    "behind": "*behind",
}
FRENCH_RELATIONS: dict[Relation, str] = {
    "above": "*au-dessus d'",
    "below": "*au-dessous d'",
    "left": "à *gauche d'",
    "right": "à *droite d'",
    "front": "*devant",
    "behind": "*derrière",
}
# masculine and feminine
FRENCH_BULKS: dict[Bulk, tuple[str, str]] = {"small": ("petit", "petite"), "large": ("grand", "grande")}
FRENCH_COLOURS: dict[Colour, tuple[str, str]] = {
    "red": ("rouge", "rouge"),
    "orange": ("orange", "orange"),
    "yellow": ("jaune", "jaune"),
    "green": ("vert", "verte"),
    "blue": ("bleu", "bleue"),
    "purple": ("violet", "violette"),
    "pink": ("rose", "rose"),
    "black": ("noir", "noire"),
}
FRENCH_TEXTURES: dict[Texture, tuple[str, str]] = {
    "striped": ("*rayé", "*rayée"),
    "spotted": ("à *pois", "à *pois"),
}
FRENCH_SHAPES: dict[Shape, tuple[str, Literal["m", "f"]]] = {
    "circle": ("cercle", "m"),
    "square": ("carré", "m"),
    "triangle": ("triangle", "m"),
    "diamond": ("losange", "m"),
    "star": ("étoile", "f"),
    "cross": ("croix", "f"),
    "heart": ("cœur", "m"),
    "arrow": ("flèche", "f"),
}


def say_scene(scene: Scene, language: Language) -> list[CaptionWord]:
    """The words of a caption; commas are words too."""
    say, relations, last = (
        (say_in_english, ENGLISH_RELATIONS, "and") if language == "english" else (say_in_french, FRENCH_RELATIONS, "et")
    )
    words = list(say(scene.things[0], 0))
    for number, relation in enumerate(scene.relations, 1):
        if number > 1:
            words.append(CaptionWord(last if number == len(scene.relations) else ","))
        words += find_marked(relations[relation], "relation", (0, number))
        words += say(scene.things[number], number)
    return words


def say_in_english(thing: Thing, number: int) -> Iterator[CaptionWord]:
    about = (number,)
    first = thing.colour if thing.bulk == "medium" else thing.bulk
    yield CaptionWord("an" if first[0] in "aeiou" else "a")
    if thing.bulk != "medium":
        yield CaptionWord(thing.bulk, "size", about)
    yield CaptionWord(thing.colour, "colour", about)
    if thing.texture != "plain":
        yield CaptionWord(thing.texture, "texture", about)
    yield CaptionWord(thing.shape, "shape", about)


def say_in_french(thing: Thing, number: int) -> Iterator[CaptionWord]:
    """Size before the noun, colour and texture after it; all that can agree with its gender does."""
    about = (number,)
    noun, gender = FRENCH_SHAPES[thing.shape]
    form = 0 if gender == "m" else 1
    yield CaptionWord(("un", "une")[form])
    if thing.bulk != "medium":
        yield CaptionWord(FRENCH_BULKS[thing.bulk][form], "size", about)
    yield CaptionWord(noun, "shape", about)
    yield CaptionWord(FRENCH_COLOURS[thing.colour][form], "colour", about)
    if thing.texture != "plain":
        yield from find_marked(FRENCH_TEXTURES[thing.texture][form], "texture", about)


def find_marked(phrase: str, kind: WordClass, things: tuple[int, ...]) -> Iterator[CaptionWord]:
    """The words of a phrase; the one with a star has the class, the others are there for the grammar."""
    for word in phrase.split():
        yield CaptionWord(word[1:], kind, things) if word[0] == "*" else CaptionWord(word)


def name_shape(shape: Shape, language: Language) -> str:
    return shape if language == "english" else FRENCH_SHAPES[shape][0]


def write_caption(words: Sequence[CaptionWord]) -> str:
    """The text: no space before a comma, none after an apostrophe."""
    return " ".join(word.text for word in words).replace(" ,", ",").replace("' ", "'")
