"""The operations of RandAugment (Cubuk et al. 2020), each on many pictures at once and on bytes alone.

All take pictures (rows, height, width, channels) and a strength for each of them: from 0, which changes nothing or
little, to 1; and from -1 for those that go in two directions. What comes in from outside has the mean colour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from regard.data.augment.colour import grey, stretch

Bytes = NDArray[np.uint8]
Strength = NDArray[np.float32]  # (rows,)
Operation = Literal[
    "identity",
    "autocontrast",
    "equalize",
    "rotate",
    "solarize",
    "colour",
    "posterize",
    "contrast",
    "brightness",
    "sharpness",
    "shear-x",
    "shear-y",
    "translate-x",
    "translate-y",
]
ANGLE, SHEAR, SHIFT, FACTOR, BITS = np.pi / 6, 0.3, 0.3, 0.9, 4  # the most that is done, as in the paper's code


def operate(name: Operation, pictures: Bytes, strength: Strength, mean: Bytes) -> Bytes:
    """Make one operation on some pictures; `mean`: the corpus's colour."""
    if name in MOVES:
        return warp(pictures, MOVES[name](strength), mean)
    return CHANGES[name](pictures, strength)


def rotate(strength: Strength) -> NDArray[np.float32]:
    """Matrices (rows, 2, 3) that say where in a picture each pixel comes from, from its middle, in half sides."""
    angle = strength * ANGLE
    return _matrix(np.cos(angle), np.sin(angle), -np.sin(angle), np.cos(angle))


def shear_x(strength: Strength) -> NDArray[np.float32]:
    return _matrix(1, 0, strength * SHEAR, 1)


def shear_y(strength: Strength) -> NDArray[np.float32]:
    return _matrix(1, strength * SHEAR, 0, 1)


def translate_x(strength: Strength) -> NDArray[np.float32]:
    return _matrix(1, 0, 0, 1, right=strength * SHIFT)


def translate_y(strength: Strength) -> NDArray[np.float32]:
    return _matrix(1, 0, 0, 1, down=strength * SHIFT)


def _matrix(
    yy: Strength | float,
    yx: Strength | float,
    xy: Strength | float,
    xx: Strength | float,
    down: Strength | float = 0.0,
    right: Strength | float = 0.0,
) -> NDArray[np.float32]:
    """Source row = yy·y + yx·x + down, source column = xy·y + xx·x + right; shifts in shares of the side."""
    cells = np.broadcast_arrays(*(np.asarray(cell, np.float32) for cell in (yy, yx, down, xy, xx, right)))
    return np.stack(cells, -1).reshape(-1, 2, 3)


def warp(pictures: Bytes, matrices: NDArray[np.float32], mean: Bytes) -> Bytes:
    """Each pixel from the nearest one of where its matrix says that it comes from."""
    rows, height, width, _ = pictures.shape
    y = (np.arange(height, dtype=np.float32) - (height - 1) / 2)[:, None]
    x = (np.arange(width, dtype=np.float32) - (width - 1) / 2)[None, :]
    sources = []
    for axis, size in enumerate((height, width)):
        m = matrices[:, axis, :, None, None]  # (rows, 3, 1, 1)
        sources.append(np.rint(m[:, 0] * y + m[:, 1] * x + m[:, 2] * size + (size - 1) / 2).astype(np.int32))
    down, right = sources  # (rows, height, width)
    inside = (down >= 0) & (down < height) & (right >= 0) & (right < width)
    flat = (np.arange(rows)[:, None, None] * height + down.clip(0, height - 1)) * width + right.clip(0, width - 1)
    found = pictures.reshape(rows * height * width, -1)[flat]  # (rows, height, width, channels)
    return np.where(inside[..., None], found, mean)


def keep(pictures: Bytes, strength: Strength) -> Bytes:
    return pictures


def autocontrast(pictures: Bytes, strength: Strength) -> Bytes:
    """Spread each channel from its darkest and brightest values over all that there are."""
    low, high = (edge(pictures, (1, 2), keepdims=True).astype(np.float32) for edge in (np.amin, np.amax))
    scale = np.where(high > low, 255 / np.maximum(high - low, 1), 1)
    low = np.where(high > low, low, 0)
    return np.clip(np.rint((pictures - low) * scale), 0, 255).astype(np.uint8)


def equalize(pictures: Bytes, strength: Strength) -> Bytes:
    """Make all values of each channel about equally frequent, as Pillow does it."""
    rows, height, width, channels = pictures.shape
    lists = np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)).reshape(rows * channels, -1)
    first = np.arange(len(lists))[:, None] * 256
    counts = np.bincount((lists + first).ravel(), minlength=len(lists) * 256).reshape(-1, 256)
    last = counts[np.arange(len(lists)), lists.max(1)]  # of the brightest value that occurs
    step = (height * width - last) // 255
    table = (np.cumsum(counts, 1) - counts + (step // 2)[:, None]) // np.maximum(step, 1)[:, None]
    table = np.where(step[:, None] > 0, np.clip(table, 0, 255), np.arange(256))
    found = table.astype(np.uint8).ravel()[lists + first]
    return np.ascontiguousarray(found.reshape(rows, channels, height, width).transpose(0, 2, 3, 1))


def posterize(pictures: Bytes, strength: Strength) -> Bytes:
    """Keep fewer bits of each value."""
    lost = np.rint(strength * BITS).astype(np.uint8)[:, None, None, None]
    return pictures >> lost << lost


def solarize(pictures: Bytes, strength: Strength) -> Bytes:
    """Invert bright values."""
    most = (256 * (1 - strength))[:, None, None, None]
    return np.where(pictures >= most, 255 - pictures, pictures)


def saturate(pictures: Bytes, strength: Strength) -> Bytes:
    if pictures.shape[-1] != 3:
        return pictures  # grey has no colours
    x = pictures.astype(np.float32)
    return _stretch(x, grey(x), strength)


def contrast(pictures: Bytes, strength: Strength) -> Bytes:
    x = pictures.astype(np.float32)
    return _stretch(x, grey(x).mean((1, 2), keepdims=True), strength)


def brighten(pictures: Bytes, strength: Strength) -> Bytes:
    x = pictures.astype(np.float32)
    return _stretch(x, np.zeros_like(x[:, :1, :1]), strength)


def sharpen(pictures: Bytes, strength: Strength) -> Bytes:
    """Sharper or smoother, by what differs from a smooth picture; the border stays."""
    x = pictures.astype(np.float32)
    smooth = x.copy()
    height, width = x.shape[1:3]
    if height > 2 and width > 2:
        inner = sum(
            (5 if (down, right) == (1, 1) else 1) * x[:, down : height - 2 + down, right : width - 2 + right]
            for down in range(3)
            for right in range(3)
        )
        smooth[:, 1:-1, 1:-1] = inner / 13
    return _stretch(x, smooth, strength)


def _stretch(x: NDArray[np.float32], middle: NDArray[np.float32], strength: Strength) -> Bytes:
    stretch(x, middle, 1 + strength * np.float32(FACTOR))
    return np.clip(np.rint(x), 0, 255).astype(np.uint8)


MOVES: dict[str, Callable[[Strength], NDArray[np.float32]]] = {
    "rotate": rotate,
    "shear-x": shear_x,
    "shear-y": shear_y,
    "translate-x": translate_x,
    "translate-y": translate_y,
}
CHANGES: dict[str, Callable[[Bytes, Strength], Bytes]] = {
    "identity": keep,
    "autocontrast": autocontrast,
    "equalize": equalize,
    "posterize": posterize,
    "solarize": solarize,
    "colour": saturate,
    "contrast": contrast,
    "brightness": brighten,
    "sharpness": sharpen,
}
SIGNED = {*MOVES, "colour", "contrast", "brightness", "sharpness"}  # those that go in two directions
