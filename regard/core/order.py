"""Orders: in which order the pixels of a picture are read and drawn. Each is a walk over all places of a rectangle.

Hilbert's curve keeps near what is near in the picture. The one here is the generalised curve, which fills rectangles of
any size: a rectangle is cut into two or three, each of them is walked in the same way, and one walk ends beside where
the next begins. Where a side is odd, one of its steps may lead over a corner.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Order = Literal["raster", "s-curve", "hilbert", "random"]
BY_ROWS: tuple[Order, ...] = ("raster", "s-curve")  # orders that end one row of the picture before the next begins


def walk(order: Order, height: int, width: int, seed: int = 0) -> NDArray[np.int64]:
    """The places of a picture in an order, each as row × width + column; `seed`: of the random one."""
    places = np.arange(height * width).reshape(height, width)
    if order == "s-curve":
        places[1::2] = places[1::2, ::-1].copy()
    elif order == "hilbert":
        wide = width >= height
        sides = ((0, width), (height, 0)) if wide else ((height, 0), (0, width))
        return np.array([row * width + column for row, column in _curve((0, 0), *sides)])
    elif order == "random":
        # numpy may change how it shuffles, and a run must find its order again
        shuffled = places.ravel().tolist()
        Random(f"{seed}/order").shuffle(shuffled)
        return np.array(shuffled)
    return places.ravel()


Step = tuple[int, int]  # rows and columns


def _curve(start: Step, along: Step, across: Step) -> Iterator[Step]:
    """Walk the rectangle that two sides span, from its corner `start` to the far end of `along`."""
    (a, b), (c, d) = along, across
    length, breadth = abs(a + b), abs(c + d)
    ahead, aside = _unit(along), _unit(across)
    if breadth == 1 or length == 1:
        step = ahead if breadth == 1 else aside
        yield from ((start[0] + n * step[0], start[1] + n * step[1]) for n in range(max(length, breadth)))
        return
    if 2 * length > 3 * breadth:  # long: two halves, one after the other
        half = _halve(along, ahead, length)
        yield from _curve(start, half, across)
        yield from _curve(_add(start, half), _add(along, half, -1), across)
        return
    # up, over and down again
    half, side = (a // 2, b // 2), _halve(across, aside, breadth)
    yield from _curve(start, side, half)
    yield from _curve(_add(start, side), along, _add(across, side, -1))
    corner = _add(_add(_add(_add(start, along), ahead, -1), side), aside, -1)
    yield from _curve(corner, (-side[0], -side[1]), _add(half, along, -1))


def _halve(side: Step, unit: Step, length: int) -> Step:
    """About half of a side; an even number of steps where that can be, so that the walk comes out beside the next."""
    half = side[0] // 2, side[1] // 2
    return _add(half, unit) if abs(half[0] + half[1]) % 2 and length > 2 else half


def _add(one: Step, other: Step, sign: int = 1) -> Step:
    return one[0] + sign * other[0], one[1] + sign * other[1]


def _unit(side: Step) -> Step:
    return (side[0] > 0) - (side[0] < 0), (side[1] > 0) - (side[1] < 0)
