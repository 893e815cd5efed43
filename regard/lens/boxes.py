"""Attention over a picture, measured against the boxes of what the words speak of.

The share of a word's attention inside of its box is compared with what attention that looks everywhere alike would have
there; pointing asks only whether the place with the most attention is in the box (the pointing game of Zhang et al.
2016). Intervals are bootstraps over pictures, since the words of one caption aren't independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.grid import Grid
from regard.data.corpus import Box
from regard.errors import InputError
from regard.tasks.measures import Measure, ratio

Map = NDArray[np.floating[Any]]
ALL = "all"  # the words of every class together


@dataclass(frozen=True)
class WatchedCaption:
    """What each word of a caption looked at: (words, places), and the word's gold box and class, or None of both."""

    maps: Map
    boxes: Sequence[Box | None]
    kinds: Sequence[str | None]
    height: int  # of the picture, in pixels
    width: int


@dataclass(frozen=True)
class BoxScore:
    """How well attention finds the boxes of the words of one class."""

    inside: Measure  # the mean share of a word's attention inside of its box
    uniform: float  # what attention that looks at all places alike would have there
    pointing: Measure  # the share of words whose largest place has its centre in the box
    words: int

    @property
    def gain(self) -> float:
        """How many times as much attention is in the box as by chance."""
        return self.inside.value / self.uniform

    def as_json(self) -> dict[str, Any]:
        return {
            **self.inside.named("inside"),
            "uniform": self.uniform,
            "gain": self.gain,
            **self.pointing.named("pointing"),
            "words": self.words,
        }


def measure_boxes(captions: Iterable[WatchedCaption], grid: Grid, seed: int = 0) -> dict[str, BoxScore]:
    """A score for all words that have a box, and one for each of their classes."""
    tallies: dict[str, list[NDArray[np.float64]]] = {}  # for each class one row a picture that has such words
    for caption in captions:
        sums: dict[str, NDArray[np.float64]] = {}
        for row, kind in _weigh_words(caption, grid):
            for name in (ALL, kind) if kind else (ALL,):
                sums[name] = sums.get(name, 0) + row
        for name, row in sums.items():
            tallies.setdefault(name, []).append(row)
    if not tallies:
        raise InputError("there is nothing to measure: no word has a box")
    return {
        name: _score(np.stack(rows), seed) for name, rows in sorted(tallies.items(), key=lambda each: each[0] != ALL)
    }


def _score(rows: NDArray[np.float64], seed: int) -> BoxScore:
    inside, uniform, pointed, words = rows.T
    counts = words.tolist()
    return BoxScore(
        ratio(inside.tolist(), counts, seed),
        float(uniform.sum() / words.sum()),
        ratio(pointed.tolist(), counts, seed),
        int(words.sum()),
    )


def _weigh_words(caption: WatchedCaption, grid: Grid) -> Iterable[tuple[NDArray[np.float64], str | None]]:
    """For each word with a box: its share inside, what looking everywhere alike has there, whether it points, and 1."""
    words = len(caption.maps)
    if not words == len(caption.boxes) == len(caption.kinds):
        raise InputError(
            f"{words} maps, {len(caption.boxes)} boxes, {len(caption.kinds)} kinds: there must be one a word"
        )
    for weights, box, kind in zip(caption.maps, caption.boxes, caption.kinds, strict=True):
        if box is not None:
            places = spread_map(weights, grid)
            parts = cover_places(box, grid, caption.height, caption.width)
            pointed = points_into(places, box, grid, caption.height, caption.width)
            yield np.array([(places * parts).sum(), parts.mean(), pointed, 1.0]), kind


def spread_map(weights: Map, grid: Grid) -> NDArray[np.float64]:
    """One word's attention as a map (height, width) whose sum is 1; positions before the picture are left out."""
    if grid.channels != 1:
        raise InputError(f"{grid.channels} positions a place: attention over boxes needs one")
    flat = np.asarray(weights, np.float64).reshape(-1)
    if len(flat) == grid.count:
        flat = flat[grid.first :]
    if len(flat) != grid.height * grid.width:
        raise InputError(f"{len(flat)} weights, and the picture has {grid.height} × {grid.width} places")
    total = flat.sum()
    if not (np.isfinite(total) and flat.min() >= 0 and total > 0):
        raise InputError("attention must be finite, not below 0, and not 0 everywhere")
    return (flat / total).reshape(grid.height, grid.width)


def cover_places(box: Box, grid: Grid, height: int, width: int) -> NDArray[np.float64]:
    """The share of each place's rectangle that lies in a box: (height, width) of the grid."""
    top, left, bottom, right = box
    if not (0 <= top < bottom <= height and 0 <= left < right <= width):
        raise InputError(f"box {box} doesn't lie in a picture of {height} × {width}")
    down = _cover(top, bottom, grid.find_edges(grid.height, height))
    across = _cover(left, right, grid.find_edges(grid.width, width))
    return down[:, None] * across[None, :]


def _cover(begin: int, end: int, edges: Sequence[float]) -> NDArray[np.float64]:
    """The share of each part of a line, from edge to edge, that lies between two points."""
    line = np.asarray(edges)
    common = np.minimum(line[1:], end) - np.maximum(line[:-1], begin)
    found: NDArray[np.float64] = np.maximum(common, 0) / np.diff(line)
    return found


def points_into(places: NDArray[np.float64], box: Box, grid: Grid, height: int, width: int) -> bool:
    """Whether the middle of the place with the most attention lies in a box; the first of equal ones counts."""
    rows, columns = places.shape
    row, column = divmod(int(places.argmax()), columns)
    middle = 0.5 + grid.offset
    down, across = (row + middle) * height / rows, (column + middle) * width / columns
    top, left, bottom, right = box
    return top <= down < bottom and left <= across < right
