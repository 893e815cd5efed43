"""Warm-up and smoothing: updates against Adam's formula, calibration by hand, and what tables say."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import choose_experiment
from regard.lab.apparatus.prediction import predict_references
from regard.lab.warmup import (
    CURVES,
    SMOOTHED,
    TRAINED,
    GridCell,
    compare_weights,
    describe_run,
    measure_calibration,
    measure_gaps,
    measure_updates,
    thin_curve,
)
from regard.runs.folder import Run


def train_briefly(folder: Path, start: str) -> Run:
    tree = describe_run(GridCell("post", start, 0.003, 1), 1500)
    tree["corpus"] |= {"train": 300, "test": 10}
    tree["model"] |= {"width": 16, "depth": 1, "heads": 2, "hidden": 32}
    tree["batches"] = {"tokens": 120}
    return Bench(folder).train({"run": tree})["run"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    return {start: train_briefly(tmp_path_factory.mktemp(start), start) for start in ("warm-up", "none")}


def test_a_first_update_is_the_rate_for_every_weight(runs: dict[str, Run]) -> None:
    """After one batch the means are the gradient and its square, so that g / √g² is a sign (Kingma & Ba 2015)."""
    (found,) = measure_updates(runs["none"], 1)
    model = runs["none"].trainer().model
    weights = [weight.detach() for name, weight in model.named_parameters() if ".blocks." in name and weight.dim() > 1]
    count, norm = sum(weight.numel() for weight in weights), torch.stack([weight.norm() for weight in weights]).norm()
    # the line falls from the peak, and some weights have no gradient: words that aren't there, rectifiers that are off
    assert 0.8 < found / (0.003 * math.sqrt(count) / float(norm)) <= 1.0


def test_warm_up_makes_the_first_updates_small(runs: dict[str, Run]) -> None:
    warm, cold = measure_updates(runs["warm-up"], 3), measure_updates(runs["none"], 3)
    assert warm[0] < 0.6 * cold[0] and warm[0] < warm[1] < warm[2]


def test_a_curve_is_the_journals(runs: dict[str, Run]) -> None:
    entries = [json.loads(line) for line in (runs["none"].folder / "metrics.jsonl").read_text().splitlines()]
    steps = [entry for entry in entries if entry["event"] == "step"]
    assert 3 < len(steps) <= 30
    curve = thin_curve(runs["none"])
    assert [step for step, _ in curve] == [step["step"] for step in steps]
    assert [loss for _, loss in curve] == pytest.approx([step["loss"] for step in steps])


def test_a_change_is_a_share_of_the_norm() -> None:
    before = [torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])]
    after = [torch.tensor([3.0, 0.3]), torch.tensor([[3.6]])]
    assert compare_weights(before, after) == pytest.approx(0.1)


def test_calibration_is_the_gap_of_certainty_and_truth(runs: dict[str, Run]) -> None:
    tokens, logs = predict_references(runs["none"])
    found = measure_calibration(runs["none"])
    certain, right = np.exp(logs.max(1)), logs.argmax(1) == tokens
    bins = np.minimum((certain * 15).astype(int), 14)
    gaps = [abs(certain[bins == n].sum() - right[bins == n].sum()) for n in range(15)]
    assert found["calibration"] == pytest.approx(sum(gaps) / len(tokens))
    assert found["certainty"] == pytest.approx(certain.mean()) and found["right"] == pytest.approx(right.mean())


def make_tables(post: float, pre: float, soft: float = 0.6) -> dict[str, Any]:
    """Losses that are so much higher without warm-up."""
    rows = [
        {"norm": norm, "start": start, "rate": rate, "first updates, %": 4.0 if start == "none" else 1.0}
        | {"loss": 3.0 + (gap if start == "none" else 0.0)}
        for norm, gap in (("pre", pre), ("post", post))
        for start in ("warm-up", "none")
        for rate in (0.001, 0.01)
    ]
    smoothed = [
        {"smoothing": smoothing, "loss": loss, "certainty": certainty, "right": 0.6, "calibration": 0.1}
        | {"low": 0.05, "high": 0.15, "exact": 0.2}
        for smoothing, loss, certainty in ((0.0, 2.0, 0.7), (0.1, 2.2, soft))
    ]
    curves = [{"norm": row["norm"], "start": row["start"], "rate": row["rate"], "step": 1, "loss": 3.0} for row in rows]
    return {TRAINED: rows, SMOOTHED: smoothed, CURVES: curves}


def test_what_the_tables_say() -> None:
    experiment = choose_experiment("warmup")
    found = experiment.conclude(make_tables(post=0.5, pre=0.1))
    assert found.shown and "4.0 times as large" in found.sentence
    assert "0.50 nats higher on average over 2 rates (+0.50 at 0.001) with norms after the sum" in found.sentence
    assert "0.10 nats higher on average" in found.sentence
    assert not experiment.conclude(make_tables(post=0.1, pre=0.5)).shown
    assert not experiment.conclude(make_tables(post=-0.1, pre=-0.5)).shown
    assert not experiment.conclude(make_tables(post=0.5, pre=0.1, soft=0.8)).shown
    plots = experiment.draw(make_tables(post=0.5, pre=0.1))
    assert [len(plot.series) for plot in plots] == [4, 4, 1] and all(plot.png() for plot in plots)


def test_a_run_that_diverged_is_worse_than_any() -> None:
    tables = make_tables(post=0.5, pre=0.1)
    next(row for row in tables[TRAINED] if row["norm"] == "post" and row["start"] == "none")["loss"] = math.nan
    assert measure_gaps(tables[TRAINED], "post") == {0.001: math.inf, 0.01: pytest.approx(0.5)}
    assert choose_experiment("warmup").conclude(tables).shown
