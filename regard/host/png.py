"""PNG files of 8-bit pictures, written with nothing but zlib: for what we draw ourselves, without a package for it."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLORS = {1: 0, 2: 4, 3: 2, 4: 6}  # PNG's number for grey, grey and alpha, red green blue, and alpha beside


def encode_png(picture: NDArray[Any]) -> bytes:
    """A picture (height, width, channels) of bytes as a file."""
    height, width, channels = picture.shape
    if picture.dtype != np.uint8 or channels not in COLORS:
        raise ValueError(f"a PNG holds bytes in 1 to 4 channels, not {picture.dtype} in {channels}")
    header = struct.pack(">IIBBBBB", width, height, 8, COLORS[channels], 0, 0, 0)
    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with its filter: 0, none
    lines[:, 1:] = picture.reshape(height, -1)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")
    return SIGNATURE + b"".join(_chunk(name, content) for name, content in parts)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
