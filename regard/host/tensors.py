"""Tensors of safetensors files, mapped or read, and digests of files, without a second copy of either in memory."""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import safe_open

if TYPE_CHECKING:
    from torch import Tensor

PIECE = 16 * 2**20  # bytes that one processor digests at a time
Piece = tuple[int, str]  # its size and its digest
LARGEST_HEADER = 100_000_000  # bytes, as the format has it
ALIGNED = 64  # bytes, as torch aligns: the last digits of a product depend on where its matrix begins


def map_tensors(path: Path) -> dict[str, Tensor]:
    """A file's tensors where they are on disk; writing to one changes memory alone.

    One that doesn't begin where torch would have let it begin is copied, so that it computes what others compute.
    """
    with safe_open(path, "pt") as file:
        mapped: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return {name: tensor.clone() if tensor.data_ptr() % ALIGNED else tensor for name, tensor in mapped.items()}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """A file's tensors in memory of their own, so that the file may go."""
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118


def list_tensors(path: Path) -> list[str]:
    """The names of a file's tensors; of what they hold nothing is read."""
    with safe_open(path, "pt") as file:
        return list(file.keys())


def count_numbers(path: Path) -> int:
    """How many numbers a file's tensors hold, by its header: nothing else is read, and torch isn't needed."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > LARGEST_HEADER:
            raise ValueError(f"a header of {size} bytes")
        header = json.loads(file.read(size))
    return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")


def pack_tensors(tensors: Mapping[str, Tensor]) -> tuple[bytes, memoryview]:
    """A safetensors file in two pieces, a header and the data, which begins where mapped tensors are aligned."""
    from safetensors.torch import save

    content = save(dict(tensors))
    size = int.from_bytes(content[:8], "little")
    padding = b" " * (-(8 + size) % ALIGNED)  # the format lets a header end in spaces
    header = (size + len(padding)).to_bytes(8, "little") + content[8 : 8 + size] + padding
    return header, memoryview(content)[8 + size :]


def digest_file(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with _open_mapped(path) as content:
        return hashlib.sha256(content).hexdigest()


def digest_pieces(content: Iterable[bytes | memoryview]) -> list[Piece]:
    """The sizes and digests of memory, cut into pieces."""
    views = [memoryview(part) for part in content]
    pieces = [view[at : at + PIECE] for view in views for at in range(0, len(view), PIECE)]
    return [(len(piece), digest) for piece, digest in zip(pieces, _digest_each(pieces), strict=True)]


def consists_of(path: Path, pieces: Sequence[Piece]) -> bool:
    """Whether a file's bytes are these pieces, one after the other."""
    ends = list(accumulate(size for size, _ in pieces))
    with _open_mapped(path) as content, memoryview(content) as view:
        if not pieces or min(size for size, _ in pieces) < 1 or ends[-1] != len(view):
            return False
        parts = [view[end - size : end] for end, (size, _) in zip(ends, pieces, strict=True)]
        same = _digest_each(parts) == [digest for _, digest in pieces]
        for part in parts:
            part.release()  # a mapping that is looked at can't be closed
        return same


def _digest_each(pieces: Sequence[memoryview]) -> list[str]:
    """The SHA-256 of each, by all processors: hashing needs no interpreter."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda piece: hashlib.sha256(piece).hexdigest(), pieces))


@contextmanager
def _open_mapped(path: Path) -> Iterator[bytes | mmap.mmap]:
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            yield b""  # nothing can't be mapped
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            yield content
