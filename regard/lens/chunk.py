"""Arrays as text in a page: base64 of deflated bytes, in chunks that a browser unpacks one by one, when it draws them.

Maps are arrays of three axes (heads, queries, keys), one chunk a head. A page with few of them carries them to the
bit. With many, they are only drawn: a weight becomes one of 255 levels, even in its square root, since small weights
differ by factors and the eye sees these. What has another number of axes is exact always.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import InputError

EXACT = 4 * 1024 * 1024  # bytes of maps up to which a page is exact
ROOM = 38_000_000  # characters of data that a page should stay under; levels are halved until it does
MOST = 250_000_000  # what no browser opens gladly
FINEST = 254
LEVELS = (FINEST, 126, 62)  # the largest level of a weight; even, so that zero is one if there are negative ones
LOST = 255  # the level of what is no finite number
SIDE = 64  # rows and columns of a thumbnail
WINDOW = -15  # deflate without a header, the largest window

Array = NDArray[Any]
Entry = dict[str, Any]  # what the page's header says of an array


@dataclass
class ArrayChunks:
    """The texts that a page carries, by their number, and how long they are in all."""

    texts: list[str] = field(default_factory=list)
    size: int = 0

    def add(self, content: bytes) -> int:
        text = base64.b64encode(deflate(content)).decode()
        self.texts.append(text)
        self.size += len(text)
        return len(self.texts) - 1


def encode(groups: Sequence[Mapping[str, Array]]) -> tuple[list[dict[str, Entry]], list[str]]:
    """What the header says of each figure's arrays, and the texts of the chunks."""
    maps = sum(4 * array.size for group in groups for array in group.values() if array.ndim == 3)
    for levels in (0,) if maps <= EXACT else LEVELS:
        chunks = ArrayChunks()
        entries: list[dict[str, Entry]] = [{name: {} for name in group} for group in groups]
        # thumbnails first: the sheet of all heads is drawn while the rest is still being read
        for group, told in zip(groups, entries, strict=True):
            for name, array in group.items():
                if levels and array.ndim == 3:
                    told[name]["small"] = pack_small(array, chunks)
        for group, told in zip(groups, entries, strict=True):
            for name, array in group.items():
                told[name] |= pack_levels(array, levels, chunks) if levels and array.ndim == 3 else pack(array, chunks)
        if chunks.size <= ROOM:
            break
    if chunks.size > MOST:
        raise InputError(
            f"a page of {chunks.size / 1e6:.0f} MB is more than a browser opens; {MOST / 1e6:.0f} MB can be made",
            'fewer maps: look(text, names="decoder.blocks.0.*"), or look.save("look.npz")',
        )
    return entries, chunks.texts


def pack(array: Array, chunks: ArrayChunks) -> Entry:
    """To the bit: float32, the first bytes of all numbers together, since these are alike and deflate well."""
    exact = np.ascontiguousarray(array, "<f4")
    parts = exact if exact.ndim == 3 else exact[None]
    found = [chunks.add(part.reshape(-1, 1).view(np.uint8).T.tobytes()) for part in parts]
    return {"shape": list(exact.shape), "form": "float32", "first": found[0] if found else 0}


def pack_levels(array: Array, levels: int, chunks: ArrayChunks) -> Entry:
    """For drawing: one byte a weight, against the largest of its head."""
    signed = bool((array < 0).any())
    tops = [find_top(head) for head in array]
    found = [chunks.add(quantise(head, top, levels, signed)) for head, top in zip(array, tops, strict=True)]
    entry = {"shape": list(array.shape), "form": "levels", "first": found[0] if found else 0}
    return entry | {"levels": levels, "signed": signed, "tops": tops}


def pack_small(array: Array, chunks: ArrayChunks) -> Entry:
    """Thumbnails of all heads in one chunk: the largest weight of each patch, so that no peak is lost."""
    small = np.abs(array)
    for axis in (1, 2):
        count = min(SIDE, small.shape[axis])
        edges = np.arange(count) * small.shape[axis] // max(count, 1)
        small = np.maximum.reduceat(small, edges, axis) if count else small
    levels = b"".join(quantise(head, find_top(head), FINEST, signed=False) for head in small)
    return {"shape": list(small.shape[1:]), "chunk": chunks.add(levels), "levels": FINEST}


def find_top(array: Array) -> float:
    """The largest size of a finite number, 0 if there is none."""
    sizes = np.abs(array)
    return float(np.max(sizes, initial=0.0, where=np.isfinite(sizes)))


def quantise(array: Array, top: float, levels: int, signed: bool) -> bytes:
    """The nearest level of each number's root: |x| = top · (level / levels)²; with signs, zero is in the middle."""
    finite = np.isfinite(array)
    share = np.where(finite, array, 0) / (top or 1)
    half = levels // 2 if signed else levels
    roots = np.sign(share) * np.sqrt(np.abs(share)) * half + (half if signed else 0)
    return np.where(finite, np.rint(roots), LOST).astype(np.uint8).tobytes()


def deflate(content: bytes) -> bytes:
    """The shorter of two ways: noise deflates best by its letters alone, and everything else with repetitions."""
    ways = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY)
    makers = [zlib.compressobj(6, zlib.DEFLATED, WINDOW, 9, way) for way in ways]
    return min((maker.compress(content) + maker.flush() for maker in makers), key=len)
