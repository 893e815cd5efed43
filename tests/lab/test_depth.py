"""What holds a stack up: models as they are composed, gradients against differences, and what tables say."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.core.block import Place
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import choose_experiment
from regard.lab.apparatus.prediction import predict_references
from regard.lab.depth import (
    BLOCKS,
    HELD,
    NORMS,
    compare_ends,
    compose,
    describe_run,
    find_deepest,
    find_goal,
    measure_blocks,
    measure_unigrams,
)
from regard.runs.folder import Run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A stack of two blocks after a few steps."""
    tree = describe_run(2, "pre", True, 500)
    tree["corpus"] |= {"train": 300, "test": 10}
    return Bench(tmp_path_factory.mktemp("depth")).train({"run": tree})["run"]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("residual", [True, False])
def test_a_stack_has_the_norms_and_residuals_that_it_is_asked_for(norm: Place | None, residual: bool) -> None:
    model = compose(3, norm, residual).build()
    assert model.decoder is not None
    for block in model.decoder.layers():
        for sublayer in block.sublayers:
            assert sublayer.residual is residual
            assert (sublayer.norm is not None) == (norm is not None)
            assert (sublayer.after is not None) == (norm == "sandwich")
    assert (model.decoder.norm is not None) == (norm in ("pre", "sandwich"))


def test_gradients_of_blocks_are_those_of_the_loss(run: Run) -> None:
    """A step along one block's gradient lowers the loss by the square of its norm."""
    torch.manual_seed(3)
    model = compose(2, "pre", True).build().double()
    first, _ = measure_blocks(model, run)
    assert model.decoder is not None
    weights = list(model.decoder.blocks[0].parameters())
    task = run.spec.task.adapt_to(model.spec).build(run.prepared(), run.spec.batches, run.spec.seed)
    batch = next(task.batches(0, 0)).batch

    def measure_loss() -> float:
        return float(task.loss(model, batch).detach()) / task.size(batch)

    before, step = measure_loss(), 1e-3
    with torch.no_grad():
        for weight in weights:
            assert weight.grad is not None
            weight.sub_(weight.grad, alpha=step)
    assert (before - measure_loss()) / step == pytest.approx(first**2, rel=0.05)


def test_unigrams_are_counted(run: Run) -> None:
    prepared = run.prepared()
    tokenizer = prepared.lexicon.tokenizers[1]
    counts = dict.fromkeys(range(len(tokenizer)), 1)
    for number in range(len(prepared)):
        for token in (*prepared.columns["target"][number], tokenizer.end):
            counts[int(token)] += 1
    whole = sum(counts.values())
    tokens = [
        t for sample in prepared.samples("test") for t in (*tokenizer.encode([sample["target"]])[0], tokenizer.end)
    ]
    wanted = -sum(math.log(counts[token] / whole) for token in tokens) / len(tokens)
    assert measure_unigrams(run) == pytest.approx(wanted)


def test_forecasts_are_those_of_an_evaluation(run: Run, tmp_path: Path) -> None:
    found = predict_references(run)
    assert found.loss == pytest.approx(Bench(tmp_path).evaluate(run, beam=1, max_tokens=5)["loss"], rel=1e-5)
    assert abs(float(torch.tensor(found.logs).exp().sum(1).sub(1).abs().max())) < 1e-9


def test_training_is_decided_by_half_of_the_way() -> None:
    goal = find_goal(5.0, 3.0)
    assert goal == 4.0 and find_goal(5.0, 6.0) == 5.0
    assert find_deepest((4, 8, 16), [3.0, 4.0, 4.1], goal) == 8
    assert find_deepest((4, 8, 16), [3.0], goal) == 4
    assert find_deepest((4, 8, 16), [math.nan, 3.0], goal) is None


def make_tables(deepest: dict[tuple[str, bool], int | None]) -> dict[str, Any]:
    held = [
        {"norm": norm, "residual": on, "first/last": 0.5, "loss at 4": 3.0, "loss at 8": None, "deepest": depth}
        | {"trains below": 4.0}
        for (norm, on), depth in deepest.items()
    ]
    blocks = [
        {"norm": norm, "residual": on, "depth": 8, "block": n, "gradient": float(n)}
        for norm, on in deepest
        for n in (1, 2)
    ]
    return {HELD: held, BLOCKS: blocks}


CELLS: list[tuple[str, bool]] = [(norm or "none", residual) for norm in NORMS for residual in (True, False)]


def test_what_the_tables_say() -> None:
    experiment = choose_experiment("depth")
    nothing: dict[tuple[str, bool], int | None] = dict.fromkeys(CELLS)
    shown = make_tables(nothing | {("pre", True): 8, ("none", True): 4, ("post", True): 4})
    found = experiment.conclude(shown)
    assert found.shown and "8 blocks trained with the norm before" in found.sentence
    assert "without residuals, no depth that was tried" in found.sentence
    for better in (("pre", False), ("none", True), ("post", True)):
        reached = 16 if better == ("post", True) else 8
        tables = make_tables(nothing | {("pre", True): 8} | {better: reached})
        assert not experiment.conclude(tables).shown
    assert compare_ends(shown[BLOCKS], None, True, 8) == 0.5
    gradients, losses = experiment.draw(shown)
    assert len(gradients.series) == 8 and losses.guides and gradients.png() and losses.png()
