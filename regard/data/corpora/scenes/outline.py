"""The outlines of the shapes, and what of each pixel they cover, in whole numbers: the same bytes on every machine.

A length is counted in eighths of a pixel. A pixel is looked at in 4 × 4 points, so it is covered in sixteenths; that
is what smooths the edges. What was computed once is kept: there are a few thousand different stamps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.corpora.scenes.scene import Shape, Texture

UNIT = 8  # eighths of a pixel
HALF = UNIT // 2
POINTS = 4  # of a pixel, in each direction
FULL = POINTS * POINTS  # the points of a pixel that is wholly covered
WAYS = 4  # how stripes may run, or where spots begin
RIM = 6  # the width of the darker edge

# corners (across, down) in hundredths of a radius
CORNERS: dict[str, list[tuple[int, int]]] = {
    "square": [(-88, -88), (88, -88), (88, 88), (-88, 88)],
    "triangle": [(0, -104), (108, 84), (-108, 84)],
    "diamond": [(0, -112), (92, 0), (0, 112), (-92, 0)],
    "star": [
        *((0, -114), (31, -37), (108, -35), (50, 14), (67, 92)),
        *((0, 50), (-67, 92), (-50, 14), (-108, -35), (-31, -37)),
    ],
    "cross": [
        *((-36, -102), (36, -102), (36, -36), (102, -36), (102, 36), (36, 36)),
        *((36, 102), (-36, 102), (-36, 36), (-102, 36), (-102, -36), (-36, -36)),
    ],
    "arrow": [(-108, -34), (8, -34), (8, -92), (112, 0), (8, 92), (8, 34), (-108, 34)],
}

Cells = NDArray[Any]


@dataclass(frozen=True)
class Stamp:
    """A shape as it is put on paper: its first row and column from the centre's pixel, and its three tones."""

    top: int
    left: int
    tones: Cells  # (height, width, 3), int16: the sixteenths of each pixel that are fill, mark and rim
    clear: Cells  # (height, width, 1), int16: the sixteenths that it leaves uncovered


def contains(shape: Shape, radius: int, x: Cells, y: Cells) -> Cells:
    """Whether points lie in a shape around the origin; x goes right, y down."""
    if shape == "circle":
        return x * x + y * y <= radius * radius
    if shape == "heart":  # (x² + y² - 1)³ = x² y³, with y up, and the middle a little lower
        up = radius // 10 - y
        return (x * x + up * up - radius * radius) ** 3 <= x * x * up**3 * radius
    inside = np.zeros(np.broadcast_shapes(x.shape, y.shape), bool)
    corners = [(across * radius, down * radius) for across, down in CORNERS[shape]]
    x, y = 100 * x, 100 * y
    for (x1, y1), (x2, y2) in zip(corners, [*corners[1:], corners[0]], strict=True):
        if y1 != y2:  # a ray to the right crosses this edge
            side = (x - x1) * (y2 - y1) - (y - y1) * (x2 - x1)
            inside ^= ((y1 <= y) != (y2 <= y)) & ((side < 0) == (y2 > y1))
    return inside


def mark(texture: Texture, way: int, pitch: int, x: Cells, y: Cells) -> Cells:
    """Whether points have the second tone of a texture that comes again after each `pitch`."""
    if texture == "striped":
        across = [x + 0 * y, y + 0 * x, 5 * (x + y) // 7, 5 * (x - y) // 7][way]  # 5/7: about 1/√2
        return across % pitch < pitch // 2
    if texture == "spotted":
        x, y = x + way % 2 * pitch // 2, y + way // 2 * pitch // 2
        row, column = y % pitch - pitch // 2, (x + y // pitch % 2 * pitch // 2) % pitch - pitch // 2
        return 9 * (row * row + column * column) <= pitch * pitch
    return np.zeros(np.broadcast_shapes(x.shape, y.shape), bool)


def lay_points(radius: int, down: int, across: int) -> tuple[Cells, Cells, int]:
    """The points around a centre that stands so far inside of its pixel: x, y, and the pixels before the centre's."""
    reach = radius * 5 // 4 // UNIT + 2
    line = np.arange(-reach * UNIT + 1, (reach + 1) * UNIT, UNIT // POINTS, dtype=np.int64)
    return (line - across)[None, :], (line - down)[:, None], reach


@cache
def find_reach(shape: Shape, radius: int) -> tuple[int, int, int, int]:
    """How far a shape goes from its centre: up, left (both not above 0), down, right."""
    x, y, _ = lay_points(radius, 0, 0)
    inside = contains(shape, radius, x, y)
    rows, columns = y[inside.any(1), 0], x[0, inside.any(0)]
    half = UNIT // POINTS // 2
    return int(rows[0]) - half, int(columns[0]) - half, int(rows[-1]) + half, int(columns[-1]) + half


@cache
def make_stamp(shape: Shape, radius: int, down: int, across: int, texture: Texture, way: int, pitch: int) -> Stamp:
    """A shape whose centre stands so far inside of its pixel, cut to the pixels that it covers at all."""
    x, y, reach = lay_points(radius, down, across)
    whole, inner = cover(shape, radius, down, across)
    marks = inner & mark(texture, way, pitch, x, y)
    tones: Cells = count_points(np.stack((inner & ~marks, marks, whole & ~inner)))
    covered = tones.sum(-1)
    rows, columns = np.flatnonzero(covered.any(1)), np.flatnonzero(covered.any(0))
    tones = tones[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    clear = FULL - tones.sum(-1, dtype=np.int16, keepdims=True)
    return Stamp(int(rows[0]) - reach, int(columns[0]) - reach, np.ascontiguousarray(tones), clear)


@cache
def cover(shape: Shape, radius: int, down: int, across: int) -> tuple[Cells, Cells]:
    """The points of a shape, and those of them inside of its rim."""
    x, y, _ = lay_points(radius, down, across)
    return contains(shape, radius, x, y), contains(shape, radius - RIM, x, y)


def count_points(points: Cells) -> Cells:
    """How many points of each pixel are set: (layers, points down, points across) -> (height, width, layers)."""
    layers, height, width = points.shape
    rows = points.reshape(layers, height // POINTS, POINTS, width).sum(2, dtype=np.int16)
    counts = rows.reshape(layers, height // POINTS, width // POINTS, POINTS).sum(3, dtype=np.int16)
    return counts.transpose(1, 2, 0)


@cache
def list_points(shape: Shape, radius: int) -> Cells:
    """A shape in points half a pixel apart, its centre in the middle: to see how much of it another one may hide."""
    reach = radius * 5 // 4 // HALF + 1
    line = np.arange(-reach, reach + 1, dtype=np.int64) * HALF
    return contains(shape, radius, line[None, :], line[:, None])
