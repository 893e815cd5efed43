"""Orders of pixels: how far apart they put neighbours, and what the tables say."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from regard.core.order import Order, walk
from regard.lab.apparatus.bench import Bench
from regard.lab.apparatus.experiment import Tables
from regard.lab.pixels import (
    MODELS,
    NATS,
    ORDERS,
    SEEDS,
    PixelOrder,
    describe_run,
    find_costs,
    measure_distance,
    summarise,
)
from regard.runs.load import load_bundle

SIDE = 4


def make_tables(recurrence: float, attention: float, spread: float = 1.0) -> Tables:
    """Trainings that need 100 nats in every order but the random one, where they need more by a share."""
    rows: list[dict[str, Any]] = []
    for model, order, seed in product(MODELS, ORDERS, (1, 2)):
        cost = {"recurrence": recurrence, "attention": attention}[model] if order == "random" else 0.0
        nats = 100 * (1 + cost)
        row = {"model": model, "order": order, "seed": seed, "nats": nats, "low": nats - spread, "high": nats + spread}
        rows.append({**row, "bits": nats / 100})
    return {NATS: summarise(rows, SIDE), SEEDS: rows}


@pytest.mark.parametrize("order", ORDERS)
def test_distances_are_those_of_every_pair_of_neighbours(order: Order) -> None:
    places = walk(order, SIDE, SIDE, 1).tolist()
    gaps = [
        abs(places.index(one) - places.index(other))
        for one, other in product(range(SIDE * SIDE), repeat=2)
        if one < other and abs(one // SIDE - other // SIDE) + abs(one % SIDE - other % SIDE) == 1
    ]
    assert measure_distance(order, SIDE) == pytest.approx(sum(gaps) / len(gaps))


def test_in_rows_a_neighbour_is_one_step_away_or_a_row() -> None:
    assert measure_distance("raster", 12) == (1 + 12) / 2
    assert measure_distance("random", 12) > 4 * measure_distance("raster", 12)


def test_an_order_that_costs_the_recurrence_more_is_shown() -> None:
    found = PixelOrder().conclude(make_tables(0.5, 0.2))
    assert found.shown
    assert "a random order costs the recurrence 50% and attention 20%, more for the recurrence" in found.sentence
    assert "Recurrence needs 150.0 nats a picture in a random order and 100.0 in its best one" in found.sentence


def test_equal_costs_are_not_shown() -> None:
    found = PixelOrder().conclude(make_tables(0.3, 0.3))
    assert not found.shown and "which the seeds don't tell apart" in found.sentence
    other = PixelOrder().conclude(make_tables(0.2, 0.5))
    assert not other.shown and "less for the recurrence with every seed" in other.sentence


def test_differences_within_the_intervals_are_not_shown() -> None:
    assert not PixelOrder().conclude(make_tables(0.05, 0.02, spread=10.0)).shown


def test_costs_are_told_seed_by_seed() -> None:
    assert find_costs(make_tables(0.5, 0.2)[SEEDS], "recurrence") == pytest.approx([0.5, 0.5])


def test_bars_have_a_place_for_each_order() -> None:
    nats, apart = PixelOrder().draw(make_tables(0.5, 0.2))
    assert nats.named and set(nats.series) == set(MODELS)
    assert [point.place for point in nats.series["attention"]] == list(ORDERS)
    assert apart.series["neighbours"][0].value == (1 + SIDE) / 2


def test_models_have_about_one_size(tmp_path: Path) -> None:
    """And both can be trained in an order of its own, and measured."""
    trees = {model: describe_run(model, "hilbert", 1, side=SIDE, steps=2) for model in MODELS}
    for tree in trees.values():
        tree["corpus"]["test"] = 8
    bench = Bench(tmp_path)
    runs = bench.train(trees)
    sizes = [sum(weight.numel() for weight in load_bundle(str(run.folder)).model.parameters()) for run in runs.values()]
    assert max(sizes) < 1.1 * min(sizes)
    found = bench.evaluate(runs["attention"])
    assert 0 < found["nats_low"] < found["nats"] < found["nats_high"]
