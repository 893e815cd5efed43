"""What does length cost? Time and memory of training and of one generated token, by the number of positions.

One sequence, one layer, a small width: so that what grows with length shows, and not what grows with width. Memory of
training is measured as the bytes that autograd keeps for the backward pass, weights and inputs aside, each storage
counted once; that of generation as the bytes of the state. Attention's fused kernel never keeps the matrix of all
pairs, so its time is quadratic and its memory isn't. A window that is much shorter than the sequence is attended block
by block, so time and memory grow as the sequence does; in a short one it hides pairs by a table of all of them.

Exponents are fitted to the four longest lengths that were measured: with three, what still fits a cache decides too
much. Who takes too long for one length isn't asked for the next, and neither is who would need too much memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.mixer import Mixer
from regard.host.meter import Advance, ignore
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.clock import time_longer, time_sides
from regard.lab.apparatus.experiment import Conclusion, Experiment, Rows, Tables
from regard.lab.apparatus.fit import fit_exponent
from regard.lab.apparatus.lineup import LINEUP, SINGLE, Contestant, advance_state, begin, make_memory, run_whole
from regard.lens.plot import Plot, make_series

WIDTH = 32
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
MOST = 2**30  # bytes that may be kept for a backward pass
CHUNK = 512  # positions by which a state is filled
STEPS = 8  # tokens that are timed together
UPPER = 4  # lengths that an exponent is fitted to
QUADRATIC, LINEAR = (1.7, 2.1), (0.9, 1.1)  # exponents that pass for n² and for n
COSTS, LENGTH, CROSSINGS = "cost of the longest sequence", "cost by length", "where a mixer gets cheaper than attention"
# each cost with the name of its exponent
EXPONENTS = {"training s": "s: n^", "MB": "MB: n^", "token ms": "ms: n^", "state kB": "kB: n^"}


@dataclass(frozen=True)
class Effort:
    """How much is done to measure."""

    rounds: int = 3
    patience: float = 2.0  # seconds of one training pass: who takes longer isn't asked for the next length


class Scaling(Experiment):
    """Time and memory by length, their exponents, and where curves cross."""

    name = "scaling"
    place = 50
    question = "What does length cost?"
    claim = "Training attention costs n², a recurrence or Mamba n; their state stays as it is, and attention's grows."
    method = (
        "One layer of each mixer reads one sequence, forward and backward, and then generates tokens after it. Times "
        "are the best of several rounds in which mixers and lengths take turns; memory is what is kept for the "
        "backward pass, and the state. Exponents are fitted to the four longest sequences that didn't take too long."
    )
    minutes = 2.5
    full_minutes = 20

    def measure(self, bench: Bench) -> Tables:
        effort = bench.choose(Effort(), Effort(rounds=7, patience=10.0))
        torch.manual_seed(bench.seed)
        with bench.watch("lengths", len(LENGTHS) + 1) as advance:
            rows = measure_lengths({name: LINEUP[name] for name in SINGLE}, LENGTHS, effort, advance)
        costs = [sum_up([row for row in rows if row["mixer"] == name]) for name in SINGLE]
        return {COSTS: costs, LENGTH: rows, CROSSINGS: compare_with(rows, "attention")}

    def conclude(self, tables: Tables) -> Conclusion:
        rows = {row["mixer"]: row for row in tables[COSTS]}
        exponents = {name: rows[name]["s: n^"] for name in ("attention", "LSTM", "Mamba")}
        states = {name: rows[name]["kB: n^"] for name in exponents}
        shown = (
            _lies(exponents["attention"], QUADRATIC)
            and _lies(exponents["LSTM"], LINEAR)
            and _lies(exponents["Mamba"], LINEAR)
            and states["attention"] is not None
            and states["attention"] > 0.9
            and states["LSTM"] == states["Mamba"] == 0
        )
        told = ", ".join(f"{name}'s as n^{_show(exponent)}" for name, exponent in exponents.items())
        crossings = {row["mixer"]: row["training"] for row in tables[CROSSINGS]}
        sentence = (
            f"Time of training grows with length: {told}; an LSTM is cheaper to train than attention "
            f"{crossings['LSTM']}, Mamba {crossings['Mamba']}; after {rows['attention']['n']:,} positions attention "
            f"remembers {rows['attention']['state kB']:,.0f} kB, an LSTM {rows['LSTM']['state kB']:.2g}."
        )
        return Conclusion(shown, sentence)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        titles = {
            "training s": ("Training on one sequence", "seconds"),
            "MB": ("Kept for the backward pass", "MB"),
            "token ms": ("One generated token", "ms"),
            "state kB": ("State", "kB"),
        }
        return [
            Plot(title, "positions", unit, make_series(tables[LENGTH], "mixer", "n", cost), ("across", "down"))
            for cost, (title, unit) in titles.items()
        ]


def measure_lengths(
    contestants: Mapping[str, Contestant], lengths: Sequence[int], effort: Effort, advance: Advance = ignore
) -> list[dict[str, Any]]:
    """All four costs of each mixer at each length that it isn't too slow or too large for."""
    rows: list[dict[str, Any]] = []
    passes: dict[str, Callable[[], object]] = {}
    asked = list(contestants)
    for length in lengths:
        mixers = {name: contestants[name].build(WIDTH) for name in asked}
        x = torch.randn(1, length, WIDTH, requires_grad=True)
        kept = {name: count_kept(mixer, x) for name, mixer in mixers.items()}
        sides = {name: make_pass(mixer, x) for name, mixer in mixers.items()}
        passes |= {_label(name, length): side for name, side in sides.items()}
        training, tokens = time_sides(sides, 1), time_tokens(mixers, x, 2 * effort.rounds)
        for name in asked:
            rows.append(
                {"mixer": name, "n": length, "training s": training[name], "MB": kept[name] / 2**20, **tokens[name]}
            )
        # of twice the length, what is quadratic needs four times as much
        asked = [name for name in asked if training[name] < effort.patience and 4 * kept[name] < MOST]
        advance()
    # an exponent compares lengths, so they take turns too: a machine that slows down meanwhile would bend the curves
    again = time_longer(passes, effort.rounds - 1)
    for row in rows:
        row["training s"] = min(row["training s"], again[_label(row["mixer"], row["n"])])
    advance()
    return rows


def time_tokens(mixers: Mapping[str, Mixer], x: Tensor, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of one more token after a sequence, and the size of what is remembered of it."""
    steps = {name: make_steps(mixer, x) for name, mixer in mixers.items()}
    seconds = time_sides({name: step for name, (step, _) in steps.items()}, rounds)
    return {
        name: {"token ms": 1e3 * seconds[name] / STEPS, "state kB": size / 2**10} for name, (_, size) in steps.items()
    }


def _label(name: str, length: int) -> str:
    return f"{name} {length}"


def make_pass(mixer: Mixer, x: Tensor) -> Callable[[], object]:
    """Forward and backward over one sequence."""
    memory = make_memory(mixer, 1, WIDTH)
    return lambda: run_whole(mixer, x, memory).sum().backward()


def count_kept(mixer: Mixer, x: Tensor) -> int:
    """Bytes that autograd keeps for the backward pass; weights and the input are there anyway."""
    memory = make_memory(mixer, 1, WIDTH)
    known = {tensor.untyped_storage().data_ptr() for tensor in (x, *mixer.parameters())}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        y = run_whole(mixer, x, memory)  # bound, so that what is kept stays, and no storage is used twice
    del y
    return sum(kept.values())


@torch.no_grad()
def make_steps(mixer: Mixer, x: Tensor) -> tuple[Callable[[], object], int]:
    """A few more tokens after a sequence, and the bytes of what is remembered before them."""
    memory = make_memory(mixer, 1, WIDTH)
    state = begin(mixer, x, x.shape[1], memory)
    for chunk in x.split(CHUNK, 1):
        advance_state(mixer, chunk, state, memory)
    token = x[:, :1].detach()

    @torch.no_grad()
    def step() -> None:
        for _ in range(STEPS):
            advance_state(mixer, token, state, memory)

    return step, state.nbytes


def sum_up(rows: Rows) -> dict[str, Any]:
    """One mixer's costs at its longest length, each with its exponent over the last few."""
    last, upper = rows[-1], rows[-UPPER:]
    summary: dict[str, Any] = {"mixer": last["mixer"], "n": last["n"]}
    for cost, exponent in EXPONENTS.items():
        summary[cost] = last[cost]
        summary[exponent] = None
        if len(upper) == UPPER and all(row[cost] > 0 for row in upper):
            # + 0.0: a zero without a sign
            summary[exponent] = (
                round(fit_exponent([row["n"] for row in upper], [row[cost] for row in upper]).slope, 3) + 0.0
            )
    return summary


def compare_with(rows: Rows, name: str) -> Rows:
    """From which length on each mixer costs less than the one that is named, in training and for a token."""
    curves: dict[str, dict[int, Mapping[str, Any]]] = {}
    for row in rows:
        curves.setdefault(row["mixer"], {})[row["n"]] = row
    told = {"training": "training s", "token": "token ms"}
    found = []
    for other, curve in curves.items():
        if other != name:
            lengths = [length for length in curve if length in curves[name]]
            pairs = {
                kind: [(length, curve[length][cost], curves[name][length][cost]) for length in lengths]
                for kind, cost in told.items()
            }
            found.append({"mixer": other} | {kind: find_crossing(points) for kind, points in pairs.items()})
    return found


def find_crossing(points: Sequence[tuple[int, float, float]]) -> str:
    """Where the first of two curves falls below the second for good; between two lengths, by lines on log axes."""
    gaps = [(math.log(length), math.log(first / second)) for length, first, second in points]
    if gaps[-1][1] >= 0:
        return f"not up to {points[-1][0]:,}"
    above = [at for at, (_, gap) in enumerate(gaps) if gap >= 0]
    if not above:
        return "at all lengths"
    (left, high), (right, low) = gaps[above[-1]], gaps[above[-1] + 1]
    return f"from about {float(f'{math.exp(left + (right - left) * high / (high - low)):.2g}'):,.0f}"


def _lies(exponent: float | None, bounds: tuple[float, float]) -> bool:
    return exponent is not None and bounds[0] <= exponent <= bounds[1]


def _show(exponent: float | None) -> str:
    return "?" if exponent is None else f"{exponent:.2f}"
