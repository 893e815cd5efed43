"""What it costs to watch: a forward pass of GPT-2 at 512 tokens with one head of one layer watched, and with nobody.

Alternating, best of several: `python bench/watching.py`. The bar is 1.15.
"""

from __future__ import annotations

import time

import torch

from regard.core.probe import Record
from regard.models import preset

TOKENS, TURNS = 512, 15
CASES = {
    "nobody": None,
    "one layer's weights": "decoder.blocks.6.mix.weights",
    "one layer's queries": "decoder.blocks.6.mix.query",
    "all streams": "*.stream",
    "all weights": "*.weights",
}


@torch.no_grad()
def measure() -> dict[str, float]:
    """The best time of each case, in seconds."""
    model = preset("gpt2").build().eval()
    tokens = torch.randint(50000, (1, TOKENS), generator=torch.Generator().manual_seed(0))
    best = dict.fromkeys(CASES, float("inf"))
    for _ in range(TURNS):
        for name, pattern in CASES.items():
            record = None if pattern is None else Record(pattern)
            start = time.perf_counter()
            model(tokens, probe=record)
            if record is not None and name == "one layer's weights":
                record[pattern or ""][:, 3].clone()  # the one head
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def main() -> None:
    found = measure()
    for name, seconds in found.items():
        print(f"{name:22} {1000 * seconds:8.1f} ms   {seconds / found['nobody']:.3f}")


if __name__ == "__main__":
    main()
