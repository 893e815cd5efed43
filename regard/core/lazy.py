"""A property that is computed when it is first asked for, and kept.

`functools.cached_property` does the same with a lock in Python 3.11, and a lock breaks a compiled graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - a decorator, as `property` is
    """Decorates a method; what it returned takes its place on the object."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self.make, self.name = make, make.__name__
        self.__doc__ = make.__doc__

    def __get__(self, owner: Any, kind: type) -> T:
        value = self.make(owner)
        setattr(owner, self.name, value)
        return value
