"""How far apart are two words? Operations between the first position and the last, counted on the autograd graph.

The *path* is the shortest way that a signal can take (the "maximum path length" of Vaswani et al. 2017, table 1, which
is that of the two positions that are furthest apart). The *chain* is the longest row of operations that wait for each
other (their "sequential operations"). Both are counted by `apparatus/graph.py`, which says what one operation is.

A mixer that sees some neighbours only is stacked until the last position sees the first, as one must to connect them.
Loops that a kernel hides are counted where they are in the open: a recurrence as it runs when somebody watches (which
adds one addition a step), Mamba's scan position by position. Attention, a mean and S4D's convolution have no loop: each
is a few operations over all positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from regard.core.mixer import Mixer
from regard.errors import InputError
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Tables
from regard.lab.apparatus.fit import fit_growth
from regard.lab.apparatus.graph import count_chain, count_path
from regard.lab.apparatus.lineup import LINEUP, Contestant, make_memory, run_openly, run_whole
from regard.lens.plot import Plot, make_series

WIDTH = 8
GROWTH, COUNTS = "operations between the first position and the last", "operations by length"


class Distance(NamedTuple):
    """How far the last position is from the first."""

    layers: int  # so many are needed
    path: int
    chain: int


class Paths(Experiment):
    """Shortest paths and longest chains by length, and how they grow."""

    name = "paths"
    place = 30
    question = "How far apart are two words?"
    claim = "Far words are O(n) steps apart in a recurrence, O(log n) in dilated convolutions, O(1) in attention."
    method = (
        "On the graph that autograd keeps of each mixer we count the operations on the shortest way from the first "
        "position to the last, and the longest chain of operations that wait for each other. Mixers that see a few "
        "neighbours are stacked until the last position sees the first. Then we fit how both counts grow with n."
    )
    minutes = 0.5
    full_minutes = 4

    def measure(self, bench: Bench) -> Tables:
        lengths = bench.choose((8, 16, 32, 64, 128), (8, 16, 32, 64, 128, 256, 512))
        growth, counts = [], []
        with bench.watch("mixers", len(LINEUP)) as advance:
            for name, contestant in LINEUP.items():
                found = {length: measure_distance(contestant, length, bench.seed) for length in lengths}
                counts += [{"mixer": name, "n": length, **way._asdict()} for length, way in found.items()]
                furthest = found[lengths[-1]]
                growth.append(
                    {
                        "mixer": name,
                        "n": lengths[-1],
                        "layers": furthest.layers,
                        "path": furthest.path,
                        "path grows": fit_growth(lengths, [way.path for way in found.values()]),
                        "chain": furthest.chain,
                        "chain grows": fit_growth(lengths, [way.chain for way in found.values()]),
                        "counted": contestant.opened,
                    }
                )
                advance()
        return {GROWTH: growth, COUNTS: counts}

    def conclude(self, tables: Tables) -> Conclusion:
        rows = {row["mixer"]: row for row in tables[GROWTH]}
        recurrent, dilated, attention = rows["RNN"], rows["dilated convolution"], rows["attention"]
        shown = (recurrent["path grows"], dilated["path grows"], attention["path grows"]) == (
            "O(n)",
            "O(log n)",
            "O(1)",
        )
        told = (
            f"Between the first and the last of {recurrent['n']} positions lie {recurrent['path']} operations in an "
            f"RNN, which grow as {recurrent['path grows']}; {dilated['path']} in dilated convolutions, "
            f"{dilated['path grows']}; and {attention['path']} in attention, {attention['path grows']}."
        )
        return Conclusion(shown, told)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        paths, chains = (make_series(tables[COUNTS], "mixer", "n", name) for name in ("path", "chain"))
        both = ("across", "down")
        return [
            Plot("Shortest path between the first position and the last", "positions", "operations", paths, both),
            Plot("Longest chain of operations that wait", "positions", "operations", chains, both),
        ]


def measure_distance(contestant: Contestant, length: int, seed: int) -> Distance:
    """Path and chain in the shallowest stack of a mixer in which the last of `length` positions sees the first."""
    torch.manual_seed(seed)
    layers = [build_layer(contestant)]
    way = _count(layers, contestant, length)
    if way is None:
        reach = measure_reach(layers[0], length)
        while reach < length - 1:
            layers.append(build_layer(contestant, len(layers)))
            reach += measure_reach(layers[-1], length)
        way = _count(layers, contestant, length)
    if way is None:
        raise InputError(f"the last of {length} positions doesn't see the first, through {len(layers)} layers")
    return way


def build_layer(contestant: Contestant, layer: int = 0) -> Mixer:
    """A mixer in double precision: through 64 gated layers, what is small becomes 0 in single precision."""
    return contestant.build(WIDTH, layer).double()


def measure_reach(mixer: Mixer, length: int) -> int:
    """How many positions back the last one sees."""
    x = torch.randn(1, length, WIDTH, dtype=torch.double, requires_grad=True)
    (gradient,) = torch.autograd.grad(run_whole(mixer, x, make_memory(mixer, 1, WIDTH, x.dtype))[:, -1].sum(), x)
    return length - 1 - int(gradient[0].any(-1).int().argmax())


def _count(layers: Sequence[Mixer], contestant: Contestant, length: int) -> Distance | None:
    x = torch.randn(1, length, WIDTH, dtype=torch.double, requires_grad=True)
    y = x
    for mixer in layers:
        y = run_openly(mixer, y, contestant.opened, make_memory(mixer, 1, WIDTH, x.dtype))
    path = count_path(y[:, -1], x, 0)
    return None if path is None else Distance(len(layers), path, count_chain(y, x))
