"""What the machine itself allows: how fast its memory is read, in one long sum by all threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.harness import serve

TURNS = 5


def read_memory(settings: Mapping[str, Any]) -> Callable[[], float]:
    """Tokens a second if each cost no more than to read the weights once: bytes a second ÷ bytes of the weights."""
    import torch

    torch.set_num_threads(settings["threads"])
    # far larger than any cache; integers are summed as they come, without a chain of additions that waits
    held = torch.ones(settings["megabytes"] * 2**17, dtype=torch.int64)

    def measure() -> float:
        best = float("inf")
        for _ in range(TURNS):
            began = time.perf_counter()
            held.sum()
            best = min(best, time.perf_counter() - began)
        return held.nbytes / best / settings["bytes"]

    measure()
    return measure


if __name__ == "__main__":
    serve({"read_memory": read_memory}, "torch")
