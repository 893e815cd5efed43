"""Where the things of a scene stand, and what else chance gives a picture that the caption doesn't speak of.

Whoever knows the rules reads a relation off the picture without a doubt. Beside each other: the two boxes are at least
two pixels apart in the direction that is named, and the centres lie within 27 degrees of it; what lies diagonally
isn't drawn. In front and behind: about three tenths of the figure (15 to 50 percent) are where the other shape is. With
less, what tells front from behind is some ten pixels; with more, too little of what is behind is left to be named. All
other pairs of boxes are two pixels apart as well. Lengths are eighths of a pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from regard.data.corpora.scenes.outline import HALF, UNIT, WAYS, find_reach, list_points
from regard.data.corpora.scenes.scene import BULKS, OVERLAPS, Bulk, Chance, Relation, Scene, Shape, Thing, pick
from regard.data.corpus import Box

RADII = (40, 54, 70)  # small, medium and large in a picture of 48 pixels
STEP = 2  # by which sizes differ
GAP = 2 * UNIT
EDGE = UNIT  # that is left free all around
TRIES = 24  # to find room for a scene
HIDDEN = (24, 36)  # percent of the figure that overlap, at the usual sizes
# where the other thing is, seen from the figure: down, across
AWAY: dict[Relation, tuple[int, int]] = {"above": (1, 0), "below": (-1, 0), "left": (0, 1), "right": (0, -1)}

Spot = tuple[int, int]  # down, across


@dataclass(frozen=True, slots=True)
class PlacedThing:
    """A thing, where its centre is, its size, how its texture lies, and how its colour differs from the usual."""

    thing: Thing
    spot: Spot
    radius: int
    way: int
    tint: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Sketch:
    """All that a picture shows: things in the order of the scene, and the paper that they stand on."""

    scene: Scene
    side: int  # pixels
    things: tuple[PlacedThing, ...]
    paper: tuple[int, int, int]  # its colour in the middle
    slope: Spot  # how much lighter it grows from one edge to the other
    roughness: int  # how far a pixel may differ by chance
    seed: int  # of that chance


def sketch_scene(scene: Scene, side: int, chance: Chance) -> Sketch | None:
    """A picture's plan for a scene; None where no room was found for it."""
    radii = [choose_radius(thing.bulk, side) + (int(chance() * 3) - 1) * STEP for thing in scene.things]
    spots = find_room(scene, radii, side, chance)
    if spots is None:
        return None
    things = tuple(
        PlacedThing(thing, spot, radius, int(chance() * WAYS), waver(12, chance))
        for thing, spot, radius in zip(scene.things, spots, radii, strict=True)
    )
    light = 212 + int(chance() * 28)
    red, green, blue = waver(8, chance)
    slope = int(chance() * 41) - 20, int(chance() * 41) - 20
    roughness, seed = 2 + int(chance() * 6), int(chance() * 2**53)
    return Sketch(scene, side, things, (light + red, light + green, light + blue), slope, roughness, seed)


def choose_radius(bulk: Bulk, side: int) -> int:
    """The usual radius of a size; pictures of any side show the same."""
    return RADII[BULKS.index(bulk)] * side // 48


def waver(most: int, chance: Chance) -> tuple[int, int, int]:
    """Three numbers from -most to most."""
    span = 2 * most + 1
    return int(chance() * span) - most, int(chance() * span) - most, int(chance() * span) - most


def find_room(scene: Scene, radii: list[int], side: int, chance: Chance) -> list[Spot] | None:
    """Where all things stand: first around the figure, then together somewhere in the picture."""
    reaches = [find_reach(thing.shape, radius) for thing, radius in zip(scene.things, radii, strict=True)]
    room = side * UNIT - 2 * EDGE
    for _ in range(TRIES):
        spots: list[Spot] = [(0, 0)]
        for relation, ground, reach in zip(scene.relations, scene.things[1:], reaches[1:], strict=True):
            if relation in OVERLAPS:
                spots.append(pick(list_overlaps(scene.things[0], ground, side), chance))
            else:
                spots.append(step_aside(relation, reaches[0], reach, room // 3, chance))
        boxes = [move_box(reach, spot) for reach, spot in zip(reaches, spots, strict=True)]
        tops, lefts, bottoms, rights = zip(*boxes, strict=True)
        down, across = (
            room - (max(bottoms) - min(tops)) - HALF,
            room - (max(rights) - min(lefts)) - HALF,
        )  # what is left
        if down >= 0 and across >= 0 and are_apart(boxes[1:]):
            top = snap(EDGE + HALF - min(tops) + int(chance() * (down + 1)))
            left = snap(EDGE + HALF - min(lefts) + int(chance() * (across + 1)))
            return [(row + top, column + left) for row, column in spots]
    return None


def step_aside(relation: Relation, figure: Box, ground: Box, room: int, chance: Chance) -> Spot:
    """A place for a thing from which the figure stands to it as the scene says, with a gap between them."""
    down, across = AWAY[relation]
    axis, sign = (0, down) if down else (1, across)
    least = figure[2 + axis] - ground[axis] if sign > 0 else ground[2 + axis] - figure[axis]
    distance = snap(least + GAP + HALF + int(chance() * room))  # HALF: what snapping may take away
    aside = snap(int((2 * chance() - 1) * (distance // 2 - HALF)))
    return (sign * distance, aside) if down else (aside, sign * distance)


def list_overlaps(figure: Thing, ground: Thing, side: int) -> list[Spot]:
    """The places of a thing, seen from the figure, where the two share as many points as they may."""
    return _list_overlaps(
        figure.shape, choose_radius(figure.bulk, side), ground.shape, choose_radius(ground.bulk, side)
    )


@cache
def _list_overlaps(figure: Shape, radius: int, ground: Shape, larger: int) -> list[Spot]:
    small, large = list_points(figure, radius), list_points(ground, larger)
    spread = len(small) // 2 + 1
    windows = sliding_window_view(np.pad(large, spread), small.shape)[::2, ::2]  # (down, across, height, width)
    common, area = (windows & small).sum((2, 3)), int(small.sum())
    fits = (100 * common >= HIDDEN[0] * area) & (100 * common <= HIDDEN[1] * area)
    middle = len(large) // 2 + spread - len(small) // 2  # the window in which both centres meet
    return [((middle - 2 * row) * HALF, (middle - 2 * column) * HALF) for row, column in np.argwhere(fits).tolist()]


def snap(length: int) -> int:
    """The half of a pixel below a length: things stand at whole and half pixels."""
    return length // HALF * HALF


def move_box(reach: Box, spot: Spot) -> Box:
    down, across = spot
    return reach[0] + down, reach[1] + across, reach[2] + down, reach[3] + across


def are_apart(boxes: list[Box]) -> bool:
    """Whether there is a gap between any two boxes."""
    return all(
        max(one[0] - two[2], two[0] - one[2], one[1] - two[3], two[1] - one[3]) >= GAP
        for number, one in enumerate(boxes)
        for two in boxes[:number]
    )
