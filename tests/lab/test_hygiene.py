"""Five habits: runs that differ in one setting each, paired differences by hand, and what tables say."""

from __future__ import annotations

import math
from typing import Any

import pytest

from regard.lab.apparatus.experiment import choose_experiment
from regard.lab.hygiene import DIFFERENCES, OFF, RUNS, WAYS, compare_ways, describe_run
from regard.runs.campaign import compare_told
from regard.runs.spec import RunSpec

TOLD = {
    "dropout": {"model.decoder.embedding.dropout", "model.decoder.blocks"},
    "label smoothing": {"task.smoothing"},
    "weight decay": {"train.optimizer.decay"},
    "averaging": {"train.ema"},
    "1/√N starts": {"model.init.residual"},
}


def read(way: str) -> RunSpec:
    return RunSpec.parse(describe_run(way, 1000, 100) | {"out": "nowhere"})


@pytest.mark.parametrize("way", WAYS)
def test_a_run_differs_in_one_habit(way: str) -> None:
    assert compare_told(read(OFF), read(way)).keys() == TOLD[way]


def test_a_scaled_start_is_smaller_by_the_root_of_the_sublayers() -> None:
    sizes = {}
    for way in (OFF, "1/√N starts"):
        choice = read(way).model
        assert choice is not None
        weights = dict(choice.spec.build().named_parameters())
        sizes[way] = [float(weights[f"decoder.blocks.{n}.ffn.inner.down.weight"].detach().std()) for n in range(4)]
    for plain, scaled in zip(sizes[OFF], sizes["1/√N starts"], strict=True):
        assert scaled / plain == pytest.approx(8**-0.5, rel=0.05)


def make_rows(changes: dict[str, tuple[float, ...]]) -> list[dict[str, Any]]:
    """Runs whose loss is moved by so much, seed by seed; seeds themselves differ far more."""
    cells = [(OFF, (0.0, 0.0, 0.0)), *changes.items()]
    return [
        {"what": what, "seed": seed, "loss": 2.0 + seed + moved[seed], "right": 0.5 - moved[seed] / 10}
        for what, moved in cells
        for seed in range(3)
    ]


def test_differences_are_paired() -> None:
    (row,) = compare_ways(make_rows({"dropout": (-0.1, -0.2, -0.3)}))
    half = 4.303 * 0.1 / math.sqrt(3)
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((-0.2, -0.2 - half, -0.2 + half))
    assert (row["off"], row["on"], row["right on"]) == pytest.approx((3.0, 2.8, 0.52))
    assert row["clear"] is False  # -0.2 ± 0.25
    (clear,) = compare_ways(make_rows({"dropout": (-0.2, -0.21, -0.22)}))
    assert clear["clear"] is True  # though the seeds differ by whole nats


def test_what_the_tables_say() -> None:
    experiment = choose_experiment("hygiene")
    helps, harms, nothing = (-0.2, -0.21, -0.22), (0.3, 0.31, 0.32), (-0.1, 0.1, 0.0)
    rows = make_rows(dict.fromkeys(WAYS, helps))
    found = experiment.conclude({DIFFERENCES: compare_ways(rows), RUNS: rows})
    assert found.shown and "averaging lowered the test loss by 0.21 nats" in found.sentence
    rows = make_rows({"dropout": helps, "label smoothing": harms, "averaging": nothing, "weight decay": nothing})
    tables = {DIFFERENCES: compare_ways(rows), RUNS: rows}
    found = experiment.conclude(tables)
    assert not found.shown
    assert found.sentence == (
        "Dropout lowered the test loss by 0.21 nats; label smoothing raised the test loss by 0.31 nats; "
        "for averaging and weight decay the interval over 3 seeds holds 0."
    )
    plots = experiment.draw(tables)
    assert [len(plot.series) for plot in plots] == [1, 2] and all(plot.png() for plot in plots)
