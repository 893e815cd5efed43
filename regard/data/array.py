"""Arrays in samples: an image, a series, a vector. In files they stand as type, shape and bytes: nothing is lost.

The bytes of a split's arrays are a file beside its lines (`validation.arrays`), and a line says where its own begin, so
what reads the lines needn't read the arrays: they are mapped. Lines of earlier versions hold the bytes themselves.
"""

from __future__ import annotations

import base64
import hashlib
import math
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Dtype = Literal["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float16", "float32", "float64"]
Store = Callable[[NDArray[Any]], dict[str, Any]]  # an array as a line of JSON has it
Load = Callable[[Any], NDArray[Any] | None]  # the array again; None where the line has none
STEP = 16  # arrays begin at such places, so that numbers of every type are aligned


@cache
def file_type(dtype: Dtype) -> np.dtype[Any]:
    """The type with the byte order that files have, whatever the machine's is."""
    return np.dtype(dtype).newbyteorder("<")


def describe(value: object) -> str:
    """What a value is, in a message."""
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


def condense(value: NDArray[Any]) -> str:
    """A short text that is equal for equal arrays, and for no others."""
    return f"{describe(value)} {hashlib.blake2b(_to_bytes(value), digest_size=16).hexdigest()}"


class ArrayField:
    """A sample's field that holds an array."""

    def fits(self, value: object) -> bool:
        """Whether a value is such."""
        raise NotImplementedError


@dataclass(frozen=True)
class Array(ArrayField):
    """A sample's field that holds an array of some type with so many axes."""

    dtype: Dtype
    axes: int

    def __str__(self) -> str:
        return f"an array of {self.dtype} with {self.axes} axes"

    def fits(self, value: object) -> bool:
        return isinstance(value, np.ndarray) and value.dtype == np.dtype(self.dtype) and value.ndim == self.axes


def _to_bytes(value: NDArray[Any]) -> bytes:
    return value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()


def embed(value: NDArray[Any]) -> dict[str, Any]:
    """An array as JSON that holds all of it, to the bit."""
    content = base64.b64encode(_to_bytes(value)).decode()
    return {"dtype": value.dtype.name, "shape": list(value.shape), "base64": content}


def extract(found: Any) -> NDArray[Any] | None:
    """The array that `embed` has written."""
    try:
        content = base64.b64decode(found["base64"], validate=True)
    except (KeyError, TypeError, ValueError):
        return None
    made = _make(found, content)
    return None if made is None else made.copy()  # of its own, so that it may be written


def _make(found: Any, content: bytes | bytearray | memoryview) -> NDArray[Any] | None:
    """An array from its bytes, if they are just as many as its type and shape say."""
    dtype, shape = found.get("dtype"), found.get("shape")
    if dtype not in get_args(Dtype) or not isinstance(shape, list):
        return None
    if not all(type(size) is int and size >= 0 for size in shape):
        return None
    if len(content) != math.prod(shape) * file_type(dtype).itemsize:
        return None
    return np.frombuffer(content, file_type(dtype)).reshape(shape).astype(dtype, copy=False)


@contextmanager
def store_arrays(path: Path, mode: Literal["wb", "ab"]) -> Iterator[Store]:
    """A file of arrays, and the function that adds one and says where it stands."""
    with path.open(mode) as file:

        def store(value: NDArray[Any]) -> dict[str, Any]:
            file.write(bytes(-file.tell() % STEP))
            fact = {"dtype": value.dtype.name, "shape": list(value.shape), "offset": file.tell()}
            file.write(_to_bytes(value))
            return fact

        yield store


class ArrayFile:
    """Arrays that `store_arrays` has written, each read where a line says that it stands.

    `mapped`: an array is a view of the file, and takes memory only where it is looked at; otherwise it is read. What is
    written to an array stays in memory and never comes to the file.
    """

    def __init__(self, path: Path, mapped: bool) -> None:
        self.path, self.mapped = path, mapped
        self._number: int | None = None
        self._map: memoryview | None = None

    def load(self, found: Any) -> NDArray[Any] | None:
        """An array, from what its line says; those of earlier versions hold it themselves."""
        if not isinstance(found, dict):
            return None
        if "offset" not in found:
            return extract(found)
        try:
            size = math.prod(found["shape"]) * file_type(found["dtype"]).itemsize
            if type(found["offset"]) is not int or found["offset"] < 0 or size < 0:
                return None
            return _make(found, self._read(found["offset"], size))
        except (KeyError, TypeError, ValueError, OverflowError, OSError):
            return None

    def _read(self, offset: int, size: int) -> bytes | bytearray | memoryview:
        if self._number is None:
            self._number = os.open(self.path, os.O_RDONLY)
        there = os.fstat(self._number).st_size
        if offset + size > there:
            return b""
        if not self.mapped or not size:
            return bytearray(os.pread(self._number, size, offset))
        if self._map is None:
            self._map = memoryview(mmap.mmap(self._number, there, access=mmap.ACCESS_COPY))
        return self._map[offset : offset + size]

    def __del__(self) -> None:
        if self._number is not None:  # a map stays while an array looks at it
            os.close(self._number)
