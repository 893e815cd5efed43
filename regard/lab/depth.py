"""What holds a deep stack up? Four places of the norm, with residuals and without: gradients by depth, and training.

A residual gives the gradient a way past each sublayer; a norm keeps what runs along that way from growing with the
depth. Where the norm stands on the way itself (post), it shrinks the gradient at each block; before a sublayer (pre)
it leaves the way free (He et al. 2016; Xiong et al. 2020).

A stack *trains* if its loss on the test sentences covers at least half of the way from the entropy of single tokens,
the best that can be done without reading, to what the shallowest stack with norms first and residuals reaches with
the same budget. Depths are tried from the shallowest on, until one doesn't train.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

import regard
from regard.core.block import Place
from regard.core.model import Model, ModelSpec
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Conclusion, Experiment, Rows, Tables
from regard.lab.apparatus.prediction import predict_references
from regard.lab.apparatus.recipe import make_translation
from regard.lens.plot import Plot, Point, make_series
from regard.parts.initial import Xavier
from regard.runs.folder import Run

NORMS: tuple[Place | None, ...] = ("pre", "post", "sandwich", None)
SHARE = 0.5  # of the shallowest stack's gain, from which on a stack is said to train
VOCABULARY = 400
HELD, BLOCKS = "what holds a stack up", "gradient of each block at the start"


class Depth(Experiment):
    """The same decoder with other norms and without residuals, at several depths."""

    name = "depth"
    place = 110
    question = "What holds a deep stack up?"
    claim = (
        "Residuals give the gradient a way down, and norms keep what runs along it from growing: "
        "only with both do deep stacks train, best with the norm before each sublayer."
    )
    method = (
        "A narrow decoder that translates, with its norms before, after, or before and behind each sublayer, or with "
        "none, each with and without residuals: the gradient of each block's weights on the first batch, and the test "
        "loss after the same few sentences at growing depths, until a depth doesn't train. All start by Xavier's rule "
        "and learn with one rate and one warm-up."
    )
    minutes = 1.5
    full_minutes = 25

    def measure(self, bench: Bench) -> Tables:
        depths, tokens = bench.choose((4, 16, 48), (4, 8, 16, 32, 64)), bench.choose(40_000, 120_000)
        alive = [(norm, residual) for norm in NORMS for residual in (True, False)]
        losses: dict[tuple[Place | None, bool], list[float]] = {cell: [] for cell in alive}
        first: Run | None = None
        baseline = goal = math.nan
        for depth in depths:
            trees = {_name(depth, *cell): describe_run(depth, *cell, tokens) for cell in alive}
            runs = bench.train(trees, lenient=True)
            if first is None:
                first = runs[_name(depth, *alive[0])]
                baseline = measure_unigrams(first)
            for cell in alive:
                name = _name(depth, *cell)
                losses[cell].append(math.nan if name in bench.diverged else predict_references(runs[name]).loss)
            goal = find_goal(baseline, losses["pre", True][0])
            alive = [cell for cell in alive if losses[cell][-1] <= goal]
        assert first is not None
        blocks = self._probe(bench, first, depths)
        rows = [
            {
                "norm": norm or "none",
                "residual": residual,
                "first/last": compare_ends(blocks, norm, residual, depths[-1]),
                **{f"loss at {depth}": lost for depth, lost in zip(depths, _pad(found, len(depths)), strict=True)},
                "deepest": find_deepest(depths, found, goal),
                "trains below": goal,
            }
            for (norm, residual), found in losses.items()
        ]
        return {HELD: rows, BLOCKS: blocks}

    def _probe(self, bench: Bench, run: Run, depths: Sequence[int]) -> Rows:
        cells = [(depth, norm, residual) for depth in depths for norm in NORMS for residual in (True, False)]
        rows = []
        with bench.watch("gradients of blocks", len(cells)) as advance:
            for depth, norm, residual in cells:
                torch.manual_seed(bench.seed)
                found = measure_blocks(compose(depth, norm, residual).build(), run)
                told = {"norm": norm or "none", "residual": residual, "depth": depth}
                rows += [{**told, "block": number + 1, "gradient": value} for number, value in enumerate(found)]
                advance()
        return rows

    def conclude(self, tables: Tables) -> Conclusion:
        rows = {(row["norm"], row["residual"]): row for row in tables[HELD]}
        deepest = {cell: row["deepest"] or 0 for cell, row in rows.items()}
        most = max(row["depth"] for row in tables[BLOCKS])
        reached = {norm: _count(deepest[norm, True]) for norm in ("pre", "post", "sandwich", "none")}
        plain = max(depth for (_, residual), depth in deepest.items() if not residual)
        told = (
            f"With residuals, {reached['pre']} trained with the norm before each sublayer, {reached['sandwich']} with "
            f"norms on both sides, {reached['post']} with the norm after the sum and {reached['none']} without norms; "
            f"without residuals, {_count(plain)}, whatever the norm; without either, the first of {most} blocks has "
            f"{rows['none', False]['first/last']:.0e} of the last one's gradient, and with both (norm before) "
            f"{rows['pre', True]['first/last']:.2g} times as much as it."
        )
        held = deepest["pre", True] > max(deepest[cell] for cell in rows if not cell[1])
        normed = deepest["pre", True] > deepest["none", True]
        best = deepest["pre", True] == max(deepest.values())
        return Conclusion(held and normed and best, told)

    def draw(self, tables: Tables) -> Sequence[Plot]:
        most = max(row["depth"] for row in tables[BLOCKS])
        named = [{**row, "stack": _label(row)} for row in tables[BLOCKS]]
        gradients = make_series([row for row in named if row["depth"] == most], "stack", "block", "gradient")
        columns = {int(name.split()[-1]): name for name in tables[HELD][0] if name.startswith("loss at ")}
        losses = {
            _label(row): [Point(depth, row[name]) for depth, name in columns.items() if row[name] is not None]
            for row in tables[HELD]
        }
        goal = tables[HELD][0]["trains below"]
        guide = {"trains below": [Point(depth, goal) for depth in columns]}
        return [
            Plot(
                f"Gradient of each of {most} blocks at the start",
                "block",
                "norm",
                gradients,
                ("down",),
                "A stack is left out where its gradient is too large for a number.",
            ),
            Plot("Test loss by depth", "blocks", "nats a token", losses, ("across", "down"), guides=guide),
        ]


def compose(depth: int, norm: Place | None, residual: bool) -> ModelSpec:
    """A narrow decoder of some depth, the package's own but for where its norms stand and whether it has residuals."""
    spec = regard.preset("decoder-tiny", width=32, depth=depth, heads=2, hidden=64, vocabulary=VOCABULARY)
    assert spec.decoder is not None
    (block,) = spec.decoder.blocks
    changed = block.replace(place=norm or "pre", norm=block.norm if norm else None, residual=residual)
    # the last norm belongs to norms that stand before a sublayer: behind a post norm it would be a second one
    closing = spec.decoder.norm if norm in ("pre", "sandwich") else None
    embedding = spec.decoder.embedding.replace(scale=True)  # so that tokens are of the size that Xavier's rule expects
    stack = spec.decoder.replace(blocks=(changed,), norm=closing, embedding=embedding)
    return spec.replace(decoder=stack, init=Xavier())


def describe_run(depth: int, norm: Place | None, residual: bool, tokens: int) -> dict[str, Any]:
    """The training of one stack; all else is equal."""
    model = compose(depth, norm, residual).model_dump(mode="json")
    # of 0.002, 0.004 and 0.008, by the loss of 4 and 16 blocks with pre norms on validation sentences, another seed;
    # deep stacks like a long warm-up
    tree = make_translation(model, tokens, rate=0.008, test=200, schedule={"kind": "linear", "warmup": 0.2})
    return tree | {
        "tokenizer": {"pieces": "bpe", "vocabulary": VOCABULARY},
        "batches": {"tokens": 256, "buckets": 40},
    }


def measure_unigrams(run: Run) -> float:
    """The cross-entropy of a run's test targets under the counts of its training targets, add-one, in nats a token.

    What a model does that knows how common tokens are and reads nothing.
    """
    prepared = run.prepared()
    tokenizer = prepared.lexicon.tokenizers[1]
    column = prepared.columns["target"]
    counts = np.ones(len(tokenizer))
    for number in range(len(column)):
        np.add.at(counts, [*column[number], tokenizer.end], 1)
    logs = np.log(counts / counts.sum())
    tests = tokenizer.encode([sample["target"] for sample in prepared.samples("test")])
    tokens = [token for row in tests for token in (*row, tokenizer.end)]
    return -float(logs[tokens].mean())


def find_goal(baseline: float, shallow: float) -> float:
    """The loss below which a stack is said to train; what doesn't do better than single tokens never does."""
    return baseline - SHARE * max(0.0, baseline - shallow)


def find_deepest(depths: Sequence[int], losses: Sequence[float], goal: float) -> int | None:
    """The last depth before the first that didn't train; None: not even the shallowest did."""
    found = None
    for depth, loss in zip(depths, losses, strict=False):
        if not loss <= goal:
            break
        found = depth
    return found


def measure_blocks(model: Model, run: Run) -> list[float]:
    """The norm of the gradient of each block's weights, on the first batch of a run's data."""
    task = run.spec.task.adapt_to(model.spec).build(run.prepared(), run.spec.batches, run.spec.seed)
    places = task.batches(0, 0)
    batch = next(places).batch
    places.close()
    (task.loss(model.train(), batch) / task.size(batch)).backward()
    assert model.decoder is not None
    norms = [
        [weight.grad.norm() for weight in block.parameters() if weight.grad is not None]
        for block in model.decoder.blocks
    ]
    return [float(torch.stack(found).norm()) for found in norms]


def compare_ends(rows: Rows, norm: Place | None, residual: bool, depth: int) -> float:
    """How large the gradient of the first block is, as a share of the last one's."""
    wanted = (norm or "none", residual, depth)
    values = [row["gradient"] for row in rows if (row["norm"], row["residual"], row["depth"]) == wanted]
    return float(values[0] / values[-1]) if values[-1] else math.nan


def _pad(values: Sequence[float], count: int) -> list[float | None]:
    return [*values, *[None] * (count - len(values))]


def _name(depth: int, norm: Place | None, residual: bool) -> str:
    return f"{norm or 'none'}-{'residual' if residual else 'plain'}-{depth}"


def _label(row: Mapping[str, Any]) -> str:
    return f"{row['norm']}, {'residual' if row['residual'] else 'no residual'}"


def _count(depth: int) -> str:
    return f"{depth} blocks" if depth else "no depth that was tried"
