"""What a scene consists of: shapes with a size, a colour and a texture, and how the first of them stands to the others.

The shape that is named first, the figure, is the only smallest one: people tell the place of a small thing by a large
one. It stands to every other shape in another of six relations, so a picture has one description and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeVar, get_args

from regard.data.split import TOP, hash_text, split_by_text

Bulk = Literal["small", "medium", "large"]
Colour = Literal["red", "orange", "yellow", "green", "blue", "purple", "pink", "black"]
Texture = Literal["plain", "striped", "spotted"]
Shape = Literal["circle", "square", "triangle", "diamond", "star", "cross", "heart", "arrow"]
Relation = Literal["above", "below", "left", "right", "front", "behind"]
BULKS: tuple[Bulk, ...] = get_args(Bulk)
COLOURS: tuple[Colour, ...] = get_args(Colour)
TEXTURES: tuple[Texture, ...] = get_args(Texture)
SHAPES: tuple[Shape, ...] = get_args(Shape)
RELATIONS: tuple[Relation, ...] = get_args(Relation)
OVERLAPS: tuple[Relation, ...] = ("front", "behind")
HELD_OUT = 0.05  # of the combinations of relation, colour and shape

T = TypeVar("T")
Chance = Callable[[], float]  # a number in 0 … 1, as random.random gives it


@dataclass(frozen=True, slots=True)
class Thing:
    """All that can be said of one shape."""

    bulk: Bulk
    colour: Colour
    texture: Texture
    shape: Shape


@dataclass(frozen=True, slots=True)
class Scene:
    """Things, the figure first, and the relation in which the figure stands to each of the others."""

    things: tuple[Thing, ...]
    relations: tuple[Relation, ...]  # one for every thing but the first, in the order of RELATIONS

    def describe(self) -> str:
        """The scene as a text, another one for every scene."""
        named = [f"{thing.bulk} {thing.colour} {thing.texture} {thing.shape}" for thing in self.things]
        return ", ".join([*named, *self.relations])

    def combine(self) -> Iterator[tuple[Relation, Colour, Shape]]:
        """Each relation with the colour and the shape of what stands on either side of it."""
        for relation, ground in zip(self.relations, self.things[1:], strict=True):
            for thing in (self.things[0], ground):
                yield relation, thing.colour, thing.shape


@cache
def is_held_out(relation: Relation, colour: Colour, shape: Shape) -> bool:
    """Whether training never sees such a thing on either side of this relation."""
    return hash_text(f"{relation} {colour} {shape}") < HELD_OUT * TOP


def choose_split(scene: Scene) -> Literal["train", "validation", "test", "combinations"]:
    """The one split that a scene belongs to, whatever the seed; so no caption stands in two."""
    if any(is_held_out(*combination) for combination in scene.combine()):
        return "combinations"
    return split_by_text(scene.describe())


def make_scene(count: int, chance: Chance) -> Scene:
    """A scene of so many things, by chance."""
    first = int(chance() * (3 if count == 1 else 1.5))  # others must be larger than the figure; more room if it's small
    bulks = [BULKS[first], *(pick(BULKS[first + 1 :], chance) for _ in range(count - 1))]
    relations = pick_relations(count - 1, chance)
    things = [Thing(bulk, pick(COLOURS, chance), pick(TEXTURES, chance), pick(SHAPES, chance)) for bulk in bulks]
    for number, relation in enumerate(relations, 1):
        if relation in OVERLAPS:  # where one colour meets itself, nobody sees which is in front
            others = [colour for colour in COLOURS if colour != things[0].colour]
            ground = things[number]
            things[number] = Thing(ground.bulk, pick(others, chance), ground.texture, ground.shape)
    return Scene(tuple(things), relations)


def pick_relations(count: int, chance: Chance) -> tuple[Relation, ...]:
    """So many different relations, in their order; at most one of them is an overlap."""
    left, chosen = list(RELATIONS), set[Relation]()
    while len(chosen) < count:
        relation = pick(left, chance)
        chosen.add(relation)
        gone = OVERLAPS if relation in OVERLAPS else (relation,)
        left = [other for other in left if other not in gone]
    return tuple(relation for relation in RELATIONS if relation in chosen)


def pick(options: Sequence[T], chance: Chance) -> T:
    return options[int(chance() * len(options))]
