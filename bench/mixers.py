"""Ratios that the design promises, measured in one run: `python bench/mixers.py [--json] [--strict]`.

The sides of a ratio take turns, and the best of several rounds counts: machines are noisy, and a ratio of best times is
the part that repeats. Whole sequences are forward and backward at (batch 8, time 1024, width 256).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.core.mixer import Mixer
from regard.core.state import State
from regard.core.view import View
from regard.host.machine import keep_memory, peak_memory
from regard.mixers.attention import Attention
from regard.mixers.mamba import Mamba
from regard.mixers.recurrent import Recurrent

BATCH, TIME, WIDTH, HEADS = 8, 1024, 256, 8


@dataclass
class Ratio:
    """One promise: two measurements, their ratio, and the bar."""

    name: str
    ours: float
    other: float
    ratio: float
    bar: str
    holds: bool
    unit: str = "ms"


def best(sides: list[Callable[[], object]], rounds: int) -> list[float]:
    """Milliseconds of each side, taking turns; the first round only warms up."""
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(rounds + 1):
        for side, mine in zip(sides, times, strict=True):
            began = time.perf_counter()
            side()
            mine.append((time.perf_counter() - began) * 1000)
    return [min(mine[1:]) for mine in times]


def at_most(name: str, ours: float, other: float, bar: float, unit: str = "ms") -> Ratio:
    return Ratio(name, ours, other, ours / other, f"at most {bar}", ours / other <= bar, unit)


def learn(mixer: Mixer, x: Tensor) -> None:
    mixer(x, View.of(x)).sum().backward()


def attention(x: Tensor) -> Ratio:
    """Our mixer against the bare kernel and its four projections."""
    ours = Attention(heads=HEADS, causal=True).build(WIDTH)
    query, key, value, output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def bare() -> None:
        q, k, v = (part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (query, key, value))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        output(y.transpose(1, 2).flatten(2)).sum().backward()

    mine, theirs = best([lambda: learn(ours, x), bare], 9)
    return at_most("attention / bare fused kernel with projections", mine, theirs, 1.1)


def recurrence(x: Tensor) -> Ratio:
    ours = Recurrent(cell="lstm").build(WIDTH)
    theirs = nn.LSTM(WIDTH, WIDTH, batch_first=True)
    mine, other = best([lambda: learn(ours, x), lambda: theirs(x)[0].sum().backward()], 9)
    return at_most("LSTM / nn.LSTM", mine, other, 1.1)


def scan(x: Tensor) -> Ratio:
    """The whole sequence at once against the same mixer position by position, both forward and backward."""
    mixer = Mamba().build(WIDTH)

    def step() -> None:
        state = mixer.start(BATCH, View.of(x))
        outputs = []
        for at in x.split(1, 1):
            outputs.append(mixer(at, View.of(at, state=state), state))
        torch.cat(outputs, 1).sum().backward()

    whole, stepping = best([lambda: learn(mixer, x), step], 4)
    return Ratio("Mamba step by step / whole", stepping, whole, stepping / whole, "at least 10", stepping >= 10 * whole)


def memory() -> Ratio:
    """Peak memory of Mamba's forward and backward: from 4096 to 8192 it grows twice as much as from 2048 to 4096."""
    peaks = []
    for length in (2048, 4096, 8192):
        command = [sys.executable, __file__, "--peak", str(length)]
        peaks.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    first, second = peaks[1] - peaks[0], peaks[2] - peaks[1]
    holds = 1.6 <= second / first <= 2.4
    return Ratio(
        "Mamba memory, 4096 to 8192 / 2048 to 4096", second, first, second / first, "2, within 0.4", holds, "MB"
    )


def peak(length: int) -> float:
    """Megabytes at most, in a process that does nothing else."""
    mixer, x = Mamba().build(WIDTH), torch.randn(BATCH, length, WIDTH, requires_grad=True)
    learn(mixer, x)
    return peak_memory() / 2**20


@torch.no_grad()
def growth() -> Ratio:
    """One step after 1,000 positions that came one by one, against one after 999 in buffers made for them."""
    mixer = Attention(heads=HEADS, causal=True).build(WIDTH).eval()
    token = torch.randn(BATCH, 1, WIDTH)

    def filled(positions: int, room: int, one_by_one: bool) -> State:
        view = View.of(token[:, :0])
        view.room = room
        state = mixer.start(BATCH, view)
        assert state is not None
        prompt = torch.randn(BATCH, positions, WIDTH)
        for chunk in prompt.split(1 if one_by_one else positions, 1):
            mixer(chunk, View.of(chunk, state=state), state)
        return state

    def step(state: State) -> Callable[[], None]:
        length = state.length

        def run() -> None:
            for _ in range(20):
                mixer(token, View.of(token, state=state), state)
                state.rewind(length)

        return run

    grown, made = filled(1000, 0, True), filled(999, 1000, False)
    mine, other = best([step(grown), step(made)], 15)
    return at_most("attention step after 1,000 / after 999 allocated", mine / 20, other / 20, 1.2)


def show(ratios: list[Ratio]) -> None:
    print(f"{'':50} {'one':>10} {'other':>10}    {'ratio':>6}  bar")
    for r in ratios:
        verdict = "" if r.holds else "   MISSED"
        print(f"{r.name:50} {r.ours:10.2f} {r.other:10.2f} {r.unit} {r.ratio:6.2f}  {r.bar}{verdict}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    parser.add_argument("--strict", action="store_true", help="end with status 1 when a bar is missed")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    words = parser.parse_args()
    torch.manual_seed(0)
    if words.peak:
        print(peak(words.peak))
        return
    keep_memory()
    x = torch.randn(BATCH, TIME, WIDTH, requires_grad=True)
    ratios = [attention(x), recurrence(x), scan(x), memory(), growth()]
    if words.json:
        for ratio in ratios:
            print(json.dumps(asdict(ratio)))
    else:
        show(ratios)
    if words.strict and not all(ratio.holds for ratio in ratios):
        sys.exit(1)


if __name__ == "__main__":
    main()
