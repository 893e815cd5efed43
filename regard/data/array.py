"""Arrays in samples: an image, a series, a vector. In a file they stand as type, shape and bytes: nothing is lost."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Dtype = Literal["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "int64", "float16", "float32", "float64"]


@cache
def file_type(dtype: Dtype) -> np.dtype[Any]:
    """The type with the byte order that files have, whatever the machine's is."""
    return np.dtype(dtype).newbyteorder("<")


def describe(value: object) -> str:
    """What a value is, in a message."""
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__


@dataclass(frozen=True)
class Array:
    """A sample's field that holds an array of some type with so many axes."""

    dtype: Dtype
    axes: int

    def __str__(self) -> str:
        return f"an array of {self.dtype} with {self.axes} axes"

    def fits(self, value: object) -> bool:
        return isinstance(value, np.ndarray) and value.dtype == np.dtype(self.dtype) and value.ndim == self.axes

    def pack(self, value: NDArray[Any]) -> dict[str, Any]:
        """An array as JSON, to the bit."""
        content = base64.b64encode(value.astype(file_type(self.dtype)).tobytes()).decode()
        return {"dtype": self.dtype, "shape": list(value.shape), "base64": content}

    def unpack(self, found: Any) -> NDArray[Any] | None:
        """The array again; None where it isn't what `pack` writes of such a field."""
        try:
            shape, content = found["shape"], base64.b64decode(found["base64"], validate=True)
            sizes = isinstance(shape, list) and all(type(size) is int and size >= 0 for size in shape)
            if found["dtype"] != self.dtype or not sizes or len(shape) != self.axes:
                return None
        except (KeyError, TypeError, ValueError):
            return None
        kind = file_type(self.dtype)
        if len(content) != math.prod(shape) * kind.itemsize:
            return None
        return np.frombuffer(content, kind).reshape(shape).astype(self.dtype)  # a copy of its own, that may be written
