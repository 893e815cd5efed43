"""What can't be computed at once? Time by length while the work stays the same: fewer sequences, each longer.

What handles all positions together has the same to do, and takes the same time. A loop over positions does fewer things
in each of more steps, each waiting for the last one, so the machine is used worse and worse; how much worse depends on
the kernel. Some have more to do in longer sequences, whatever the batch: attention compares all pairs (unless it has
a window, whose pairs are as many as positions), and S4D makes a kernel as long as the sequence. Their times grow for
that reason.

`waits %` is the longest chain of operations that wait for each other (`apparatus/graph.py`) as a share of what the
chain would be if positions were done one after the other: n times that of one position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from regard.host.meter import Advance, ignore
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.clock import time_longer, time_sides
from regard.lab.apparatus.experiment import Conclusion, Experiment, Rows, Tables
from regard.lab.apparatus.graph import count_chain
from regard.lab.apparatus.lineup import LINEUP, SINGLE, Contestant, make_memory, run_openly, run_whole
from regard.lens.plot import Plot, make_series

WIDTH = 64
COUNTED = 256  # positions on which operations are counted
PATIENCE = 0.7  # seconds: who takes longer isn't asked for the next length
LOOPS, WHOLE = ("RNN", "LSTM", "GRU"), ("convolution", "mean pooling")  # of equal work at every length
GROWTH, TIMES = "time of the same work in short and in long sequences", "time by length"


class Parallel(Experiment):
    """Times of equal work by length, and the share of operations that wait."""

    name = "parallel"
    place = 40
    question = "What can't be computed at once?"
    claim = (
        "A recurrence waits for itself: in longer sequences the same work takes longer; all at once it takes the same."
    )
    method = (
        "Each mixer reads the same number of positions, as many short sequences or as few long ones. Mixers and "
        "lengths take turns, and the best of several rounds counts. Attention has more to do in long sequences, and "
        "so has S4D. Beside the times stands the share of operations that wait for each other, counted on the graph."
    )
    minutes = 1.5
    full_minutes = 8

    def measure(self, bench: Bench) -> Tables:
        work, rounds = bench.choose(4096, 16384), bench.choose(3, 7)
        lengths = [length for length in (16, 64, 256, 1024, 4096, 16384) if length <= work]
        torch.manual_seed(bench.seed)
        with bench.watch("lengths", len(lengths) + 1) as advance:
            times = time_lengths({name: LINEUP[name] for name in SINGLE}, lengths, work, rounds, advance)
        with bench.watch("operations", len(SINGLE)) as advance:
            shares = {}
            for name in SINGLE:
                shares[name] = share_waiting(LINEUP[name], COUNTED)
                advance()
        return {GROWTH: compare_ends(times, shares), TIMES: times}

    def conclude(self, tables: Tables) -> Conclusion:
        rows = {row["mixer"]: row for row in tables[GROWTH]}
        loops, whole = ({name: rows[name]["times"] for name in names} for names in (LOOPS, WHOLE))
        least, most = min(loops, key=lambda name: loops[name]), max(whole, key=lambda name: whole[name])
        first = rows[least]
        told = (
            f"From {first['short']} to {rows['RNN']['long']} positions at equal work, training takes "
            f"{', '.join(f'{name} {loops[name]:.1f}' for name in LOOPS)} times as long, and "
            f"{' and '.join(f'{name} {whole[name]:.1f}' for name in WHOLE)}; {rows['RNN']['waits %']:.0f} % of the "
            f"RNN's operations wait for each other, and {rows['attention']['waits %']:.1f} % of attention's."
        )
        return Conclusion(loops[least] > whole[most], told)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        training, forward = (
            make_series(tables[TIMES], "mixer", "length", name) for name in ("training ms", "forward ms")
        )
        waits = [{"mixer": row["mixer"], "what": "waits", "share": row["waits %"]} for row in tables[GROWTH]]
        both = ("across", "down")
        return [
            Plot("Forward and backward at equal work", "positions in a sequence", "ms", training, both),
            Plot("Forward at equal work", "positions in a sequence", "ms", forward, both),
            Plot(
                f"Operations that wait for each other, of {COUNTED} positions",
                "",
                "%",
                make_series(waits, "what", "mixer", "share"),
            ),
        ]


def time_lengths(
    contestants: Mapping[str, Contestant], lengths: Sequence[int], work: int, rounds: int, advance: Advance = ignore
) -> Rows:
    """Milliseconds of a pass forward, and of one forward and backward, over `work` positions by their length."""
    rows: list[dict[str, Any]] = []
    every: dict[str, Callable[[], object]] = {}
    slow: set[str] = set()
    for length in lengths:
        batch = work // length
        asked = [name for name in contestants if name not in slow]
        passes = {name: make_passes(contestants[name], batch, length) for name in asked}
        every |= {f"{name} {length} forward": forward for name, (forward, _) in passes.items()}
        every |= {f"{name} {length} training": training for name, (_, training) in passes.items()}
        seconds = time_sides({name: training for name, (_, training) in passes.items()}, 1)
        slow |= {name for name in asked if seconds[name] > PATIENCE}
        rows += [{"mixer": name, "length": length, "batch": batch} for name in asked]
        advance()
    # lengths are compared, so they take turns too: a machine that slows down meanwhile would bend the curves
    best = time_longer(every, rounds)
    for row in rows:
        for kind in ("forward", "training"):
            row[f"{kind} ms"] = 1e3 * best[f"{row['mixer']} {row['length']} {kind}"]
    advance()
    return rows


def make_passes(contestant: Contestant, batch: int, length: int) -> tuple[Callable[[], object], Callable[[], object]]:
    """A pass forward, and one forward and backward, over random positions."""
    mixer, x = contestant.build(WIDTH), torch.randn(batch, length, WIDTH, requires_grad=True)
    memory = make_memory(mixer, batch, WIDTH)
    return lambda: run_whole(mixer, x, memory), lambda: run_whole(mixer, x, memory).sum().backward()


def share_waiting(contestant: Contestant, length: int) -> float:
    """The longest chain of operations, by that of so many positions one after the other."""
    chains = {}
    for positions in (1, length):
        mixer, x = contestant.build(WIDTH), torch.randn(1, positions, WIDTH, requires_grad=True)
        y = run_openly(mixer, x, contestant.opened, make_memory(mixer, 1, WIDTH))
        chains[positions] = count_chain(y, x)
    # a step that begins with what came before has a longer chain than a first one, which has nothing before it
    return min(1.0, chains[length] / (length * chains[1]))


def compare_ends(times: Rows, shares: Mapping[str, float]) -> Rows:
    """Each mixer's shortest sequences beside its longest."""
    rows = []
    for name, share in shares.items():
        own = [row for row in times if row["mixer"] == name]
        first, last = own[0], own[-1]
        rows.append(
            {
                "mixer": name,
                "waits %": 100 * share,
                "short": first["length"],
                "training ms": first["training ms"],
                "long": last["length"],
                "training ms, long": last["training ms"],
                "times": last["training ms"] / first["training ms"],
                "times forward": last["forward ms"] / first["forward ms"],
            }
        )
    return rows
