"""From a sketch to pixels, and to the boxes around its things, in whole numbers alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.random import PCG64
from numpy.typing import NDArray

from regard.data.canvas import Picture
from regard.data.corpora.scenes.outline import FULL, UNIT, Stamp, make_stamp
from regard.data.corpora.scenes.scene import Colour
from regard.data.corpora.scenes.sketch import PlacedThing, Sketch
from regard.data.corpus import Box

PITCH = 32  # of textures, in eighths of a pixel, in a picture of 48 pixels
# red, green and blue of what fills a shape, of its texture's marks, and of its rim
TONES: dict[Colour, tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int, int]]] = {
    "red": ((212, 44, 46), (250, 214, 208), (128, 18, 26)),
    "orange": ((242, 134, 28), (255, 234, 204), (160, 78, 6)),
    "yellow": ((240, 204, 34), (255, 250, 222), (158, 124, 6)),
    "green": ((40, 154, 82), (208, 242, 214), (14, 88, 44)),
    "blue": ((42, 102, 214), (206, 224, 252), (16, 52, 130)),
    "purple": ((130, 62, 176), (232, 212, 246), (72, 26, 106)),
    "pink": ((242, 128, 178), (255, 232, 242), (166, 60, 108)),
    "black": ((52, 52, 58), (204, 204, 210), (16, 16, 20)),
}


def draw(sketch: Sketch) -> Picture:
    """The picture of a sketch: (side, side, 3)."""
    canvas = lay_paper(sketch)
    order = list(sketch.things[1:])
    order.insert(0 if "behind" in sketch.scene.relations else len(order), sketch.things[0])
    for thing in order:
        put(canvas, thing, sketch.side)
    span = 2 * sketch.roughness + 1
    canvas += ((make_grain(sketch).astype(np.int16) * span) >> 8)[:, :, None] - sketch.roughness
    return np.clip(canvas, 0, 255).astype(np.uint8)


def lay_paper(sketch: Sketch) -> NDArray[np.int16]:
    """The ground: one shade that grows a little lighter in one direction."""
    line = ruler(sketch.side)
    down, across = sketch.slope
    light = (down * line[:, None] + across * line[None, :]) // (2 * sketch.side)
    return light[:, :, None] + np.array(sketch.paper, np.int16)


@cache
def ruler(side: int) -> NDArray[np.int16]:
    """The places of a line, counted from its middle, in halves of a pixel."""
    return np.arange(-side + 1, side, 2, dtype=np.int16)


def make_grain(sketch: Sketch) -> NDArray[np.uint8]:
    """Random bytes, one a pixel; the raw words of a bit generator are the same in every version of NumPy."""
    words = PCG64(sketch.seed).random_raw(sketch.side**2 // 8)
    return words.astype("<u8").view(np.uint8).reshape(sketch.side, sketch.side)


def put(canvas: NDArray[Any], placed: PlacedThing, side: int) -> None:
    """Draw a thing over what is there."""
    stamp = find_stamp(placed, side)
    top, left, bottom, right = find_box(placed, side)
    tones = np.array(TONES[placed.thing.colour], np.int16) + np.array(placed.tint, np.int16)
    patch = canvas[top:bottom, left:right]
    patch *= stamp.clear
    patch += stamp.tones @ tones
    patch += FULL // 2  # to round
    patch //= FULL


def find_stamp(placed: PlacedThing, side: int) -> Stamp:
    down, across = (length % UNIT for length in placed.spot)
    thing = placed.thing
    way = 0 if thing.texture == "plain" else placed.way
    return make_stamp(thing.shape, placed.radius, down, across, thing.texture, way, PITCH * side // 48)


def find_box(placed: PlacedThing, side: int) -> Box:
    """The smallest box with every pixel that a thing colours, or would colour if nothing stood before it."""
    stamp = find_stamp(placed, side)
    top, left = placed.spot[0] // UNIT + stamp.top, placed.spot[1] // UNIT + stamp.left
    height, width, _ = stamp.tones.shape
    return top, left, top + height, left + width
