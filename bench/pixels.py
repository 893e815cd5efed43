"""Mixers of planes, measured in one run: `python bench/pixels.py [--json] [--strict] [--steps]`.

A whole picture against the same mixer pixel by pixel, forward at batch 16 and 28×28 pixels. The sides of a ratio take
turns, and the best of several rounds counts. With `--steps`: milliseconds of a training step of each preset of pixels.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

import regard
from regard.core.grid import Grid
from regard.core.mixer import Mixer
from regard.core.view import View
from regard.host.machine import keep_memory
from regard.mixers.diagonal import DiagonalLSTM
from regard.mixers.masked import Masked
from regard.mixers.row import RowLSTM

BATCH, SIDE = 16, 28
SPECS = (DiagonalLSTM(), RowLSTM(), Masked())
PRESETS = ("pixelcnn", "pixelrnn-row", "pixelrnn-diagonal", "pixel-gpt", "pixel-lstm", "pixel-mamba")


@dataclass
class Ratio:
    """One mixer's pixel loop against its whole pictures, in milliseconds."""

    name: str
    pixels: float
    whole: float
    ratio: float
    bar: int | None

    @property
    def holds(self) -> bool:
        return self.bar is None or self.ratio >= self.bar


def best(sides: list[Callable[[], object]], rounds: int) -> list[float]:
    """Milliseconds of each side, taking turns; the first round only warms up."""
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds + 1):
        for side, mine in zip(sides, times, strict=True):
            began = time.perf_counter()
            side()
            mine.append((time.perf_counter() - began) * 1000)
    return [min(mine[1:]) for mine in times]


def look(x: Tensor) -> View:
    view = View.of(x)
    view.grid = Grid(SIDE, SIDE)
    return view


@torch.no_grad()
def compare(mixer: Mixer, name: str, width: int) -> Ratio:
    """A whole picture against one pixel after the other."""
    x = torch.randn(BATCH, SIDE * SIDE, width)
    mixer.eval()

    def step() -> None:
        state = mixer.start(BATCH, look(x[:, :0]))
        assert state is not None
        for at in x.split(1, 1):
            view = View.of(at, state=state)
            view.grid = Grid(SIDE, SIDE)
            mixer(at, view, state)

    whole, stepping = best([lambda: mixer(x, look(x)), step], 4)
    return Ratio(f"{name}, width {width}", stepping, whole, stepping / whole, 10 if name == "diagonal" else None)


def train(name: str, batch: int) -> float:
    """Milliseconds of a training step, the best of several."""
    model = regard.preset(name).build().train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    pixels = torch.randint(2, (batch, SIDE * SIDE))
    inputs = F.pad(pixels[:, :-1], (1, 0), value=2)
    times = []
    for _ in range(4):
        began = time.perf_counter()
        optimizer.zero_grad()
        F.cross_entropy(model(inputs).flatten(0, 1), pixels.flatten()).backward()
        optimizer.step()
        times.append((time.perf_counter() - began) * 1000)
    return min(times[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    parser.add_argument("--strict", action="store_true", help="end with status 1 when a bar is missed")
    parser.add_argument("--steps", action="store_true", help="measure training steps of the presets instead")
    words = parser.parse_args()
    torch.manual_seed(0)
    keep_memory()
    if words.steps:
        for name in PRESETS:
            print(f"{name:20}", *(f"batch {batch}: {train(name, batch):8.1f} ms" for batch in (16, 64)), flush=True)
        return
    sizes = [(width, spec) for width in (32, 64) for spec in SPECS]
    ratios = [compare(spec.build(width), spec.kind, width) for width, spec in sizes]
    if words.json:
        for ratio in ratios:
            print(json.dumps(asdict(ratio)))
    else:
        print(f"{'':24} {'pixels':>10} {'whole':>10}     ratio")
        for r in ratios:
            verdict = "" if r.bar is None else f"  at least {r.bar}" + ("" if r.holds else "   MISSED")
            print(f"{r.name:24} {r.pixels:10.2f} {r.whole:10.2f} ms {r.ratio:6.2f}{verdict}")
    if words.strict and not all(ratio.holds for ratio in ratios):
        sys.exit(1)


if __name__ == "__main__":
    main()
