"""Notices and their headlines: short reports of invented people and places, to be told in one line.

Names are made of syllables, and a name of the test never occurs in training, so a headline can't be written by a
vocabulary alone: its names must be copied. What happened is told by one sentence of several, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import ClassVar, Literal, get_args

from regard.core.spec import Size
from regard.data.corpus import Generated, Split
from regard.data.sample import Form, Sample
from regard.data.split import split_by_text

STARTS = [
    "b",
    "br",
    "ch",
    "d",
    "dr",
    "f",
    "fl",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "z",
]
VOWELS = ["a", "e", "i", "o", "u", "ai", "ea", "oa"]
ENDS = ["l", "m", "n", "r", "s", "t", "x", "nd", "rk", "lm", "st"]
DEEDS = ["met", "helped", "paid", "called", "thanked", "followed", "taught", "visited"]
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
ASIDES = (
    "the streets of {place} were quiet .",
    "{person} watched from a window .",
    "nobody in {place} was surprised .",
    "it rained all {day} .",
    "{person} had come from {place} by train .",
    "the shops were open until {day} .",
    "{person} said nothing .",
)
TELLINGS = (
    "on {day} {first} {deed} {second} in {town} .",
    "in {town} {first} {deed} {second} on {day} .",
    "{second} was in {town} on {day} , where {first} {deed} the newcomer .",
)


class Notices(Generated):
    """Reports of several sentences, each with a headline: who did what to whom, and where."""

    gives: ClassVar[tuple[Form, ...]] = ("pairs",)
    kind: Literal["notices"] = "notices"
    train: Size = 20_000
    sentences: tuple[Size, Size] = (1, 4)
    """A notice has at least as many sentences as the first number says, and at most as many as the second."""

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        chance = Random(f"notices {split} {self.seed}")
        while True:
            names = [draw_name(chance, split) for _ in range(5)]
            first, second, town, person, place = names
            deed, day = chance.choice(DEEDS), chance.choice(DAYS)
            told = chance.choice(TELLINGS).format(first=first, second=second, town=town, deed=deed, day=day)
            count = chance.randint(*self.sentences) - 1
            asides = [text.format(person=person, place=place, day=day) for text in chance.choices(ASIDES, k=count)]
            sentences = [told, *asides]
            chance.shuffle(sentences)
            yield {"source": " ".join(sentences), "target": f"{first} {deed} {second} in {town}"}


def draw_name(chance: Random, split: Split) -> str:
    """A name that belongs to a split; those of other splits are drawn again."""
    while True:
        syllables = [chance.choice(STARTS) + chance.choice(VOWELS) for _ in range(chance.randint(1, 2))]
        name = ("".join(syllables) + chance.choice(ENDS)).capitalize()
        if split not in get_args(Split) or split_by_text(name) == split:
            return name
