"""The scenes as a corpus: endless streams of sketches, each in one split."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from regard.core.spec import Count, Size
from regard.data.corpora.scenes.caption import CaptionWord, Language, name_shape, say_scene, write_caption
from regard.data.corpora.scenes.draw import draw, find_box
from regard.data.corpora.scenes.scene import Chance, choose_split, make_scene
from regard.data.corpora.scenes.sketch import Sketch, sketch_scene
from regard.data.corpus import Box, BoxedCaption, Generated, Split
from regard.data.sample import Form, Sample

Shapes = Literal[1, 2, 3, 4]


class Scenes(Generated):
    """Drawn pictures with a caption each; as images, with the shape of the smallest thing as their label."""

    gives: ClassVar[tuple[Form, ...]] = ("captions", "images", "pictures")
    kind: Literal["scenes"] = "scenes"
    train: Size = 20_000
    """This many samples are made for training."""
    combinations: Count = 1000
    """This many samples have combinations of relation, colour and shape that training never shows."""
    language: Language = "english"
    """The language of captions and labels; the pictures are the same."""
    size: Literal[48, 64] = 48
    """Pictures have this many pixels in height and width."""
    fewest: Shapes = 1
    """A picture has at least this many shapes."""
    most: Shapes = 4
    """A picture has at most this many shapes."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if self.fewest > self.most:
            raise ValueError(f"fewest {self.fewest} is above most {self.most}")
        if self.most == 1 and self.combinations:
            raise ValueError(
                "most 1: a shape alone stands in no relation, so there are no combinations; combinations: 0"
            )
        return self

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        for sketch in self.sketches(split):
            if form == "captions":
                yield {"picture": draw(sketch), "texts": [write_caption(say_scene(sketch.scene, self.language))]}
            elif form == "images":
                yield {"picture": draw(sketch), "label": name_shape(sketch.scene.things[0].shape, self.language)}
            else:
                yield {"picture": draw(sketch)}

    def list_boxes(self, split: Split) -> Iterator[BoxedCaption]:
        """A word of a thing has that thing's box, a relation's main word the box around both; no other word has one."""
        for sketch in islice(self.sketches(split), self.count(split)):
            words = say_scene(sketch.scene, self.language)
            things = [find_box(thing, self.size) for thing in sketch.things]
            yield BoxedCaption(
                draw(sketch),
                write_caption(words),
                tuple(word.text for word in words),
                tuple(surround(word, things) for word in words),
                tuple(word.kind for word in words),
            )

    def sketches(self, split: Split) -> Iterator[Sketch]:
        """Plans of pictures of one split, without end; each number of shapes is as frequent as any other."""
        chance = Random(f"scenes {split} {self.seed}").random
        fewest = max(self.fewest, 2) if split == "combinations" else self.fewest  # one shape has no relation
        while True:
            count = fewest + int(chance() * (self.most - fewest + 1))
            while (sketch := self._try_sketch(count, split, chance)) is None:
                pass
            yield sketch

    def _try_sketch(self, count: int, split: Split, chance: Chance) -> Sketch | None:
        """A plan with so many shapes; None where chance made one of another split, or found no room."""
        scene = make_scene(count, chance)
        return sketch_scene(scene, self.size, chance) if choose_split(scene) == split else None


def surround(word: CaptionWord, things: list[Box]) -> Box | None:
    """The smallest box around all that a word speaks of."""
    if not word.things:
        return None
    tops, lefts, bottoms, rights = zip(*(things[number] for number in word.things), strict=True)
    return min(tops), min(lefts), max(bottoms), max(rights)
