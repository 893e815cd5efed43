"""Draw a model without building it: modules made here have shapes and no memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

FILLS = {Tensor.normal_, Tensor.uniform_} | {
    fill for name, fill in vars(nn.init).items() if name.endswith("_") and callable(fill)
}


class _Unfilled(TorchFunctionMode):
    """Leave new weights alone: filling what has no memory only costs time (torch loads its compiler for it)."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func in FILLS:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


@contextmanager
def blueprint() -> Iterator[None]:
    with torch.device("meta"), _Unfilled():
        yield
